"""Parts of a GEMM kernel that walks K through LDS stages: the loads of a tile, the fragments of a wave, the waits.

Trace-time helpers: called inside a ``@flyc.kernel`` body, they emit code. Tiles hold 2-byte elements.

An operand comes in one of two layouts, and each has a class for its loads and one for its fragments with the same
methods: ``Straight*`` where K is contiguous, ``Transposed*`` where M or N is (lds_layout has the places).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from torch._native.flydsl.flydsl_private import s_barrier
from torch._native.flydsl.target import WAVE_SIZE

import flydsl.expr as fx

from .gemm_config import CHUNK_ITEMS, DMA_BYTES, ITEM_BYTES, MFMA_K
from .lds_layout import TRANSPOSED_ITEMS, Straight, Transposed

# Far outside every descriptor (their bounds are below 2^31), with room for the scalar offset above it.
OUT_OF_BOUNDS_ITEMS = 2**31 // ITEM_BYTES - CHUNK_ITEMS


@dataclasses.dataclass(frozen=True)
class Matrix:
    """A matrix in memory as the kernel sees it: ``rows`` contiguous runs of ``cols`` elements, ``stride`` apart."""

    base: Any
    rows: Any
    cols: Any
    stride: Any


def bounded_rows(base: Any, first_row: Any, rows: Any, tile_rows: int, cols: Any, stride: Any, item_bytes: int) -> Any:
    """Buffer pointer to the tile's rows of a matrix, bounded behind the last element of the last row.

    The base moves in 64 bits, so offsets stay within the tile. Rows beyond the matrix begin at or behind the bound
    because ``stride >= cols``: they load as zero and store nothing. Columns beyond it must be masked by the caller.
    """
    valid_rows = fx.min(rows - first_row, fx.Int32(tile_rows))
    start = base + fx.Int64(first_row) * fx.Int64(stride)
    items = fx.Int64(valid_rows - 1) * fx.Int64(stride) + fx.Int64(cols)
    return fx.rocdl.make_buffer_ptr(start, num_records_bytes=items * item_bytes)


class _Loads:
    """LDS DMA of one operand: each wave fetches ``count`` runs of 64 chunks, straight to their places."""

    def __init__(self, layout: Straight | Transposed, matrix: Matrix, lds: Any, waves: int, wave: Any) -> None:
        rows = layout.rows if isinstance(layout, Straight) else layout.tile_k
        self.count = rows * layout.chunks_per_row // (WAVE_SIZE * waves)
        self.matrix = matrix
        self.tile_k = layout.tile_k
        self.atom = fx.make_copy_atom(fx.rocdl.cdna4.BufferLoadAsyncLDS128b(), lds.element_type)
        self.run_layout = fx.make_layout(CHUNK_ITEMS, 1)
        self.runs = [wave * self.count + i for i in range(self.count)]
        # M0 holds the LDS address, so it must be the same in all lanes; the hardware adds 16 bytes a lane.
        self._places = [lds + run * (DMA_BYTES // ITEM_BYTES) for run in self.runs]

    def _copy(self, atom: Any, source: Any, i: int, stage_offset: Any) -> None:
        place = fx.make_view(self._places[i] + stage_offset, self.run_layout)
        fx.copy_atom_call(atom, fx.make_view(source, self.run_layout), place)


class StraightLoads(_Loads):
    """Rows beyond the matrix lie behind the descriptor's bound; lanes beyond K are masked if ``mask_k``."""

    def __init__(
        self, layout: Straight, matrix: Matrix, first_row: Any, lds: Any, waves: int, wave: Any, lane: Any, mask_k: bool
    ) -> None:
        super().__init__(layout, matrix, lds, waves, wave)
        self._mask_k = mask_k
        self._buffer = bounded_rows(
            matrix.base, first_row, matrix.rows, layout.rows, matrix.cols, matrix.stride, ITEM_BYTES
        )
        self._offsets, self._columns = [], []
        for run in self.runs:
            row, chunk = layout.chunk_at(run * WAVE_SIZE + lane)
            self._columns.append(chunk * CHUNK_ITEMS)
            self._offsets.append(row * matrix.stride + chunk * CHUNK_ITEMS)

    def each(self, k_tile: Any, stage_offset: Any) -> list[Callable[[], None]]:
        """Functions that start one load each of K tile ``k_tile`` into the stage at ``stage_offset`` (elements)."""
        k_offset = k_tile * self.tile_k
        atom = fx.atom_set_value(self.atom, "soffset", k_offset)  # in elements: FlyDSL scales it to bytes

        def start(i: int) -> None:
            offset = self._offsets[i]
            if self._mask_k:
                inside = k_offset + self._columns[i] < self.matrix.cols
                offset = inside.select(offset, fx.Int32(OUT_OF_BOUNDS_ITEMS))
            self._copy(atom, self._buffer + offset, i, stage_offset)

        return [functools.partial(start, i) for i in range(self.count)]


