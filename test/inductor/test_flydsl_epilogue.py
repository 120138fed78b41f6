# Owner(s): ["module: inductor"]
"""Epilogues of the FlyDSL GEMM: what a program may be (T0), and what it computes (T2 emulated, T3 gfx950)."""

import dataclasses
import re
import unittest

import torch
from torch._inductor.kernel.flydsl import epilogue_expr, gemm_config
from torch._inductor.kernel.flydsl.epilogue_expr import Builder, Epilogue, EpilogueInput, InputStrides
from torch._inductor.kernel.flydsl.gemm_arguments import problem_of
from torch._inductor.kernel.flydsl.gemm_config import GemmConfig
from torch._native.flydsl import target
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests

from reference import epilogue as reference
from reference import mm

ON_GFX950 = (
    gemm_config.unavailable_reason() is None
    and torch.cuda.is_available()
    and target.device_arch(torch.cuda.current_device()) in target.SUPPORTED_ARCHS
)
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
SMALL = GemmConfig(tile_m=64, tile_n=64, tile_k=64, stages=2, waves_m=2, waves_n=2)
# A tile of three MFMA columns a wave does not exist; one column, eight-byte stores, does.
NARROW = GemmConfig(tile_m=16, tile_n=16, tile_k=128, stages=2, waves_m=1, waves_n=1, waves_k=2)
FULL = EpilogueInput(dtype="bf16", kind="full")
INPUT_SHAPES = {"full": (True, True), "row": (False, True), "column": (True, False), "scalar": (False, False)}


def one_op(op):
    builder = Builder()
    operands = [builder.acc(), *(builder.input("bf16", "full") for _ in range(epilogue_expr.VALUE_OPS[op] - 1))]
    return builder.build(builder.op(op, *operands))


def leaky_relu_of_rounded():
    """As an unfused graph computes it: the product rounded to bf16, then where(x < 0, 0.1 x, x)."""
    builder = Builder()
    x = builder.to(builder.acc(), "bf16")
    negative = builder.op("lt", x, builder.const(0.0))
    return builder.build(builder.op("where", negative, builder.op("mul", x, builder.const(0.1)), x))


def every_kind(dtypes):
    """(acc * scalar + row) * column + full."""
    builder = Builder()
    scalar, row, column, full = (
        builder.input(dtype, kind) for dtype, kind in zip(dtypes, ("scalar", "row", "column", "full"), strict=True)
    )
    value = builder.op("add", builder.op("mul", builder.acc(), scalar), row)
    return builder.build(builder.op("add", builder.op("mul", value, column), full))


@instantiate_parametrized_tests
class TestPrograms(TestCase):
    @parametrize(
        "steps, words",
        [
            ((), "an epilogue of 0 steps"),
            ((("acc",),) * 65, "an epilogue of 65 steps"),
            ((("acc", 1),), "takes nothing"),
            ((("input", 0),), "there are 0 inputs"),
            ((("const", "1"),), "takes one finite float"),
            ((("const", float("inf")),), "takes one finite float"),
            ((("acc",), ("add", 0)), "takes 2 operands"),
            ((("acc",), ("relu", 1)), "operand 1 is no earlier step"),
            ((("acc",), ("relu", -1)), "operand -1 is no earlier step"),
            ((("acc",), ("to", 0, "fp8")), "rounds a step to one of"),
            ((("acc",), ("sqrt", 0)), "no such operator"),
            ((("acc",), ("lt", 0, 0)), "last step is a condition"),
            ((("acc",), ("lt", 0, 0), ("add", 0, 1)), "operand 1 is a condition"),
            ((("acc",), ("where", 0, 0, 0)), "operand 0 is a value"),
        ],
        name_fn=lambda steps, words: re.sub(r"[^\w-]+", "_", f"{words}_{len(steps)}_{steps[-1] if steps else 0}"),
    )
    def test_bad_programs_are_named(self, steps, words):
        self.assertIn(words, epilogue_expr.invalid_reason(Epilogue(steps=steps)))

    def test_too_many_inputs(self):
        builder = Builder()
        for _ in range(5):
            value = builder.input("bf16", "row")
        with self.assertRaisesRegex(ValueError, "5 epilogue inputs, over 4"):
            builder.build(value)

    def test_equal_steps_are_one_and_what_follows_the_result_is_left_out(self):
        builder = Builder()
        acc = builder.acc()
        first = builder.op("relu", acc)
        self.assertEqual(first, builder.op("relu", builder.acc()))
        self.assertNotEqual(builder.const(0.0), builder.const(-0.0))
        self.assertEqual(builder.build(first), Epilogue(steps=(("acc",), ("relu", 0))))

    def test_addmm_does_not_read_a_bias_times_zero(self):
        self.assertEqual(epilogue_expr.addmm(FULL, 1.0, 0.0), epilogue_expr.IDENTITY)
        self.assertEqual(epilogue_expr.addmm(FULL).steps, (("acc",), ("input", 0), ("add", 0, 1)))

    @parametrize(
        "kind, strides, words",
        [
            ("full", InputStrides(row=60), "row stride 60 is not a multiple of 8 elements"),
            ("full", InputStrides(row=2**31), "not below 2^31"),
            ("full", InputStrides(row=2**30), "not below 2^32"),
            ("full", InputStrides(row=-64), "negative strides"),
            ("row", InputStrides(batch=4), "batch stride 4 is not a multiple of 8"),
            ("full", InputStrides(row=64), None),
            ("column", InputStrides(row=3), None),
            ("scalar", InputStrides(), None),
        ],
        name_fn=lambda kind, strides, words: f"{kind}_{strides.row}_{strides.batch}".replace("-", "minus_"),
    )
    def test_strides(self, kind, strides, words):
        operand = dataclasses.replace(FULL, kind=kind)
        reason = epilogue_expr.input_unsupported_reason("x", operand, strides, 128, 64, 2)
        self.assertIsNone(reason) if words is None else self.assertIn(words, reason)


