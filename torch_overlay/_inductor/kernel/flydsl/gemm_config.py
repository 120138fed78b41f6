"""Dense GEMM: what the kernel accepts (may), which configurations are worth trying (how to search), and which one to
take when nothing is measured.

The problem is ``C[b, M, N] = epilogue(A[b, M, K] @ B[b, N, K]^T)``. An operand's layout names the dimension that lies
contiguous in memory: A is "k" (row-major) or "m", B is "k" (``mat2`` of ``aten.mm`` column-major) or "n" (row-major).
Importable without flydsl.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from typing import Any, Literal, NamedTuple

from torch._native.flydsl import target

from . import epilogue_expr
from .epilogue_expr import Epilogue as Epilogue
from .epilogue_expr import EpilogueInput as EpilogueInput  # generated modules import all of a spec from here
from .epilogue_expr import InputStrides

# The kernel needs the asynchronous LDS DMA copy (BufferLoadAsyncLDS, from 0.3.2; before it the compiler waits for all
# loads ahead of every LDS read) and memory_fence (from 0.3.4).
FLYDSL_AT_LEAST = "0.3.4"

DType = Literal["bf16", "fp16"]
OutDType = Literal["bf16", "fp16", "fp32"]
ALayout = Literal["k", "m"]
BLayout = Literal["k", "n"]

ITEM_BYTES = 2
OUT_ITEM_BYTES = epilogue_expr.ITEM_BYTES
MFMA_MN = 16  # v_mfma_f32_16x16x32_{bf16,f16}
MFMA_K = 32
MFMA_CLOCKS = 16  # 4 passes of 4 clocks
CHUNK_BYTES = 16  # one lane's share of an LDS DMA load, an LDS read and a store
CHUNK_ITEMS = CHUNK_BYTES // ITEM_BYTES
DMA_BYTES = target.WAVE_SIZE * CHUNK_BYTES  # one LDS DMA instruction of one wave
SPAN_LIMIT = 2**32  # num_records of a buffer descriptor and the offsets into it are 32 bits
# Offsets of masked lanes are set to 2^31, so that whatever is added to them stays outside the descriptor's bound.
TILE_SPAN_LIMIT = 2**31
INT32_LIMIT = 2**31
GRID_Z_LIMIT = 65535
ADDRESS_LIMIT = 2**47


@dataclasses.dataclass(frozen=True, kw_only=True)
class GemmConfig:
    """How a workgroup computes a tile of C.

    A workgroup of ``waves_m * waves_n * waves_k`` waves owns ``tile_m x tile_n`` of C and walks K in steps of
    ``tile_k`` through ``stages`` LDS buffers. The ``waves_k`` waves of a part of C share its products along K and add
    up at the end. With ``split_k`` > 1 as many workgroups share a tile of C: each walks a part of K, and the last to
    finish adds the parts in order. With ``group_m`` > 0 workgroups are ordered so that each XCD gets neighbours, in
    bands of ``group_m`` tiles along M.

    ``interleave`` reads the fragments of the next products, also those of the next K tile, while the matrix cores
    work on the present ones: for tiles that compute more than they wait, at twice the registers for fragments.
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

    @property
    def name(self) -> str:
        waves = f"w{self.waves_m}x{self.waves_n}" + (f"x{self.waves_k}" if self.waves_k > 1 else "")
        group = f"_g{self.group_m}" if self.group_m else ""
        split = f"_k{self.split_k}" if self.split_k > 1 else ""
        interleave = "_i" if self.interleave else ""
        return f"{self.tile_m}x{self.tile_n}x{self.tile_k}_s{self.stages}_{waves}{group}{split}{interleave}"

    @property
    def waves(self) -> int:
        return self.waves_m * self.waves_n * self.waves_k

    @property
    def threads(self) -> int:
        return self.waves * target.WAVE_SIZE

    @property
    def stage_bytes(self) -> int:
        return (self.tile_m + self.tile_n) * self.tile_k * ITEM_BYTES

    @property
    def lds_bytes(self) -> int:
        """The stages, which the accumulators of ``waves_k`` waves take over at the end."""
        sums = self.waves_k * self.tile_m * self.tile_n * 4 if self.waves_k > 1 else 0
        return max(self.stages * self.stage_bytes, sums)

    @property
    def loaded_ahead(self) -> int:
        """K tiles that are loading when the first product begins."""
        return self.stages if self.interleave else self.stages - 1

    @property
    def steps(self) -> int:
        """MFMA steps along K that each wave takes of one K tile."""
        return self.tile_k // MFMA_K // self.waves_k

    @property
    def loads_per_stage(self) -> int:
        """LDS DMA instructions that each wave issues for one stage."""
        return self.stage_bytes // (DMA_BYTES * self.waves)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GemmProblem:
    """Sizes and strides, in elements, of ``batch`` products. Batch strides may be 0: an operand that all share.

    ``lda``, ``ldb`` and ``ldc`` lead from one contiguous run to the next: A in layout "k" is [m, k] and its rows are
    lda apart, in layout "m" it is [k, m]. C is row-major. ``epilogue_strides`` has an entry for each of the epilogue's
    inputs. ``out_dtype`` None is the operands' type.
    """

    m: int
    n: int
    k: int
    dtype: DType
    lda: int
    ldb: int
    ldc: int
    batch: int = 1
    out_dtype: OutDType | None = None
    a_layout: ALayout = "k"
    b_layout: BLayout = "k"
    stride_a: int = 0
    stride_b: int = 0
    stride_c: int = 0
    epilogue: Epilogue = epilogue_expr.IDENTITY
    epilogue_strides: tuple[InputStrides, ...] = ()

    @property
    def stored_dtype(self) -> OutDType:
        return self.dtype if self.out_dtype is None else self.out_dtype

    @property
    def operands(self) -> tuple[Operand, ...]:
        a, b = (self.m, self.k), (self.n, self.k)
        return (
            Operand("A", *(a if self.a_layout == "k" else a[::-1]), self.lda, self.stride_a, ITEM_BYTES),
            Operand("B", *(b if self.b_layout == "k" else b[::-1]), self.ldb, self.stride_b, ITEM_BYTES),
            Operand("C", self.m, self.n, self.ldc, self.stride_c, OUT_ITEM_BYTES[self.stored_dtype]),
        )


