"""From accumulators to C: round to the output type and store 16 bytes a lane, masked at the edges."""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx

from .gemm_config import CHUNK_ITEMS, MFMA_MN
from .pipeline import OUT_OF_BOUNDS_ITEMS


def store_tile(
    buffer: Any, stride: Any, accumulators: list[list[Any]], first_row: Any, first_col: Any, cols: Any, lane: Any
) -> None:
    """Store a wave's part of C. ``accumulators[i][j]`` is MFMA tile (i, j), rows of B paired as in lds_layout.

    ``first_row`` counts within the buffer's tile, ``first_col`` the wave's first column likewise; ``cols`` are the
    columns left from the buffer's start. Rows beyond C lie behind the buffer's bound.
    """
    element = buffer.element_type
    atom = fx.make_copy_atom(fx.rocdl.BufferCopy128b(), element)
    layout = fx.make_layout(CHUNK_ITEMS, 1)
    for j in range(0, len(accumulators[0]), 2):
        col = first_col + (j // 2) * 2 * MFMA_MN + (lane >> 4) * CHUNK_ITEMS
        for i, row_tiles in enumerate(accumulators):
            row = first_row + i * MFMA_MN + (lane & (MFMA_MN - 1))
            offset = (col < cols).select(row * stride + col, fx.Int32(OUT_OF_BOUNDS_ITEMS))
            left, right = row_tiles[j].to(element), row_tiles[j + 1].to(element)
            registers = fx.make_rmem_tensor(CHUNK_ITEMS, element)
            registers.store(left.shuffle(right, list(range(CHUNK_ITEMS))))
            fx.copy_atom_call(atom, registers, fx.make_view(buffer + offset, layout))
