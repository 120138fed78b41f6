"""Where a tile's 16-byte chunks lie in LDS, and which lane touches which.

Plain integer arithmetic on powers of two (``+ * >> & ^``), so the same functions serve the traced kernel and the test
that counts bank conflicts. A tile of ``rows x tile_k`` 2-byte elements is stored row by row, each row's chunks permuted
by XOR with a key of the row. The LDS DMA writes 64 consecutive chunks per instruction, so the permutation is applied on
the global side: a lane fetches the chunk that belongs at its place.

Why it is free of conflicts: ``ds_read_b128`` serves 16 lanes at a time, which covers the 64 banks exactly once if their
addresses differ modulo 256 bytes. Those 16 lanes hold 16 different MFMA rows i, half of them in the neighbouring chunk
(``target.DS_READ_B128_PHASES``). The key is i modulo the chunks of a row, at most 16.

Rows of B are paired: MFMA tiles 2p and 2p+1 of a wave take rows 8q..8q+3 and 8q+4..8q+7 of each group of eight, so a
lane's accumulators of both are eight neighbouring columns of C, one 16-byte store.
"""

from __future__ import annotations

from typing import Any

from .gemm_config import CHUNK_ITEMS, MFMA_MN


def chunks_per_row(tile_k: int) -> int:
    return tile_k // CHUNK_ITEMS


def fragment_row(mfma_tile: int, lane_row: Any, paired: bool) -> Any:
    """Row, within the wave's part of the tile, that MFMA row ``lane_row`` (0..15) of tile ``mfma_tile`` reads."""
    if not paired:
        return mfma_tile * MFMA_MN + lane_row
    return (mfma_tile // 2) * 2 * MFMA_MN + (mfma_tile % 2) * 4 + (lane_row >> 2) * 8 + (lane_row & 3)


def _lane_row(row: Any, paired: bool) -> Any:
    """The MFMA row (0..15) that reads a tile row: the inverse of fragment_row, whatever the tile."""
    return (row >> 3 & 3) * 4 + (row & 3) if paired else row & (MFMA_MN - 1)


def key(row: Any, tile_k: int, paired: bool) -> Any:
    return _lane_row(row, paired) & (min(MFMA_MN, chunks_per_row(tile_k)) - 1)


def fragment_key(lane_row: Any, tile_k: int) -> Any:
    """The key of the row that MFMA row ``lane_row`` reads: the same for every MFMA tile, paired or not."""
    return lane_row & (min(MFMA_MN, chunks_per_row(tile_k)) - 1)


def position(row: Any, chunk: Any, tile_k: int, paired: bool) -> Any:
    """Place of a chunk in the tile's LDS, in units of 16 bytes."""
    return row * chunks_per_row(tile_k) + (chunk ^ key(row, tile_k, paired))


def chunk_at(place: Any, tile_k: int, paired: bool) -> tuple[Any, Any]:
    """(row, chunk) that lies at a place: what the LDS DMA lane that writes there must fetch."""
    chunks = chunks_per_row(tile_k)
    row = place >> (chunks.bit_length() - 1)
    return row, (place & (chunks - 1)) ^ key(row, tile_k, paired)