class Operand(NamedTuple):
    """A matrix as it lies in memory: ``rows`` contiguous runs of ``cols`` elements."""

    name: str
    rows: int
    cols: int
    stride: int
    batch_stride: int
    item_bytes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class GemmSpec:
    """Everything that is fixed when the kernel is compiled. Sizes, strides and the batch are run-time values."""

    dtype: DType
    config: GemmConfig
    arch: str
    k_tail: bool  # K is not a multiple of tile_k: the last K tile's loads are masked per lane
    out_dtype: OutDType | None = None  # None is dtype
    a_layout: ALayout = "k"
    b_layout: BLayout = "k"
    epilogue: Epilogue = epilogue_expr.IDENTITY

    @property
    def stored_dtype(self) -> OutDType:
        return self.dtype if self.out_dtype is None else self.out_dtype

    @property
    def layout(self) -> str:
        """As BLAS names it: B is [K, N], and N(ot transposed) is row-major."""
        return f"{'n' if self.a_layout == 'k' else 't'}{'t' if self.b_layout == 'k' else 'n'}"

    @property
    def name(self) -> str:
        parts = [
            f"gemm_{self.layout}_{self.dtype}",
            self.stored_dtype if self.stored_dtype != self.dtype else "",
            self.config.name,
            "ktail" if self.k_tail else "",
            self.epilogue.name,
        ]
        return "_".join(part for part in parts if part)

    @property
    def key(self) -> tuple[object, ...]:
        """Explicit and equal in every process; what it does not name must not change the code."""
        return (
            "gemm",
            self.arch,
            self.dtype,
            self.stored_dtype,
            self.a_layout,
            self.b_layout,
            self.k_tail,
            self.epilogue.key,
            *dataclasses.astuple(self.config),
        )


def unavailable_reason() -> str | None:
    """Why this kernel cannot run in this process, whatever the problem: PyTorch's build, flydsl missing or too old."""
    reason, version = target.unavailable_reason(), target.flydsl_version()
    if reason is not None or version is None:
        return reason
    return target.release_unsupported_reason(version, FLYDSL_AT_LEAST)


# ---- may -------------------------------------------------------------------------------------------------------------


