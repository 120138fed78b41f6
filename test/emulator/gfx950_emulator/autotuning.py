"""Inductor's table of autotuned candidates, told for what it is on the virtual clock: modelled times, with their ties.

The timing model does not resolve gaps below 10% (core/timing/README.md), and no published measurement ranks the
configurations of one shape. So a candidate within 10% of the best is a tie with it. The rule for the order among ties:
by modelled time, and where times are equal, in the order in which Inductor offers the candidates. That order is
Inductor's own, so the first line is what it takes; it is repeatable, and it is no evidence that one tie is faster than
another on hardware.

On hardware none of this is installed: there times are measured and Inductor's table stays as it is.
"""

from __future__ import annotations

import contextlib
import functools
import io
import math
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

TIE = 1.10
RULE = (
    "Times are modelled. A tie is within 10% of the best, which the model does not resolve; ties are in the order of "
    "their modelled time, equal times in the order in which Inductor offers them."
)


def is_tie(time: float | None, best: float | None) -> bool:
    """Whether a candidate's modelled time is within 10% of the best one's; both in any one unit."""
    return time is not None and best is not None and math.isfinite(time) and time <= best * TIE


def ordered(timings: Mapping[Any, float]) -> list[Any]:
    """Candidates, ties first, by the rule. `sorted` is stable, and a dict remembers the order of what was offered."""
    return sorted(timings, key=timings.__getitem__)


def marked(lines: Sequence[str], timings: Mapping[Any, float]) -> list[str]:
    """Inductor's table with `tie` behind each candidate that is one, and the rule where there are at least two."""
    candidates = ordered(timings)
    best = timings[candidates[0]] if candidates else None
    ties = sum(is_tie(time, best) for time in timings.values())
    result = []
    shown = 0
    for line in lines:
        if line.startswith("AUTOTUNE "):
            line += "  [modelled times]"
        elif shown < len(candidates) and line.startswith(
            f"  {candidates[shown].name} {timings[candidates[shown]]:.4f} ms"
        ):
            if ties > 1 and is_tie(timings[candidates[shown]], best):
                line += "  [tie]"
            shown += 1
        result.append(line)
    if shown:
        result.append(f"{ties} of {len(candidates)} candidates within 10% of the best. {RULE}")
    return result


def install(module: ModuleType | None) -> None:
    """Wraps what prints the table after a search."""
    assert module is not None
    cache = module.AlgorithmSelectorCache
    log_results = cache.log_results

    @functools.wraps(log_results)
    def log_marked(name: str, input_nodes: list[Any], timings: dict[Any, float], *args: Any, **kwargs: Any) -> None:
        written = io.StringIO()
        try:
            with contextlib.redirect_stderr(written):
                log_results(name, input_nodes, timings, *args, **kwargs)
        finally:
            for line in marked(written.getvalue().splitlines(), timings):
                sys.stderr.write(line + "\n")

    cache.log_results = staticmethod(log_marked)
