"""Scaled GEMM: what the kernel accepts (may), which configurations are worth trying (how to search), and which one to
take when nothing is measured.

The problem is ``C[M, N] = epilogue((A * scales of A)[M, K] @ (B * scales of B)[N, K]^T)`` with operands of 8 or 4 bits,
K contiguous in both. Scales come in one of three recipes:

- ``block32``: OCP's MX formats. One E8M0 exponent for each 32 elements along K: bytes [M, K/32] and [N, K/32].
- ``row``: one fp32 number for each row of A and each row of B (column of the product).
- ``tensor``: one fp32 number for each operand.

Importable without flydsl.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from typing import Any, Literal

from torch._native.flydsl import target

from . import epilogue_expr
from .epilogue_expr import Epilogue as Epilogue
from .epilogue_expr import EpilogueInput as EpilogueInput  # generated modules import all of a spec from here
from .epilogue_expr import InputStrides
from .gemm_config import (
    ADDRESS_LIMIT,
    CHUNK_BYTES,
    DMA_BYTES,
    INT32_LIMIT,
    ITEM_BYTES,
    OUT_ITEM_BYTES,
    SPAN_LIMIT,
    TILE_SPAN_LIMIT,
    OutDType,
    sharing_clocks,
)
from .gemm_config import unavailable_reason as unavailable_reason
from .scaled_gemm_tile import BITS, BLOCK, MFMA_K, SCALE_K, Format, Operands, Stage
from .scaled_gemm_tile import ScaledGemmConfig as ScaledGemmConfig

Recipe = Literal["block32", "row", "tensor"]
RECIPES = ("block32", "row", "tensor")
EXHAUSTIVE_LIMIT = 63  # compiles a shape: under 64
LINE_BYTES = 128  # of L2: what a row's scales for one K tile are a few bytes of
BARRIER_CLOCKS = 150  # a K tile's barrier with nothing else to run; modelled at 8192^3


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScaledGemmProblem:
    """Sizes in elements (``k`` as the formats count, also where two share a byte); ``lda``, ``ldb`` and the strides of
    block scales in bytes, ``ldc`` in elements. ``epilogue_strides`` has an entry for each of the epilogue's inputs.

    Scales of rows and tensors are the first two inputs of ``full_epilogue``, ``epilogue`` sees the scaled product.
    ``scale_a_stride`` and ``scale_b_stride`` lead from row to row of the scales, whatever the recipe.
    """

    m: int
    n: int
    k: int
    a_format: Format
    b_format: Format
    out_dtype: OutDType
    recipe: Recipe
    lda: int
    ldb: int
    ldc: int
    scale_a_stride: int = 0
    scale_b_stride: int = 0
    epilogue: Epilogue = epilogue_expr.IDENTITY
    epilogue_strides: tuple[InputStrides, ...] = ()

    @property
    def operands(self) -> Operands:
        return Operands(self.a_format, self.b_format, self.recipe == "block32")

    @property
    def full_epilogue(self) -> Epilogue:
        return full_epilogue(self.recipe, self.epilogue)

    @property
    def full_strides(self) -> tuple[InputStrides, ...]:
        if self.recipe == "block32":
            return self.epilogue_strides
        return (InputStrides(row=self.scale_a_stride), InputStrides(), *self.epilogue_strides)


def full_epilogue(recipe: Recipe, epilogue: Epilogue) -> Epilogue:
    """With the scales of rows or tensors, the first two inputs, multiplied in before ``epilogue``'s first step."""
    if recipe == "block32":
        return epilogue
    kinds: tuple[Any, Any] = ("column", "row") if recipe == "row" else ("scalar", "scalar")
    scales = [EpilogueInput(dtype="fp32", kind=kind) for kind in kinds]
    steps: list[epilogue_expr.Step] = [("acc",), ("input", 0), ("mul", 0, 1), ("input", 1), ("mul", 2, 3)]
    numbers: list[int] = []
    for op, *args in epilogue.steps:
        if op == "acc":
            numbers.append(4)
            continue
        if op == "input":
            moved: epilogue_expr.Step = (op, int(args[0]) + 2)
        elif op == "to":
            moved = (op, numbers[int(args[0])], args[1])
        elif op == "const":
            moved = (op, *args)
        else:
            moved = (op, *[numbers[int(arg)] for arg in args])
        numbers.append(len(steps))
        steps.append(moved)
    if numbers[-1] != len(steps) - 1:  # the last step is the scaled product itself, behind steps that nobody needs
        steps = steps[: numbers[-1] + 1]
    return Epilogue(inputs=(*scales, *epilogue.inputs), steps=tuple(steps))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScaledGemmSpec:
    """Everything that is fixed when the kernel is compiled. Sizes and strides are run-time values."""

    a_format: Format
    b_format: Format
    out_dtype: OutDType
    recipe: Recipe
    config: ScaledGemmConfig
    arch: str
    k_tail: bool  # K is not a multiple of tile_k: the last K tile's loads are masked per lane
    epilogue: Epilogue = epilogue_expr.IDENTITY

    @property
    def operands(self) -> Operands:
        return Operands(self.a_format, self.b_format, self.recipe == "block32")

    @property
    def stage(self) -> Stage:
        return Stage(self.config, self.operands)

    @property
    def full_epilogue(self) -> Epilogue:
        return full_epilogue(self.recipe, self.epilogue)

    @property
    def name(self) -> str:
        parts = [
            f"scaled_gemm_{self.recipe}_{self.a_format}_{self.b_format}",
            self.out_dtype,
            self.config.name,
            "ktail" if self.k_tail else "",
            self.epilogue.name,
        ]
        return "_".join(part for part in parts if part)

    @property
    def key(self) -> tuple[object, ...]:
        """Explicit and equal in every process; what it does not name must not change the code."""
        return (
            "scaled_gemm",
            self.arch,
            self.a_format,
            self.b_format,
            self.out_dtype,
            self.recipe,
            self.k_tail,
            self.epilogue.key,
            *dataclasses.astuple(self.config),
        )