class TransposedLoads(_Loads):
    """K leads from row to row: each K tile has a descriptor of its own, and rows beyond K lie behind its bound.

    Lanes beyond M or N fetch what follows in the row (it reaches only rows or columns of C that are not stored), or
    lie behind the bound in the last row. The bound is rounded up to a whole chunk, so that none is cut: it is aligned,
    so it lies within the memory that was allocated.
    """

    def __init__(
        self, layout: Transposed, matrix: Matrix, first_col: Any, lds: Any, waves: int, wave: Any, lane: Any
    ) -> None:
        left = (matrix.cols - first_col + CHUNK_ITEMS - 1) & -CHUNK_ITEMS
        super().__init__(layout, dataclasses.replace(matrix, base=matrix.base + first_col, cols=left), lds, waves, wave)
        self._offsets = []
        for run in self.runs:
            row, chunk = layout.chunk_at(run * WAVE_SIZE + lane)
            self._offsets.append(row * matrix.stride + chunk * CHUNK_ITEMS)

    def each(self, k_tile: Any, stage_offset: Any) -> list[Callable[[], None]]:
        """Functions that start one load each of K tile ``k_tile`` into the stage at ``stage_offset`` (elements)."""
        m = self.matrix
        buffer = bounded_rows(m.base, k_tile * self.tile_k, m.rows, self.tile_k, m.cols, m.stride, ITEM_BYTES)

        def start(i: int) -> None:
            self._copy(self.atom, buffer + self._offsets[i], i, stage_offset)

        return [functools.partial(start, i) for i in range(self.count)]


class StraightFragments:
    """MFMA fragments of 16 rows x 32 columns, one ds_read_b128 a lane each."""

    reads_per_tile = 1

    def __init__(
        self, layout: Straight, lds: Any, first_row: Any, tiles: int, first_step: Any, steps: int, lane: Any
    ) -> None:
        self.tiles = tiles
        self._type = fx.Vector[lds.element_type, CHUNK_ITEMS]
        # The key does not depend on the MFMA tile, so one address a K step serves all tiles, with constant offsets.
        first = lds + first_row * layout.tile_k
        self._bases = [first + layout.read_item(lane, first_step + step) for step in range(steps)]
        self._tile_items = layout.mfma_rows * layout.tile_k

    def each(self, step: int, stage_offset: Any) -> list[Callable[[], Any]]:
        """Functions that read one fragment each of a step of the stage at ``stage_offset``."""
        base = self._bases[step] + stage_offset

        def read(tile: int) -> Any:
            return fx.ptr_load(base + tile * self._tile_items, result_type=self._type)

        return [functools.partial(read, tile) for tile in range(self.tiles)]


