# Owner(s): ["module: inductor"]
"""mm, addmm, bmm, baddbmm and nn.Linear on FLYDSL: every layout, addend, batch and output type (T2, T3).

Integers throughout, so that a result is right to the bit or wrong.
"""

from __future__ import annotations

import logging
from typing import Any, ClassVar

import torch
from inductor.flydsl_testing import LOGGER, FlyDSLTestCase, exact, flydsl_launches, integers, normal
from torch.nn import functional as F
from torch.testing._internal.common_utils import instantiate_parametrized_tests, parametrize, run_tests, subtest

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
# Small, so that the emulator takes little time; tails of every tile in M, N and K.
M, N, K = 40, 72, 136
LAYOUTS = ("nt", "nn", "tn", "tt")


def operands(layout: str, *batch: int, dtype: torch.dtype = BF16, pad: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """A [M, K] and B [K, N] in a BLAS layout; with ``pad``, slices of larger matrices, not at their start."""

    def matrix(rows: int, cols: int, transposed: bool, seed: int) -> torch.Tensor:
        if transposed:
            rows, cols = cols, rows
        values = integers(*batch, rows + pad, cols + pad, dtype=dtype, seed=seed)
        values = values[..., pad:, pad:]
        return values.transpose(-1, -2) if transposed else values

    return matrix(M, K, layout[0] == "t", 1), matrix(K, N, layout[1] == "t", 2)


@instantiate_parametrized_tests
class TestMM(FlyDSLTestCase):
    @parametrize("layout", LAYOUTS)
    @parametrize("pad", [0, 8])
    def test_layouts(self, layout: str, pad: int) -> None:
        a, b = operands(layout, pad=pad)
        result, code = self.compiled(torch.mm, a, b)
        self.assertRounded(result, exact(a) @ exact(b))
        self.assertIn("async_compile.flydsl(", code)
        self.assertNotIn("extern_kernels.mm", code)

    @parametrize("layout", ["nt", "tn"])
    def test_fp16(self, layout: str) -> None:
        a, b = operands(layout, dtype=FP16)
        result, _ = self.compiled(torch.mm, a, b)
        self.assertRounded(result, exact(a) @ exact(b))

    @parametrize("layout", ["nt", "nn"])
    def test_fp32_output(self, layout: str) -> None:
        a, b = operands(layout)
        result, _ = self.compiled(lambda x, y: torch.mm(x, y, out_dtype=FP32), a, b)
        self.assertEqual(result.dtype, FP32)
        self.assertRounded(result, exact(a) @ exact(b))

    def test_nan_and_infinity_propagate(self) -> None:
        a, b = normal(M, K), normal(K, N, seed=1)
        a[3, 5], a[7, 0], b[2, 4] = float("nan"), float("inf"), float("-inf")
        result, _ = self.compiled(torch.mm, a, b)
        expected = exact(a) @ exact(b)
        self.assertEqual(result.cpu().isnan(), expected.isnan())
        self.assertEqual(result.cpu().isinf(), expected.isinf())
        self.assertEqual(result.cpu()[expected.isinf()].double(), expected[expected.isinf()])

    def test_one_row(self) -> None:
        """Inductor makes a reduction of a product with one row (decompose_mm), before any template is asked."""
        a, b = operands("nt")
        result = torch.compile(torch.mm)(a[:1], b)
        self.assertRounded(result, exact(a[:1]) @ exact(b))


@instantiate_parametrized_tests
class TestAddmm(FlyDSLTestCase):
    @parametrize(
        "size",
        [
            subtest((N,), name="row"),
            subtest((M, N), name="full"),
            subtest((M, 1), name="column"),
            subtest((1, 1), name="scalar"),  # which Inductor fills a matrix with, before any template is asked
        ],
    )
    @parametrize("scalars", [{}, {"alpha": 0.5, "beta": 2}])
    def test_addends(self, size: tuple[int, ...], scalars: dict[str, float]) -> None:
        a, b = operands("nt")
        addend = integers(*size, seed=3)
        result, code = self.compiled(lambda c, x, y: torch.addmm(c, x, y, **scalars), addend, a, b)
        product = exact(a) @ exact(b)
        self.assertRounded(result, scalars.get("beta", 1) * exact(addend) + scalars.get("alpha", 1) * product)
        self.assertEqual(code.count("async_compile.triton("), 1 if size == (1, 1) else 0)

    def test_beta_0_reads_no_addend(self) -> None:
        a, b = operands("nn")
        addend = torch.full((M, N), float("nan"), dtype=BF16, device="cuda")
        result, _ = self.compiled(lambda c, x, y: torch.addmm(c, x, y, alpha=2, beta=0), addend, a, b)
        self.assertRounded(result, 2 * (exact(a) @ exact(b)))

    def test_padded_addend(self) -> None:
        a, b = operands("nt")
        addend = integers(M, N + 8, seed=3)[:, 8:]
        result, _ = self.compiled(torch.addmm, addend, a, b)
        self.assertRounded(result, exact(addend) + exact(a) @ exact(b))


@instantiate_parametrized_tests
class TestBatches(FlyDSLTestCase):
    @parametrize("layout", LAYOUTS)
    def test_bmm(self, layout: str) -> None:
        a, b = operands(layout, 3)
        result, _ = self.compiled(torch.bmm, a, b)
        self.assertRounded(result, exact(a) @ exact(b))

    @parametrize("shared", ["a", "b"])
    def test_an_operand_that_all_batches_share(self, shared: str) -> None:
        """Batch stride 0."""

        def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.bmm(x.expand(3, M, K), y.expand(3, K, N))

        a, b = operands("nn", 3)
        a, b = (a[:1], b) if shared == "a" else (a, b[:1])
        result, _ = self.compiled(fn, a, b)
        self.assertRounded(result, exact(a) @ exact(b))

    def test_fp32_output(self) -> None:
        a, b = operands("nt", 2)
        result, _ = self.compiled(lambda x, y: torch.bmm(x, y, out_dtype=FP32), a, b)
        self.assertRounded(result, exact(a) @ exact(b))

    @parametrize("size", [(3, M, N), (3, 1, N), (1, M, N), (N,)])
    def test_baddbmm(self, size: tuple[int, ...]) -> None:
        a, b = operands("nn", 3)
        addend = integers(*size, seed=3)
        result, _ = self.compiled(lambda c, x, y: torch.baddbmm(c, x, y, alpha=2, beta=0.5), addend, a, b)
        self.assertRounded(result, 0.5 * exact(addend) + 2 * (exact(a) @ exact(b)))


@instantiate_parametrized_tests
class TestLinear(FlyDSLTestCase):
    @parametrize("bias", [True, False])
    def test_forward_and_backward(self, bias: bool) -> None:
        """Three products: the output (NT), the input's gradient (NN) and the weight's (TN)."""
        x, weight = integers(2, M // 2, K, seed=1).requires_grad_(), integers(N, K, seed=2).requires_grad_()
        parameters = [x, weight, *([integers(N, seed=3).requires_grad_()] if bias else [])]
        gradient = integers(2, M // 2, N, seed=4, largest=1)
        before = flydsl_launches()
        compiled = torch.compile(F.linear)
        result = compiled(*parameters)
        result.backward(gradient)
        self.assertEqual(flydsl_launches() - before, 3)
        expected = exact(x) @ exact(weight).T + (exact(parameters[2]) if bias else 0)
        self.assertRounded(result, expected)
        self.assertRounded(x.grad, exact(gradient) @ exact(weight))
        rows = exact(gradient).view(M, N)
        self.assertRounded(weight.grad, rows.T @ exact(x).view(M, K))
        if bias:
            self.assertRounded(parameters[2].grad, rows.sum(0))

    def test_training_step_is_eagers(self) -> None:
        """Two layers, a loss and an optimizer's step, compiled and eager from the same start."""

        def make() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
            torch.manual_seed(0)
            model = torch.nn.Sequential(torch.nn.Linear(K, 64), torch.nn.GELU(), torch.nn.Linear(64, N))
            model = model.to("cuda", BF16)
            return model, torch.optim.SGD(model.parameters(), lr=0.125)

        x, wanted = normal(M, K), normal(M, N, seed=1)
        weights = []
        for compile_it in (True, False):
            model, optimizer = make()
            step = torch.compile(model) if compile_it else model
            before = flydsl_launches()
            F.mse_loss(step(x), wanted).backward()
            optimizer.step()
            self.assertEqual(flydsl_launches() - before, 5 if compile_it else 0)
            weights.append([parameter.detach().cpu() for parameter in model.parameters()])
        for ours, eagers in zip(*weights, strict=True):
            self.assertEqual(ours, eagers, atol=4e-3, rtol=2.0**-7)

    def test_autocast(self) -> None:
        """fp32 parameters and inputs, bf16 products."""
        layer = torch.nn.Linear(K, N).cuda()
        x = normal(M, K, dtype=FP32)
        with torch.autocast("cuda", BF16), torch.no_grad():
            result, _ = self.compiled(layer, x)
        self.assertEqual(result.dtype, BF16)
        rounded = [t.to(BF16) for t in (x, layer.weight, layer.bias)]
        expected = exact(rounded[0]) @ exact(rounded[1]).T + exact(rounded[2])
        self.assertEqual(result.cpu().double(), expected, atol=1e-3, rtol=2.0**-8)


@instantiate_parametrized_tests
class TestNothingToCompute(FlyDSLTestCase):
    """Empty operands go where the base sends them: no FlyDSL kernel, the same result as eager."""

    options: ClassVar[dict[str, Any]] = {"max_autotune_gemm_backends": "ATEN,FLYDSL", "flydsl_enable_autotuning": False}

    def check(self, fn: Any, *args: torch.Tensor) -> None:
        result, _ = self.compiled(fn, *args, launches=0)
        expected = fn(*args)
        self.assertEqual((result.shape, result.dtype), (expected.shape, expected.dtype))
        self.assertEqual(result, expected)

    @parametrize("m,n,k", [(0, N, K), (M, 0, K), (M, N, 0)])
    def test_empty(self, m: int, n: int, k: int) -> None:
        a, b = integers(m, k), integers(k, n)
        self.check(torch.mm, a, b)
        self.check(torch.addmm, integers(n), a, b)
        self.check(torch.bmm, integers(2, m, k), integers(2, k, n))
        self.check(torch.baddbmm, integers(2, m, n), integers(2, m, k), integers(2, k, n))

    def test_no_batch(self) -> None:
        self.check(torch.bmm, integers(0, M, K), integers(0, K, N))


class TestElsewhere(FlyDSLTestCase):
    """Beside other backends: what FlyDSL does not take is right too, and says why."""

    options: ClassVar[dict[str, Any]] = {"max_autotune_gemm_backends": "ATEN,FLYDSL", "flydsl_enable_autotuning": False}

    def test_expanded_rows(self) -> None:
        """A stride of 0: rows overlap, which a copy would have to undo."""
        row, b = integers(1, K), integers(K, N)
        with self.assertLogs(LOGGER, logging.INFO) as logs:
            result, _ = self.compiled(lambda x, y: x.expand(M, K) @ y, row, b, launches=0)
        self.assertRegex("\n".join(logs.output), r"FLYDSL not used for mm .*: (A: row stride 0|.*strides \(0, 1\))")
        self.assertRounded(result, exact(row).expand(M, K) @ exact(b))

    def test_addmm_of_another_output_type(self) -> None:
        """The base's lowering does not know the overload, whatever the backends; eager does. Goes with its fix."""
        a, b, bias = integers(M, K), integers(K, N), integers(N)

        def fn(*args: torch.Tensor) -> torch.Tensor:
            return torch.addmm(*args, out_dtype=FP32)

        self.assertRounded(fn(bias, a, b), exact(a) @ exact(b) + exact(bias))
        with self.assertRaisesRegex(Exception, r"(?s)tuned_addmm\(\) takes .*aten.addmm.dtype"):
            torch.compile(fn)(bias, a, b)


class TestGraphs(FlyDSLTestCase):
    def test_cudagraphs(self) -> None:
        """mode="max-autotune": a first call compiles and warms up, the second records a graph, the others replay it."""
        a, b = operands("nt")
        compiled = torch.compile(lambda x, y: torch.relu(x @ y), mode="max-autotune")
        before = flydsl_launches()
        for seed in range(4):
            a.copy_(integers(M, K, seed=seed))
            self.assertRounded(compiled(a, b).clone(), (exact(a) @ exact(b)).relu())
        self.assertGreater(flydsl_launches(), before)


if __name__ == "__main__":
    run_tests()
