"""Dense GEMM in bf16: FlyDSL's default list beside Inductor's Triton template, on the published shapes.

The shapes are the 15 of the published MI355X series (test/bench/data/published_times.csv). Every configuration is
compiled for gfx950 and timed by the emulator's model alone, which executes a few workgroups and writes nothing, in one
process. Triton's are the candidates of bench/validation/launches.py. The winners are then run for their values and
under the hazard checker, on a product of two tiles and a bit.
"""

from __future__ import annotations

import dataclasses
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from bench.report import Goal, Report

# Nothing is written to the tensors of a timing-only launch, so that they need no memory of the host.
os.environ.setdefault("GFX950_MEMORY_LIMIT", "288G")
# Before torch: it is what makes a CPU-only torch see a gfx950.
import gfx950_emulator  # isort: skip

import torch
from rich.console import Console
from torch._inductor.kernel.flydsl import gemm, gemm_config
from torch._native.flydsl import target

from bench.validation import launches, rows
from gfx950_emulator import benchmarking
from reference import mm as reference

BF16 = torch.bfloat16
PEAK_TFLOPS = rows.PEAK_FLOP_PER_NS["bf16"] / 1e3
# As BLAS names them, and which dimension of A and B is contiguous.
LAYOUTS = {"NT": ("k", "k"), "NN": ("k", "n"), "TN": ("m", "n"), "TT": ("m", "k")}
# Held to the same time in all layouts; the others are shown in NT alone.
LAYOUT_SHAPES = ((16, 4096, 4096), (64, 4096, 4096), (256, 4096, 4096), (1024, 4096, 4096), (4096, 4096, 4096))
DECODE = (8, 4096, 4096)  # lives on the bandwidth of HBM, where a model's weights are
# Fewer tiles of C than compute units: workgroups share tiles along K.
FEW_TILES = ((16, 512, 16384), (16, 1024, 8192), (32, 512, 16384))
COLD = (1024, 4096, 4096)  # compiled from nothing with the whole list, and again from FlyDSL's cache


@dataclasses.dataclass(frozen=True)
class Timed:
    """A configuration's modelled time, and what the model says of it."""

    config: gemm_config.GemmConfig
    layout: str
    microseconds: float
    report: dict[str, Any]

    @property
    def spills(self) -> float:
        return float(self.report["resources"]["vgpr_spills"])

    @property
    def conflict_clocks(self) -> float:
        return float(sum(i.get("conflict_cycles", 0) for i in self.report["instructions"]))


def problem_of(m: int, n: int, k: int, layout: str) -> gemm_config.GemmProblem:
    a_layout, b_layout = LAYOUTS[layout]
    return gemm_config.GemmProblem(
        m=m,
        n=n,
        k=k,
        dtype="bf16",
        lda=k if a_layout == "k" else m,
        ldb=k if b_layout == "k" else n,
        ldc=n,
        a_layout=a_layout,  # type: ignore[arg-type]
        b_layout=b_layout,  # type: ignore[arg-type]
    )


def empty(rows: int, cols: int, row_major: bool) -> torch.Tensor:
    size = (rows, cols) if row_major else (cols, rows)
    tensor = torch.empty(size, dtype=BF16, device="cuda")
    return tensor if row_major else tensor.T


def timed(problem: gemm_config.GemmProblem, config: gemm_config.GemmConfig, layout: str) -> Timed:
    p = problem
    spec = gemm_config.spec_for(p, config, target.SUPPORTED_ARCHS[0])
    compiled = gemm.compile_gemm(spec)
    a, b = empty(p.m, p.k, p.a_layout == "k"), empty(p.n, p.k, p.b_layout == "k")
    out = torch.empty(p.m, p.n, dtype=BF16, device="cuda")
    stream = torch.cuda.current_stream().cuda_stream
    if config.split_k > 1:
        # Which workgroup comes last depends on a counter in memory, so these execute; their products are small.
        compiled(a, b, out, stream)  # the counters are zeroed once
        milliseconds = benchmarking.run_once(lambda: compiled(a, b, out, stream))
    else:
        with gfx950_emulator.timing_only():
            milliseconds = benchmarking.run_once(lambda: compiled(a, b, out, stream))
    report = gfx950_emulator.report(spec.name)
    if report is None:
        raise RuntimeError(f"the timing model has no report of {spec.name}")
    return Timed(config, layout, milliseconds * 1e3, report)


def fastest(m: int, n: int, k: int, layout: str) -> tuple[Timed, float]:
    """The best of the default list, and the time of the configuration taken by rule, where nothing is measured."""
    problem = problem_of(m, n, k, layout)
    rule = gemm_config.default_config(problem)
    found = [timed(problem, config, layout) for config in gemm_config.configs(problem)]
    by_rule = min((t.microseconds for t in found if t.config == rule), default=math.nan)
    return min(found, key=lambda t: t.microseconds), by_rule


def alone_configs(problem: gemm_config.GemmProblem) -> list[gemm_config.GemmConfig]:
    """Of the default list, all that compute a tile in one workgroup."""
    return [
        config
        for config in gemm_config.DEFAULT_CONFIGS
        if config.split_k == 1 and gemm_config.config_unsupported_reason(problem, config) is None
    ]


