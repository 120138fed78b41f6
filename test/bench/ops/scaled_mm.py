"""MXFP8 and MXFP4 scaled GEMM: FlyDSL's default list beside Triton's dot_scaled and beside our own bf16 GEMM.

The shapes are the 17 of the published MI355X series for each format (test/bench/data/published_times.csv). Every
configuration is compiled for gfx950 and timed by the emulator's model alone, which executes a few workgroups and writes
nothing, in one process. Triton's are the candidates of bench/validation/launches.py, ours in bf16 those of `--op mm`.
The winners are then run for their values and under the hazard checker, on a product of two tiles and a bit.
"""

from __future__ import annotations

import contextlib
import math
import time
from dataclasses import dataclass
from typing import Any

# Before torch: mm sets the memory that timing-only launches do not touch and has torch see a gfx950.
from bench.ops import mm  # isort: skip

import torch
from rich.console import Console
from torch._inductor.kernel.flydsl import scaled_gemm, scaled_gemm_config, scaled_gemm_tile
from torch._inductor.kernel.flydsl.scaled_gemm_arguments import scaled_problem_of
from torch._native.flydsl import target

import gfx950_emulator
from bench.report import Goal, Report
from bench.validation import rows
from gfx950_emulator import benchmarking
from reference import scaled_mm as reference

FORMATS: dict[str, scaled_gemm_tile.Format] = {"mxfp8": "e4m3", "mxfp4": "e2m1"}
ARCH = target.SUPPORTED_ARCHS[0]
LARGE = 4096  # M, N and K from here on are held to a multiple of bf16's speed
DECODE = 32  # M up to here lives on the bandwidth of HBM, where a model's weights are
AGAINST_BF16 = {"mxfp8": 1.7, "mxfp4": 2.6}
BUSY = {"mxfp8": 0.8, "mxfp4": 0.7}


# A, B, A's scales, B's scales and C.
Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Timed:
    """A configuration's modelled time, and what the model says of it."""

    config: scaled_gemm_config.ScaledGemmConfig
    microseconds: float
    report: dict[str, Any]

    @property
    def conflict_clocks(self) -> float:
        return float(sum(i.get("conflict_cycles", 0) for i in self.report["instructions"]))

    @property
    def spills(self) -> int:
        return int(self.report["resources"]["vgpr_spills"])


