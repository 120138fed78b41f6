"""How a wave walks along K: when it loads, reads and multiplies. Shared by the kernels of the GEMM family.

LDS DMA brings K tiles into ``stages`` buffers; each wave reads its fragments and keeps its accumulators in registers.
One barrier per K tile, in one of two schedules:

- plain: behind the barrier the first step's fragments are read, the loads of a later K tile start, then come products
  and reads of the further steps. Waves of other workgroups or SIMD neighbours fill the wait for the first fragments.
- interleaved: the barrier stands before the last step of a K tile, whose fragments have been read. Its products run
  beside the reads of the next K tile's first step and the loads into the stage that has just become free. No product
  waits for LDS, and one K tile of time hides the latency of the loads even with two stages.

Trace-time helpers, see pipeline.py. ``main_loop`` is a ``@flyc.jit`` function for the sake of its loop: FlyDSL rewrites
the loops of such a function and traces it in place where a kernel calls it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from torch._native.flydsl.flydsl_private import end_of_schedule

import flydsl.compiler as flyc
import flydsl.expr as fx

from .pipeline import wait_for_stage


class Read(NamedTuple):
    """``place`` numbers what a step of products needs; ``instructions`` are the LDS reads that ``read`` emits."""

    place: int
    instructions: int
    read: Callable[[], Any]


@dataclasses.dataclass(frozen=True)
class Walk:
    """What a kernel does at each point of the walk. Stage offsets are in elements of LDS.

    ``reads`` of a step that leave out a place let it keep what it held in the step before; a K tile's first step reads
    all places.
    """

    k_tiles: Any
    steps: int  # of products in a K tile
    stages: int
    stage_items: int
    loads_per_stage: int  # LDS DMA instructions of a wave
    interleave: bool
    late_loads: int  # interleaved: loads of a K tile that start beside the next K tile's first step, not at once
    mfmas: int  # of a step
    loads: Callable[[Any, Any], list[Callable[[], None]]]  # (K tile, stage offset): each starts one LDS DMA load; a
    # Python number for the tiles that are loaded before the first product
    reads: Callable[[int, Any, Any], list[Read]]  # (step, K tile, stage offset), in the order of the products
    multiply: Callable[[list[Any], list[Any], int], list[Any]]  # (accumulators, what the places hold, step)
    zeros: Callable[[], list[Any]]


# Late loads start within this part of each step before the K tile's last, at whose barrier they must have landed.
# Modelled, not measured: 0.3 of 0.2 to 1 at 8192^3 in MXFP8 and MXFP4.
_LATE_WITHIN = 0.3


def _issue(walk: Walk, k_tile: Any, stage_offset: Any) -> None:
    for start in walk.loads(k_tile, stage_offset):
        start()


def _fragments(walk: Walk, step: int, k_tile: Any, stage_offset: Any, before: list[Any]) -> list[Any]:
    """What each place holds for one step of products."""
    return _kept(before, {read.place: read.read() for read in walk.reads(step, k_tile, stage_offset)})


def _kept(before: list[Any], read: dict[int, Any]) -> list[Any]:
    return [read.get(place, held) for place, held in enumerate(before)] if before else [read[i] for i in sorted(read)]


def _beside_products(
    walk: Walk,
    values: list[Any],
    current: list[Any],
    step: int,
    reads: list[Read],
    loads: list[Callable[[], None]],
    loads_within: float = 1.0,
) -> tuple[list[Any], list[Any]]:
    """Interleaved: the products of one step, and beside them the reads of another's fragments and DMA loads.

    Reads and loads are spread evenly, so that neither the matrix cores nor LDS nor the loads' way to L2 waits for the
    others; loads over that first part of the products, reads over all. But where a K tile is a single step, a barrier
    that waits for all reads comes right behind it, so the reads go first. The compiler takes reads and loads to touch
    the same memory and keeps their order, so they are emitted in the order that the hints then ask for.
    """
    # Where among the products, between 0 and 1, each stands.
    even = walk.steps > 1
    last_read, first_load = (1.0, 0.0) if even else (0.6, 0.5)
    last_load = loads_within if even else 1.0
    spread = [(last_read * (i + 1) / (len(reads) + 1), False, i) for i in range(len(reads))]
    spread += [(first_load + (last_load - first_load) * (i + 1) / (len(loads) + 1), True, i) for i in range(len(loads))]
    following, hints = {}, []
    for place, is_load, i in sorted(spread):
        if is_load:
            loads[i]()
            hints.append((place, fx.rocdl.sched_vmem))
        else:
            following[reads[i].place] = reads[i].read()
            hints += [(place, fx.rocdl.sched_dsrd)] * reads[i].instructions
    values = walk.multiply(values, current, step)
    mfmas, done = walk.mfmas, 0
    for i, (place, hint) in enumerate(hints):
        now = int(mfmas * ((i + 1) / (len(hints) + 1) if even else place)) - done
        if now:
            fx.rocdl.sched_mfma(now)
            done += now
        hint(1)
    if done < mfmas:
        fx.rocdl.sched_mfma(mfmas - done)
    end_of_schedule()
    return values, _kept(current, following)


def _compute(walk: Walk, values: list[Any], first: list[Any], k_tile: Any, stage_offset: Any, loads: int) -> list[Any]:
    """One K tile, whose first step's fragments are being read and whose ``loads`` LDS DMA loads have been issued.

    Where a wave has more products than LDS reads, the hints at the end order the tile's instructions: reads of the
    first step, then the loads behind the first MFMA, then one LDS read of the following steps at a time between MFMAs,
    so that the MFMA pipe seldom waits for LDS. Small tiles read everything first, as the compiler does by itself.
    """
    current = first
    for step in range(walk.steps):
        following = _fragments(walk, step + 1, k_tile, stage_offset, current) if step + 1 < walk.steps else current
        values = walk.multiply(values, current, step)
        current = following
    mfmas = walk.mfmas
    counts = [sum(read.instructions for read in walk.reads(step, k_tile, stage_offset)) for step in range(walk.steps)]
    between = mfmas // (counts[0] + 1)
    if between > 0:
        fx.rocdl.sched_dsrd(counts[0])
        if loads:
            fx.rocdl.sched_mfma(1)
            fx.rocdl.sched_vmem(loads)
        later = sum(counts[1:])
        for _ in range(later):
            fx.rocdl.sched_mfma(between)
            fx.rocdl.sched_dsrd(1)
        fx.rocdl.sched_mfma(mfmas * walk.steps - between * later - (1 if loads else 0))
    return values


def _steps_before_the_last(
    walk: Walk,
    values: list[Any],
    current: list[Any],
    k_tile: Any,
    stage_offset: Any,
    loads: list[Callable[[], None]],
) -> tuple[list[Any], list[Any]]:
    """Interleaved: all steps of a K tile but the last; ``loads`` start beside the first."""
    for step in range(walk.steps - 1):
        reads = walk.reads(step + 1, k_tile, stage_offset)
        values, current = _beside_products(walk, values, current, step, reads, loads, _LATE_WITHIN * (walk.steps - 1))
        loads = []
    return values, current


def _late(walk: Walk, k_tile: Any, offset: Any) -> list[Callable[[], None]]:
    """The late loads of the K tile that goes into the stage before the one at ``offset``."""
    if not walk.late_loads:
        return []
    before = (offset == 0).select(fx.Int32((walk.stages - 1) * walk.stage_items), offset - walk.stage_items)
    return walk.loads(k_tile, before)[-walk.late_loads :]


def _next_stage(walk: Walk, offset: Any) -> Any:
    """Offset in elements of the stage after the one at ``offset``."""
    following = offset + walk.stage_items
    return (following == walk.stages * walk.stage_items).select(fx.Int32(0), following)


@flyc.jit
def main_loop(walk: Walk) -> Any:  # a generator only to mypy: FlyDSL rewrites the loops that yield
    """The accumulators of a wave behind all K tiles; there are at least as many as the pipeline loads ahead."""
    if fx.const_expr(walk.interleave):
        # Invariant at the top of an iteration: the first step's fragments of K tile t have been read, K tiles up to
        # t + stages - 1 are loading or have landed.
        for ahead in fx.range_constexpr(walk.stages - 1):
            _issue(walk, ahead, ahead * walk.stage_items)
        early = walk.loads_per_stage - walk.late_loads
        for start in walk.loads(walk.stages - 1, (walk.stages - 1) * walk.stage_items)[:early]:
            start()
        wait_for_stage((walk.stages - 2) * walk.loads_per_stage + early)
        first = _fragments(walk, 0, fx.Int32(0), 0, [])
        state = [fx.Int32(0), *first, *walk.zeros()]
        count = len(first) + 1
        for k_tile, carried in range(fx.Int32(0), walk.k_tiles - walk.stages, fx.Int32(1), init=state):  # type: ignore[call-overload]
            offset, now = carried[0], fx.Int32(k_tile)
            values, current = list(carried[count:]), list(carried[1:count])
            late = _late(walk, now + (walk.stages - 1), offset)
            values, current = _steps_before_the_last(walk, values, current, now, offset, late)
            wait_for_stage((walk.stages - 2) * walk.loads_per_stage)
            following_offset = _next_stage(walk, offset)
            reads, loads = walk.reads(0, now + 1, following_offset), walk.loads(now + walk.stages, offset)[:early]
            values, following = _beside_products(walk, values, current, walk.steps - 1, reads, loads)
            state = yield [following_offset, *following, *values]
        offset, current, values = state[0], list(state[1:count]), list(state[count:])
        for left in fx.range_constexpr(walk.stages):
            now = walk.k_tiles - walk.stages + left
            late = _late(walk, now + (walk.stages - 1), offset) if left == 0 else []
            values, current = _steps_before_the_last(walk, values, current, now, offset, late)
            reads = []
            if fx.const_expr(left < walk.stages - 1):
                wait_for_stage((walk.stages - 2 - left) * walk.loads_per_stage)
                offset = _next_stage(walk, offset)
                reads = walk.reads(0, now + 1, offset)
            values, current = _beside_products(walk, values, current, walk.steps - 1, reads, [])
    else:
        # Invariant at the top of an iteration: stages - 1 K tiles, from the one to compute on, are loading or have
        # landed.
        for ahead in fx.range_constexpr(walk.stages - 1):
            _issue(walk, ahead, ahead * walk.stage_items)
        state = [fx.Int32(0), fx.Int32((walk.stages - 1) * walk.stage_items), *walk.zeros()]
        for k_tile, carried in range(fx.Int32(0), walk.k_tiles - (walk.stages - 1), fx.Int32(1), init=state):  # type: ignore[call-overload]
            read_offset, write_offset = carried[0], carried[1]
            wait_for_stage((walk.stages - 2) * walk.loads_per_stage)
            now = fx.Int32(k_tile)
            first = _fragments(walk, 0, now, read_offset, [])
            _issue(walk, now + (walk.stages - 1), write_offset)
            values = _compute(walk, list(carried[2:]), first, now, read_offset, walk.loads_per_stage)
            state = yield [_next_stage(walk, read_offset), _next_stage(walk, write_offset), *values]
        read_offset, values = state[0], list(state[2:])
        for left in fx.range_constexpr(walk.stages - 1):
            wait_for_stage((walk.stages - 2 - left) * walk.loads_per_stage)
            now = walk.k_tiles - (walk.stages - 1) + left
            first = _fragments(walk, 0, now, read_offset, [])
            values = _compute(walk, values, first, now, read_offset, 0)
            read_offset = _next_stage(walk, read_offset)
    return values
