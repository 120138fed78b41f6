# Owner(s): ["module: inductor"]
"""Calls after the first: what shapes decide is done once, what changes from call to call is not kept (T2, T3)."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any
from unittest import mock

import torch
from inductor.flydsl_testing import FlyDSLTestCase, exact, flydsl_launches, integers
from torch._inductor.kernel.flydsl import gemm_config
from torch._inductor.utils import run_and_get_code
from torch.testing._internal.common_utils import instantiate_parametrized_tests, parametrize, run_tests

M, N, K = 48, 64, 128


def linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x @ weight.T


def forbidden(*args: Any) -> Any:
    raise AssertionError("a warm call does this again")


@instantiate_parametrized_tests
class TestWarmCalls(FlyDSLTestCase):
    def assertProduct(self, result: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> None:
        self.assertRounded(result, exact(x) @ exact(weight).T)

    def test_every_call_launches_once(self) -> None:
        """Case I12: also the first, which loads the kernel."""
        x, weight = integers(M, K), integers(N, K)
        compiled, before = torch.compile(linear), flydsl_launches()
        for count in (1, 2, 3):
            self.assertProduct(compiled(x, weight), x, weight)
            self.assertEqual(flydsl_launches() - before, count)

    @parametrize("dynamic", [False, True])
    def test_nothing_is_checked_or_packed_again(self, dynamic: bool) -> None:
        from torch._inductor.kernel.flydsl import gemm
        from torch._native.flydsl import launch

        x, weight = integers(M, K), integers(N, K)
        compiled = torch.compile(linear, dynamic=dynamic)
        compiled(x, weight)
        with (
            mock.patch.object(gemm, "problem_of", forbidden),
            mock.patch.object(gemm, "Numbers", forbidden),
            mock.patch.object(launch, "packed_launch", forbidden),
            mock.patch("os.environ", None),
        ):
            result = compiled(x, weight)
        self.assertProduct(result, x, weight)

    def test_other_addresses(self) -> None:
        """Also of an epilogue's inputs and of a view of a larger tensor."""

        def fn(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
            return torch.addmm(bias, x, weight.T) + residual

        compiled = torch.compile(fn)
        kept = []
        for seed in range(3):
            x, weight = integers(2 * M, K, seed=seed)[seed : M + seed], integers(N, K, seed=seed + 10)
            bias, residual = integers(N, seed=seed + 20), integers(M, N, seed=seed + 30)
            result = compiled(x, weight, bias, residual)
            expected = exact(x) @ exact(weight).T + exact(bias) + exact(residual)
            kept.append((result, expected))
        for result, expected in kept:  # no call wrote to an earlier one's output
            self.assertRounded(result, expected)

    def test_two_shapes_of_one_kernel_in_a_graph(self) -> None:
        def fn(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            return x @ weight.T, x[:40] @ weight.T, x @ weight[:48].T

        compiled = torch.compile(fn)
        for seed in range(3):
            x, weight = integers(M, K, seed=seed), integers(N, K, seed=seed + 10)
            results, codes = run_and_get_code(compiled, x, weight) if seed == 0 else (compiled(x, weight), None)
            if codes is not None:
                self.assertEqual(codes[0].count("async_compile.flydsl("), 1)
            for result, (a, b) in zip(results, ((x, weight), (x[:40], weight), (x, weight[:48])), strict=True):
                self.assertProduct(result, a, b)

    def test_symbolic_rows_in_any_order(self) -> None:
        """Also back to a size that was there before."""
        weight = integers(N, K, seed=1)
        compiled = torch.compile(linear, dynamic=True)
        for rows in (48, 40, 48, 200, 40, 17, 48):
            x = integers(rows, K, seed=rows)
            self.assertProduct(compiled(x, weight), x, weight)

    def test_other_streams(self) -> None:
        """The stream that is current at the call, not the one of the first."""
        from torch._native.flydsl import launch

        x, weight = integers(M, K), integers(N, K)
        compiled = torch.compile(linear)
        compiled(x, weight)
        streams: list[int] = []
        packed = launch.packed_launch

        def recording(*args: Any) -> Any:
            bound = packed(*args)
            return lambda *addresses: (streams.append(addresses[-1]), bound(*addresses))

        side = torch.cuda.Stream()
        with mock.patch.object(launch, "packed_launch", recording):
            torch._dynamo.reset()
            compiled = torch.compile(linear)
            compiled(x, weight)
            for stream in (torch.cuda.current_stream(), side, torch.cuda.current_stream(), side):
                with torch.cuda.stream(stream):
                    result = compiled(x, weight)
                stream.synchronize()
                self.assertProduct(result, x, weight)
        one, other = torch.cuda.current_stream().cuda_stream, side.cuda_stream
        self.assertNotEqual(one, other)
        self.assertEqual(streams, [one, other, one, other])

    def test_threads(self) -> None:
        """The packed arguments are a thread's own."""
        operands = [(integers(M, K, seed=i), integers(N, K, seed=i + 10)) for i in range(2)]
        compiled = torch.compile(linear)
        compiled(*operands[0])
        results: list[list[torch.Tensor]] = [[], []]

        def work(i: int) -> None:
            for _ in range(20):
                results[i].append(compiled(*operands[i]))

        threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for i in range(2):
            self.assertEqual(len(results[i]), 20)
            for result in results[i]:
                self.assertProduct(result, *operands[i])


class TestKernelCalls(FlyDSLTestCase):
    """The compiled kernel itself, called as the autotuner does."""

    def kernel(self, **changes: Any) -> Any:
        from torch._inductor.kernel.flydsl.gemm import CompiledGemm

        config = gemm_config.GemmConfig(tile_m=64, tile_n=64, tile_k=64, stages=2, waves_m=2, waves_n=2)
        return CompiledGemm(
            gemm_config.GemmSpec(
                dtype="bf16", config=dataclasses.replace(config, **changes), arch="gfx950", k_tail=False
            )
        )

    def test_an_address_that_is_not_aligned_at_a_later_call(self) -> None:
        compiled, stream = self.kernel(), torch.cuda.current_stream().cuda_stream
        buffer, weight = integers(M * K + 8), integers(N, K)
        out = torch.empty(M, N, dtype=torch.bfloat16, device="cuda")
        for offset in (0, 8):
            compiled(buffer[offset:].as_strided((M, K), (K, 1), offset), weight, out, stream)
        before = compiled.launches
        with self.assertRaisesRegex(ValueError, "is not a multiple of 16 bytes"):
            compiled(buffer.as_strided((M, K), (K, 1), 1), weight, out, stream)
        self.assertEqual(compiled.launches, before)

    def test_a_workspace_is_never_kept(self) -> None:
        """Parts of a split K: allocated at each call, beside outputs that stay."""
        compiled, stream = self.kernel(split_k=2), torch.cuda.current_stream().cuda_stream
        kept = []
        for seed in range(3):
            x, weight = integers(M, 512, seed=seed), integers(N, 512, seed=seed + 10)
            out = torch.empty(M, N, dtype=torch.bfloat16, device="cuda")
            compiled(x, weight, out, stream)
            kept.append((out, exact(x) @ exact(weight).T))
        for out, expected in kept:
            self.assertRounded(out, expected)


if __name__ == "__main__":
    run_tests()
