"""Where the chunks of a scaled operand lie in LDS, and in which order K goes through the matrix cores.

A row of a K tile holds windows of MFMA steps. MFMA step s of a window multiplies, as its block b of 32 elements, block
``b * window + s`` of the window: so the scales that a lane needs for the steps, those of its block b, lie side by side
in memory, and one dword of them serves four steps by the instruction's byte selection. The product does not
depend on the order of K as long as A, B and the scales agree on it.

The order is made where the LDS DMA fetches: chunks of 16 bytes lie in LDS as the steps read them. Plain integer
arithmetic on powers of two, as lds_layout.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from .gemm_config import CHUNK_ITEMS
from .lds_layout import Straight


def log2(power: int) -> int:
    return power.bit_length() - 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScaledRows(Straight):
    """``rows x tile_k`` in units of two bytes, K contiguous; elements of ``bits`` bits."""

    bits: int
    window: int

    @property
    def groups(self) -> int:
        """Groups of lanes that hold one row each: as many as there are blocks of 32 in an MFMA step."""
        return 64 // self.mfma_rows

    @property
    def reads(self) -> int:
        """16-byte reads of a lane for one MFMA step: of 8-bit elements it holds two runs of 16 of different blocks."""
        return self.bits // 4

    def key(self, row: Any) -> Any:
        """Rows of less than 256 bytes lie several to the 64 banks, which takes the place of as many bits of the key.

        16 lanes that are served together hold 16 MFMA rows: with 16 to an MFMA, half of them in the neighbouring
        chunk, with 32 all in the same.
        """
        if self.mfma_rows == 16 or self.chunks_per_row >= 16:
            return super().key(row)
        return (row >> log2(16 // self.chunks_per_row)) & (self.chunks_per_row - 1)

    def memory_chunk(self, chunk: Any) -> Any:
        """Which chunk of the row in memory stands at a place of the steps' order."""
        per_step = self.groups * self.reads
        step, within = chunk >> log2(per_step), chunk & (per_step - 1)
        first, step = step >> log2(self.window), step & (self.window - 1)
        halves = log2(self.reads)
        block = (((first << log2(self.groups)) + (within >> halves)) << log2(self.window)) + step
        return (block << halves) + (within & (self.reads - 1))

    def chunk_at(self, place: Any) -> tuple[Any, Any]:
        row, chunk = super().chunk_at(place)
        return row, self.memory_chunk(chunk)

    def read_item(self, lane: Any, step: Any) -> Any:
        """As Straight's; an MFMA step of 8-bit elements is two of these steps."""
        row, group = lane & (self.mfma_rows - 1), lane >> log2(self.mfma_rows)
        return self.position(row, step * self.groups + group) * CHUNK_ITEMS


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScaleRows:
    """``rows x dwords`` of block scales, four scales of 32 elements along K a dword.

    A wave reads ``span`` neighbouring dwords of as many rows as the MFMA has. Within a row dwords are permuted by XOR
    in groups of ``span``, so that rows that begin in the same bank are read in different ones.
    """

    dwords: int
    span: int
    mfma_rows: int

    def key(self, row: Any) -> Any:
        within = row & (self.mfma_rows - 1)
        return ((within >> log2(max(1, 64 // self.dwords))) << log2(self.span)) & (self.dwords - 1)

    def dword_at(self, place: Any) -> tuple[Any, Any]:
        """(row, dword) that lies at a place: what the LDS DMA lane that writes there must fetch."""
        row = place >> log2(self.dwords)
        return row, (place & (self.dwords - 1)) ^ self.key(row)

    def position(self, row: Any, dword: Any) -> Any:
        return row * self.dwords + (dword ^ self.key(row))
