"""Compile ``a @ b.T`` with given autotune backends; tell what was tried, what it took, and how good the numbers are."""

from __future__ import annotations

import math
import re
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch._inductor.config as inductor_config
from rich.console import Console
from torch._dynamo.utils import counters
from torch._inductor.select_algorithm import add_feedback_saver, clear_feedback_savers

from reference import mm as reference

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
HEARTBEAT_SECONDS = 10.0
_SHORT = {"waves_per_eu": "waves/eu", "GROUP_M": "group_m", "matrix_instr_nonkdim": "mfma"}


@dataclass(frozen=True)
class Candidate:
    """An autotuned choice: who offers it, with which configuration, and its time (None: dropped because it failed).

    `tie`: a modelled time that is too near to the best one to tell them apart; never so for times of hardware.
    """

    backend: str
    configuration: str
    microseconds: float | None
    tie: bool = False


@dataclass(frozen=True)
class Outcome:
    """What compiling and running the product with one list of backends gave."""

    backends: str
    candidates: list[Candidate]  # fastest first; empty where there was a single choice, which is not timed
    benchmarked: bool  # False: the times came from Inductor's autotune cache
    max_error: float  # |value - float64 value| where it is largest against its bound
    max_bound: float  # the bound of that element
    value_there: float  # the float64 value of that element
    within_bound: bool  # every element within its own bound
    flydsl_launches: int | None  # of the compiled product, timing not counted; None where launches are not counted
    tie_rule: str | None  # how modelled times that are ties are ordered; None for times of hardware
    seconds: float


def candidate_of(choice: Any, milliseconds: float) -> Candidate:
    facts = choice.info_dict()
    backend = str(facts.get("backend", type(choice).__name__))
    if backend == "extern":
        backend, configuration = "ATEN", str(facts.get("kernel_call_name", choice.name))
    elif backend == "Triton":
        # Inductor writes (M, K, N); ours and AMD's tools write M x N x K.
        tile_m, tile_k, tile_n = str(facts["tile_shape"]).strip("()").split(", ")
        configuration = f"{tile_m}x{tile_n}x{tile_k} stages={facts['num_stages']} warps={facts['num_warps']}"
        options = re.findall(r"(waves_per_eu|GROUP_M|matrix_instr_nonkdim)=(\w+)", choice.description)
        configuration += "".join(f" {_SHORT[name]}={value}" for name, value in options)
        backend = "TRITON"
    else:
        configuration = str(facts.get("config", choice.name))
    return Candidate(backend, configuration, milliseconds * 1e3 if math.isfinite(milliseconds) else None)


def flydsl_launch_count() -> int | None:
    """Launches of FlyDSL GEMM kernels so far, as the emulator counted them; None on hardware, which counts none."""
    emulator = sys.modules.get("gfx950_emulator")
    if emulator is None:
        return None
    return sum(count for name, count in emulator.launch_counts().items() if name.startswith("gemm_"))


def with_ties(candidates: list[Candidate]) -> tuple[list[Candidate], str | None]:
    """The candidates, fastest first, with their ties marked where times are modelled, and the rule of their order."""
    in_order = sorted(candidates, key=lambda c: math.inf if c.microseconds is None else c.microseconds)
    if "gfx950_emulator" not in sys.modules or not in_order:
        return in_order, None
    from gfx950_emulator.autotuning import RULE, is_tie

    best = in_order[0].microseconds
    return [replace(c, tie=is_tie(c.microseconds, best)) for c in in_order], RULE


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

    # The base's own, on every benchmark of a candidate; nothing that a reader of our table could act on.
    warnings.filterwarnings("ignore", message="TypedStorage is deprecated")
    torch._dynamo.reset()
    counters.clear()
    started = time.monotonic()
    add_feedback_saver(save)
    try:
        with (
            # The graph cache would skip lowering, and with it the table. Choices are remembered in the autotune cache.
            inductor_config.patch(max_autotune_gemm_backends=backends, fx_graph_cache=False),
            inductor_config.patch(flydsl_enable_autotuning=backends != "FLYDSL"),
            # Inductor's own report of the candidates goes away: the caller prints them.
            inductor_config.patch(autotune_num_choices_displayed=0, max_autotune_report_choices_stats=False),
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
    in_order, tie_rule = with_ties(candidates)
    return Outcome(
        backends=backends,
        candidates=in_order,
        benchmarked=counters["inductor"]["select_algorithm_autotune"] > 0,
        max_error=float(error.flatten()[worst]),
        max_bound=float(bound.flatten()[worst]),
        value_there=float(expected.flatten()[worst]),
        within_bound=bool((error <= bound).all()),
        flydsl_launches=None if before is None or after is None else after - before,
        tie_rule=tie_rule,
        seconds=time.monotonic() - started,
    )
