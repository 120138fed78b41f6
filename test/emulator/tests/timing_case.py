"""Assembled kernels for the timing model: their modelled clocks, from the report of a launch on the core."""

from __future__ import annotations

import ctypes
import json
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from assemble import KernelText, assemble
from core_library import CodeObject
from numeric_library import numeric


def last_report() -> dict[str, Any]:
    library = numeric()
    library.gfx950_launch_report.restype = ctypes.c_size_t
    size = 1 << 20
    while True:
        buffer = ctypes.create_string_buffer(size)
        needed = library.gfx950_launch_report(buffer, ctypes.c_size_t(size))
        if needed <= size:
            report: dict[str, Any] = json.loads(buffer.value)
            return report
        size = needed


@contextmanager
def timing_only(on: bool = True) -> Iterator[None]:
    before = numeric().gfx950_set_timing_only(int(on))
    try:
        yield
    finally:
        numeric().gfx950_set_timing_only(before)


@cache
def _object(kernel: KernelText) -> CodeObject:
    return CodeObject(assemble([kernel]))


def report_of(
    kernel: KernelText, memory: Sequence[np.ndarray], groups: int = 1, only: bool = True, lds: int = 0
) -> dict[str, Any]:
    """Of one launch whose arguments are the addresses of the arrays."""
    packed = b"".join(struct.pack("<Q", array.ctypes.data) for array in memory)
    with timing_only(only):
        _object(kernel).launch_packed(kernel.name, (groups, 1, 1), (kernel.block, 1, 1), packed, memory, lds)
    return last_report()


@dataclass(frozen=True)
class Repeated:
    """`body` many times over between `before` and `after`; the clocks of one repetition, without what is around it."""

    body: str
    before: str = ""
    after: str = ""
    block: int = 64
    vgprs: int = 128
    agprs: int = 0
    lds: int = 0
    times: int = 64  # and twice as often

    def kernel(self, times: int) -> KernelText:
        text = "\n".join([self.before, *[self.body] * times, self.after])
        return KernelText("kernel", text, 8, vgprs=self.vgprs, agprs=self.agprs, lds=self.lds, block=self.block)

    def clocks(self, memory: Sequence[np.ndarray] = (), groups: int = 1) -> float:
        arrays = list(memory) or [np.zeros(64, np.uint32)]
        short, long = (report_of(self.kernel(n), arrays, groups)["cycles"] for n in (self.times, 2 * self.times))
        return float(long - short) / self.times
