"""Parts of a GEMM kernel that walks K through LDS stages: the loads of a tile, the fragments of a wave, the waits.

Trace-time helpers: called inside a ``@flyc.kernel`` body, they emit code. Tiles hold 2-byte elements, rows contiguous.
"""

from __future__ import annotations

from typing import Any

from torch._native.flydsl.flydsl_private import s_barrier
from torch._native.flydsl.target import WAVE_SIZE

import flydsl.expr as fx

from . import lds_layout
from .gemm_config import CHUNK_ITEMS, DMA_BYTES, ITEM_BYTES, MFMA_K, MFMA_MN

# Far outside every descriptor (their bounds are below 2^31), with room for the scalar offset above it.
OUT_OF_BOUNDS_ITEMS = 2**31 // ITEM_BYTES - CHUNK_ITEMS


def bounded_rows(base: Any, first_row: Any, rows: Any, tile_rows: int, cols: Any, stride: Any) -> Any:
    """Buffer pointer to the tile's rows of a row-major matrix, bounded behind the last element of the last row.

    The base moves in 64 bits, so offsets stay within the tile. Rows beyond the matrix begin at or behind the bound
    because ``stride >= cols``: they load as zero and store nothing. Columns beyond it must be masked by the caller.
    """
    valid_rows = fx.min(rows - first_row, fx.Int32(tile_rows))
    start = base + fx.Int64(first_row) * fx.Int64(stride)
    items = fx.Int64(valid_rows - 1) * fx.Int64(stride) + fx.Int64(cols)
    return fx.rocdl.make_buffer_ptr(start, num_records_bytes=items * ITEM_BYTES)


class TileLoads:
    """One operand's LDS DMA: each wave fetches ``count`` runs of 64 chunks, straight to their swizzled places."""

    def __init__(
        self, buffer: Any, stride: Any, lds: Any, rows: int, tile_k: int, waves: int, wave: Any, lane: Any, paired: bool
    ) -> None:
        self.count = rows * tile_k * ITEM_BYTES // (DMA_BYTES * waves)
        self._buffer = buffer
        self._tile_k = tile_k
        self._atom = fx.make_copy_atom(fx.rocdl.cdna4.BufferLoadAsyncLDS128b(), buffer.element_type)
        self._layout = fx.make_layout(CHUNK_ITEMS, 1)
        self._offsets, self._columns, self._places = [], [], []
        for i in range(self.count):
            run = wave * self.count + i
            row, chunk = lds_layout.chunk_at(run * WAVE_SIZE + lane, tile_k, paired)
            column = chunk * CHUNK_ITEMS
            self._columns.append(column)
            self._offsets.append(row * stride + column)
            # M0 holds the LDS address, so it must be the same in all lanes; the hardware adds 16 bytes a lane.
            self._places.append(lds + run * (DMA_BYTES // ITEM_BYTES))

    def issue(self, k_tile: Any, k: Any, stage_offset: Any, mask_k: bool) -> None:
        """Start the loads of K tile ``k_tile`` into the stage at ``stage_offset`` (elements)."""
        k_offset = k_tile * self._tile_k
        atom = fx.atom_set_value(self._atom, "soffset", k_offset)  # in elements: FlyDSL scales it to bytes
        for offset, column, place in zip(self._offsets, self._columns, self._places, strict=True):
            if mask_k:
                offset = (k_offset + column < k).select(offset, fx.Int32(OUT_OF_BOUNDS_ITEMS))
            source = fx.make_view(self._buffer + offset, self._layout)
            fx.copy_atom_call(atom, source, fx.make_view(place + stage_offset, self._layout))


class Fragments:
    """One operand's MFMA fragments: 16 rows x 32 columns each, one ds_read_b128 a lane."""

    def __init__(self, lds: Any, first_row: Any, tiles: int, tile_k: int, lane: Any, paired: bool) -> None:
        self.tiles = tiles
        self._type = fx.Vector[lds.element_type, CHUNK_ITEMS]
        row = lane & (MFMA_MN - 1)
        key = lds_layout.fragment_key(row, tile_k)
        # The key does not depend on the MFMA tile, so one address a K step serves all tiles, with constant offsets.
        self._bases = []
        for step in range(tile_k // MFMA_K):
            chunk = (step * (MFMA_K // CHUNK_ITEMS) + (lane >> 4)) ^ key
            first = first_row + lds_layout.fragment_row(0, row, paired)
            self._bases.append(lds + (first * tile_k + chunk * CHUNK_ITEMS))
        self._steps = [
            (lds_layout.fragment_row(tile, 0, paired) - lds_layout.fragment_row(0, 0, paired)) * tile_k
            for tile in range(tiles)
        ]

    def load(self, step: int, stage_offset: Any, tiles: range) -> list[Any]:
        base = self._bases[step] + stage_offset
        return [fx.ptr_load(base + self._steps[tile], result_type=self._type) for tile in tiles]


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
