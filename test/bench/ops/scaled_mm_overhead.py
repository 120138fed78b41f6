"""What FlyDSL's override adds on the host to an eager scaled product that is not FlyDSL's, and what a warm MX call
costs.

The base's kernels cost far more on the emulated device than the override, so it is timed before a kernel that returns
at once, and before the same without the override. What PyTorch's registry adds by itself (arguments become Python
objects, and again what the base takes) is timed with a condition that is always false.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bench.ops.mm_overhead import nothing_called, nothing_executed
from bench.report import Goal, Report

# Before torch: it is what makes a CPU-only torch see a gfx950.
import gfx950_emulator  # isort: skip  # noqa: F401

import torch
from torch._inductor import config
from torch._inductor.kernel.flydsl import scaled_gemm
from torch._native import flydsl_utils, registry
from torch.nn import functional as F
from torch.nn.functional import ScalingType
from torch.nn.microscaling import to_mxfp4, to_mxfp8

M, N, K = 16, 32, 128
UNMATCHED_LIMIT_US, WARM_LIMIT_US = 2.0, 20.0
REPEATS, CALLS = 25, 400
DSLS: Any = torch.backends.python_native
BLOCK = ScalingType.BlockWise1x32


def microseconds(function: Callable[[], object]) -> float:
    """Of one call, in the quietest of some repeats."""
    best = float("inf")
    for _ in range(REPEATS):
        started = time.thread_time()
        for _ in range(CALLS):
            function()
        best = min(best, time.thread_time() - started)
    return best / CALLS * 1e6


def unmatched_calls() -> dict[str, tuple[str, tuple[Any, ...]]]:
    """Operator and arguments of calls that the override leaves to the base, for the usual reasons."""
    fp8 = torch.zeros(M, K, dtype=torch.float8_e4m3fn, device="cuda")
    weight = torch.zeros(N, K, dtype=torch.float8_e4m3fn, device="cuda").t()
    one = torch.ones((), device="cuda")
    rows, columns = torch.ones(M, 1, device="cuda"), torch.ones(1, N, device="cuda")
    short, short_scale = to_mxfp8(torch.zeros(M, 64, device="cuda"))
    other, other_scale = to_mxfp8(torch.zeros(N, 64, device="cuda"))
    rest = (None, torch.bfloat16)
    mx = (short, other.t(), [short_scale], [3], [0], [other_scale], [3], [0], *rest)
    return {
        "_scaled_mm, scales of tensors": ("_scaled_mm", (fp8, weight, one, one, None, *rest)),
        "_scaled_mm, scales of rows": ("_scaled_mm", (fp8, weight, rows, columns, None, *rest)),
        "_scaled_mm_v2, scales of tensors": ("_scaled_mm_v2", (fp8, weight, [one], [0], [0], [one], [0], [0], *rest)),
        "_scaled_mm_v2, MX with K = 64": ("_scaled_mm_v2", mx),
    }


@contextmanager
def empty_base(op: str) -> Iterator[None]:
    """The base's kernel of ``op`` returns at once, and nothing is before it."""
    result = torch.zeros((), device="cuda")
    library = torch.library.Library("aten", "IMPL")
    with DSLS.flydsl.disabled(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        library.impl(op, lambda *args: result, "CUDA")
        try:
            yield
        finally:
            library._destroy()


def unmatched_costs(op: str, args: tuple[Any, ...]) -> tuple[float, float]:
    """Microseconds that the override adds, and that the registry alone adds."""
    if not isinstance(flydsl_utils._planners[op](*args), str):
        raise RuntimeError(f"{op}: the call is FlyDSL's")
    [node] = registry._graphs[(op, "CUDA")]
    overload, condition, times = getattr(torch.ops.aten, op).default, node.cond_fn, {}
    with empty_base(op):
        plain = microseconds(lambda: overload(*args))
        for name, each in (("override", condition), ("registry", lambda *args, **kwargs: False)):
            node.cond_fn = each
            registry._register_overrides_from_graph(op, "CUDA", [node])
            times[name] = microseconds(lambda: overload(*args)) - plain
        node.cond_fn = condition
        registry._destroy_aten_override(op, "CUDA")
    return times["override"], times["registry"]


def warm_calls() -> dict[str, tuple[float, float]]:
    """Microseconds of a compiled MX product, and without FlyDSL's part."""
    costs = {}
    for name, quantise in (("MXFP8", to_mxfp8), ("MXFP4", to_mxfp4)):
        torch._dynamo.reset()
        a, scale_a = quantise(torch.zeros(M, K, device="cuda"))
        b, scale_b = quantise(torch.zeros(N, K, device="cuda"))
        args = (a, b.t(), scale_a, BLOCK, scale_b, BLOCK)
        with torch.no_grad(), config.patch(max_autotune=True, max_autotune_gemm_backends="FLYDSL", compile_threads=1):
            compiled = torch.compile(F.scaled_mm)
            compiled(*args)
            before = scaled_gemm.launch_count()
            compiled(*args)
            if scaled_gemm.launch_count() != before + 1:
                raise RuntimeError(f"{name}: a warm call made {scaled_gemm.launch_count() - before} launches, not one")
            with nothing_executed(scaled_gemm):
                total = microseconds(lambda compiled=compiled, args=args: compiled(*args))  # type: ignore[misc]
            with nothing_called():
                rest = microseconds(lambda compiled=compiled, args=args: compiled(*args))  # type: ignore[misc]
        costs[name] = (total, rest)
    return costs


def run() -> Report:
    rows, added = [], {"_scaled_mm": 0.0, "_scaled_mm_v2": 0.0}
    for name, (op, args) in unmatched_calls().items():
        override, alone = unmatched_costs(op, args)
        added[op] = max(added[op], override)
        rows.append([f"eager, not FlyDSL's: {name}", f"{override:.2f}", f"{alone:.2f}", f"{override - alone:.2f}"])
    shares = []
    for name, (total, rest) in warm_calls().items():
        shares.append(total - rest)
        rows.append([f"compiled, warm: {name}", f"{total:.1f}", f"{rest:.1f}", f"{total - rest:.1f}"])

    def goal(name: str, value: float, limit: float) -> Goal:
        return Goal(name=name, value=value, relation="<=", limit=limit, unit="µs", source="measured")

    return Report(
        op="scaled_mm_overhead",
        columns=["call", "µs", "without FlyDSL's part", "FlyDSL's part"],
        rows=rows,
        goals=[
            *(goal(f"added to an eager {op} that does not match", us, UNMATCHED_LIMIT_US) for op, us in added.items()),
            goal("FlyDSL's part of a warm compiled MX product", max(shares), WARM_LIMIT_US),
        ],
        notes=[
            "Eager: what an override adds, and of that what PyTorch's registry adds with a condition that is false.",
            "_scaled_mm_v2 takes two lists of tensors and four of integers, converted to Python and back in any case.",
            f"The quietest of {REPEATS} repeats of {CALLS} calls.",
        ],
    )
