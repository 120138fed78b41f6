"""What a warm call of a compiled product costs on the host, with the kernel's execution replaced by nothing.

FlyDSL packs a launch's arguments and then calls the function that it compiled, which launches. That function is
replaced by one that returns at once; all that PyTorch and we do in Python stays. Times are the thread's own, so that
other processes disturb them little.
"""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bench.report import Goal, Report

# Before torch: it is what makes a CPU-only torch see a gfx950.
import gfx950_emulator  # isort: skip  # noqa: F401

import torch
from torch._inductor import config
from torch._inductor.codegen.flydsl.compile import FlyDSLKernelWrapper
from torch._inductor.kernel.flydsl import gemm
from torch._native.flydsl.launch import ReadyLaunches
from torch.nn import functional as F

M, N, K = 16, 64, 64
LIMIT_US = 20.0
REPEATS, CALLS = 15, 400

CASES: dict[str, tuple[Callable[..., torch.Tensor], tuple[tuple[int, ...], ...], dict[str, Any]]] = {
    "mm": (lambda x, w: x @ w.T, ((M, K), (N, K)), {}),
    "mm, symbolic sizes": (lambda x, w: x @ w.T, ((M, K), (N, K)), {"dynamic": True}),
    "linear, GELU, residual": (
        lambda x, w, b, r: F.gelu(F.linear(x, w, b)) + r,
        ((M, K), (N, K), (N,), (M, N)),
        {},
    ),
    "bmm": (torch.bmm, ((3, M, K), (3, K, N)), {}),
}


def microseconds(function: Callable[[], object]) -> float:
    """Of one call, in the quietest of some repeats."""
    best = float("inf")
    for _ in range(REPEATS):
        started = time.thread_time()
        for _ in range(CALLS):
            function()
        best = min(best, time.thread_time() - started)
    return best / CALLS * 1e6


@contextmanager
def nothing_executed(family: Any = gemm) -> Iterator[None]:
    """Compiled kernels of this process pack their arguments and launch nothing."""
    kernels = [compiled.kernel for compiled in family._compiled.values()]
    loaded: list[Any] = [each for kernel in kernels for each in kernel._loaded.values()]
    states = [each._call_state for each in loaded]
    before = [state._func_exe for state in states]

    def replace(functions: list[Any]) -> None:
        for state, function in zip(states, functions, strict=True):
            state._func_exe, state._tls = function, type(state._tls)()
        for ready in [each for each in gc.get_objects() if type(each) is ReadyLaunches]:
            ready.launches.clear()  # they hold the function of then

    # A function of C, called as FlyDSL calls its own, that returns at once.
    address = ctypes.cast(ctypes.CDLL(None).abs, ctypes.c_void_p).value or 0
    nothing = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)
    replace([nothing] * len(states))
    try:
        yield
    finally:
        replace(before)


@contextmanager
def nothing_called() -> Iterator[None]:
    """Generated wrappers call a kernel that does nothing at all."""
    before = FlyDSLKernelWrapper.run
    FlyDSLKernelWrapper.run = lambda *args, **kwargs: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        FlyDSLKernelWrapper.run = before  # type: ignore[method-assign]


def run() -> Report:
    rows, shares = [], []
    static: list[float] = []
    symbolic: list[float] = []
    for name, (fn, sizes, options) in CASES.items():
        torch._dynamo.reset()
        gemm._compiled.clear()
        tensors = [torch.zeros(size, dtype=torch.bfloat16, device="cuda") for size in sizes]
        with torch.no_grad(), config.patch(max_autotune=True, max_autotune_gemm_backends="FLYDSL", compile_threads=1):
            compiled = torch.compile(fn, **options)
            compiled(*tensors)
            launches = gemm.launch_count()
            compiled(*tensors)
            if gemm.launch_count() != launches + 1:
                raise RuntimeError(f"{name}: a warm call made {gemm.launch_count() - launches} launches, not one")
            with nothing_executed():
                total = microseconds(lambda compiled=compiled, tensors=tensors: compiled(*tensors))  # type: ignore[misc]
            with nothing_called():
                rest = microseconds(lambda compiled=compiled, tensors=tensors: compiled(*tensors))  # type: ignore[misc]
        shares.append(total - rest)
        (symbolic if options.get("dynamic") else static).append(total)
        rows.append([name, f"{total:.1f}", f"{rest:.1f}", f"{total - rest:.1f}"])

    def goal(name: str, value: float) -> Goal:
        return Goal(name=name, value=value, relation="<=", limit=LIMIT_US, unit="µs", source="measured")

    return Report(
        op="mm_overhead",
        columns=["compiled call", "whole call µs", "without FlyDSL's part µs", "FlyDSL's part µs"],
        rows=rows,
        goals=[
            goal("FlyDSL's part of a warm compiled call, worst case", max(shares)),
            goal("the whole warm compiled call, static sizes, worst case", max(static)),
            goal("the whole warm compiled call, symbolic sizes", max(symbolic)),
        ],
        notes=[
            "The rest of a call is Dynamo's guards, AOTAutograd, Inductor's wrapper and the output's allocation.",
            "Symbolic sizes cost Dynamo and AOTAutograd more: their part alone is what the third column says.",
            f"The quietest of {REPEATS} repeats of {CALLS} calls.",
        ],
    )
