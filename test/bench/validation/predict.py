"""Asking the timing model: what a launch would take, with some of the model's numbers changed."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from bench.validation import launches
from bench.validation.launches import Candidate
from bench.validation.rows import Row
from gfx950_emulator import benchmarking, machine

PARAMETERS = "GFX950_TIMING_PARAMS"
_FOLDER = Path(__file__).resolve().parent


@contextmanager
def parameters(changed: Mapping[str, float]) -> Iterator[None]:
    """Launches inside use these numbers; the core reads the variable at each of them."""
    before = os.environ.get(PARAMETERS)
    os.environ[PARAMETERS] = ",".join(f"{name}={value!r}" for name, value in changed.items())
    try:
        yield
    finally:
        if before is None:
            del os.environ[PARAMETERS]
        else:
            os.environ[PARAMETERS] = before


def sources_digest() -> str:
    """Whatever decides a prediction beside the parameters: the emulator, the kernels and their compilers."""
    digest = hashlib.sha256()
    digest.update(" ".join(importlib.metadata.version(name) for name in ("triton", "flydsl", "torch")).encode())
    kernels = Path(str(torch.__file__)).parent / "_inductor" / "kernel" / "flydsl"
    files = [machine.HIP_LIBRARY, *sorted(kernels.glob("*.py"))]
    files += [_FOLDER / name for name in ("triton_kernels.py", "launches.py", "rows.py")]
    for file in files:
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()


class Predictions:
    """Modelled nanoseconds, remembered in a file: a prediction is the same every time, as a test of the core shows.

    A row whose candidates and times are all known is not compiled again.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.asked = 0
        self.seconds = 0.0
        self._sources = sources_digest()
        self._nanoseconds: dict[str, float | None] = {}  # None: it cannot be launched
        self._names: dict[str, list[str]] = {}
        self._built: tuple[str, dict[str, Candidate]] = ("", {})
        if file.exists():
            stored: dict[str, Any] = json.loads(file.read_text())
            if stored.get("sources") == self._sources:
                self._nanoseconds, self._names = stored["nanoseconds"], stored["names"]

    def names(self, row: Row) -> list[str]:
        """Of the row's candidates, in order."""
        key = _key(row)
        if key not in self._names:
            self._names[key] = list(self._candidates(row))
        return self._names[key]

    def _candidates(self, row: Row) -> dict[str, Candidate]:
        """Built for one row at a time: its tensors and kernels go with it."""
        key = _key(row)
        if self._built[0] != key:
            built: dict[str, Candidate] = {}
            for candidate in launches.candidates(row):
                if candidate.name in built:
                    raise ValueError(f"{row.family} {row.label}: two candidates are called {candidate.name!r}")
                built[candidate.name] = candidate
            self._built = (key, built)
        return self._built[1]

    def ask(self, row: Row, name: str, changed: Mapping[str, float]) -> float | None:
        """Nanoseconds of a candidate with these numbers of the model changed; None if the emulator cannot launch it."""
        key = json.dumps([_key(row), name, sorted(changed.items())])
        if key not in self._nanoseconds:
            candidate = self._candidates(row)[name]
            started = time.monotonic()
            try:
                # Computed only where it cannot be timed alone: split-K kernels, in which an atomic's result decides.
                with parameters(changed):
                    self._nanoseconds[key] = benchmarking.run_once(candidate.launch) * 1e6
            except torch.AcceleratorError:
                self._nanoseconds[key] = None  # the runtime has said on stderr why
            self.seconds += time.monotonic() - started
            self.asked += 1
        return self._nanoseconds[key]

    def save(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        partial = self.file.with_suffix(f".{os.getpid()}")
        stored = {"sources": self._sources, "names": self._names, "nanoseconds": self._nanoseconds}
        partial.write_text(json.dumps(stored))
        partial.replace(self.file)


def _key(row: Row) -> str:
    return json.dumps([row.family, row.op, row.dtype, row.shape])
