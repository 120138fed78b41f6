"""torch.compile picks a GEMM among ATen, Triton and FlyDSL on gfx950, and shows its working.

Run it with ``python -m gfx950_emulator test/demo.py`` where there is no gfx950, with ``python test/demo.py``
where there is one. It compiles ``a @ b.T`` with ``mode="max-autotune-no-cudagraphs"`` and prints the
versions, every candidate with its time, the winner, the error against a float64 product and the bound it is
held to, and whether the FlyDSL kernel ran. The product is then compiled once more with FLYDSL as the only
backend, so that the kernel's own numbers are seen whoever won.

Exit status 1 if a number is outside its bound, or if FLYDSL is available and was not a candidate that ran.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import sys
from dataclasses import asdict
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch._inductor.kernel.flydsl import gemm_config

sys.path.insert(0, str(Path(__file__).resolve().parent))
from bench.autotune import DTYPES, Candidate, Outcome, run_product
from reference import mm as reference

ALL_BACKENDS = "ATEN,TRITON,FLYDSL"


def version_of(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def candidate_table(candidates: list[Candidate], unit: str) -> Table:
    table = Table(title=f"candidates, {unit} time", title_justify="left")
    table.add_column("backend")
    table.add_column("configuration")
    table.add_column("µs", justify="right")
    table.add_column("against the fastest", justify="right")
    ties = sum(candidate.tie for candidate in candidates)
    for candidate in candidates:
        if candidate.microseconds is None:
            table.add_row(candidate.backend, candidate.configuration, "failed", "dropped")
        else:
            ratio = f"{candidate.microseconds / (candidates[0].microseconds or math.nan):.2f}x"
            mark = "tie " if candidate.tie and ties > 1 else ""
            table.add_row(candidate.backend, candidate.configuration, f"{candidate.microseconds:.2f}", mark + ratio)
    return table


def describe_numbers(outcome: Outcome) -> str:
    verdict = "every element is within its bound" if outcome.within_bound else "[bold red]OUTSIDE ITS BOUND[/]"
    return (
        f"error against float64, where it is largest against its bound: {outcome.max_error:.3g} of a value of "
        f"{outcome.value_there:.4g}, bound {outcome.max_bound:.3g}: {verdict}"
    )


def describe_launches(outcome: Outcome) -> str:
    if outcome.flydsl_launches is None:
        return "launches are counted on the emulator only"
    return f"the FlyDSL kernel ran {outcome.flydsl_launches} time(s) in one call of the compiled function"


def print_versions(console: Console, device: str, unit: str) -> None:
    base, _, series = torch.__version__.partition("flydsl")
    console.print(f"torch {base.rstrip('.+')}, series {series or 'none: this is not the patched wheel'}")
    console.print(f"flydsl {version_of('flydsl')}, triton {version_of('triton')}, Python {sys.version.split()[0]}")
    console.print(f"{device}, times are {unit}")


def problems(outcomes: list[Outcome], why_not: str | None) -> list[str]:
    """What makes this run a failure; empty for a good one. `why_not`: why FLYDSL cannot take this product."""
    found = [f"{outcome.backends}: a number is outside its bound" for outcome in outcomes if not outcome.within_bound]
    tuned = outcomes[0].candidates
    if why_not is None and tuned:
        if not any(c.backend == "FLYDSL" and c.microseconds is not None for c in tuned):
            found.append("FLYDSL can take this product, but none of its candidates ran: TORCH_LOGS=native_dsl says why")
        if outcomes[-1].flydsl_launches == 0:
            found.append("FLYDSL was the only backend, but its kernel was not launched")
    return found


def print_outcome(console: Console, outcome: Outcome, unit: str) -> None:
    if not outcome.candidates:
        console.print(
            "no candidates: Inductor autotunes no product with one row or column, it writes a reduction instead"
        )
    else:
        console.print(candidate_table(outcome.candidates, unit))
        if outcome.tie_rule is not None:
            console.print(outcome.tie_rule)
        console.print(f"winner: {outcome.candidates[0].backend} {outcome.candidates[0].configuration}")
        if outcome.benchmarked:
            console.print(f"choice: candidates were compiled and timed in this process, {outcome.seconds:.1f} s")
        else:
            console.print(f"choice: reused from Inductor's autotune cache, nothing was timed, {outcome.seconds:.1f} s")
    console.print(describe_numbers(outcome))
    console.print(describe_launches(outcome))


def size(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not a size: at least 1")
    return value


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Compile a @ b.T on gfx950 and show which backend's kernel was chosen."
    )
    parser.add_argument("--m", type=size, default=512)
    parser.add_argument("--n", type=size, default=1024)
    parser.add_argument("--k", type=size, default=2048)
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--json", type=Path, help="also write what was found to this file")
    args = parser.parse_args(argv)
    # A table that is folded to 80 columns in a log file is hard to read.
    console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 120)
    if not torch.cuda.is_available():
        console.print("no device: on a machine without a gfx950 run `python -m gfx950_emulator test/demo.py`")
        return 2

    unit = "modelled" if "gfx950_emulator" in sys.modules else "hardware"
    print_versions(console, torch.cuda.get_device_name(), unit)
    console.print(f"\na @ b.T, {args.dtype}, M={args.m} N={args.n} K={args.k}, backends {ALL_BACKENDS}")
    problem = gemm_config.GemmProblem(
        m=args.m, n=args.n, k=args.k, dtype=args.dtype, lda=args.k, ldb=args.k, ldc=args.n
    )
    why_not = gemm_config.unavailable_reason() or gemm_config.unsupported_reason(problem)
    if why_not is not None:
        console.print(f"FLYDSL cannot take it: {why_not}", style="yellow")

    a, b = (t.cuda() for t in reference.normal_inputs(args.m, args.n, args.k, DTYPES[args.dtype]))
    outcomes = [run_product(console, ALL_BACKENDS, a, b)]
    print_outcome(console, outcomes[0], unit)
    rule = gemm_config.default_config(problem) if why_not is None and outcomes[0].candidates else None
    if rule is not None:
        outcomes.append(run_product(console, "FLYDSL", a, b))
        console.print(f"\nFLYDSL as the only backend, {rule.name} by rule")
        console.print(describe_numbers(outcomes[1]))
        console.print(describe_launches(outcomes[1]))

    found = problems(outcomes, why_not)
    for text in found:
        console.print(f"problem: {text}", style="bold red")
    if args.json is not None:
        args.json.write_text(
            json.dumps({"unit": unit, "outcomes": [asdict(o) for o in outcomes], "problems": found}, indent=1)
        )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
