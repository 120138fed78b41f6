"""Benchmarks on the virtual clock. It has no noise, so one run of a candidate says all."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from gfx950_emulator import hip

_PICOSECONDS_PER_MILLISECOND = 1e9


def run_once(function: Callable[[], Any], timing: int = hip.TIMING_PREFERRED) -> float:
    """Modelled milliseconds of one call. Unless told otherwise, kernels execute no more than that asks for, where they
    can be timed so: their output is not computed."""
    import torch

    torch.cuda.synchronize()
    clock = hip.runtime().gfx950_clock_now_ps
    begin = clock()
    with hip.timing(timing):
        function()
        torch.cuda.synchronize()  # raises what a launch left pending
    return float(clock() - begin) / _PICOSECONDS_PER_MILLISECOND


def install_inductor(module: ModuleType | None) -> None:
    """Inductor passes device type "hip" for Triton kernels and "cuda" elsewhere; some callers skip the registry."""
    assert module is not None

    def bench(_: Any, function: Callable[[], Any], **__: Any) -> float:
        return run_once(function)

    for device_type in ("cuda", "hip"):
        module.register_benchmarker(device_type, bench, override=True)

    def benchmark_gpu(_: Any, function: Callable[[], Any], return_mode: str = "min", **__: Any) -> float | list[float]:
        milliseconds = run_once(function)
        return [milliseconds] if return_mode == "all" else milliseconds

    for name in ("TritonBenchmarker", "InductorBenchmarker", "TorchProfilerBenchmarker"):
        getattr(module, name).benchmark_gpu = module.time_and_count(benchmark_gpu)


def install_triton(module: ModuleType | None) -> None:
    assert module is not None

    def do_bench(
        fn: Callable[[], Any],
        warmup: int = 25,
        rep: int = 100,
        grad_to_none: Any = None,
        quantiles: list[float] | None = None,
        return_mode: str = "mean",
    ) -> float | list[float]:
        """triton.testing.do_bench on the virtual clock: one run, which is its own minimum, mean and quantile.

        What it runs is computed, as callers expect; within gfx950_emulator.timing_only() it is not."""
        for tensor in grad_to_none or ():
            tensor.grad = None
        milliseconds = run_once(fn, hip.TIMING_ALSO)
        if quantiles is not None:
            return milliseconds if len(quantiles) == 1 else [milliseconds] * len(quantiles)
        return [milliseconds] if return_mode == "all" else milliseconds

    module.do_bench = do_bench  # type: ignore[attr-defined]