def unsupported_reason(problem: GemmProblem) -> str | None:
    """Why no configuration computes this problem; None if some may. Python integers throughout: no overflow."""
    return _kind_unsupported_reason(problem) or _size_unsupported_reason(problem) or _span_unsupported_reason(problem)


def _kind_unsupported_reason(p: GemmProblem) -> str | None:
    if p.dtype not in ("bf16", "fp16"):
        return f"dtype {p.dtype} is not bf16 or fp16"
    if p.stored_dtype not in OUT_ITEM_BYTES:
        return f"out_dtype {p.out_dtype} is not one of {', '.join(OUT_ITEM_BYTES)}"
    if p.a_layout not in ("k", "m") or p.b_layout not in ("k", "n"):
        return f"layouts {p.a_layout}, {p.b_layout} are not k or m for A, k or n for B"
    reason = epilogue_expr.invalid_reason(p.epilogue)
    if reason is not None:
        return reason
    if len(p.epilogue_strides) != len(p.epilogue.inputs):
        return f"strides of {len(p.epilogue_strides)} epilogue inputs, there are {len(p.epilogue.inputs)}"
    return None


def _size_unsupported_reason(p: GemmProblem) -> str | None:
    for name, size in (("M", p.m), ("N", p.n), ("K", p.k), ("batch", p.batch)):
        if size <= 0:
            return f"{name}={size}: an empty product has no tile to compute"
        if size >= INT32_LIMIT:
            return f"{name}={size} is not below 2^31: the kernel counts in 32 bits"
    if p.batch > GRID_Z_LIMIT:
        return f"batch={p.batch} is over {GRID_Z_LIMIT}, a grid's largest third dimension"
    for name, size in (("N", p.n), ("K", p.k)):
        if size % CHUNK_ITEMS:
            return f"{name}={size} is not a multiple of {CHUNK_ITEMS}: loads and stores move {CHUNK_BYTES} bytes a lane"
    for name, rows, cols, stride, batch_stride, item_bytes in p.operands:
        if batch_stride < 0:
            return f"{name}: batch stride {batch_stride} is negative"
        if p.batch > 1 and batch_stride * item_bytes % CHUNK_BYTES:
            return f"{name}: batch stride {batch_stride} is not a multiple of {CHUNK_BYTES} bytes"
        if rows == 1:
            continue  # the stride is never used
        if stride < cols:
            return f"{name}: row stride {stride} is below its {cols} columns: rows overlap"
        if stride % CHUNK_ITEMS:
            return f"{name}: row stride {stride} is not a multiple of {CHUNK_ITEMS} elements ({CHUNK_BYTES} bytes)"
        if stride >= INT32_LIMIT:
            return f"{name}: row stride {stride} is not below 2^31: the kernel counts in 32 bits"
    # Operands may be shared by the batches, C may not.
    c = p.operands[2]
    if p.batch > 1 and c.batch_stride < (c.rows - 1) * c.stride + c.cols:
        return f"C: batch stride {c.batch_stride} is below ({c.rows}-1)*{c.stride}+{c.cols}: batches overlap"
    return None


def _span_unsupported_reason(p: GemmProblem) -> str | None:
    for name, rows, cols, stride, batch_stride, item_bytes in p.operands:
        span = ((rows - 1) * stride + cols) * item_bytes
        if span >= SPAN_LIMIT:
            arithmetic = f"({rows}-1)*{stride}+{cols} elements = {span} bytes"
            return f"{name} spans {arithmetic}, not below 2^32: buffer offsets are 32 bits"
        if (p.batch - 1) * batch_stride * item_bytes >= ADDRESS_LIMIT:
            return f"{name}: {p.batch} batches of stride {batch_stride} are beyond 2^47 bytes of address space"
    for i, (operand, strides) in enumerate(zip(p.epilogue.inputs, p.epilogue_strides, strict=True)):
        reason = epilogue_expr.input_unsupported_reason(f"epilogue input {i}", operand, strides, p.m, p.n, p.batch)
        if reason is not None:
            return reason
    return None