# ---- may -------------------------------------------------------------------------------------------------------------


def unsupported_reason(problem: ScaledGemmProblem) -> str | None:
    """Why no configuration computes this problem; None if some may. Python integers throughout: no overflow."""
    return _kind_unsupported_reason(problem) or _size_unsupported_reason(problem) or _span_unsupported_reason(problem)


def _kind_unsupported_reason(p: ScaledGemmProblem) -> str | None:
    for name, kind in (("A", p.a_format), ("B", p.b_format)):
        if kind not in BITS:
            return f"{name}'s format {kind} is not one of {', '.join(BITS)}"
    if p.out_dtype not in OUT_ITEM_BYTES:
        return f"out_dtype {p.out_dtype} is not one of {', '.join(OUT_ITEM_BYTES)}"
    if p.recipe not in RECIPES:
        return f"recipe {p.recipe} is not one of {', '.join(RECIPES)}"
    if p.recipe != "block32" and "e2m1" in (p.a_format, p.b_format):
        return f"{p.a_format} x {p.b_format} with scales of {p.recipe}s: 4-bit elements come with block32 scales"
    reason = epilogue_expr.invalid_reason(p.epilogue) or epilogue_expr.invalid_reason(p.full_epilogue)
    if reason is not None:
        return reason
    if len(p.epilogue_strides) != len(p.epilogue.inputs):
        return f"strides of {len(p.epilogue_strides)} epilogue inputs, there are {len(p.epilogue.inputs)}"
    return None


