"""Dense NT GEMM in bf16 under torch.compile: FLYDSL beside TRITON and ATEN, in one process, modelled on the emulator.

The shapes are the demo's and three of the published MI355X series (decode, a batch in the middle, a large one).
Kernels run on the emulated gfx950; ATen is charged by the roofline of test/emulator/device/README.md.
"""

from __future__ import annotations

import math

from bench.report import Goal, Report

# Before torch: it is what makes a CPU-only torch see a gfx950.
import gfx950_emulator  # isort: skip  # noqa: F401

import torch
from rich.console import Console
from torch._inductor.kernel.flydsl import gemm_config

from bench.autotune import Candidate, run_product
from reference import mm as reference

SHAPES = ((512, 1024, 2048), (16, 4096, 4096), (256, 4096, 4096), (1024, 4096, 4096))
BACKENDS = "ATEN,TRITON,FLYDSL"
# Below this there is no kernel of its own yet (split K over few rows), so such shapes are shown and held to no time.
LEAST_M_WITH_A_TIME_GOAL = 64
# The rule sees no timing; further than this from the searched best, and it should be taught.
RULE_LIMIT = 1.25


def least(candidates: list[Candidate], backend: str) -> Candidate | None:
    """The fastest candidate of a backend that ran; candidates are sorted."""
    return next((c for c in candidates if c.backend == backend and c.microseconds is not None), None)


def microseconds(candidate: Candidate | None) -> float:
    return math.nan if candidate is None or candidate.microseconds is None else candidate.microseconds


def rule_microseconds(m: int, n: int, k: int, candidates: list[Candidate]) -> float:
    """The time of the configuration that is taken where autotuning is off."""
    problem = gemm_config.GemmProblem(m=m, n=n, k=k, dtype="bf16", lda=k, ldb=k, ldc=n)
    rule = gemm_config.default_config(problem)
    if rule is None:
        return math.nan
    named = [c for c in candidates if c.backend == "FLYDSL" and c.configuration == rule.name]
    return microseconds(named[0] if named else None)


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def run() -> Report:
    console = Console(stderr=True, highlight=False)
    rows: list[list[str]] = []
    outside = dropped = 0
    against_triton: list[float] = []
    against_rule: list[float] = []
    for m, n, k in SHAPES:
        a, b = reference.normal_inputs(m, n, k, torch.bfloat16)
        outcome = run_product(console, BACKENDS, a.cuda(), b.cuda())
        best = {backend: least(outcome.candidates, backend) for backend in BACKENDS.split(",")}
        times = {backend: microseconds(candidate) for backend, candidate in best.items()}
        rule = rule_microseconds(m, n, k, outcome.candidates)
        outside += not outcome.within_bound
        dropped += sum(c.backend == "FLYDSL" and c.microseconds is None for c in outcome.candidates)
        if m >= LEAST_M_WITH_A_TIME_GOAL:
            against_triton.append(times["FLYDSL"] / times["TRITON"])
        against_rule.append(rule / times["FLYDSL"])
        fastest = outcome.candidates[0].backend
        rows.append(
            [
                f"{m} x {n} x {k}",
                best["FLYDSL"].configuration if best["FLYDSL"] is not None else "none",
                *(f"{value:.2f}" for value in (times["FLYDSL"], rule, times["TRITON"], times["ATEN"])),
                fastest,
                f"{outcome.max_error / outcome.max_bound:.2f}",
                f"{outcome.seconds:.0f}" if outcome.benchmarked else f"{outcome.seconds:.0f}, cached",
            ]
        )
    return Report(
        op="mm",
        columns=[
            "M x N x K",
            "best FLYDSL configuration",
            "FLYDSL µs",
            "by rule µs",
            "TRITON µs",
            "ATEN µs",
            "fastest",
            "error / bound",
            "host s",
        ],
        rows=rows,
        goals=[
            Goal(name="shapes outside their bound", value=outside, relation="==", limit=0, unit="", source="emulated"),
            Goal(name="FLYDSL candidates dropped", value=dropped, relation="==", limit=0, unit="", source="emulated"),
            Goal(
                name=f"best FLYDSL / best TRITON where M >= {LEAST_M_WITH_A_TIME_GOAL}, geometric mean of times",
                value=geometric_mean(against_triton),
                relation="<=",
                limit=1.0,
                unit="",
                source="modelled",
            ),
            Goal(
                name="rule's configuration / best searched, worst shape",
                value=max(against_rule, key=lambda ratio: math.inf if math.isnan(ratio) else ratio),
                relation="<=",
                limit=RULE_LIMIT,
                unit="",
                source="modelled",
            ),
        ],
        notes=[
            "bf16, NT. All times are modelled, none was measured on a gfx950; gaps below 10% are ties.",
            f"M < {LEAST_M_WITH_A_TIME_GOAL}: there is no kernel for few rows yet; what the tiled one does is shown.",
        ],
    )
