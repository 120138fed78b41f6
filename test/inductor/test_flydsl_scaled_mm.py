# Owner(s): ["module: inductor"]
"""F.scaled_mm and torch._scaled_mm on FLYDSL: MX operands, scales of tensors and rows (T2, T3).

Eager counterpart: test/native/test_flydsl_scaled_mm.py. Case numbers are those of faults that others had.
"""

from __future__ import annotations

from typing import Any, ClassVar
from unittest import mock

import torch
from inductor.flydsl_testing import FlyDSLTestCase, flydsl_launches
from native import test_flydsl_scaled_mm as eager
from torch._inductor import config
from torch._inductor.kernel.flydsl import tuned
from torch._native.ops.scaled_mm import flydsl_impl
from torch.nn import functional as F
from torch.nn.functional import ScalingType, SwizzleType
from torch.nn.microscaling import to_mxfp4, to_mxfp8
from torch.testing._internal.common_utils import instantiate_parametrized_tests, parametrize, run_tests

from reference import scaled_mm as reference

E4M3, E5M2, E2M1, E8M0 = torch.float8_e4m3fn, torch.float8_e5m2, torch.float4_e2m1fn_x2, torch.float8_e8m0fnu
BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
TENSOR, ROW, BLOCK = ScalingType.TensorWise, ScalingType.RowWise, ScalingType.BlockWise1x32
PLAIN, SWIZZLED = SwizzleType.NO_SWIZZLE, SwizzleType.SWIZZLE_32_4_4
FORMATS = (E4M3, E5M2, E2M1)

product = eager.product


class ScaledTestCase(FlyDSLTestCase):
    options: ClassVar[dict[str, Any]] = {**FlyDSLTestCase.options, "compile_threads": 1}

    def operands(self, m, n, k, a=E4M3, b=None):
        x, scale_x = eager.operand(m, k, a, 1)
        w, scale_w = eager.operand(n, k, b or a, 2)
        return x, w, scale_x, scale_w

    def assertRight(self, result, a, b_nk, scale_a, scale_b, bias=None):
        self.assertLessEqual(reference.excess(result, a, b_nk, scale_a, scale_b, bias), 1)

    def assertGenerated(self, fn, *args, **options):
        """The result of a compiled call that launches one kernel, which the graph's own code defines."""
        result, code = self.compiled(fn, *args, **options)
        self.assertIn("async_compile.flydsl(", code)
        lines = [line for line in code.splitlines() if not line.lstrip().startswith("#")]
        self.assertNotIn("aten._scaled_mm", "\n".join(lines))
        return result