@functools.cache
def invalid_reason(config: GemmConfig) -> str | None:
    """Why a configuration cannot be built for any problem; None if it can. Each clause says its hardware reason."""
    c = config
    for field in ("tile_m", "tile_n", "tile_k", "stages", "waves_m", "waves_n", "waves_k", "split_k"):
        if getattr(c, field) < 1:
            return f"{field}={getattr(c, field)} is not positive"
    if c.group_m < 0:
        return f"group_m={c.group_m} is negative"
    if c.stages < 2:
        return f"stages={c.stages}: loads of the next K tile need a second LDS buffer"
    if c.threads > target.MAX_WORKGROUP_SIZE:
        return f"{c.waves} waves are {c.threads} threads, over {target.MAX_WORKGROUP_SIZE} of a workgroup"
    if c.tile_m % (c.waves_m * MFMA_MN):
        return (
            f"tile_m={c.tile_m} is not a multiple of waves_m*{MFMA_MN}={c.waves_m * MFMA_MN} (MFMA {MFMA_MN}x{MFMA_MN})"
        )
    if c.tile_n % (c.waves_n * MFMA_MN):
        return (
            f"tile_n={c.tile_n} is not a multiple of waves_n*{MFMA_MN}={c.waves_n * MFMA_MN} (MFMA {MFMA_MN}x{MFMA_MN})"
        )
    if c.tile_k not in (64, 128, 256, 512):
        return f"tile_k={c.tile_k} is not 64, 128, 256 or 512, for which the LDS swizzle is free of bank conflicts"
    if c.tile_k % (c.waves_k * MFMA_K):
        return f"tile_k={c.tile_k} is not a multiple of waves_k*{MFMA_K}={c.waves_k * MFMA_K} (MFMA depth {MFMA_K})"
    for name, rows in (("A", c.tile_m), ("B", c.tile_n)):
        tile_bytes = rows * c.tile_k * ITEM_BYTES
        if tile_bytes % (DMA_BYTES * c.waves):
            return (
                f"{name} tile of {rows}x{c.tile_k} is {tile_bytes} bytes, not a multiple of "
                f"{c.waves} waves x {DMA_BYTES}: "
                "every wave must issue as many LDS DMA loads as the others, for s_waitcnt counts them"
            )
    for field in ("tile_m", "tile_n"):
        if getattr(c, field).bit_count() != 1:
            return f"{field}={getattr(c, field)} is not a power of two, which the LDS swizzle permutes"
    if c.lds_bytes > target.LDS_BYTES:
        return f"{c.stages} stages x {c.stage_bytes} = {c.lds_bytes} bytes of LDS, over {target.LDS_BYTES}"
    outstanding = c.loaded_ahead * c.loads_per_stage
    if outstanding > target.VMCNT_MAX:
        arithmetic = f"{c.loaded_ahead}*{c.loads_per_stage} = {outstanding}"
        return f"{arithmetic} outstanding loads a wave, over {target.VMCNT_MAX} that vmcnt counts"
    registers, budget = _vgprs(c), target.VGPRS_PER_LANE // math.ceil(c.waves / target.SIMDS_PER_CU)
    if registers > budget:
        waves = f"{c.waves} waves on {target.SIMDS_PER_CU} SIMDs"
        return f"about {registers} VGPRs a lane, over {budget} for {waves}: it would spill"
    return None


def _vgprs(c: GemmConfig) -> int:
    """Registers a lane needs: accumulators, A and B fragments of one MFMA step, addresses and temporaries."""
    tiles_m, tiles_n = c.tile_m // c.waves_m // MFMA_MN, c.tile_n // c.waves_n // MFMA_MN
    # Left to itself the compiler reads the fragments of one step while it multiplies the last one's, too.
    steps_held = min(2, c.steps) if tiles_m * tiles_n > 1 else 1
    others = 16 if c.interleave else 24  # the hints of the interleaved schedule leave the compiler less to hoist
    return 4 * tiles_m * tiles_n + 4 * (tiles_m + tiles_n) * steps_held + c.loads_per_stage + 2 * c.steps + others