def triton_microseconds(row: rows.Row) -> float:
    """Of the fastest candidate."""
    with gfx950_emulator.timing_only():
        return min(benchmarking.run_once(candidate.launch) for candidate in launches.candidates(row)) * 1e3


@contextmanager
def environment(**changes: str) -> Iterator[None]:
    with mock.patch.dict(os.environ, changes):
        yield


def hbm_share(config: gemm_config.GemmConfig) -> float:
    """Bytes of a decode step's product over what HBM delivers in its time, with nothing of it in the Infinity Cache.

    A model's weights do not fit there, so each step reads them from HBM; a benchmark of one product finds them in the
    cache, which is how the table's rows were published and are modelled. The launch itself is not part of the time.
    """
    m, n, k = DECODE
    with environment(GFX950_TIMING_PARAMS="warm=0"):
        report = timed(problem_of(m, n, k, "NT"), config, "NT").report
    return float(report["utilisation"]["hbm"])


def hazards(winner: Timed) -> str:
    """``0`` if the configuration computes a small product to the bit with the hazard checker on; else what it said."""
    c = winner.config
    a_layout, b_layout = LAYOUTS[winner.layout]
    # More K tiles than stages, so that each is filled again, whole tiles of K like the published shapes.
    m, n, k = c.tile_m + 1, c.tile_n + 8, c.tile_k * (c.stages + 2) * c.split_k
    a, b = reference.integer_inputs(m, n, k, BF16, largest=2)
    laid = [x.cuda() if layout == "k" else x.T.contiguous().cuda().T for x, layout in ((a, a_layout), (b, b_layout))]
    if a_layout == "m":  # M is contiguous: its stride has to be a multiple of 16 bytes
        padded = torch.zeros(k, m + 7, dtype=BF16)
        padded[:, :m] = a.T
        laid[0] = padded.cuda()[:, :m].T
    out = torch.empty(m, n, dtype=BF16, device="cuda")
    problem = dataclasses.replace(
        problem_of(m, n, k, winner.layout), lda=max(laid[0].stride()), ldb=max(laid[1].stride())
    )
    compiled = gemm.compile_gemm(gemm_config.spec_for(problem, c, target.SUPPORTED_ARCHS[0]))
    try:
        with environment(GFX950_CHECK="2"):
            compiled(laid[0], laid[1], out, torch.cuda.current_stream().cuda_stream)
            torch.cuda.synchronize()
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return "0" if torch.equal(out.cpu(), reference.rounded(a, b)) else "wrong values"


def compile_seconds() -> tuple[float, float]:
    """A shape's whole list under torch.compile: seconds from nothing, and processor seconds from the caches.

    The first compiles in worker processes, so its seconds are the clock's; the second does all in one process.
    """
    m, n, k = COLD
    script = f"""
import time, torch
from torch._inductor import config
import gfx950_emulator
config.max_autotune, config.max_autotune_gemm_backends, config.flydsl_enable_autotuning = True, "FLYDSL", True
a, b = (torch.empty(rows, {k}, dtype=torch.bfloat16, device="cuda") for rows in ({m}, {n}))
torch.compile(lambda x: x + 1)(torch.empty(8, device="cuda"))  # what any first compile of a process costs
with gfx950_emulator.timing_only():
    started = time.monotonic(), time.process_time()
    torch.compile(lambda x, y: x @ y.T)(a, b)
    torch.cuda.synchronize()
print(time.monotonic() - started[0], time.process_time() - started[1])
"""
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": folder, "GFX950_EMULATOR": "1"}
            run = subprocess.run([sys.executable, "-c", script], env=env, text=True, capture_output=True, check=True)
            seconds.append([float(word) for word in run.stdout.split()[-2:]])
    return seconds[0][0], seconds[1][1]


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def worst(values: list[float], largest: bool) -> float:
    """The worst of some ratios; NaN, which no goal holds with, if one is."""
    return math.nan if any(map(math.isnan, values)) else (max(values) if largest else min(values))


def row_of(shape: str, t: Timed, published: str, triton: float, rule: float, checked: str, flop: float) -> list[str]:
    tflops = flop / t.microseconds / 1e6
    return [
        f"{shape} {t.layout}",
        t.config.name,
        f"{t.microseconds:.1f}",
        f"{tflops:.0f}",
        f"{tflops / PEAK_TFLOPS:.0%}",
        published,
        f"{triton / t.microseconds:.2f}" if triton else "",
        f"{rule / t.microseconds:.2f}",
        checked,
        f"{t.conflict_clocks:.0f}",
        f"{t.spills:.0f}",
    ]


