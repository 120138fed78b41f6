"""Where a tile's 16-byte chunks lie in LDS, and which lane touches which.

Plain integer arithmetic on powers of two (``+ * >> & ^``), so the same functions serve the traced kernel and the test
that counts bank conflicts. Tiles hold 2-byte elements. The LDS DMA writes 64 consecutive chunks per instruction, so
chunks are permuted on the global side: a lane fetches the chunk that belongs at its place.

``Straight``: rows along M or N, K contiguous. A row's chunks are permuted by XOR with a key of the row. Free of
conflicts: ``ds_read_b128`` serves 16 lanes at a time, which covers the 64 banks exactly once if their addresses differ
modulo 256 bytes. Those 16 lanes hold 16 different MFMA rows, half of them in the neighbouring chunk
(``target.DS_READ_B128_PHASES``). The key is the MFMA row modulo the chunks of a row, at most 16.

``Transposed``: rows along K, M or N contiguous. ``ds_read_b64_tr_b16`` gives each lane of a group of 16 a column of the
4 x 16 block whose rows the lanes 4j..4j+3 point to, 8 bytes each. It serves 32 lanes at a time: two groups, eight rows
of 32 bytes. Rows are stored with bits 2 and 3 of their number exchanged, so that these eight lie side by side, and the
units of 32 bytes within a row are permuted by XOR so that the eight cover the 64 banks exactly once.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from .gemm_config import CHUNK_ITEMS, MFMA_K, MFMA_MN

TRANSPOSED_ITEMS = 4  # elements that a lane gets of one ds_read_b64_tr_b16: four rows along K


@dataclasses.dataclass(frozen=True)
class Straight:
    """``rows x tile_k``, K contiguous."""

    rows: int
    tile_k: int
    mfma_rows: int = MFMA_MN

    @property
    def chunks_per_row(self) -> int:
        return self.tile_k // CHUNK_ITEMS

    def key(self, row: Any) -> Any:
        return row & (min(MFMA_MN, self.chunks_per_row) - 1)

    def position(self, row: Any, chunk: Any) -> Any:
        """Place of a chunk in the tile's LDS, in units of 16 bytes."""
        return row * self.chunks_per_row + (chunk ^ self.key(row))

    def chunk_at(self, place: Any) -> tuple[Any, Any]:
        """(row, chunk) that lies at a place: what the LDS DMA lane that writes there must fetch."""
        row = place >> (self.chunks_per_row.bit_length() - 1)
        return row, (place & (self.chunks_per_row - 1)) ^ self.key(row)

    def read_item(self, lane: Any, step: Any) -> Any:
        """Element where a lane's 16 bytes of MFMA tile 0 begin; other tiles are ``mfma_rows * tile_k`` apart."""
        row = lane & (MFMA_MN - 1)
        chunk = step * (MFMA_K // CHUNK_ITEMS) + (lane >> 4)
        return self.position(row, chunk) * CHUNK_ITEMS


@dataclasses.dataclass(frozen=True)
class Transposed:
    """``tile_k x cols``, M or N contiguous."""

    cols: int
    tile_k: int

    @property
    def chunks_per_row(self) -> int:
        return self.cols // CHUNK_ITEMS

    @property
    def _units(self) -> int:
        return self.cols // MFMA_MN

    @staticmethod
    def stored_row(row: Any) -> Any:
        """Bits 2 and 3 exchanged; its own inverse."""
        return (row & ~12) + ((row & 4) << 1) + ((row & 8) >> 1)

    def key(self, stored: Any) -> Any:
        """Of a stored row. Narrow rows lie several to 256 bytes, which takes the place of as many bits of the key."""
        bits = min(3, self._units.bit_length() - 1)
        return (stored & 7) >> (3 - bits)

    def position(self, row: Any, chunk: Any) -> Any:
        """Place of a chunk in the tile's LDS, in units of 16 bytes."""
        stored = self.stored_row(row)
        return stored * self.chunks_per_row + (chunk ^ (self.key(stored) << 1))

    def chunk_at(self, place: Any) -> tuple[Any, Any]:
        """(row, chunk) that lies at a place: what the LDS DMA lane that writes there must fetch."""
        stored = place >> (self.chunks_per_row.bit_length() - 1)
        return self.stored_row(stored), (place & (self.chunks_per_row - 1)) ^ (self.key(stored) << 1)

    def read_item(self, lane: Any, step: int, half: int, unit: Any) -> Any:
        """Element where a lane's 8 bytes begin, for rows 4 * half .. of each lane group's eight and columns
        16 * unit .. 16 * unit + 15."""
        stored = (lane >> 5) * 16 + ((lane >> 4) & 1) * 4 + ((lane >> 2) & 3)
        offset = self.offset(step, half)
        return stored * self.cols + (unit ^ self.key(stored)) * MFMA_MN + (lane & 3) * TRANSPOSED_ITEMS + offset

    def offset(self, step: int, half: int) -> int:
        """What ``read_item`` adds for a step and a half: the key depends on neither."""
        return (step * MFMA_K + half * 8) * self.cols