def config_unsupported_reason(problem: GemmProblem, config: GemmConfig) -> str | None:
    """Why this configuration cannot compute this problem, with the arithmetic; None if it can."""
    p, c = problem, config
    reason = unsupported_reason(p) or invalid_reason(c)
    if reason is not None:
        return reason
    k_tiles = math.ceil(p.k / c.tile_k)
    least = k_tiles // c.split_k  # of the workgroups that share K; some get one more
    if least < c.loaded_ahead:
        arithmetic = f"ceil(K={p.k} / {c.tile_k}) = {k_tiles} K tiles"
        arithmetic += f" in {c.split_k} parts are {least}" if c.split_k > 1 else ""
        return f"{arithmetic}, fewer than the {c.loaded_ahead} that the pipeline loads ahead"
    if k_tiles * c.split_k >= INT32_LIMIT:
        return f"split_k={c.split_k}: {k_tiles} K tiles times that are not below 2^31"
    a, b, out = p.operands
    tile_rows = (c.tile_m if p.a_layout == "k" else c.tile_k, c.tile_n if p.b_layout == "k" else c.tile_k, c.tile_m)
    for (name, _, cols, stride, _, item_bytes), rows in zip((a, b, out), tile_rows, strict=True):
        span = (rows * stride + cols) * item_bytes
        if span >= TILE_SPAN_LIMIT:
            return f"{name}: a tile of {rows} rows spans {span} bytes, not below 2^31, where masked lanes point"
    threads = math.ceil(p.m / c.tile_m) * math.ceil(p.n / c.tile_n) * c.threads
    if threads >= SPAN_LIMIT:
        return f"the grid has {threads} threads, not below 2^32"
    return None


# ---- how to search ---------------------------------------------------------------------------------------------------

# The four waves of a workgroup take all of its tile and a quarter of each K tile: least traffic between LDS and waves.
_ALONG_K: dict[str, Any] = {"waves_m": 1, "waves_n": 1, "waves_k": 4}
# Modelled, not measured: the best of a sweep over tiles, stages and waves with the emulator's timing model, for the
# published shapes of dense GEMM on MI355X (M 8 to 8192) in all layouts.
DEFAULT_CONFIGS: tuple[GemmConfig, ...] = (
    # few rows: as many workgroups along N as there are compute units, bandwidth
    GemmConfig(tile_m=16, tile_n=16, tile_k=256, stages=4, group_m=1, **_ALONG_K),
    GemmConfig(tile_m=16, tile_n=32, tile_k=64, stages=2, group_m=1, waves_m=1, waves_n=1, waves_k=2),  # for every K
    GemmConfig(tile_m=16, tile_n=16, tile_k=256, stages=4, group_m=1, split_k=4, **_ALONG_K),
    GemmConfig(tile_m=16, tile_n=16, tile_k=256, stages=4, group_m=1, split_k=8, **_ALONG_K),
    GemmConfig(tile_m=16, tile_n=128, tile_k=128, stages=3, group_m=1, **_ALONG_K),
    GemmConfig(tile_m=32, tile_n=16, tile_k=256, stages=4, group_m=4, **_ALONG_K),
    GemmConfig(tile_m=32, tile_n=32, tile_k=256, stages=4, group_m=4, **_ALONG_K),
    GemmConfig(tile_m=32, tile_n=64, tile_k=256, stages=3, group_m=4, **_ALONG_K),
    # middle: enough workgroups to fill 256 compute units
    GemmConfig(tile_m=64, tile_n=64, tile_k=64, stages=2, waves_m=2, waves_n=2),  # for every K
    GemmConfig(tile_m=64, tile_n=64, tile_k=128, stages=4, group_m=4, interleave=True, **_ALONG_K),
    GemmConfig(tile_m=64, tile_n=64, tile_k=128, stages=4, group_m=4, interleave=True, split_k=2, **_ALONG_K),
    GemmConfig(tile_m=64, tile_n=64, tile_k=128, stages=4, group_m=4, interleave=True, split_k=4, **_ALONG_K),
    GemmConfig(
        tile_m=64, tile_n=128, tile_k=128, stages=3, group_m=4, waves_m=1, waves_n=2, waves_k=2, interleave=True
    ),
    GemmConfig(
        tile_m=128, tile_n=64, tile_k=128, stages=3, group_m=4, waves_m=2, waves_n=1, waves_k=2, interleave=True
    ),
    GemmConfig(tile_m=128, tile_n=128, tile_k=64, stages=2, group_m=4, waves_m=2, waves_n=2, interleave=True),
    GemmConfig(tile_m=128, tile_n=128, tile_k=64, stages=4, group_m=4, waves_m=2, waves_n=2, interleave=True),
    # large: operand reuse
    GemmConfig(tile_m=256, tile_n=128, tile_k=64, stages=3, group_m=4, waves_m=2, waves_n=2, interleave=True),
    GemmConfig(tile_m=256, tile_n=256, tile_k=64, stages=2, group_m=4, waves_m=2, waves_n=4, interleave=True),
)