@unittest.skipUnless(ON_GFX950, "running needs a gfx950, real or emulated (python -m gfx950_emulator)")
@instantiate_parametrized_tests
class TestValues(TestCase):
    def launch(self, epilogue, a, b_nk, inputs, config=SMALL, out_dtype=None):
        from torch._inductor.kernel.flydsl.gemm import compile_gemm

        out = torch.full((*a.shape[:-1], b_nk.shape[-2]), 7.0, dtype=out_dtype or a.dtype, device="cuda")
        a, b_nk, inputs = a.cuda(), b_nk.cuda(), [tensor.cuda() for tensor in inputs]
        problem = problem_of(a, b_nk, out, "k", "k", epilogue, inputs)
        compiled = compile_gemm(gemm_config.spec_for(problem, config, target.device_arch(out.device.index)))
        compiled(a, b_nk, out, torch.cuda.current_stream().cuda_stream, *inputs)
        torch.cuda.synchronize()
        return out.cpu()

    def check(self, epilogue, config=SMALL, batch=1, dtype="bf16", out_dtype=None, scale=0.1, shape=(67, 88, 264)):
        m, n, k = shape
        generator = torch.Generator().manual_seed(m + n)
        a = (torch.randn(batch, m, k, generator=generator) * scale).to(DTYPES[dtype])
        b_nk = torch.randn(batch, n, k, generator=generator).to(DTYPES[dtype])
        inputs, on_device = [], []
        for operand in epilogue.inputs:
            rows, cols = (m if INPUT_SHAPES[operand.kind][0] else 1), (n if INPUT_SHAPES[operand.kind][1] else 1)
            inputs.append(torch.randn(batch, rows, cols, generator=generator).to(DTYPES[operand.dtype]))
            # NaN around what the kernel may use: a row more a batch, 8 columns more a row.
            around = torch.full((batch, rows + 1, cols + 8), float("nan"), dtype=inputs[-1].dtype)
            around[:, :rows, :cols] = inputs[-1]
            on_device.append(around.cuda()[:, :rows, :cols])
        out = self.launch(epilogue, a, b_nk, on_device, config, DTYPES[out_dtype or dtype])
        self.assertLessEqual(reference.excess(out, epilogue, a, b_nk, inputs), 1.0)

    @parametrize("op", list(epilogue_expr.VALUE_OPS))
    def test_every_operator_in_fp32(self, op):
        self.check(one_op(op), out_dtype="fp32", scale=0.2)

    @parametrize("config", [SMALL, NARROW, dataclasses.replace(SMALL, split_k=2)], name_fn=lambda c: c.name)
    @parametrize("dtypes", [("bf16", "fp32", "bf16", "fp32"), ("fp32", "fp16", "fp32", "fp16")], name_fn="_".join)
    def test_every_kind_of_input(self, config, dtypes):
        self.check(every_kind(dtypes), config=config, batch=2, dtype="fp16" if "fp16" in dtypes else "bf16")

    def test_rounding_in_between(self):
        # Integers, so that the rounded product and with it every bit of the result is known.
        a, b_nk = mm.integer_inputs(64, 64, 512, torch.bfloat16)
        out = self.launch(leaky_relu_of_rounded(), a, b_nk, [])
        product = mm.rounded(a, b_nk).float()
        self.assertFalse(torch.equal(product.double(), mm.product(a, b_nk)), "choose inputs whose product is rounded")
        expected = torch.where(product < 0, product * 0.1, product).to(torch.bfloat16)
        self.assertTrue(torch.equal(out, expected))

    @parametrize("op", ["relu", "maximum", "minimum"])
    def test_nan_stays_nan(self, op):
        epilogue = one_op(op)
        a, b_nk = mm.integer_inputs(64, 64, 64, torch.bfloat16)
        a[3] = float("nan")
        added = torch.zeros(64, 64, dtype=torch.bfloat16)
        added[5] = float("nan")
        inputs = [added] if epilogue.inputs else []
        expected, _ = reference.evaluate(epilogue, mm.product(a, b_nk), inputs)
        self.assertTrue(torch.equal(self.launch(epilogue, a, b_nk, inputs).isnan(), expected.isnan()))
        self.assertEqual(int(expected.isnan().any(1).sum()), 2 if inputs else 1)

    def test_wrong_inputs_are_named(self):
        epilogue = epilogue_expr.addmm(FULL)
        a, b_nk, out = (torch.zeros(64, 64, dtype=torch.bfloat16, device="cuda") for _ in range(3))
        for inputs, words in (
            ([], "takes 1 inputs, got 0"),
            ([out[:, :8]], "not full of"),
            ([out.float()], "is torch.float32, not bf16"),
            ([out.t()[:64, :64]], "columns are not contiguous"),
        ):
            with self.assertRaisesRegex(ValueError, words):
                problem_of(a, b_nk, out, "k", "k", epilogue, inputs)


if __name__ == "__main__":
    run_tests()