def _size_unsupported_reason(p: ScaledGemmProblem) -> str | None:
    for name, size in (("M", p.m), ("N", p.n), ("K", p.k)):
        if size <= 0:
            return f"{name}={size}: an empty product has no tile to compute"
        if size >= INT32_LIMIT:
            return f"{name}={size} is not below 2^31: the kernel counts in 32 bits"
    if p.n % 16:
        return f"N={p.n} is not a multiple of 16"
    if p.recipe == "block32" and p.k % SCALE_K:
        return f"K={p.k} is not a multiple of {SCALE_K}: LDS DMA moves dwords, four scales of {BLOCK} elements each"
    a_bytes, b_bytes = p.operands.row_bytes(p.k)
    if a_bytes % CHUNK_BYTES or b_bytes % CHUNK_BYTES:
        return f"K={p.k} is not a multiple of {CHUNK_BYTES} bytes, which loads move a lane"
    scales = p.k // BLOCK if p.recipe == "block32" else 1
    for name, rows, row_bytes, stride, unit in (
        ("A", p.m, a_bytes, p.lda, CHUNK_BYTES),
        ("B", p.n, b_bytes, p.ldb, CHUNK_BYTES),
        ("A's scales", p.m, scales, p.scale_a_stride, 4),
        ("B's scales", p.n, scales, p.scale_b_stride, 4),
    ):
        if rows == 1 or (scales == 1 and "scales" in name):
            continue  # the stride is never used, or is an epilogue input's
        if stride < row_bytes:
            return f"{name}: row stride {stride} is below its {row_bytes} bytes: rows overlap"
        if stride % unit:
            return f"{name}: row stride {stride} is not a multiple of {unit} bytes"
        if stride >= INT32_LIMIT:
            return f"{name}: row stride {stride} is not below 2^31: the kernel counts in 32 bits"
    if p.recipe == "row" and p.n > 1 and p.scale_b_stride not in (0, 1):
        return f"B's scales are {p.scale_b_stride} elements apart, not contiguous"
    per_store = CHUNK_BYTES // ITEM_BYTES
    if p.m > 1 and (p.ldc < p.n or p.ldc % per_store or p.ldc >= INT32_LIMIT):
        return f"C: row stride {p.ldc} is below N={p.n}, not a multiple of {per_store} elements, or not below 2^31"
    return None


