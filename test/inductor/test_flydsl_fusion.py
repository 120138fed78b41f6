# Owner(s): ["module: inductor"]
"""Pointwise nodes as the epilogue of a FlyDSL product (T2, T3)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, ClassVar
from unittest import mock

import torch
from inductor.flydsl_testing import LOGGER, FlyDSLTestCase, exact, flydsl_launches, integers
from torch._dynamo.utils import counters
from torch._inductor import config
from torch._inductor.codegen.flydsl import fusion
from torch.nn import functional as F
from torch.testing._internal.common_utils import instantiate_parametrized_tests, parametrize, run_tests

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
M, N, K = 40, 72, 136
HALF_ULP = {BF16: 2.0**-8, FP16: 2.0**-11, FP32: 2.0**-21}


def small(*size: int, seed: int = 0, dtype: torch.dtype = BF16) -> torch.Tensor:
    """-1, 0 and 1: products of a depth of K are exact and within what activations bend."""
    return integers(*size, seed=seed, largest=1, dtype=dtype)


def x() -> torch.Tensor:
    return small(M, K, seed=1)


def w() -> torch.Tensor:
    return small(N, K, seed=2)


def sequences() -> torch.Tensor:
    return small(2, M // 2, K, seed=1)


Case = tuple[Callable[..., torch.Tensor], Callable[[], list[torch.Tensor]]]

# Each is one FlyDSL kernel (but for swiglu) and no other.
FUSED: dict[str, Case] = {
    "relu": (lambda x, w: torch.relu(x @ w.T), lambda: [x(), w()]),
    "gelu": (lambda x, w: F.gelu(x @ w.T), lambda: [x(), w()]),
    "gelu_tanh": (lambda x, w: F.gelu(x @ w.T, approximate="tanh"), lambda: [x(), w()]),
    "silu": (lambda x, w: F.silu(x @ w.T), lambda: [x(), w()]),
    "sigmoid": (lambda x, w: torch.sigmoid(x @ w.T), lambda: [x(), w()]),
    "tanh": (lambda x, w: torch.tanh((x @ w.T) * 0.125), lambda: [x(), w()]),
    "leaky_relu": (lambda x, w: F.leaky_relu(x @ w.T, 0.25), lambda: [x(), w()]),
    "clamp": (lambda x, w: (x @ w.T).abs().clamp(2, 7), lambda: [x(), w()]),
    "scalar_tensor": (lambda x, w, s: (x @ w.T) * s, lambda: [x(), w(), small(1, seed=5, dtype=FP32) + 0.5]),
    "row": (lambda x, w, r: (x @ w.T) * r, lambda: [x(), w(), small(N, seed=5)]),
    "column": (lambda x, w, c: (x @ w.T) * c, lambda: [x(), w(), small(M, 1, seed=5, dtype=FP32)]),
    "residual": (lambda x, w, r: torch.relu(x @ w.T) + r, lambda: [x(), w(), small(M, N, seed=5)]),
    "fp32_out": (lambda x, w: (x @ w.T).float() * 0.25, lambda: [x(), w()]),
    "fp16_out": (lambda x, w: (x @ w.T).half() + 1, lambda: [x(), w()]),
    "heads": (lambda x, w: torch.relu((x @ w.T).view(2, M // 2, 8, N // 8)), lambda: [x(), w()]),
    "linear": (
        lambda x, w, b, r: F.gelu(F.linear(x, w, b)) + r,
        lambda: [sequences(), w(), small(N, seed=3), small(2, M // 2, N, seed=5)],
    ),
    "batches": (
        lambda x, w, r: torch.relu(torch.bmm(x, w)) + r,
        lambda: [small(3, M, K), small(3, K, N, seed=1), small(3, M, N, seed=5)],
    ),
}

# Is not fused, and why; None where the scheduler already knows better, without asking us.
APART: dict[str, tuple[Callable[..., Any], Callable[[], list[torch.Tensor]], str | None]] = {
    "no_such_operator": (lambda x, w: torch.log1p((x @ w.T).abs()), lambda: [x(), w()], "epilogues have no log1p"),
    "two_results": (
        lambda x, w: (y := x @ w.T, torch.relu(y)), lambda: [x(), w()], "used elsewhere: a kernel stores one result"
    ),
    "integers": (lambda x, w: (x @ w.T).int(), lambda: [x(), w()], "cast to torch.int32|is torch.int32"),
    "column_major_input": (
        lambda x, w, r: torch.relu(x @ w.T) * r.T, lambda: [x(), w(), small(N, M, seed=5)], "neither a row, a column"
    ),
    "a_scalar_of_the_host": (
        lambda x, w, s: (x @ w.T) * s,
        lambda: [x(), w(), torch.tensor(0.5)],
        "is on cpu and the product on cuda",
    ),
    "transposed_result": (lambda x, w: torch.relu(x @ w.T).T.contiguous(), lambda: [x(), w()], None),
    "reduction": (lambda x, w: torch.relu(x @ w.T).sum(-1), lambda: [x(), w()], None),
}  # fmt: skip


@instantiate_parametrized_tests
class TestFused(FlyDSLTestCase):
    @parametrize("case", list(FUSED))
    def test_one_kernel(self, case: str) -> None:
        fn, make = FUSED[case]
        args = make()
        result, code = self.compiled(fn, *args)
        self.assertEqual(code.count("async_compile.flydsl("), 1)
        self.assertNotIn("async_compile.triton(", code)
        self.assertEqual(counters["inductor"]["flydsl_fused_epilogue_nodes"], 1)
        expected = fn(*map(exact, args))
        expected = expected.double()
        self.assertEqual(result.dtype, fn(*[arg.cpu() for arg in args]).dtype)
        self.assertEqual(result.cpu().double(), expected, atol=1e-6, rtol=HALF_ULP[result.dtype])

    def test_two_products_one_epilogue(self) -> None:
        """silu(x @ w) * (x @ v): the second product takes it all, with the first as an input."""

        def swiglu(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return F.silu(x @ w.T) * (x @ v.T)

        args = [x(), w(), small(N, K, seed=5)]
        result, code = self.compiled(swiglu, *args, launches=2)
        self.assertNotIn("async_compile.triton(", code)
        first = (exact(args[0]) @ exact(args[1]).T).to(BF16).double()  # stored between the kernels
        expected = F.silu(first) * (exact(args[0]) @ exact(args[2]).T)
        self.assertEqual(result.cpu().double(), expected, atol=1e-6, rtol=HALF_ULP[BF16])

    def test_rounded_once(self) -> None:
        """Better than the unfused graph, which rounds the product as well; like it where that is asked for."""
        args = [integers(M, K, largest=7), integers(N, K, seed=2, largest=7), integers(M, N, seed=3, largest=100)]

        def fn(x: torch.Tensor, w: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
            return (x @ w.T) * 0.5 - r

        product, residual = exact(args[0]) @ exact(args[1]).T, exact(args[2])
        once, _ = self.compiled(fn, *args)
        self.assertRounded(once, 0.5 * product - residual)
        torch._dynamo.reset()
        with config.patch(emulate_precision_casts=True):
            twice, _ = self.compiled(fn, *args)
        step = (0.5 * product.to(BF16).double()).to(BF16).double()
        self.assertRounded(twice, step - residual)
        self.assertFalse(torch.equal(once, twice))

    def test_nothing_is_allocated_for_what_stays_in_registers(self) -> None:
        _, code = self.compiled(FUSED["relu"][0], *FUSED["relu"][1]())
        self.assertEqual(code.count("empty_strided_cuda(("), 1)

    @parametrize("case", list(APART))
    def test_apart(self, case: str) -> None:
        fn, make, reason = APART[case]
        args = make()
        with self.assertLogs(LOGGER, logging.DEBUG) as logs:
            logging.getLogger(LOGGER).debug("so that there is one")
            result, code = self.compiled(fn, *args)
        self.assertEqual(code.count("async_compile.triton("), 1)
        if reason is not None:
            self.assertRegex("\n".join(logs.output), f"is not fused into .*({reason})")
        expected = fn(*map(exact, args))
        for ours, right in zip(*((r if isinstance(r, tuple) else (r,)) for r in (result, expected)), strict=True):
            self.assertEqual(ours.cpu().double(), right.double(), atol=1e-6, rtol=4 * HALF_ULP[BF16])

    def test_training_keeps_what_the_backward_needs(self) -> None:
        """A training step's forward has two results, the activation and what its backward reads: they are apart."""
        for activation in (torch.relu, F.gelu):
            torch._dynamo.reset()
            weight = w().requires_grad_()
            compiled = torch.compile(lambda a, b, f=activation: f(a @ b.T))
            compiled(x(), weight).backward(small(M, N, seed=7))
            self.assertEqual(counters["inductor"]["flydsl_fused_epilogue_nodes"], 0)
            reference = exact(weight).requires_grad_()
            activation(exact(x()) @ reference.T).backward(exact(small(M, N, seed=7)))
            self.assertEqual(weight.grad.cpu().double(), reference.grad, atol=0.1, rtol=2.0**-6)


