"""Scaled GEMM: a configuration, what the operands hold, and what a K tile of them takes in LDS. Needs no flydsl."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

from torch._native.flydsl import target

from .gemm_config import DMA_BYTES, ITEM_BYTES

Format = Literal["e4m3", "e5m2", "e2m1"]

BITS = {"e4m3": 8, "e5m2": 8, "e2m1": 4}
BLOCK = 32  # elements along K that share an E8M0 scale
SCALE_K = 128  # elements whose scales fill a dword, the least that LDS DMA moves
MFMA_K = {16: 128, 32: 64}  # v_mfma_scale_f32_{16x16x128,32x32x64}_f8f6f4, by rows
SCALE_RUN_BYTES = target.WAVE_SIZE * 4  # one LDS DMA instruction of one wave, a dword a lane


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScaledGemmConfig:
    """How a workgroup computes a tile of C: as GemmConfig says, with ``tile_k`` in elements of K.

    ``mfma_rows`` is 16 or 32: the instruction's tile of C. With 32 a wave holds half as many elements along K at a
    time, so that large tiles keep within the registers.

    ``scale_tiles`` K tiles have their block scales loaded together, ahead of them, a part with each K tile before: the
    scales of a row for one K tile are a few bytes of a cache line of 128.
    """

    tile_m: int
    tile_n: int
    tile_k: int
    stages: int
    waves_m: int
    waves_n: int
    group_m: int = 0
    waves_k: int = 1
    split_k: int = 1
    interleave: bool = False
    mfma_rows: int = 16
    scale_tiles: int = 1

    @property
    def name(self) -> str:
        waves = f"w{self.waves_m}x{self.waves_n}" + (f"x{self.waves_k}" if self.waves_k > 1 else "")
        group = f"_g{self.group_m}" if self.group_m else ""
        split = f"_k{self.split_k}" if self.split_k > 1 else ""
        interleave = "_i" if self.interleave else ""
        rows = "_r32" if self.mfma_rows == 32 else ""
        rows += f"_t{self.scale_tiles}" if self.scale_tiles > 1 else ""
        return f"{self.tile_m}x{self.tile_n}x{self.tile_k}_s{self.stages}_{waves}{group}{split}{interleave}{rows}"

    @property
    def waves(self) -> int:
        return self.waves_m * self.waves_n * self.waves_k

    @property
    def threads(self) -> int:
        return self.waves * target.WAVE_SIZE

    @property
    def loaded_ahead(self) -> int:
        """K tiles that are loading when the first product begins."""
        return self.stages if self.interleave else self.stages - 1

    @property
    def mfma_k(self) -> int:
        return MFMA_K[self.mfma_rows]

    @property
    def steps(self) -> int:
        """MFMA steps along K that each wave takes of one K tile."""
        return self.tile_k // self.mfma_k // self.waves_k


@dataclasses.dataclass(frozen=True)
class Operands:
    """What A and B hold, and whether each block of 32 has a scale of its own."""

    a: Format
    b: Format
    block_scales: bool

    def row_bytes(self, k: int) -> tuple[int, int]:
        """Bytes of a row of A and of B."""
        return k * BITS[self.a] // 8, k * BITS[self.b] // 8


@dataclasses.dataclass(frozen=True)
class Stage:
    """One K tile in LDS: A's tile, B's tile, A's scales, B's scales, padding. Sizes in bytes.

    Scales travel as dwords, four blocks of a row each. What a lane reads at once serves it for a ``window`` of MFMA
    steps: scaled_layout has the order of K. Scales of several K tiles lie behind the stages, twice: those in use and
    those to come.
    """

    config: ScaledGemmConfig
    operands: Operands

    @property
    def a_bytes(self) -> int:
        return self.config.tile_m * self.operands.row_bytes(self.config.tile_k)[0]

    @property
    def b_bytes(self) -> int:
        return self.config.tile_n * self.operands.row_bytes(self.config.tile_k)[1]

    @property
    def window(self) -> int:
        """MFMA steps that a lane's dword of scales serves: a byte each."""
        return min(4, self.config.steps) if self.operands.block_scales else 1

    @property
    def scale_tiles(self) -> int:
        """K tiles whose scales are loaded together."""
        return self.config.scale_tiles if self.operands.block_scales else 1

    @property
    def scale_dwords(self) -> int:
        """Of a row, loaded together."""
        return self.scale_tiles * self.config.tile_k // SCALE_K

    @property
    def scale_runs(self) -> tuple[int, int]:
        """LDS DMA instructions, a dword a lane, that bring A's scales and B's beside a K tile."""
        if not self.operands.block_scales:
            return 0, 0
        dwords = self.config.tile_k // SCALE_K
        runs = [math.ceil(rows * dwords / target.WAVE_SIZE) for rows in (self.config.tile_m, self.config.tile_n)]
        return runs[0], runs[1]

    @property
    def scale_loads(self) -> int:
        """Of them those that each wave issues; some may bring nothing, for all waves must issue as many."""
        return math.ceil(sum(self.scale_runs) / self.config.waves)

    @property
    def scale_bytes(self) -> int:
        """Of scales that are loaded together."""
        return self.scale_loads * self.config.waves * SCALE_RUN_BYTES * self.scale_tiles

    @property
    def bytes(self) -> int:
        return self.a_bytes + self.b_bytes + (self.scale_bytes if self.scale_tiles == 1 else 0)

    @property
    def items(self) -> int:
        """In the unit that pipeline counts in."""
        return self.bytes // ITEM_BYTES

    @property
    def loads(self) -> int:
        """LDS DMA instructions that each wave issues for a stage."""
        return (self.a_bytes + self.b_bytes) // (DMA_BYTES * self.config.waves) + self.scale_loads

    @property
    def late_loads(self) -> int:
        """Of them those that start beside the next K tile's first step: DMA writes LDS, which the last step reads."""
        return self.loads * 2 // 5 if self.config.interleave and self.config.steps > 1 else 0

    @property
    def lds_bytes(self) -> int:
        """Of all stages, which the accumulators of ``waves_k`` waves take over at the end."""
        c = self.config
        sums = c.waves_k * c.tile_m * c.tile_n * 4 if c.waves_k > 1 else 0
        apart = 2 * self.scale_bytes if self.scale_tiles > 1 else 0
        return max(c.stages * self.bytes + apart, sums)