class TransposedFragments:
    """The same fragments of a tile that holds rows along K: two ds_read_b64_tr_b16 a lane each."""

    reads_per_tile = 2

    def __init__(
        self, layout: Transposed, lds: Any, first_col: Any, tiles: int, first_step: Any, steps: int, lane: Any
    ) -> None:
        self.tiles = tiles
        self._layout = layout
        self._element = lds.element_type
        self._atom = fx.make_copy_atom(fx.rocdl.cdna4.LDSReadTrans16_64b(), lds.element_type)
        self._piece = fx.make_layout(TRANSPOSED_ITEMS, 1)
        # The key depends on the lane and the units are permuted by it, so each MFMA tile has an address of its own;
        # steps and halves are constant offsets.
        unit = first_col >> 4
        lds = lds + first_step * (MFMA_K * layout.cols)
        self._bases = [lds + layout.read_item(lane, 0, 0, unit + tile) for tile in range(tiles)]

    def each(self, step: int, stage_offset: Any) -> list[Callable[[], Any]]:
        """Functions that read one fragment each of a step of the stage at ``stage_offset``."""
        return [functools.partial(self._fragment, tile, step, stage_offset) for tile in range(self.tiles)]

    def _fragment(self, tile: int, step: int, stage_offset: Any) -> Any:
        base, halves = self._bases[tile] + stage_offset, []
        for half in range(2):
            registers = fx.make_rmem_tensor(TRANSPOSED_ITEMS, self._element)
            source = fx.make_view(base + self._layout.offset(step, half), self._piece)
            fx.copy_atom_call(self._atom, source, registers)
            halves.append(registers.load())
        return halves[0].shuffle(halves[1], list(range(CHUNK_ITEMS)))


def operand_parts(
    straight: bool,
    matrix: Matrix,
    first: Any,
    size: int,
    tile_k: int,
    lds: Any,
    wave_first: Any,
    wave_tiles: int,
    waves: int,
    wave: Any,
    first_step: Any,
    steps: int,
    lane: Any,
    mask_k: bool,
) -> tuple[StraightLoads | TransposedLoads, StraightFragments | TransposedFragments]:
    """Loads and fragments of an operand whose tile covers ``size`` of M or N from ``first`` on."""
    if straight:
        rows = Straight(size, tile_k)
        return (
            StraightLoads(rows, matrix, first, lds, waves, wave, lane, mask_k),
            StraightFragments(rows, lds, wave_first, wave_tiles, first_step, steps, lane),
        )
    cols = Transposed(size, tile_k)
    return (
        TransposedLoads(cols, matrix, first, lds, waves, wave, lane),
        TransposedFragments(cols, lds, wave_first, wave_tiles, first_step, steps, lane),
    )


def sum_over_waves(values: list[Any], lds: Any, waves_mn: int, waves_k: int, wave: Any, lane: Any) -> list[Any]:
    """Add the accumulators of the waves that computed the same tiles from other parts of K, in a fixed order.

    They meet in LDS, which the K tiles no longer need; every wave gets the sums.
    """
    size = WAVE_SIZE * 4  # fp32 values of one MFMA tile
    memory = fx.recast_iter(fx.Float32, lds)
    wait_for_stage(0)
    for i, value in enumerate(values):
        fx.ptr_store(value, memory + ((wave * len(values) + i) * size + lane * 4))
    wait_for_stage(0)
    wave_mn, kind, sums = wave % waves_mn, fx.Vector[fx.Float32, 4], []
    for i in range(len(values)):
        parts = [
            fx.ptr_load(memory + (((part * waves_mn + wave_mn) * len(values) + i) * size + lane * 4), result_type=kind)
            for part in range(waves_k)
        ]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        sums.append(total)
    return sums


def wait_for_stage(younger_loads: int) -> None:
    """Make one stage readable by all waves and the one before it writable.

    Each wave waits until only its ``younger_loads`` newest LDS DMA loads are outstanding and all its LDS reads have
    returned, then meets the others. Behind the barrier every wave's part of the stage has landed (a wave's vmcnt covers
    only its own loads), and nobody still reads the stage before. The fences emit no instruction: they keep the compiler
    from moving LDS accesses across the barrier, which LLVM does not see as touching memory.
    """
    fx.memory_fence(ordering=fx.AtomicOrdering.AcqRel, syncscope=fx.rocdl.SyncScope.Wavefront)
    fx.rocdl.cdna3.s_waitcnt(vmcnt=younger_loads, lgkmcnt=0)
    s_barrier()
    fx.memory_fence(ordering=fx.AtomicOrdering.AcqRel, syncscope=fx.rocdl.SyncScope.Wavefront)