def run() -> Report:
    console = Console(stderr=True, highlight=False)
    started = time.monotonic()
    published = [row for row in rows.load() if row.family == "Triton GEMM"]
    figures = {row.shape: row.value for row in rows.load() if row.family == "own GEMM"}
    lines: list[list[str]] = []
    best: dict[tuple[int, int, int], Timed] = {}
    against_triton, against_rule, against_nt = [], [], []
    conflicts = spills = 0.0
    clean: dict[tuple[str, str], str] = {}

    def add(shape: str, t: Timed, triton: float, rule: float, flop: float, figure: str) -> None:
        nonlocal conflicts, spills
        key = (t.config.name, t.layout)
        if key not in clean:
            clean[key] = hazards(t)
        conflicts += t.conflict_clocks
        spills += t.spills
        against_rule.append(rule / t.microseconds)
        lines.append(row_of(shape, t, figure, triton, rule, clean[key], flop))

    for row in published:
        m, n, k = (row.sizes[name] for name in "MNK")
        console.print(f"{m} x {n} x {k}, {time.monotonic() - started:.0f} s", style="dim")
        triton = triton_microseconds(row)
        t, rule = fastest(m, n, k, "NT")
        best[m, n, k] = t
        against_triton.append(triton / t.microseconds)
        add(f"{m}x{n}x{k}", t, triton, rule, row.flops, f"{figures[row.shape]:.0f} / {row.value:.0f}")
    for m, n, k in LAYOUT_SHAPES:
        for layout in ("NN", "TN", "TT"):
            console.print(f"{m} x {n} x {k} {layout}, {time.monotonic() - started:.0f} s", style="dim")
            t, rule = fastest(m, n, k, layout)
            against_nt.append(t.microseconds / best[m, n, k].microseconds)
            add(f"{m}x{n}x{k}", t, 0.0, rule, 2.0 * m * n * k, "")

    sharing = []
    for m, n, k in FEW_TILES:
        console.print(f"{m} x {n} x {k}, {time.monotonic() - started:.0f} s", style="dim")
        problem = problem_of(m, n, k, "NT")
        t, rule = fastest(m, n, k, "NT")
        alone = min(timed(problem, config, "NT").microseconds for config in alone_configs(problem))
        sharing.append(alone / t.microseconds)
        add(f"{m}x{n}x{k}", t, 0.0, rule, 2.0 * m * n * k, "")

    square, decode = best[8192, 8192, 8192], best[DECODE]
    cold, cached = compile_seconds()
    unclean = sum(said != "0" for said in clean.values())

    def goal(name: str, value: float, relation: str, limit: float, source: str, unit: str = "") -> Goal:
        return Goal(name=name, value=value, relation=relation, limit=limit, unit=unit, source=source)  # type: ignore[arg-type]

    mean = geometric_mean(against_triton)
    return Report(
        op="mm",
        columns=[
            "M x N x K",
            "winner",
            "µs",
            "TFLOP/s",
            "peak",
            "published",
            "Triton",
            "rule",
            "hazards",
            "conflicts",
            "spills",
        ],
        rows=lines,
        goals=[
            goal("Triton's best time / ours, geometric mean of the 15 shapes", mean, ">=", 1.25, "modelled"),
            goal("the same, worst shape", worst(against_triton, largest=False), ">=", 0.95, "modelled"),
            goal("NN, TN, TT / NT, worst time", worst(against_nt, largest=True), "<=", 1.05, "modelled"),
            goal("MFMA busy in the main loop at 8192^3", main_loop_busy(square), ">=", 0.85, "modelled"),
            goal(
                "share of the model's HBM bandwidth at M=8, weights in HBM",
                hbm_share(decode.config),
                ">=",
                0.8,
                "modelled",
            ),
            goal(
                "configuration by rule / best searched, worst shape", worst(against_rule, True), "<=", 1.25, "modelled"
            ),
            goal("few tiles: workgroups that share tiles / alone, least gain", min(sharing), ">=", 1.1, "modelled"),
            goal("winners with hazards or wrong values", unclean, "==", 0, "emulated"),
            goal("clocks lost to LDS bank conflicts, all winners", conflicts, "==", 0, "modelled"),
            goal("spilled VGPRs, all winners", spills, "==", 0, "counted"),
            goal(f"first compile of {' x '.join(map(str, COLD))}, default list", cold, "<=", 60, "measured", "s"),
            goal("the same from the caches, processor time", cached, "<=", 1, "measured", "s"),
        ],
        notes=[
            "bf16. Times, TFLOP/s and shares are modelled; none was measured on a gfx950; gaps below 10% are ties.",
            "peak: share of the data sheet's 2.5 PFLOP/s. Triton: its best time in units of ours. rule: likewise, the",
            "configuration taken where nothing is measured. conflicts: clocks that LDS bank conflicts cost.",
            "published: TFLOP/s of other FlyDSL kernels and of Triton on an MI355X (pytorch#190903), for orientation.",
            f"Triton's best is of at most {launches.TRITON_CANDIDATES} configurations of Inductor's exhaustive list.",
            "TN at M=64: K leads from line to line in both operands; tiles of 32 use half of each 128-byte line of",
            "L2, and of tiles of 64 there are too few. No configuration of the EXHAUSTIVE list does better.",
            "The host's overhead of a warm call: bench --op mm_overhead.",
            f"took {time.monotonic() - started:.0f} s",
        ],
    )


def main_loop_busy(t: Timed) -> float:
    return float(t.report["main_loop"]["mfma_busy"])