class TestMeasured(FlyDSLTestCase):
    """With other backends, the fused kernels are timed beside the best unfused and Triton's fused ones."""

    options: ClassVar[dict[str, Any]] = {
        "max_autotune_gemm_backends": "ATEN,TRITON,FLYDSL",
        "flydsl_enable_autotuning": False,
    }

    def setUp(self) -> None:
        super().setUp()
        self.enterContext(config.patch({"test_configs.autotune_choice_name_regex": r"^(flydsl|mm$|triton_mm_0)"}))

    def run_case(self, milliseconds: float | None) -> tuple[str, int]:
        """Which backend the generated code calls and how many nodes FlyDSL fused, if its fused kernel took so long."""
        fn, make = FUSED["relu"]
        args = make()
        measured: list[float] = []
        real = fusion._fused_milliseconds

        def fused_milliseconds(fusible: Any) -> list[float]:
            measured.extend(real(fusible) if milliseconds is None else [milliseconds] * len(fusible))
            return measured

        before = flydsl_launches()
        with mock.patch.object(fusion, "_fused_milliseconds", fused_milliseconds):
            compiled = torch.compile(fn)
            compiled(*args)
            before = flydsl_launches()
            result = compiled(*args)
        self.assertEqual(result.cpu().double(), torch.relu(exact(args[0]) @ exact(args[1]).T), atol=0, rtol=2.0**-8)
        self.assertEqual(len(measured), 1)
        self.assertTrue(measured[0] >= 0, measured)
        return ("FLYDSL" if flydsl_launches() > before else "other"), counters["inductor"][
            "flydsl_fused_epilogue_nodes"
        ]

    def test_fused_is_fastest(self) -> None:
        self.assertEqual(self.run_case(0.0), ("FLYDSL", 1))

    def test_fused_is_slowest(self) -> None:
        _, fused = self.run_case(float("inf"))
        self.assertEqual(fused, 0)

    def test_timed_for_real(self) -> None:
        backend, fused = self.run_case(None)
        self.assertEqual(fused, 1 if backend == "FLYDSL" else 0)


if __name__ == "__main__":
    run_tests()
