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
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch._inductor.config as inductor_config
from rich.console import Console
from rich.table import Table
from torch._dynamo.utils import counters
from torch._inductor.select_algorithm import add_feedback_saver, clear_feedback_savers
from torch._native.flydsl import target

sys.path.insert(0, str(Path(__file__).resolve().parent))
from reference import mm as reference

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
ALL_BACKENDS = "ATEN,TRITON,FLYDSL"
HEARTBEAT_SECONDS = 10.0


@dataclass(frozen=True)
class Candidate:
    """An autotuned choice: who offers it, with which configuration, and its time (None: dropped because it failed)."""

    backend: str
    configuration: str
    microseconds: float | None


@dataclass(frozen=True)
class Outcome:
    """What compiling and running the product with one list of backends gave."""

    backends: str
    candidates: list[Candidate]  # fastest first; empty where there was a single choice, which is not timed
    benchmarked: bool  # False: the times came from Inductor's autotune cache
    max_error: float  # largest |value - float64 value|
    max_bound: float  # the bound of that element
    within_bound: bool  # every element within its own bound
    flydsl_launches: int | None  # of the compiled product, timing not counted; None where launches are not counted
    seconds: float


def version_of(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def candidate_of(choice: Any, milliseconds: float) -> Candidate:
    facts = choice.info_dict()
    backend = str(facts.get("backend", type(choice).__name__))
    if backend == "extern":
        backend, configuration = "ATEN", str(facts.get("kernel_call_name", choice.name))
    elif backend == "Triton":
        tile = str(facts.get("tile_shape", "")).strip("()").replace(", ", "x")
        configuration = f"{tile} stages={facts.get('num_stages')} warps={facts.get('num_warps')}"
        backend = "TRITON"
    else:
        configuration = str(facts.get("config", choice.name))
    return Candidate(backend, configuration, milliseconds * 1e3 if math.isfinite(milliseconds) else None)


def flydsl_launch_count() -> int | None:
    """Launches of FlyDSL GEMM kernels so far, as the emulator counted them; None on hardware, which counts none."""
    emulator = sys.modules.get("gfx950_emulator")
    if emulator is None:
        return None
    return sum(count for name, count in emulator.launch_counts().items() if name.startswith("gemm_nt_"))


@contextmanager
def heartbeat(console: Console, what: str) -> Iterator[None]:
    """Says every few seconds that `what` still goes on."""
    started = time.monotonic()
    done = threading.Event()

    def beat() -> None:
        while not done.wait(HEARTBEAT_SECONDS):
            console.print(f"  … {what}, {time.monotonic() - started:.0f} s", style="dim")

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b.T


def run_product(console: Console, backends: str, a: torch.Tensor, b: torch.Tensor) -> Outcome:
    """Compile ``a @ b.T`` with these backends, run it, and hold the result to its bound."""
    candidates: list[Candidate] = []

    def save(timings: dict[Any, float], *_: object) -> None:
        candidates.extend(candidate_of(choice, milliseconds) for choice, milliseconds in timings.items())

    torch._dynamo.reset()
    counters.clear()
    started = time.monotonic()
    add_feedback_saver(save)
    try:
        with (
            # The graph cache would skip lowering, and with it the table. Choices are remembered in the autotune cache.
            inductor_config.patch(max_autotune_gemm_backends=backends, fx_graph_cache=False),
            inductor_config.patch(flydsl_enable_autotuning=backends != "FLYDSL"),
            heartbeat(console, f"compiling and timing candidates of {backends}"),
        ):
            compiled: Callable[..., torch.Tensor] = torch.compile(product, mode="max-autotune-no-cudagraphs")
            compiled(a, b)
            before = flydsl_launch_count()
            result = compiled(a, b)
            after = flydsl_launch_count()
    finally:
        clear_feedback_savers()
    expected, bound = reference.product_and_bound(a, b)
    error = (result.cpu().double() - expected).abs()
    worst = int((error / bound).argmax())
    return Outcome(
        backends=backends,
        candidates=sorted(candidates, key=lambda c: math.inf if c.microseconds is None else c.microseconds),
        benchmarked=counters["inductor"]["select_algorithm_autotune"] > 0,
        max_error=float(error.flatten()[worst]),
        max_bound=float(bound.flatten()[worst]),
        within_bound=bool((error <= bound).all()),
        flydsl_launches=None if before is None or after is None else after - before,
        seconds=time.monotonic() - started,
    )


def candidate_table(candidates: list[Candidate], unit: str) -> Table:
    table = Table(title=f"candidates, {unit} time", title_justify="left")
    table.add_column("backend")
    table.add_column("configuration")
    table.add_column("µs", justify="right")
    table.add_column("against the fastest", justify="right")
    for candidate in candidates:
        if candidate.microseconds is None:
            table.add_row(candidate.backend, candidate.configuration, "failed", "dropped")
        else:
            ratio = candidate.microseconds / (candidates[0].microseconds or math.nan)
            table.add_row(candidate.backend, candidate.configuration, f"{candidate.microseconds:.2f}", f"{ratio:.2f}x")
    return table


def describe_numbers(outcome: Outcome) -> str:
    verdict = "every element is within its bound" if outcome.within_bound else "[bold red]OUTSIDE ITS BOUND[/]"
    return f"largest error against float64 {outcome.max_error:.3g}, bound there {outcome.max_bound:.3g}: {verdict}"


def describe_launches(outcome: Outcome) -> str:
    if outcome.flydsl_launches is None:
        return "launches are counted on the emulator only"
    return f"the FlyDSL kernel ran {outcome.flydsl_launches} time(s) in one call of the compiled function"


def print_versions(console: Console, device: str, unit: str) -> None:
    base, _, series = torch.__version__.partition("flydsl")
    console.print(
        f"torch {base.rstrip('.+')}, series {series or 'none: this is not the patched wheel'}, {device} ({unit})"
    )
    console.print(f"flydsl {version_of('flydsl')}, triton {version_of('triton')}, Python {sys.version.split()[0]}")


def problems(outcomes: list[Outcome], unavailable: str | None) -> list[str]:
    """What makes this run a failure; empty for a good one."""
    found = [f"{outcome.backends}: a number is outside its bound" for outcome in outcomes if not outcome.within_bound]
    if unavailable is None:
        ran = [c for c in outcomes[0].candidates if c.backend == "FLYDSL" and c.microseconds is not None]
        if not ran:
            found.append("FLYDSL is available, but none of its candidates ran: TORCH_LOGS=native_dsl says why")
        if outcomes[-1].flydsl_launches == 0:
            found.append("FLYDSL was the only backend, but its kernel was not launched")
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Compile a @ b.T on gfx950 and show which backend's kernel was chosen."
    )
    parser.add_argument("--m", type=int, default=512)
    parser.add_argument("--n", type=int, default=1024)
    parser.add_argument("--k", type=int, default=2048)
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--json", type=Path, help="also write what was found to this file")
    args = parser.parse_args(argv)
    console = Console(highlight=False, soft_wrap=True)
    if not torch.cuda.is_available():
        console.print("no device: on a machine without a gfx950 run `python -m gfx950_emulator test/demo.py`")
        return 2

    unit = "modelled" if "gfx950_emulator" in sys.modules else "hardware"
    print_versions(console, torch.cuda.get_device_name(), unit)
    a, b = reference.normal_inputs(args.m, args.n, args.k, DTYPES[args.dtype])
    a, b = a.cuda(), b.cuda()
    console.print(f"\na @ b.T, {args.dtype}, M={args.m} N={args.n} K={args.k}, backends {ALL_BACKENDS}")
    unavailable = target.unavailable_reason()
    if unavailable is not None:
        console.print(f"FLYDSL is unavailable: {unavailable}", style="yellow")

    outcome = run_product(console, ALL_BACKENDS, a, b)
    outcomes = [outcome]
    console.print(candidate_table(outcome.candidates, unit))
    if outcome.candidates:
        winner = outcome.candidates[0]
        console.print(f"winner: {winner.backend} {winner.configuration}")
    if outcome.benchmarked:
        console.print(f"choice: candidates were compiled and timed in this process, {outcome.seconds:.1f} s")
    else:
        console.print(f"choice: reused from Inductor's autotune cache, nothing was timed, {outcome.seconds:.1f} s")
    console.print(describe_numbers(outcome))
    console.print(describe_launches(outcome))

    if unavailable is None:
        alone = run_product(console, "FLYDSL", a, b)
        outcomes.append(alone)
        console.print("\nFLYDSL as the only backend, its configuration chosen by rule")
        console.print(describe_numbers(alone))
        console.print(describe_launches(alone))

    found = problems(outcomes, unavailable)
    for problem in found:
        console.print(f"problem: {problem}", style="bold red")
    if args.json is not None:
        args.json.write_text(
            json.dumps({"unit": unit, "outcomes": [asdict(o) for o in outcomes], "problems": found}, indent=1)
        )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
