"""torch._C._nvtx: ranges that a program marks (roctx on ROCm). Here they are ranges of torch's profiler."""

from __future__ import annotations

import itertools
import threading
from types import ModuleType
from typing import Any

_open: dict[int, Any] = {}
_numbers = itertools.count(1)
_of_thread = threading.local()


def _enter(name: str) -> Any:
    import torch

    scope: Any = torch.profiler.record_function(name)
    scope.__enter__()
    return scope


def _stack() -> list[Any]:
    if not hasattr(_of_thread, "stack"):
        _of_thread.stack = []
    stack: list[Any] = _of_thread.stack
    return stack


def range_push(name: str) -> int:
    """The depth of the new range, from zero."""
    _stack().append(_enter(name))
    return len(_stack()) - 1


def range_pop() -> int:
    """The depth of the range that ended; -1 if none was open, as roctx has it."""
    if not _stack():
        return -1
    _stack().pop().__exit__(None, None, None)
    return len(_stack())


def range_start(name: str) -> int:
    number = next(_numbers)
    _open[number] = _enter(name)
    return number


def range_end(number: int) -> None:
    scope = _open.pop(number, None)
    if scope is not None:
        scope.__exit__(None, None, None)


def mark(name: str) -> None:
    _enter(name).__exit__(None, None, None)


def module() -> ModuleType:
    functions: Any = ModuleType("torch._C._nvtx")
    functions.rangePushA, functions.rangePop, functions.markA = range_push, range_pop, mark
    functions.rangeStartA, functions.rangeEnd = range_start, range_end
    return functions  # type: ignore[no-any-return]
