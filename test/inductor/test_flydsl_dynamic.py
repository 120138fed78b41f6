# Owner(s): ["module: inductor"]
"""FLYDSL with symbolic sizes: one graph and one kernel for every size that its guards admit (T2, T3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from inductor.flydsl_testing import LOGGER, FlyDSLTestCase, exact, flydsl_launches, integers
from torch._dynamo.utils import counters
from torch._inductor import config
from torch.nn import functional as F
from torch.testing._internal.common_utils import instantiate_parametrized_tests, parametrize, run_tests

BF16 = torch.bfloat16
N, K = 72, 136


def marked(tensor: torch.Tensor, dim: int = 0) -> torch.Tensor:
    torch._dynamo.mark_dynamic(tensor, dim)
    return tensor


class DynamicTestCase(FlyDSLTestCase):
    def setUp(self) -> None:
        super().setUp()
        from torch._inductor.kernel.flydsl import gemm

        self.built: list[Any] = []
        real = gemm.CompiledGemm.__init__

        def build(compiled: Any, spec: Any) -> None:
            self.built.append(spec)
            real(compiled, spec)

        gemm._compiled.clear()
        self.enterContext(mock.patch.object(gemm.CompiledGemm, "__init__", build))
        self.enterContext(config.patch(compile_threads=1))  # kernels are built here, where they are counted

    def run_sizes(
        self,
        fn: Callable[..., torch.Tensor],
        expect: Callable[..., torch.Tensor],
        calls: list[tuple[torch.Tensor, ...]],
        graphs: int = 1,
        **options: Any,
    ) -> None:
        """Every call is right to the bit and runs one FlyDSL kernel; all together make so many graphs and kernels."""
        compiled = torch.compile(fn, **options)
        for args in calls:
            before = flydsl_launches()
            result = compiled(*args)
            self.assertEqual(flydsl_launches() - before, 1)
            self.assertRounded(result, expect(*map(exact, args)))
        self.assertEqual(counters["stats"]["unique_graphs"], graphs)
        self.assertEqual(len(self.built), graphs)


@instantiate_parametrized_tests
class TestRows(DynamicTestCase):
    """M symbolic (case M5)."""

    def test_everything_dynamic(self) -> None:
        weight = integers(N, K, seed=1)
        calls = [(integers(m, K, seed=m), weight) for m in (33, 7, 130)]
        self.run_sizes(lambda x, w: x @ w.T, lambda x, w: x @ w.T, calls, dynamic=True)

    def test_marked(self) -> None:
        weight, bias = integers(N, K, seed=1), integers(N, seed=2)
        calls = [(marked(integers(m, K, seed=m)), weight, bias) for m in (33, 7, 130)]
        self.run_sizes(lambda x, w, b: F.linear(x, w, b).relu(), lambda x, w, b: (x @ w.T + b).relu(), calls)

    def test_a_batch_of_sequences(self) -> None:
        """[B, S, K] with both symbolic: M is their product."""
        weight = integers(N, K, seed=1)
        calls = [(integers(b, s, K, seed=s), weight) for b, s in ((2, 9), (3, 5), (5, 21))]
        self.run_sizes(lambda x, w: F.linear(x, w) * 0.5, lambda x, w: (x @ w.T) * 0.5, calls, dynamic=True)

    def test_one_row_is_a_graph_of_its_own(self) -> None:
        weight = integers(N, K, seed=1)
        compiled = torch.compile(lambda x, w: x @ w.T, dynamic=True)
        for m in (33, 1, 64):
            x = integers(m, K, seed=m)
            self.assertRounded(compiled(x, weight), exact(x) @ exact(weight).T)


@instantiate_parametrized_tests
class TestOtherDimensions(DynamicTestCase):
    def test_k(self) -> None:
        calls = [(integers(16, k, seed=k), integers(k, N, seed=1)) for k in (64, 200, 72, 520)]
        self.run_sizes(torch.mm, torch.mm, calls, dynamic=True)

    def test_batches(self) -> None:
        calls = [(integers(b, 16, K, seed=b), integers(b, K, N, seed=1)) for b in (3, 2, 5)]
        self.run_sizes(torch.bmm, torch.bmm, calls, dynamic=True)

    @parametrize("dim", ["n", "k"])
    def test_a_size_that_no_lane_can_load_goes_elsewhere(self, dim: str) -> None:
        """The graph guards on divisibility by 8; another size compiles a graph without FlyDSL."""
        with config.patch(max_autotune_gemm_backends="ATEN,FLYDSL", benchmark_epilogue_fusion=False), mock.patch(
            "torch._inductor.select_algorithm.AlgorithmSelectorCache.do_autotuning",
            lambda cache, name, inputs, layout, fns, key, choices, *args, **kwargs: {
                choice: float(not choice.name.startswith("flydsl")) for choice in choices
            },
        ):  # fmt: skip
            compiled = torch.compile(torch.mm, dynamic=True)
            seen = []
            for size in (64, 128, 60, 72):
                n, k = (size, K) if dim == "n" else (N, size)
                a, b = integers(24, k, seed=1), integers(k, n, seed=2)
                before = flydsl_launches()
                if size == 60:
                    with self.assertLogs(LOGGER, "INFO") as logs:
                        result = compiled(a, b)
                    self.assertIn(f"{dim.upper()}=60 is not a multiple of 8", logs.output[0])
                else:
                    result = compiled(a, b)
                seen.append(flydsl_launches() - before)
                self.assertRounded(result, exact(a) @ exact(b))
        self.assertEqual(seen, [1, 1, 0, 1])
        self.assertEqual(counters["stats"]["unique_graphs"], 2)


if __name__ == "__main__":
    run_tests()