def _span_unsupported_reason(p: ScaledGemmProblem) -> str | None:
    a_bytes, b_bytes = p.operands.row_bytes(p.k)
    c_item = OUT_ITEM_BYTES[p.out_dtype]
    spans = [
        ("A", p.m, a_bytes, p.lda),
        ("B", p.n, b_bytes, p.ldb),
        ("C", p.m, p.n * c_item, p.ldc * c_item),
    ]
    if p.recipe == "block32":
        spans += [
            ("A's scales", p.m, p.k // BLOCK, p.scale_a_stride),
            ("B's scales", p.n, p.k // BLOCK, p.scale_b_stride),
        ]
    for name, rows, row_bytes, stride in spans:
        span = (rows - 1) * stride + row_bytes
        if span >= min(SPAN_LIMIT, ADDRESS_LIMIT):
            return (
                f"{name} spans ({rows}-1)*{stride}+{row_bytes} = {span} bytes, not below 2^32: "
                "buffer offsets are 32 bits"
            )
    for i, (operand, strides) in enumerate(zip(p.full_epilogue.inputs, p.full_strides, strict=True)):
        reason = epilogue_expr.input_unsupported_reason(f"epilogue input {i}", operand, strides, p.m, p.n, 1)
        if reason is not None:
            return reason
    return None


@functools.cache
def invalid_reason(config: ScaledGemmConfig, operands: Operands) -> str | None:
    """Why a configuration cannot be built for these operands; None if it can. Each clause says its hardware reason."""
    c = config
    for field in ("tile_m", "tile_n", "tile_k", "stages", "waves_m", "waves_n", "waves_k", "split_k", "scale_tiles"):
        if getattr(c, field) < 1:
            return f"{field}={getattr(c, field)} is not positive"
    if c.group_m < 0:
        return f"group_m={c.group_m} is negative"
    if c.stages < 2:
        return f"stages={c.stages}: loads of the next K tile need a second LDS buffer"
    if c.mfma_rows not in MFMA_K:
        return f"mfma_rows={c.mfma_rows}: the scaled MFMAs compute 16x16 or 32x32"
    if c.mfma_rows == 32 and c.waves_k > 1:
        return f"waves_k={c.waves_k} with 32x32 MFMAs: waves add up tiles of 16x16"
    if c.threads > target.MAX_WORKGROUP_SIZE:
        return f"{c.waves} waves are {c.threads} threads, over {target.MAX_WORKGROUP_SIZE} of a workgroup"
    for field in ("tile_m", "tile_n", "tile_k", "waves_k", "scale_tiles"):
        if getattr(c, field).bit_count() != 1:
            return f"{field}={getattr(c, field)} is not a power of two, which the LDS swizzle permutes"
    for field, waves in (("tile_m", c.waves_m), ("tile_n", c.waves_n)):
        if getattr(c, field) % (waves * c.mfma_rows):
            arithmetic = f"waves*{c.mfma_rows}={waves * c.mfma_rows}"
            return f"{field}={getattr(c, field)} is not a multiple of {arithmetic} (MFMA {c.mfma_rows}x{c.mfma_rows})"
    if c.tile_k % (c.waves_k * c.mfma_k) or c.tile_k % SCALE_K:
        least = max(c.waves_k * c.mfma_k, SCALE_K)
        return f"tile_k={c.tile_k} is not a multiple of {least} (MFMA depth {c.mfma_k}, scales by the dword)"
    stage = Stage(c, operands)
    if operands.block_scales and stage.window * c.mfma_k % SCALE_K:
        return f"{c.steps} MFMA steps of {c.mfma_k} a wave share no dword of scales ({SCALE_K} elements)"
    for name, tile_bytes, row_bytes in zip(
        "AB", (stage.a_bytes, stage.b_bytes), operands.row_bytes(c.tile_k), strict=True
    ):
        if row_bytes < 128 and c.mfma_rows == 16:
            return f"{name}: rows of {row_bytes} bytes in LDS, below 128: 16 lanes would meet in a bank"
        if tile_bytes % (DMA_BYTES * c.waves):
            return (
                f"{name} tile is {tile_bytes} bytes, not a multiple of {c.waves} waves x {DMA_BYTES}: "
                "every wave must issue as many LDS DMA loads as the others, for s_waitcnt counts them"
            )
    if stage.scale_tiles > 1:
        if not (c.interleave and c.stages == 2):
            return f"scale_tiles={c.scale_tiles}: scales are loaded ahead in the interleaved schedule of two stages"
        rows = min(c.tile_m, c.tile_n) // c.scale_tiles
        if rows % 32 or rows * stage.scale_dwords % target.WAVE_SIZE or sum(stage.scale_runs) % c.waves:
            return f"scale_tiles={c.scale_tiles}: parts of {rows} rows are not whole LDS DMA loads for all waves"
    if stage.lds_bytes > target.LDS_BYTES:
        return f"{c.stages} stages x {stage.bytes} = {stage.lds_bytes} bytes of LDS, over {target.LDS_BYTES}"
    first = (stage.scale_tiles - 1) * stage.scale_loads
    outstanding = c.loaded_ahead * stage.loads + first
    if outstanding > target.VMCNT_MAX:
        arithmetic = f"{c.loaded_ahead}*{stage.loads}+{first} = {outstanding}"
        return f"{arithmetic} outstanding loads a wave, over {target.VMCNT_MAX} that vmcnt counts"
    registers, budget = _vgprs(c, operands), target.VGPRS_PER_LANE // math.ceil(c.waves / target.SIMDS_PER_CU)
    if registers > budget:
        shared = f"{c.waves} waves on {target.SIMDS_PER_CU} SIMDs"
        return f"about {registers} VGPRs a lane, over {budget} for {shared}: it would spill"
    return None


def _vgprs(c: ScaledGemmConfig, operands: Operands) -> int:
    """Registers a lane needs: accumulators, fragments and scales of one or two MFMA steps, addresses, temporaries."""
    tiles_m, tiles_n = c.tile_m // c.waves_m // c.mfma_rows, c.tile_n // c.waves_n // c.mfma_rows
    each_a, each_b = (c.mfma_rows * c.mfma_k * BITS[kind] // 8 // 256 for kind in (operands.a, operands.b))
    fragments = tiles_m * each_a + tiles_n * each_b
    scales = (tiles_m + tiles_n) if operands.block_scales else 0
    steps_held = 2 if c.interleave or (c.steps > 1 and tiles_m * tiles_n > 1) else 1
    accumulators = tiles_m * tiles_n * c.mfma_rows**2 // target.WAVE_SIZE
    halves = max(BITS[operands.a], BITS[operands.b]) // 4
    others = 8 if c.interleave else 24  # the hints of the interleaved schedule leave the compiler less to hoist
    addresses = Stage(c, operands).loads + halves * c.steps + others
    return accumulators + fragments * steps_held + scales + addresses


def config_unsupported_reason(problem: ScaledGemmProblem, config: ScaledGemmConfig) -> str | None:
    """Why this configuration cannot compute this problem, with the arithmetic; None if it can."""
    p, c = problem, config
    reason = unsupported_reason(p) or invalid_reason(c, p.operands)
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
    a_bytes, b_bytes = p.operands.row_bytes(p.k)
    c_item = OUT_ITEM_BYTES[p.out_dtype]
    for name, rows, row_bytes, stride in (
        ("A", c.tile_m, a_bytes, p.lda),
        ("B", c.tile_n, b_bytes, p.ldb),
        ("C", c.tile_m, p.n * c_item, p.ldc * c_item),
        ("A's scales", c.tile_m, p.k // BLOCK, p.scale_a_stride),
        ("B's scales", c.tile_n, p.k // BLOCK, p.scale_b_stride),
    ):
        span = rows * stride + row_bytes
        if span >= TILE_SPAN_LIMIT:
            return f"{name}: a tile of {rows} rows spans {span} bytes, not below 2^31, where masked lanes point"
    threads = math.ceil(p.m / c.tile_m) * math.ceil(p.n / c.tile_n) * c.threads
    if threads >= SPAN_LIMIT:
        return f"the grid has {threads} threads, not below 2^32"
    return None


def k_tail(problem: ScaledGemmProblem, config: ScaledGemmConfig) -> bool:
    """Whether lanes beyond K must be masked."""
    return problem.k % config.tile_k != 0


def spec_for(problem: ScaledGemmProblem, config: ScaledGemmConfig, arch: str) -> ScaledGemmSpec:
    """What to compile for a problem. Raises ValueError if the configuration or the architecture cannot do it."""
    reason = target.arch_unsupported_reason(arch) or config_unsupported_reason(problem, config)
    if reason is not None:
        raise ValueError(f"FlyDSL scaled GEMM {config.name} cannot compute {problem}: {reason}")
    return ScaledGemmSpec(
        a_format=problem.a_format,
        b_format=problem.b_format,
        out_dtype=problem.out_dtype,
        recipe=problem.recipe,
        config=config,
        arch=arch,
        k_tail=k_tail(problem, config),
        epilogue=problem.epilogue,
    )


# ---- how to search ---------------------------------------------------------------------------------------------------

# The four waves of a workgroup take all of its tile and a quarter of each K tile: least traffic between LDS and waves.
_ALONG_K: dict[str, Any] = {"waves_m": 1, "waves_n": 1, "waves_k": 4}
# Four waves of 64 x 64, eight of 128 x 64. The latter fill LDS but for the scales of 1024 elements along K.
_FOUR: dict[str, Any] = {"waves_m": 2, "waves_n": 2, "stages": 2, "group_m": 4, "interleave": True, "mfma_rows": 32}
_EIGHT: dict[str, Any] = {**_FOUR, "waves_n": 4}
# Modelled, not measured: the best of a sweep over tiles, stages and waves with the emulator's timing model, in MXFP8
# and MXFP4, for the published shapes on MI355X (M 32 to 8192); with M = 32 the weights come from HBM. Which of them an
# operand's bits allow, invalid_reason says: a row of a K tile has at least 128 bytes, two stages fit in LDS.
DEFAULT_CONFIGS: tuple[ScaledGemmConfig, ...] = (
    # few rows: bandwidth
    ScaledGemmConfig(tile_m=16, tile_n=16, tile_k=512, stages=4, group_m=1, interleave=True, **_ALONG_K),
    ScaledGemmConfig(tile_m=16, tile_n=16, tile_k=512, stages=4, group_m=1, interleave=True, split_k=4, **_ALONG_K),
    ScaledGemmConfig(tile_m=16, tile_n=16, tile_k=1024, stages=4, group_m=1, interleave=True, **_ALONG_K),
    ScaledGemmConfig(tile_m=32, tile_n=16, tile_k=512, stages=4, group_m=4, interleave=True, **_ALONG_K),
    ScaledGemmConfig(
        tile_m=32, tile_n=16, tile_k=1024, stages=4, group_m=4, interleave=True, waves_m=2, waves_n=1, waves_k=2
    ),
    ScaledGemmConfig(tile_m=32, tile_n=16, tile_k=128, stages=3, group_m=4, interleave=True, waves_m=1, waves_n=1),
    ScaledGemmConfig(tile_m=32, tile_n=16, tile_k=256, stages=3, group_m=4, interleave=True, waves_m=1, waves_n=1),
    ScaledGemmConfig(tile_m=32, tile_n=32, tile_k=128, stages=4, group_m=4, interleave=True, waves_m=2, waves_n=1),
    ScaledGemmConfig(tile_m=32, tile_n=32, tile_k=256, stages=4, group_m=4, interleave=True, waves_m=2, waves_n=1),
    ScaledGemmConfig(tile_m=32, tile_n=32, tile_k=128, stages=2, waves_m=1, waves_n=1, mfma_rows=32),  # for every K
    ScaledGemmConfig(tile_m=32, tile_n=64, tile_k=256, stages=4, group_m=4, interleave=True, waves_m=1, waves_n=2),
    # middle: enough workgroups to fill 256 compute units
    ScaledGemmConfig(
        tile_m=32, tile_n=32, tile_k=512, stages=4, group_m=4, interleave=True, waves_m=2, waves_n=1, waves_k=2
    ),
    ScaledGemmConfig(
        tile_m=32, tile_n=32, tile_k=1024, stages=4, group_m=4, interleave=True, waves_m=2, waves_n=1, waves_k=2
    ),
    ScaledGemmConfig(
        tile_m=32, tile_n=64, tile_k=512, stages=3, group_m=4, interleave=True, waves_m=1, waves_n=2, waves_k=2
    ),
    ScaledGemmConfig(
        tile_m=32, tile_n=64, tile_k=1024, stages=3, group_m=4, interleave=True, waves_m=1, waves_n=2, waves_k=2
    ),
    ScaledGemmConfig(tile_m=64, tile_n=64, tile_k=256, stages=3, group_m=4, interleave=True, waves_m=1, waves_n=2),
    ScaledGemmConfig(
        tile_m=64, tile_n=64, tile_k=256, stages=2, group_m=4, interleave=True, waves_m=2, waves_n=1, waves_k=2
    ),
    ScaledGemmConfig(
        tile_m=64, tile_n=64, tile_k=512, stages=4, group_m=4, interleave=True, waves_m=1, waves_n=2, waves_k=2
    ),
    # large: operand reuse
    ScaledGemmConfig(tile_m=128, tile_n=128, tile_k=128, stages=2, group_m=4, interleave=True, waves_m=2, waves_n=2),
    ScaledGemmConfig(tile_m=128, tile_n=128, tile_k=128, scale_tiles=4, **_FOUR),
    ScaledGemmConfig(tile_m=128, tile_n=128, tile_k=256, scale_tiles=4, **_FOUR),
    ScaledGemmConfig(tile_m=128, tile_n=128, tile_k=512, scale_tiles=4, **_FOUR),
    ScaledGemmConfig(
        tile_m=256, tile_n=128, tile_k=128, stages=2, group_m=4, interleave=True, waves_m=4, waves_n=1, mfma_rows=32
    ),
    ScaledGemmConfig(
        tile_m=256, tile_n=128, tile_k=128, stages=3, group_m=4, interleave=True, waves_m=4, waves_n=1, mfma_rows=32
    ),
    ScaledGemmConfig(tile_m=256, tile_n=256, tile_k=128, scale_tiles=8, **_EIGHT),
    ScaledGemmConfig(tile_m=256, tile_n=256, tile_k=256, scale_tiles=4, **_EIGHT),
)


@functools.cache
def _exhaustive_space(operands: Operands) -> tuple[ScaledGemmConfig, ...]:
    """Of the interleaved schedule: the sweep that the default list comes from found none better without."""
    tiles = itertools.product((16, 32, 64, 128, 256), (16, 32, 64, 128, 256), (128, 256, 512, 1024), (2, 3, 4))
    waves = (
        (1, 1, 1),
        (1, 1, 4),
        (2, 1, 1),
        (2, 1, 2),
        (1, 2, 1),
        (1, 2, 2),
        (2, 2, 1),
        (4, 1, 1),
        (1, 4, 1),
        (2, 4, 1),
    )
    space = dict.fromkeys(DEFAULT_CONFIGS)
    for (tile_m, tile_n, tile_k, stages), (waves_m, waves_n, waves_k) in itertools.product(tiles, waves):
        for mfma_rows, scale_tiles, split_k in ((16, 1, 1), (32, 1, 1), (32, 4, 1), (16, 1, 4)):
            config = ScaledGemmConfig(
                tile_m=tile_m,
                tile_n=tile_n,
                tile_k=tile_k,
                stages=stages,
                waves_m=waves_m,
                waves_n=waves_n,
                group_m=4,
                waves_k=waves_k,
                split_k=split_k,
                interleave=True,
                mfma_rows=mfma_rows,
                scale_tiles=scale_tiles,
            )
            space[config] = None
    return tuple(config for config in space if invalid_reason(config, operands) is None)


def estimated_clocks(problem: ScaledGemmProblem, config: ScaledGemmConfig) -> float:
    """A bound from throughputs, as gemm_config.estimated_clocks; scales count as the lines that hold them."""
    p, c, operands = problem, config, problem.operands
    stage = Stage(c, operands)
    k_tiles = math.ceil(p.k / c.tile_k / c.split_k)
    workgroups = math.ceil(p.m / c.tile_m) * math.ceil(p.n / c.tile_n) * c.split_k
    row_a, row_b = operands.row_bytes(c.tile_k)
    clocks = 32 if 8 in (BITS[p.a_format], BITS[p.b_format]) else 16  # of 16x16x128, or half of 32x32x64
    mfma = c.tile_m * c.tile_n * c.tile_k // (16 * 16 * 128) * clocks / min(c.waves, target.SIMDS_PER_CU)
    wave_bytes = c.tile_m // c.waves_m * row_a + c.tile_n // c.waves_n * row_b
    lds = (c.waves_m * c.waves_n * wave_bytes + stage.bytes) / target.LDS_BYTES_PER_CLOCK
    rows = min(c.tile_m, p.m) * row_a + min(c.tile_n, p.n) * row_b
    lines = 0
    if operands.block_scales:
        lines = (min(c.tile_m, p.m) + min(c.tile_n, p.n)) * LINE_BYTES // stage.scale_tiles
    units = (mfma, lds, (rows + lines) / target.L2_BYTES_PER_CLOCK)
    per_unit = math.ceil(workgroups / target.COMPUTE_UNITS)
    resident = min(_resident_workgroups(c, operands), per_unit)
    overlapping = max(1.0, resident * c.waves / target.SIMDS_PER_CU) * (3 if c.interleave else 1)
    per_k_tile = max(units) + (sum(units) - max(units)) / overlapping
    per_k_tile += BARRIER_CLOCKS / resident
    per_k_tile = max(per_k_tile, target.HBM_LATENCY_CLOCKS / ((c.loaded_ahead + 1) * resident))
    rounds = math.ceil(per_unit / resident)
    total_a, total_b = operands.row_bytes(p.k)
    hbm_bytes = p.m * total_a + p.n * total_b + p.m * p.n * OUT_ITEM_BYTES[p.out_dtype]
    hbm_clocks = hbm_bytes / target.HBM_BYTES_PER_SECOND * target.CLOCK_HZ
    total = max(per_unit * k_tiles * per_k_tile + rounds * target.HBM_LATENCY_CLOCKS, hbm_clocks)
    return total + (sharing_clocks(c.tile_m, c.tile_n, c.split_k) if c.split_k > 1 else 0)


def _resident_workgroups(c: ScaledGemmConfig, operands: Operands) -> int:
    """Workgroups that share a compute unit, by LDS, registers and wave slots."""
    waves_per_simd = min(target.MAX_WAVES_PER_SIMD, target.VGPRS_PER_LANE // _vgprs(c, operands))
    by_lds = target.LDS_BYTES // Stage(c, operands).lds_bytes
    return max(1, min(by_lds, waves_per_simd * target.SIMDS_PER_CU // c.waves))


def _preference(problem: ScaledGemmProblem, config: ScaledGemmConfig) -> tuple[float, int, int]:
    """Sort key. What the estimate does not see decides ties: deeper pipelines, and L2 reuse once the device is full."""
    full = problem.m * problem.n >= config.tile_m * config.tile_n * target.COMPUTE_UNITS
    return estimated_clocks(problem, config), -config.stages, -config.group_m if full else config.group_m


def _wasteful(problem: ScaledGemmProblem, config: ScaledGemmConfig) -> bool:
    """More than half of the tile's rows or columns would be padding, or K is split though the device is full anyway."""
    too_tall = config.tile_m > 32 and config.tile_m >= 2 * max(problem.m, 1)
    too_wide = config.tile_n > 64 and config.tile_n >= 2 * problem.n
    tiles = math.ceil(problem.m / config.tile_m) * math.ceil(problem.n / config.tile_n)
    return too_tall or too_wide or (config.split_k > 1 and tiles >= target.COMPUTE_UNITS)


def configs(problem: ScaledGemmProblem, exhaustive: bool = False) -> list[ScaledGemmConfig]:
    """Candidates to compile and time for this problem, most promising first by the estimate. Empty if unsupported."""
    if unsupported_reason(problem) is not None:
        return []
    space = _exhaustive_space(problem.operands) if exhaustive else DEFAULT_CONFIGS
    valid = [c for c in space if config_unsupported_reason(problem, c) is None]
    valid = [c for c in valid if not _wasteful(problem, c)] or valid
    valid.sort(key=lambda c: _preference(problem, c))
    # The estimate is no better than its worst case here; what it puts far behind is not worth a compile.
    least = estimated_clocks(problem, valid[0]) if valid else 0.0
    return [c for c in valid if estimated_clocks(problem, c) <= 3 * least][:EXHAUSTIVE_LIMIT]


def default_config(problem: ScaledGemmProblem) -> ScaledGemmConfig | None:
    """The configuration for when nothing is measured: least estimated clocks of the default list; None if none fits."""
    candidates = configs(problem)
    return candidates[0] if candidates else None
