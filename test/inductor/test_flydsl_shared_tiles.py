# Owner(s): ["module: inductor"]
"""Few tiles of C, deep K: workgroups share tiles, chosen by rule and by measured time, under torch.compile (T2, T3)."""

from __future__ import annotations

from typing import Any

import torch
from inductor.flydsl_testing import FlyDSLTestCase, exact, flydsl_launches, integers
from torch._inductor import config
from torch._inductor.kernel.flydsl import gemm_config
from torch._inductor.utils import run_and_get_code
from torch.testing._internal.common_utils import instantiate_parametrized_tests, parametrize, run_tests

M, N, K = 16, 64, 4096


def linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x @ weight.T


@instantiate_parametrized_tests
class TestSharedTiles(FlyDSLTestCase):
    @parametrize("autotuned", [False, True])
    def test_chosen_and_right(self, autotuned: bool) -> None:
        """By the emulator's modelled times if autotuned; its other candidate computes each tile in one workgroup."""
        problem = gemm_config.GemmProblem(m=M, n=N, k=K, dtype="bf16", lda=K, ldb=K, ldc=N)
        self.assertEqual(sorted({c.split_k > 1 for c in gemm_config.configs(problem)}), [False, True])
        x, weight = integers(M, K, largest=2), integers(N, K, seed=1, largest=2)
        with config.patch(flydsl_enable_autotuning=autotuned):
            compiled = torch.compile(linear)
            result, [code] = run_and_get_code(compiled, x, weight)
        self.assertRegex(code, r"split_k=[48],")
        self.assertRounded(result, exact(x) @ exact(weight).T)
        before = flydsl_launches()
        for count in (1, 2):
            x = integers(M, K, seed=count + 2, largest=2)
            self.assertRounded(compiled(x, weight), exact(x) @ exact(weight).T)
            self.assertEqual(flydsl_launches() - before, count)

    def test_with_an_epilogue(self) -> None:
        def fn(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
            return torch.relu(torch.nn.functional.linear(x, weight, bias))

        x, weight, bias = integers(M, K, largest=2), integers(N, K, seed=1, largest=2), integers(N, seed=2)
        result, code = self.compiled(fn, x, weight, bias)
        self.assertRegex(code, r"split_k=[48],")
        self.assertRounded(result, torch.relu(exact(x) @ exact(weight).T + exact(bias)))

    def test_batches(self) -> None:
        a, b = integers(3, M, K, largest=2), integers(3, K, N, seed=1, largest=2)
        result, code = self.compiled(torch.bmm, a, b)
        self.assertRegex(code, r"split_k=[48],")
        self.assertRounded(result, exact(a) @ exact(b))

    def test_symbolic_rows(self) -> None:
        weight = integers(N, K, seed=1, largest=2)
        compiled, codes = torch.compile(linear, dynamic=True), []
        for rows in (16, 40, 7, 200, 16):
            x = integers(rows, K, seed=rows, largest=2)
            result, codes = run_and_get_code(compiled, x, weight) if not codes else (compiled(x, weight), codes)
            self.assertRounded(result, exact(x) @ exact(weight).T)
        self.assertRegex(codes[0], r"split_k=[48],")

    def test_cudagraphs(self) -> None:
        """Each graph counts in memory of its own, beside calls outside of graphs."""
        x, weight = integers(M, K, largest=2), integers(N, K, seed=1, largest=2)
        graphed, plain = torch.compile(linear, mode="max-autotune"), torch.compile(linear, dynamic=False)
        for seed in range(4):
            x.copy_(integers(M, K, seed=seed, largest=2))
            expected: Any = exact(x) @ exact(weight).T
            self.assertRounded(graphed(x, weight).clone(), expected)
            self.assertRounded(plain(x, weight), expected)


if __name__ == "__main__":
    run_tests()