FEWEST_CANDIDATES = 4  # if so many are valid: the estimate may be wrong
EXHAUSTIVE_LIMIT = 63  # compiles a shape: under 64


@functools.cache
def _exhaustive_space() -> tuple[GemmConfig, ...]:
    tiles = itertools.product((16, 32, 64, 128, 256), (16, 32, 64, 128, 256), (64, 128, 256, 512), (2, 3, 4))
    waves = ((1, 1, 4), (2, 1, 2), (1, 2, 2), (1, 4, 1), (2, 2, 1), (2, 4, 1), (4, 2, 1))
    space = []
    for (tile_m, tile_n, tile_k, stages), (waves_m, waves_n, waves_k) in itertools.product(tiles, waves):
        for interleave, split_k in ((False, 1), (True, 1), (False, 4), (False, 8), (True, 4)):
            config = GemmConfig(
                tile_m=tile_m,
                tile_n=tile_n,
                tile_k=tile_k,
                stages=stages,
                waves_m=waves_m,
                waves_n=waves_n,
                group_m=4,
                waves_k=waves_k,
                split_k=split_k,
                interleave=interleave,
            )
            if invalid_reason(config) is None:
                space.append(config)
    return tuple(space)


def _resident_workgroups(c: GemmConfig) -> int:
    """Workgroups that share a compute unit, by LDS, registers and wave slots."""
    waves_per_simd = min(target.MAX_WAVES_PER_SIMD, target.VGPRS_PER_LANE // _vgprs(c))
    return max(1, min(target.LDS_BYTES // c.lds_bytes, waves_per_simd * target.SIMDS_PER_CU // c.waves))


def sharing_clocks(tile_m: int, tile_n: int, split_k: int) -> float:
    """Of workgroups that share a tile: parts go to memory, are counted, and come back to the last one, which is on
    another XCD than most. Fitted to the emulator's timing model."""
    part_bytes = tile_m * tile_n * 4
    return 4 * target.HBM_LATENCY_CLOCKS + (split_k + 1) * part_bytes / (target.L2_BYTES_PER_CLOCK / 4)


def estimated_clocks(problem: GemmProblem, config: GemmConfig) -> float:
    """A bound from throughputs: MFMA, LDS and L2 clocks of the busiest compute unit's workgroups, and HBM below all.

    The waves of a SIMD overlap their use of different units, and so does a wave whose schedule interleaves them; else a
    single wave does not. A K tile takes at least its share of the latency that loads ahead hide. Good for ordering
    candidates, not for predicting a time: configurations within 10% of each other are ties.
    """
    p, c = problem, config
    k_tiles = math.ceil(p.k / c.tile_k / c.split_k)
    workgroups = math.ceil(p.m / c.tile_m) * math.ceil(p.n / c.tile_n) * p.batch * c.split_k
    mfmas = c.tile_m * c.tile_n * c.tile_k // (MFMA_MN * MFMA_MN * MFMA_K)
    wave_rows = c.tile_m // c.waves_m + c.tile_n // c.waves_n
    # Masked rows cost no traffic.
    loaded = (min(c.tile_m, p.m) + min(c.tile_n, p.n)) * c.tile_k * ITEM_BYTES
    units = (
        mfmas * MFMA_CLOCKS / min(c.waves, target.SIMDS_PER_CU),
        (c.waves_m * c.waves_n * wave_rows * c.tile_k * ITEM_BYTES + c.stage_bytes) / target.LDS_BYTES_PER_CLOCK,
        loaded / target.L2_BYTES_PER_CLOCK,
    )
    per_unit = math.ceil(workgroups / target.COMPUTE_UNITS)  # workgroups of the busiest compute unit
    resident = min(_resident_workgroups(c), per_unit)
    overlapping = max(1.0, resident * c.waves / target.SIMDS_PER_CU) * (3 if c.interleave else 1)
    per_k_tile = max(units) + (sum(units) - max(units)) / overlapping
    per_k_tile = max(per_k_tile, target.HBM_LATENCY_CLOCKS / ((c.loaded_ahead + 1) * resident))
    rounds = math.ceil(per_unit / resident)
    operand_bytes = (p.m * p.k + p.n * p.k + p.m * p.n) * p.batch * ITEM_BYTES
    hbm_clocks = operand_bytes / target.HBM_BYTES_PER_SECOND * target.CLOCK_HZ
    clocks = max(per_unit * k_tiles * per_k_tile + rounds * target.HBM_LATENCY_CLOCKS, hbm_clocks)
    return clocks + (sharing_clocks(c.tile_m, c.tile_n, c.split_k) if c.split_k > 1 else 0)


def _preference(problem: GemmProblem, config: GemmConfig) -> tuple[float, int, int]:
    """Sort key. What the estimate does not see decides ties: deeper pipelines, and L2 reuse once the device is full."""
    full = problem.m * problem.n >= config.tile_m * config.tile_n * target.COMPUTE_UNITS
    return estimated_clocks(problem, config), -config.stages, -config.group_m if full else config.group_m


def _traffic(problem: GemmProblem, config: GemmConfig) -> float:
    """What all workgroups load for an element along K: of two configurations that take as long, less is safer."""
    tiles = math.ceil(problem.m / config.tile_m) * math.ceil(problem.n / config.tile_n)
    return tiles * (min(config.tile_m, problem.m) + min(config.tile_n, problem.n))


def _wasteful(problem: GemmProblem, config: GemmConfig) -> bool:
    """More than half of the tile's rows or columns would be padding, or K is split though the device is full anyway."""
    too_tall = config.tile_m > MFMA_MN and config.tile_m >= 2 * max(problem.m, 1)
    too_wide = config.tile_n > 64 and config.tile_n >= 2 * problem.n
    tiles = math.ceil(problem.m / config.tile_m) * math.ceil(problem.n / config.tile_n) * problem.batch
    return too_tall or too_wide or (config.split_k > 1 and tiles >= target.COMPUTE_UNITS)


def configs(problem: GemmProblem, exhaustive: bool = False) -> list[GemmConfig]:
    """Candidates to compile and time for this problem, most promising first by the estimate. Empty if unsupported."""
    if unsupported_reason(problem) is not None:
        return []
    space = _exhaustive_space() if exhaustive else DEFAULT_CONFIGS
    valid = [c for c in space if config_unsupported_reason(problem, c) is None]
    valid = [c for c in valid if not _wasteful(problem, c)] or valid
    valid.sort(key=lambda c: _preference(problem, c))
    # The estimate is no better than its worst case here; what it puts far behind is not worth a compile.
    least = estimated_clocks(problem, valid[0]) if valid else 0.0
    valid = [c for i, c in enumerate(valid) if i < FEWEST_CANDIDATES or estimated_clocks(problem, c) <= 3 * least]
    ties = sum(estimated_clocks(problem, c) <= 1.05 * least for c in valid)
    valid[:ties] = sorted(valid[:ties], key=lambda c: (c.split_k, _traffic(problem, c)))
    return valid[:EXHAUSTIVE_LIMIT]


def default_config(problem: GemmProblem) -> GemmConfig | None:
    """The configuration for when nothing is measured: least estimated clocks of the default list; None if none fits."""
    candidates = configs(problem)
    return candidates[0] if candidates else None


def spec_for(problem: GemmProblem, config: GemmConfig, arch: str) -> GemmSpec:
    """What to compile for a problem. Raises ValueError if the configuration or the architecture cannot do it."""
    reason = target.arch_unsupported_reason(arch) or config_unsupported_reason(problem, config)
    if reason is not None:
        raise ValueError(f"FlyDSL GEMM {config.name} cannot compute {problem}: {reason}")
    return GemmSpec(
        dtype=problem.dtype,
        config=config,
        arch=arch,
        k_tail=k_tail(problem, config),
        out_dtype=problem.out_dtype,
        a_layout=problem.a_layout,
        b_layout=problem.b_layout,
        epilogue=problem.epilogue,
    )


def k_tail(problem: GemmProblem, config: GemmConfig) -> bool:
    """Whether lanes beyond K must be masked. Where K leads from row to row, the descriptor's bound does it."""
    return problem.k % config.tile_k != 0 and "k" in (problem.a_layout, problem.b_layout)