def empty_operands(m: int, n: int, k: int, kind: scaled_gemm_tile.Format) -> Tensors:
    """A, B, their scales and C: device memory that nobody writes."""
    row_bytes = scaled_gemm_tile.Operands(kind, kind, True).row_bytes(k)[0]

    def of_bytes(rows: int, cols: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(rows, cols, dtype=torch.uint8, device="cuda").view(dtype)

    a, b = (of_bytes(size, row_bytes, reference.FORMATS[kind]) for size in (m, n))
    scale_a, scale_b = (of_bytes(size, k // 32, torch.float8_e8m0fnu) for size in (m, n))
    return a, b, scale_a, scale_b, torch.empty(m, n, dtype=torch.bfloat16, device="cuda")


def timed(tensors: Tensors, config: scaled_gemm_config.ScaledGemmConfig) -> Timed:
    spec = scaled_gemm_config.spec_for(scaled_problem_of(*tensors, "block32"), config, ARCH)
    compiled = scaled_gemm.compile_scaled_gemm(spec)
    stream = torch.cuda.current_stream().cuda_stream
    if config.split_k > 1:
        # Which workgroup comes last depends on a counter in memory, so these execute; their products are small.
        compiled(*tensors, stream)  # the counters are zeroed once
    with gfx950_emulator.timing_only() if config.split_k == 1 else contextlib.nullcontext():
        milliseconds = benchmarking.run_once(lambda: compiled(*tensors, stream))
    report = gfx950_emulator.report(spec.name)
    if report is None:
        raise RuntimeError(f"the timing model has no report of {spec.name}")
    return Timed(config, milliseconds * 1e3, report)


def fastest(tensors: Tensors) -> tuple[Timed, float]:
    """The best of the default list, and the time of the configuration taken by rule, where nothing is measured."""
    problem = scaled_problem_of(*tensors, "block32")
    rule = scaled_gemm_config.default_config(problem)
    found = [timed(tensors, config) for config in scaled_gemm_config.configs(problem)]
    by_rule = min((t.microseconds for t in found if t.config == rule), default=math.nan)
    return min(found, key=lambda t: t.microseconds), by_rule


def hbm_share(row: rows.Row, tensors: Tensors) -> float:
    """Bytes of a product over what HBM delivers in the time of the fastest configuration, the launch apart, when
    nothing of it is in the Infinity Cache: a model's weights do not fit there, so each decode step reads them from HBM.
    """
    with mm.environment(GFX950_TIMING_PARAMS="warm=0"):
        best, _ = fastest(tensors)
    busy = best.report["nanoseconds"] - best.report["launch_nanoseconds"]
    return float(row.bytes / (busy * float(gfx950_emulator.timing_parameters()["hbm_bytes_per_ns"]["value"])))


def hazards(config: scaled_gemm_config.ScaledGemmConfig, kind: scaled_gemm_tile.Format) -> str:
    """``0`` if the configuration computes a small product to the bit with the hazard checker on; else what it said."""
    c = config
    m, n, k = c.tile_m + 1, c.tile_n + 16, c.tile_k * (c.stages + 2 * c.scale_tiles) * c.split_k
    a, b = (reference.integer_operand(size, k, kind, size) for size in (m, n))
    scale_a, scale_b = (reference.random_scales(size, k, size, 126, 128) for size in (m, n))
    on_device = [x.view(torch.uint8).cuda().view(x.dtype) for x in (a, b, scale_a, scale_b)]
    out = torch.empty(m, n, dtype=torch.float32, device="cuda")
    tensors: Tensors = (on_device[0], on_device[1], on_device[2], on_device[3], out)
    problem = scaled_problem_of(*tensors, "block32")
    compiled = scaled_gemm.compile_scaled_gemm(scaled_gemm_config.spec_for(problem, c, ARCH))
    try:
        with mm.environment(GFX950_CHECK="2"):
            compiled(*tensors, torch.cuda.current_stream().cuda_stream)
            torch.cuda.synchronize()
    except RuntimeError as error:
        return str(error).splitlines()[0]
    exact, _ = reference.product_and_bound(a, b, scale_a, scale_b, torch.float32)
    return "0" if torch.equal(out.cpu().double(), exact) else "wrong values"


def run() -> Report:
    console = Console(stderr=True, highlight=False)
    started = time.monotonic()
    lines: list[list[str]] = []
    against_triton: list[float] = []
    against_rule: list[float] = []
    against_bf16: dict[str, list[float]] = {name: [] for name in FORMATS}
    busy: dict[str, float] = {}
    decode: list[tuple[str, float]] = []
    bf16: dict[tuple[int, int, int], float] = {}
    clean: dict[tuple[str, str], str] = {}
    conflicts, spills = 0.0, 0

    for row in [row for row in rows.load() if row.family == "MX GEMM"]:
        m, n, k = (row.sizes[name] for name in "MNK")
        console.print(f"{row.dtype} {m} x {n} x {k}, {time.monotonic() - started:.0f} s", style="dim")
        kind = FORMATS[row.dtype]
        tensors = empty_operands(m, n, k, kind)
        t, rule = fastest(tensors)
        triton = mm.triton_microseconds(row)
        if (m, n, k) not in bf16:
            bf16[m, n, k] = mm.fastest(m, n, k, "NT")[0].microseconds
        key = (t.config.name, kind)
        if key not in clean:
            clean[key] = hazards(t.config, kind)
        conflicts, spills = conflicts + t.conflict_clocks, spills + t.spills
        against_triton.append(triton / t.microseconds)
        against_rule.append(rule / t.microseconds)
        if min(m, n, k) >= LARGE:
            against_bf16[row.dtype].append(bf16[m, n, k] / t.microseconds)
        if (m, n, k) == (8192, 8192, 8192):
            busy[row.dtype] = float(t.report["main_loop"]["mfma_busy"])
        share = ""
        if m <= DECODE:
            decode.append((f"{row.dtype} {m}x{n}x{k}", hbm_share(row, tensors)))
            share = f"{decode[-1][1]:.2f}"
        tflops = row.flops / t.microseconds / 1e6
        lines.append(
            [
                f"{m}x{n}x{k} {row.dtype}",
                t.config.name,
                f"{t.microseconds:.1f}",
                f"{tflops:.0f}",
                f"{tflops * 1e3 / row.peak_flop_per_ns:.0%}",
                f"{row.value:.0f}",
                f"{triton / t.microseconds:.2f}",
                f"{bf16[m, n, k] / t.microseconds:.2f}",
                f"{rule / t.microseconds:.2f}",
                share,
                clean[key],
                f"{t.conflict_clocks:.0f}",
                f"{t.spills}",
            ]
        )

    def goal(name: str, value: float, relation: str, limit: float, source: str) -> Goal:
        return Goal(name=name, value=value, relation=relation, limit=limit, unit="", source=source)  # type: ignore[arg-type]

    def of_bf16(name: str) -> float:
        return mm.worst(against_bf16[name], largest=False)

    unclean = sum(said != "0" for said in clean.values())
    narrowest, least = min(decode, key=lambda each: each[1])
    return Report(
        op="scaled_mm",
        columns=[
            "M x N x K",
            "winner",
            "µs",
            "TFLOP/s",
            "peak",
            "published",
            "Triton",
            "bf16",
            "rule",
            "HBM",
            "hazards",
            "conflicts",
            "spills",
        ],
        rows=lines,
        goals=[
            *(
                goal(f"our bf16's time / {name}'s, M, N, K >= {LARGE}, worst", of_bf16(name), ">=", limit, "modelled")
                for name, limit in AGAINST_BF16.items()
            ),
            *(
                goal(f"MFMA busy in the main loop at 8192^3, {name}", busy[name], ">=", limit, "modelled")
                for name, limit in BUSY.items()
            ),
            goal("Triton's best time / ours, worst shape", mm.worst(against_triton, False), ">=", 0.95, "modelled"),
            goal(f"share of HBM at M <= {DECODE}, weights in HBM, least: {narrowest}", least, ">=", 0.8, "modelled"),
            goal("configuration by rule / best searched, worst", mm.worst(against_rule, True), "<=", 1.25, "modelled"),
            goal("winners with hazards or wrong values", unclean, "==", 0, "emulated"),
            goal("clocks lost to LDS bank conflicts, all winners", conflicts, "==", 0, "modelled"),
            goal("spilled VGPRs, all winners", spills, "==", 0, "counted"),
        ],
        notes=[
            "Times, TFLOP/s and shares are modelled; none was measured on a gfx950; gaps below 10% are ties.",
            "Block scales of 32, row-major. peak: share of the data sheet's 5.0 (MXFP8) and 10.1 PFLOP/s (MXFP4).",
            "Triton, bf16: the best time of dot_scaled and of our own bf16 GEMM in units of ours. rule: likewise, the",
            "configuration taken where nothing is measured. conflicts: clocks that LDS bank conflicts cost.",
            "HBM: with nothing in the Infinity Cache, all bytes over what HBM delivers in the time behind the launch.",
            "published: TFLOP/s of other FlyDSL kernels on an MI355X (pytorch#196719), for orientation.",
            f"Geometric mean against Triton: {mm.geometric_mean(against_triton):.2f}.",
            f"took {time.monotonic() - started:.0f} s",
        ],
    )
