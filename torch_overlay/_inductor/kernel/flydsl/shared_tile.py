"""Workgroups that share a tile of C along K: each leaves its part in a workspace, and the last to arrive adds them up.

Trace-time helpers, see pipeline.py. A part is a tile's accumulators as the lanes hold them, fp32. Parts are added in
their own order, whoever comes last, so results do not depend on which workgroup that is.

Each tile has a counter of the workgroups that have left their part; it is 0 before a launch and 0 behind it. The XCDs
have L2s of their own that see each other's writes only where asked to: what a wave wrote is released to the device
before its workgroup is counted, and what the others wrote is acquired before it is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._native.flydsl.flydsl_private import s_barrier, wave_uniform
from torch._native.flydsl.target import WAVE_SIZE

import flydsl.compiler as flyc
import flydsl.expr as fx

from .epilogue import load_run, store_run

_LANE_ITEMS = 4  # fp32 values of a 16x16 MFMA tile that a lane holds


class Parts:
    """The parts of a workgroup's tile: ``tile`` numbers it among ``tiles`` of all batches, of ``items`` values each.

    An accumulator is ``lane_items`` values a lane.
    """

    def __init__(
        self, workspace: Any, tile: Any, tiles: Any, items: int, wave_mn: Any, lane: Any, lane_items: int = _LANE_ITEMS
    ) -> None:
        self._lane_items = lane_items
        self._workspace, self._tile, self._tiles, self._items = workspace, tile, tiles, items
        self._wave_mn, self._lane = wave_mn, lane

    def _buffer(self, part: Any) -> Any:
        first = (fx.Int64(part) * fx.Int64(self._tiles) + fx.Int64(self._tile)) * self._items
        return fx.rocdl.make_buffer_ptr(self._workspace + first, num_records_bytes=fx.Int64(self._items * 4))

    def _place(self, i: int, count: int) -> Any:
        return ((self._wave_mn * count + i) * WAVE_SIZE + self._lane) * self._lane_items

    def store(self, part: Any, values: list[Any], enabled: Any) -> None:
        """``enabled`` None is every wave; the others store behind the buffer's end, which is nowhere."""
        buffer = self._buffer(part)
        for i, value in enumerate(values):
            place = self._place(i, len(values))
            store_run(buffer, place if enabled is None else enabled.select(place, fx.Int32(self._items)), value, "fp32")

    def total(self, parts: int, count: int) -> list[Any]:
        """The ``count`` accumulators of a wave, summed over the parts in order."""
        totals: list[Any] = []
        for part in range(parts):
            buffer = self._buffer(fx.Int32(part))
            values = [load_run(buffer, self._place(i, count), self._lane_items, "fp32") for i in range(count)]
            totals = [total + value for total, value in zip(totals, values, strict=True)] if totals else values
        return totals


@flyc.jit
def if_last(counter: Any, parts: int, cell: Any, complete: Callable[[], None]) -> None:
    """Count this workgroup, all of whose waves have stored their part, and run ``complete`` in the last of ``parts``.

    ``cell`` is an Int32 in LDS that nobody needs any more.
    """
    fx.memory_fence(ordering=fx.AtomicOrdering.Release, syncscope=fx.rocdl.SyncScope.Agent)
    _meet()
    if fx.thread_idx.x == 0:
        before = fx.atomic_add(counter, 1, syncscope=fx.rocdl.SyncScope.Agent)
        fx.ptr_store(before, cell)
    _meet()
    before_us = wave_uniform(fx.ptr_load(cell))
    if before_us == parts - 1:
        fx.memory_fence(ordering=fx.AtomicOrdering.Acquire, syncscope=fx.rocdl.SyncScope.Agent)
        complete()
        if fx.thread_idx.x == 0:
            fx.ptr_store(fx.Int32(0), counter)


def _meet() -> None:
    """A barrier behind all of a wave's LDS accesses; vmcnt too, which the release has brought to 0."""
    fx.memory_fence(ordering=fx.AtomicOrdering.AcqRel, syncscope=fx.rocdl.SyncScope.Wavefront)
    fx.rocdl.cdna3.s_waitcnt(vmcnt=0, lgkmcnt=0)
    s_barrier()
    fx.memory_fence(ordering=fx.AtomicOrdering.AcqRel, syncscope=fx.rocdl.SyncScope.Wavefront)