@instantiate_parametrized_tests
class TestMX(ScaledTestCase):
    @parametrize("b", FORMATS)
    @parametrize("a", FORMATS)
    def test_every_pair_of_formats(self, a, b):
        """S12: scales of (M, K/32) and (N, K/32), M and N whatever."""
        args = self.operands(33, 48, 384, a, b)
        self.assertRight(self.assertGenerated(product, *args), *args)

    @parametrize("out", (BF16, FP16, FP32))
    def test_bias_and_output(self, out):
        args = self.operands(33, 32, 128, E2M1)
        bias = torch.randn(32, generator=torch.Generator().manual_seed(3)).bfloat16().cuda()
        result = self.assertGenerated(lambda *x: product(*x, out=out), *args, bias)
        self.assertEqual(result.dtype, out)
        self.assertRight(result, *args, bias)

    def test_the_first_version(self):
        """S5 among them: scales that count fp4's elements."""
        for dtype in (E4M3, E2M1):
            args = self.operands(64, 48, 256, dtype)

            def v1(a, b_nk, scale_a, scale_b):
                return torch._scaled_mm(a, b_nk.t(), scale_a, scale_b, out_dtype=BF16)

            self.assertRight(self.assertGenerated(v1, *args), *args)

    @parametrize("dtype", (E4M3, E2M1))
    @parametrize("layout", ("nn", "tt", "tn"))
    def test_other_layouts_are_copied_in_the_graph(self, layout, dtype):
        a, b_nk, scale_a, scale_b = args = self.operands(32, 48, 128, dtype)
        if layout[0] == "t":
            a = flydsl_impl.contiguous_bytes(a.t()).t()
        if layout[1] == "n":
            b_nk = flydsl_impl.contiguous_bytes(b_nk.t()).t()
        result, code = self.compiled(product, a, b_nk, scale_a, scale_b)
        self.assertIn("async_compile.flydsl(", code)
        self.assertRight(result, *args)

    def test_scales_that_are_not_contiguous(self):
        a, b_nk, scale_a, scale_b = args = self.operands(32, 32, 256)
        columns = flydsl_impl.contiguous_bytes(scale_a.t()).t()
        result, code = self.compiled(product, a, b_nk, columns, scale_b.flatten())
        self.assertIn("async_compile.flydsl(", code)
        self.assertRight(result, *args)

    def test_storage_offsets(self):
        args = self.operands(64, 32, 256)
        result = self.assertGenerated(lambda a, b, s, t: product(a[16:], b, s[16:], t), *args)
        self.assertRight(result, args[0][16:], args[1], args[2][16:], args[3])

    @parametrize("byte", (0x00, 0xFF))
    def test_s2_extreme_scales(self, byte):
        args = self.operands(16, 16, 256)
        args[2].view(torch.uint8)[5, 3] = byte
        result = self.assertGenerated(product, *args)
        self.assertRight(result, *args)
        self.assertEqual(int(result.isnan().sum()), 16 if byte else 0)

    @parametrize("k", (384, 640))
    def test_s8_every_block_meets_its_own_scale(self, k):
        a, b_nk, _, _ = self.operands(16, 16, k, E2M1)
        blocks = torch.arange(k // 32, dtype=torch.uint8)
        scale_a = (110 + blocks).expand(16, -1).contiguous().cuda().view(E8M0)
        scale_b = (144 - blocks).expand(16, -1).contiguous().cuda().view(E8M0)
        result = self.assertGenerated(product, a, b_nk, scale_a, scale_b)
        self.assertRight(result, a, b_nk, scale_a, scale_b)

    def test_epilogue_is_fused(self):
        args = self.operands(32, 48, 256, E2M1)
        residual = torch.randn(32, 48, generator=torch.Generator().manual_seed(4)).bfloat16().cuda()

        def block(a, b_nk, scale_a, scale_b, residual):
            return F.relu(product(a, b_nk, scale_a, scale_b, out=FP32)) + residual

        result, code = self.compiled(block, *args, residual)
        self.assertNotIn("async_compile.triton(", code)
        exact, _ = reference.product_and_bound(*args, FP32)
        wanted = exact.relu() + residual.cpu().double()
        self.assertEqual(result.cpu().double(), wanted, atol=float(wanted.abs().max()) * 1e-6, rtol=1e-6)

    def test_symbolic_rows(self):
        a, b_nk, scale_a, scale_b = self.operands(300, 32, 256)
        compiled = torch.compile(product, dynamic=True)
        frames = torch._dynamo.utils.counters["stats"]
        for m in (40, 300, 7, 33, 2):
            before = flydsl_launches()
            result = compiled(a[:m], b_nk, scale_a[:m], scale_b)
            self.assertEqual(flydsl_launches() - before, 1)
            self.assertRight(result, a[:m], b_nk, scale_a[:m], scale_b)
        self.assertLessEqual(frames["unique_graphs"], 2)

    def test_quantised_in_the_graph(self):
        x = torch.randn(48, 256, generator=torch.Generator().manual_seed(0)).bfloat16().cuda()
        w, scale_w = to_mxfp4(torch.randn(64, 256, generator=torch.Generator().manual_seed(1)).cuda())

        def linear(x):
            a, scale_a = to_mxfp8(x * 2)
            return product(a, w, scale_a, scale_w)

        result, code = self.compiled(linear, x, fullgraph=True)
        self.assertIn("async_compile.flydsl(", code)
        a, scale_a = to_mxfp8(x * 2)
        self.assertRight(result, a, w, scale_a, scale_w)

    def test_exported(self):
        args = self.operands(33, 48, 128, E2M1)

        class Product(torch.nn.Module):
            def forward(self, *args):
                return product(*args)

        exported = torch.export.export(Product(), args)
        self.assertRight(exported.module()(*args), *args)
        self.assertRight(self.assertGenerated(exported.module(), *args), *args)

    def test_meta_and_fake_tensors(self):
        from torch._subclasses import FakeTensorMode

        args = self.operands(33, 48, 128, E2M1, E4M3)
        self.assertEqual(product(*(x.to("meta") for x in args)).shape, (33, 48))
        with FakeTensorMode() as mode:
            result = product(*map(mode.from_tensor, args), None, FP16)
        self.assertEqual((result.shape, result.dtype, result.device.type), ((33, 48), FP16, "cuda"))


@instantiate_parametrized_tests
class TestFallback(ScaledTestCase):
    """What FLYDSL does not take becomes the eager operator, and the reason is logged."""

    def assertEager(self, reason, fn, *args, launches=0):
        with self.assertLogs("torch._native.flydsl.inductor", "INFO") as logs:
            result, code = self.compiled(fn, *args, launches=launches)
        self.assertRegex("\n".join(logs.output), reason)
        self.assertNotIn("async_compile.flydsl(", code)
        return result

    def test_s6_bias_where_k_is_no_multiple_of_128(self):
        args = self.operands(128, 128, 32)
        bias = torch.ones(128, dtype=BF16, device="cuda")
        result = self.assertEager("K=32 is not a multiple of 128", product, *args, bias)
        self.assertRight(result, *args, bias)

    def test_k_of_13_blocks(self):
        args = self.operands(32, 32, 32 * 13)
        self.assertRight(self.assertEager("K=416 is not a multiple of 128", product, *args), *args)
        with self.assertRaisesRegex(ValueError, "multiples of 32"):
            torch.compile(product)(*self.operands(32, 32, 32 * 13, E2M1))

    @parametrize("wrong", ("k", "rows", "columns", "dtype", "swizzle"))
    def test_what_eager_refuses(self, wrong):
        """S3, S9: an error, and never a number."""
        a, b_nk, scale_a, scale_b = self.operands(32, 32, 128)
        swizzle = PLAIN
        if wrong == "k":
            a, b_nk, scale_a, scale_b = a[:, :48], b_nk[:, :48], scale_a[:, :1], scale_b[:, :1]
        elif wrong == "swizzle":
            swizzle = SWIZZLED
        else:
            views = {"rows": scale_a[:31], "columns": scale_a[:, :3], "dtype": scale_a.view(torch.uint8).float()}
            scale_a = views[wrong]
        call = torch.compile(lambda *x: product(*x, swizzle=swizzle))
        with self.assertRaises((RuntimeError, ValueError)):
            call(a, b_nk, scale_a, scale_b)

    @parametrize("m, n, k", ((0, 256, 256), (32, 32, 0)))
    def test_s16_empty_products(self, m, n, k):
        args = self.operands(m, n, k)
        result = torch.compile(product)(*args)
        self.assertEqual(result, torch.zeros(m, n, dtype=BF16, device="cuda"), atol=0, rtol=0)

    def test_s11_an_operand_off_its_alignment(self):
        a, b_nk, scale_a, scale_b = args = self.operands(32, 32, 128)
        storage = torch.zeros(32 * 128 + 1, dtype=torch.uint8, device="cuda")
        storage[1:].view(32, 128).copy_(a.view(torch.uint8))

        def shifted(storage, b_nk, scale_a, scale_b):
            return product(storage[1:].view(32, 128).view(E4M3), b_nk, scale_a, scale_b)

        result = self.assertEager("does not start at a multiple of 16 bytes", shifted, storage, b_nk, scale_a, scale_b)
        self.assertRight(result, *args)

    @config.patch(max_autotune_gemm_backends="ATEN,TRITON")
    def test_without_flydsl_among_the_backends(self):
        """The eager operator, which is FlyDSL's unless that is switched off."""
        args = self.operands(33, 48, 128)
        result, code = self.compiled(product, *args, launches=1)
        self.assertNotIn("async_compile.flydsl(", code)
        self.assertRight(result, *args)
        torch._dynamo.reset()
        args = self.operands(32, 64, 128)
        with torch.backends.python_native.flydsl.disabled():
            result, _ = self.compiled(product, *args, launches=0)
        self.assertRight(result, *args)


@instantiate_parametrized_tests
class TestChoices(ScaledTestCase):
    options: ClassVar[dict[str, Any]] = {
        "max_autotune_gemm_backends": "ATEN,TRITON,FLYDSL",
        "flydsl_enable_autotuning": True,
        "compile_threads": 1,
    }

    def choices_of(self, fn, *args):
        """Names of the candidates that were timed."""
        from torch._inductor.select_algorithm import AlgorithmSelectorCache

        seen: list[str] = []
        do = AlgorithmSelectorCache.do_autotuning

        def watch(self, name, input_nodes, layout, input_gen_fns, inputs_key, choices, *rest, **kwargs):
            seen.extend(choice.name for choice in choices)
            return do(self, name, input_nodes, layout, input_gen_fns, inputs_key, choices, *rest, **kwargs)

        with mock.patch.object(AlgorithmSelectorCache, "do_autotuning", watch):
            result = torch.compile(fn)(*args)
        return result, seen

    @parametrize("dtype", (E4M3, E2M1))
    def test_aten_is_kept_where_it_can(self, dtype):
        args = self.operands(32, 64, 256, dtype)
        result, names = self.choices_of(product, *args)
        self.assertRight(result, *args)
        self.assertIn("mx_scaled_mm", names)
        self.assertGreater(sum(name.startswith("flydsl_scaled_gemm") for name in names), 0)

    def test_aten_s_candidate_is_aten(self):
        """And not FlyDSL's eager override under its name."""
        from torch._inductor.kernel.mx_scaled_mm import mx_scaled_mm

        a, b_nk, scale_a, scale_b = args = self.operands(32, 64, 256)
        out = torch.empty(32, 64, dtype=BF16, device="cuda")
        before = flydsl_launches()
        mx_scaled_mm(a, b_nk.t(), scale_a, scale_b, out=out)
        self.assertEqual(flydsl_launches(), before)
        self.assertRight(out, *args)

    def test_aten_is_left_out_where_it_cannot(self):
        args = self.operands(33, 64, 256)
        result, names = self.choices_of(product, *args)
        self.assertRight(result, *args)
        self.assertNotIn("mx_scaled_mm", names)

    def test_eager_calls_take_what_was_tuned(self):
        args = self.operands(16, 64, 512)
        with mock.patch.dict(flydsl_impl._decisions, clear=True), mock.patch.object(tuned, "record") as record:
            self.choices_of(product, *args)
        problems = {call.args[0] for call in record.call_args_list}
        self.assertEqual([(p.m, p.n, p.k) for p in problems], [(16, 64, 512)])
        best = min(record.call_args_list, key=lambda call: call.args[3]).args[2]
        for call in record.call_args_list:
            tuned.record(*call.args)
        with mock.patch.dict(flydsl_impl._decisions, clear=True):
            plan = flydsl_impl.plan_v2(*eager.v2(*args))
        self.assertIn(best.tile_k, plan.key)
        self.assertEqual(tuned.tuned_config(problems.pop(), "gfx950"), best)


@instantiate_parametrized_tests
class TestFloatScales(ScaledTestCase):
    """Scales of tensors and rows in fp32."""

    @parametrize("version", (1, 2))
    @parametrize("recipe", (TENSOR, ROW))
    @parametrize("b", (E4M3, E5M2))
    def test_values(self, version, recipe, b):
        a, b_nk, _, _ = self.operands(33, 48, 144, E4M3, b)
        if recipe is TENSOR:
            scale_a, scale_b = torch.tensor(0.37, device="cuda"), torch.tensor(1.7, device="cuda")
        else:
            scale_a, scale_b = torch.rand(33, 1, device="cuda"), torch.rand(1, 48, device="cuda")
        bias = torch.randn(48).bfloat16().cuda()

        def v1(a, b_nk, scale_a, scale_b, bias):
            return torch._scaled_mm(a, b_nk.t(), scale_a, scale_b, bias=bias, out_dtype=BF16)

        def v2(a, b_nk, scale_a, scale_b, bias):
            return F.scaled_mm(a, b_nk.t(), scale_a, recipe, scale_b, recipe, bias=bias, output_dtype=BF16)

        result, code = self.compiled(v1 if version == 1 else v2, a, b_nk, scale_a, scale_b, bias)
        self.assertIn("async_compile.flydsl(", code)
        self.assertRight(result, a, b_nk, scale_a, scale_b.t() if recipe is ROW else scale_b, bias)


if __name__ == "__main__":
    run_tests()
