"""The micro-kernels of test/emulator/tests/test_timing_micro.py as a table: documented clocks beside the model's."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TESTS = Path(__file__).resolve().parents[2] / "emulator" / "tests"


@dataclass(frozen=True)
class Case:
    name: str
    documented: float  # clocks, or bytes a nanosecond
    modelled: float

    @property
    def error(self) -> float:
        return abs(self.modelled / self.documented - 1)


def cases() -> Iterator[Case]:
    if str(_TESTS) not in sys.path:
        sys.path.append(str(_TESTS))  # where its neighbours import each other from
    micro: Any = importlib.import_module("test_timing_micro")
    for case, documented in micro.GOLDEN.items():
        kind = next(name for name in sorted(micro.MEASURES, key=len, reverse=True) if case.startswith(name + " "))
        yield Case(f"{case}, clocks", documented, micro.MEASURES[kind](case[len(kind) + 1 :]))
    for name, degree in micro.CONFLICTS:
        size, phases = micro.PHASES[name]
        modelled = micro.lds_clocks(name, micro.with_conflicts(phases, size, degree))
        yield Case(f"{name}, conflicts of {degree}, clocks", 64 * size / 128 * degree, modelled)
    for name, (size, phases) in micro.PHASES.items():
        modelled = micro.lds_clocks(name, [256 * lane for lane in range(64)])
        yield Case(f"{name}, all 64 lanes in the same banks, clocks", 64 * size / 128 * len(phases[0]), modelled)
