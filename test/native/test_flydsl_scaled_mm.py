# Owner(s): ["module: scaled matmul"]
"""Eager _scaled_mm and _scaled_mm_v2 with MX operands (T2, T3): values, which kernel ran and why not, what is cached.

Case numbers are those of the faults that other implementations had: each has its test here or in
test/inductor/test_flydsl_scaled_mm.py, most in both.
"""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
import threading
import unittest
from unittest import mock

import torch
from torch._native import flydsl_utils
from torch._native.flydsl import target
from torch._native.flydsl.launch import linker_missing_reason
from torch._native.ops.scaled_mm import flydsl_impl, mx_rules
from torch.nn import functional as F
from torch.nn.functional import ScalingType, SwizzleType
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests

from reference import scaled_mm as reference

CANNOT_RUN = target.unavailable_reason() or linker_missing_reason()
if CANNOT_RUN is None and not torch.cuda.is_available():
    CANNOT_RUN = "no GPU; with the emulator installed set GFX950_EMULATOR=1"
E4M3, E5M2, E2M1, E8M0 = torch.float8_e4m3fn, torch.float8_e5m2, torch.float4_e2m1fn_x2, torch.float8_e8m0fnu
BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
BLOCK = ScalingType.BlockWise1x32
PLAIN, SWIZZLED = SwizzleType.NO_SWIZZLE, SwizzleType.SWIZZLE_32_4_4
FORMATS = (E4M3, E5M2, E2M1)


def launches() -> int:
    from torch._inductor.kernel.flydsl import scaled_gemm

    return scaled_gemm.launch_count()


def operand(rows: int, k: int, dtype: torch.dtype, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Any finite elements [rows, K] and scales of exponents -9 to 9 [rows, K/32]."""
    generator = torch.Generator().manual_seed(seed)
    if dtype == E2M1:
        values = torch.randint(0, 256, (rows, k // 2), generator=generator, dtype=torch.uint8).view(E2M1)
    else:
        values = (torch.randn(rows, k, generator=generator) * 3).to(dtype)
    scales = torch.randint(118, 137, (rows, k // 32), generator=generator, dtype=torch.uint8).view(E8M0)
    return values.cuda(), scales.cuda()


def product(a, b_nk, scale_a, scale_b, bias=None, out=BF16, swizzle=PLAIN):
    scales = (scale_a, BLOCK, scale_b, BLOCK, swizzle, swizzle)
    return F.scaled_mm(a, b_nk.t(), *scales, bias=bias, output_dtype=out)


def v2(a, b_nk, scale_a, scale_b, bias=None, out=BF16, swizzle=(0,), recipe=(3,)):
    """The arguments of aten._scaled_mm_v2."""
    return (a, b_nk.t(), [scale_a], recipe, swizzle, [scale_b], recipe, swizzle, bias, out)


@unittest.skipIf(CANNOT_RUN is not None, f"needs a gfx950, real or emulated, and flydsl: {CANNOT_RUN}")
class ScaledTestCase(TestCase):
    def operands(self, m, n, k, a=E4M3, b=None):
        x, scale_x = operand(m, k, a, 1)
        w, scale_w = operand(n, k, b or a, 2)
        return x, w, scale_x, scale_w

    def assertFlyDSL(self, count, function, *args, **kwargs):
        """``function`` launches so many FlyDSL kernels; its result."""
        before = launches()
        result = function(*args, **kwargs)
        torch.cuda.synchronize()
        self.assertEqual(launches() - before, count)
        return result

    def assertRight(self, result, a, b_nk, scale_a, scale_b, bias=None):
        self.assertLessEqual(reference.excess(result, a, b_nk, scale_a, scale_b, bias), 1)


@instantiate_parametrized_tests
class TestValues(ScaledTestCase):
    @parametrize("b", FORMATS)
    @parametrize("a", FORMATS)
    def test_every_pair_of_formats(self, a, b):
        args = self.operands(33, 48, 384, a, b)
        result = self.assertFlyDSL(1, product, *args)
        self.assertRight(result, *args)

    @parametrize("out", (BF16, FP16, FP32))
    @parametrize("bias", (None, BF16, FP16, FP32))
    def test_bias_and_output(self, bias, out):
        args = self.operands(5, 32, 128, E2M1)
        if bias is not None:
            bias = torch.randn(32, generator=torch.Generator().manual_seed(3)).to(bias).cuda()
        result = self.assertFlyDSL(1, product, *args, bias, out)
        self.assertEqual(result.dtype, out)
        self.assertRight(result, *args, bias)

    @parametrize("overload", ("_scaled_mm", "_scaled_mm.out", "_scaled_mm_v2", "_scaled_mm_v2.out"))
    def test_every_overload(self, overload):
        args = self.operands(32, 16, 256)
        a, b_nk, scale_a, scale_b = args
        wanted = product(*args)
        out = torch.empty(32, 24, dtype=BF16, device="cuda")[:, :16]
        if overload == "_scaled_mm":
            call = lambda: torch._scaled_mm(a, b_nk.t(), scale_a, scale_b, out_dtype=BF16)  # noqa: E731
        elif overload == "_scaled_mm.out":
            call = lambda: torch._scaled_mm(a, b_nk.t(), scale_a, scale_b, out_dtype=BF16, out=out)  # noqa: E731
        elif overload == "_scaled_mm_v2":
            call = lambda: torch._scaled_mm_v2(*v2(*args))  # noqa: E731
        else:
            call = lambda: torch.ops.aten._scaled_mm_v2.out(*v2(*args), out=out)  # noqa: E731
        result = self.assertFlyDSL(1, call)
        self.assertEqual(result, wanted, atol=0, rtol=0)
        if overload.endswith("out"):
            self.assertEqual(out.data_ptr(), result.data_ptr())

    @parametrize("layout", ("nt", "nn", "tt", "tn", "padded"))
    @parametrize("dtype", (E4M3, E2M1))
    def test_other_layouts_are_copied(self, layout, dtype):
        a, b_nk, scale_a, scale_b = args = self.operands(32, 48, 128, dtype)
        if layout[0] == "t":
            a = flydsl_impl.contiguous_bytes(a.t()).t()
        if layout[1] == "n":
            b_nk = flydsl_impl.contiguous_bytes(b_nk.t()).t()
        if layout == "padded":  # rows 8 bytes longer than a multiple of 16
            wide = torch.zeros(32, a.size(1) + 8, dtype=torch.uint8, device="cuda")
            wide[:, : a.size(1)] = a.view(torch.uint8)
            a = wide[:, : a.size(1)].view(dtype)
        result = self.assertFlyDSL(1, product, a, b_nk, scale_a, scale_b)
        self.assertEqual(result, product(*args), atol=0, rtol=0)

    def test_scales_that_are_not_contiguous_are_copied(self):
        a, b_nk, scale_a, scale_b = args = self.operands(32, 32, 256)
        columns = flydsl_impl.contiguous_bytes(scale_a.t()).t()
        wide = torch.zeros(32, 11, dtype=torch.uint8, device="cuda")
        wide[:, 3:] = scale_b.view(torch.uint8)
        result = self.assertFlyDSL(1, product, a, b_nk, columns, wide[:, 3:].view(E8M0))
        self.assertEqual(result, product(*args), atol=0, rtol=0)
        result = self.assertFlyDSL(1, product, a, b_nk, scale_a.flatten(), scale_b.view(-1, 16))
        self.assertEqual(result, product(*args), atol=0, rtol=0)

    def test_storage_offsets(self):
        a, b_nk, scale_a, scale_b = args = self.operands(64, 32, 256)
        result = self.assertFlyDSL(1, product, a[16:], b_nk, scale_a[16:], scale_b)
        self.assertEqual(result, product(*args)[16:], atol=0, rtol=0)
        bias = torch.randn(40).bfloat16().cuda()
        result = self.assertFlyDSL(1, product, a, b_nk, scale_a, scale_b, bias[3:35])
        self.assertRight(result, *args, bias[3:35])

    def test_s1_scales_are_read_as_declared(self):
        """The unswizzled and the swizzled reading have as many bytes; no list and an empty one mean NO_SWIZZLE."""
        args = self.operands(32, 32, 256)
        for swizzle in (None, PLAIN):
            self.assertRight(self.assertFlyDSL(1, product, *args, swizzle=swizzle), *args)
        enabled = torch.cuda.tunable.is_enabled() if hasattr(torch._C, "_cuda_tunableop_is_enabled") else None
        if enabled is not None:
            torch.cuda.tunable.enable(True)
            self.addCleanup(torch.cuda.tunable.enable, enabled)
        self.assertRight(self.assertFlyDSL(1, product, *args), *args)

    @parametrize("byte", (0x00, 0xFF))
    def test_s2_extreme_scales(self, byte):
        """0x00 is 2^-127: 2^112 * 2^8 * 2^7 * 2^-127 = 1. 0xFF is NaN, for the row that has it alone."""
        a = torch.zeros(4, 128, dtype=E5M2, device="cuda")
        b_nk = torch.zeros(16, 128, dtype=E4M3, device="cuda")
        a[:, 0], b_nk[:, 0] = 2.0**15, 256.0
        scale_a = torch.full((4, 4), 127 + 97 + 7, dtype=torch.uint8, device="cuda")
        scale_b = torch.full((16, 4), 127, dtype=torch.uint8, device="cuda")
        scale_b[3, 0] = byte
        result = self.assertFlyDSL(1, product, a, b_nk, scale_a.view(E8M0), scale_b.view(E8M0), None, FP32)
        wanted = torch.full((4, 16), 2.0**127)
        wanted[:, 3] = 1.0 if byte == 0 else torch.nan
        self.assertEqual(result.cpu(), wanted, atol=0, rtol=0)

    def test_s5_fp4_scales_count_elements(self):
        """(64, 8) for 64 x 256 elements, which are 64 x 128 stored; the first version as well."""
        a, b_nk, scale_a, scale_b = args = self.operands(64, 64, 256, E2M1)
        self.assertEqual((tuple(a.shape), tuple(scale_a.shape)), ((64, 128), (64, 8)))
        result = self.assertFlyDSL(1, torch._scaled_mm, a, b_nk.t(), scale_a, scale_b, out_dtype=BF16)
        self.assertRight(result, *args)

    def test_padded_scales_of_the_first_version(self):
        a, b_nk, *_ = args = self.operands(48, 16, 256)
        padded = [torch.cat((s.view(torch.uint8), s.new_zeros(128 - len(s), 8).view(torch.uint8))) for s in args[2:]]
        padded = [x.view(E8M0) for x in padded]
        result = self.assertFlyDSL(1, torch._scaled_mm, a, b_nk.t(), *padded, out_dtype=BF16)
        self.assertRight(result, *args)

    @parametrize("k", (128, 384, 640))
    def test_s8_every_block_meets_its_own_scale(self, k):
        """Each block has a power of two of its own, K is no multiple of any tile."""
        a, b_nk, _, _ = self.operands(16, 16, k, E2M1)
        blocks = torch.arange(k // 32, dtype=torch.uint8)
        scale_a = (110 + blocks).expand(16, -1).contiguous().cuda().view(E8M0)
        scale_b = (144 - blocks).expand(16, -1).contiguous().cuda().view(E8M0)
        result = self.assertFlyDSL(1, product, a, b_nk, scale_a, scale_b, None, FP32)
        self.assertRight(result, a, b_nk, scale_a, scale_b)

    def test_all_exponents(self):
        a, b_nk, _, _ = self.operands(256, 16, 128)
        scale_a = torch.arange(256, dtype=torch.uint8).reshape(-1, 1).expand(-1, 4).contiguous().cuda().view(E8M0)
        scale_b = torch.full((16, 4), 127 - 20, dtype=torch.uint8, device="cuda").view(E8M0)  # 2^127 stays in range
        result = self.assertFlyDSL(1, product, a, b_nk, scale_a, scale_b, None, FP32)
        self.assertRight(result, a, b_nk, scale_a, scale_b)


@instantiate_parametrized_tests
class TestFallback(ScaledTestCase):
    def assertDeclines(self, reason, *args, **kwargs):
        self.assertRegex(str(flydsl_utils.explain("_scaled_mm_v2", *v2(*args, **kwargs))), reason)

    @parametrize("m, n", ((33, 32), (32, 48), (32, 32)))
    def test_s3_swizzled_scales_are_refused(self, m, n):
        args = self.operands(m, n, 256)
        self.assertDeclines("NO_SWIZZLE", *args, swizzle=(SWIZZLED.value,))
        with self.assertRaisesRegex(ValueError, "NO_SWIZZLE"):
            self.assertFlyDSL(0, product, *args, swizzle=SWIZZLED)

    def test_s6_bias_where_k_is_no_multiple_of_128(self):
        args = self.operands(128, 128, 32)
        bias = torch.ones(128, dtype=BF16, device="cuda")
        self.assertDeclines("K=32 is not a multiple of 128", *args, bias)
        result = self.assertFlyDSL(0, product, *args, bias)
        self.assertRight(result, *args, bias)

    def test_k_of_13_blocks(self):
        """S8: fp8 is ATen's, fp4 no backend's: its error, and no number."""
        args = self.operands(32, 32, 32 * 13)
        self.assertDeclines("K=416 is not a multiple of 128", *args)
        self.assertRight(self.assertFlyDSL(0, product, *args), *args)
        with self.assertRaisesRegex(ValueError, "multiples of 32"):
            self.assertFlyDSL(0, product, *self.operands(32, 32, 32 * 13, E2M1))

    def test_s9_k_that_is_no_multiple_of_32(self):
        a, b_nk, scale_a, scale_b = self.operands(32, 32, 64)
        with self.assertRaises((ValueError, RuntimeError)):
            self.assertFlyDSL(0, product, a[:, :48], b_nk[:, :48], scale_a[:, :1], scale_b[:, :1])

    def test_s11_an_operand_off_its_alignment_is_aten_s(self):
        args = self.operands(32, 32, 128)
        a, b_nk, scale_a, scale_b = args
        storage = torch.zeros(32 * 128 + 1, dtype=torch.uint8, device="cuda")
        shifted = storage[1:].view(32, 128).copy_(a.view(torch.uint8)).view(E4M3)
        self.assertDeclines("a does not start at a multiple of 16 bytes", shifted, b_nk, scale_a, scale_b)
        result = self.assertFlyDSL(0, product, shifted, b_nk, scale_a, scale_b)
        self.assertRight(result, *args)

    @parametrize("m, n, k", ((0, 256, 256), (32, 0, 256), (32, 32, 0)))
    def test_s16_empty_products(self, m, n, k):
        args = self.operands(m, n, k)
        result = self.assertFlyDSL(0, product, *args)
        self.assertEqual(result, torch.zeros(m, n, dtype=BF16, device="cuda"), atol=0, rtol=0)
        self.assertDeclines("an empty product is ATen's", *args)

    def test_s18_operands_that_32_bits_do_not_span(self):
        """On meta tensors: nothing of this size is allocated."""
        from torch._inductor.kernel.flydsl.scaled_gemm_config import ScaledGemmProblem, unsupported_reason

        def reason(m, n, k, out="fp32"):
            fields = {"a_format": "e4m3", "b_format": "e4m3", "recipe": "block32", "lda": k, "ldb": k, "ldc": n}
            strides = {"scale_a_stride": k // 32, "scale_b_stride": k // 32}
            return unsupported_reason(ScaledGemmProblem(m=m, n=n, k=k, out_dtype=out, **fields, **strides))

        self.assertRegex(reason(2**16, 2**14, 128), "C spans .* not below 2\\^32")
        self.assertRegex(reason(2**18, 128, 2**14), "A spans .* not below 2\\^32")
        self.assertRegex(reason(128, 2**18, 2**14, "bf16"), "B spans .* not below 2\\^32")
        self.assertIsNone(reason(2**15, 2**14, 2**14, "bf16"))

    @parametrize("wrong", ("rows", "columns", "dtype"))
    def test_wrong_scales_are_refused(self, wrong):
        a, b_nk, scale_a, scale_b = self.operands(32, 32, 128)
        scale_a = {"rows": scale_a[:31], "columns": scale_a[:, :3], "dtype": scale_a.view(torch.uint8).float()}[wrong]
        self.assertDeclines("scale_a", a, b_nk, scale_a, scale_b)
        with self.assertRaises((ValueError, RuntimeError)):
            self.assertFlyDSL(0, product, a, b_nk, scale_a, scale_b)

    def test_scales_of_tensors_and_rows_stay_with_aten(self):
        a, b_nk, _, _ = self.operands(32, 32, 128)
        one = torch.tensor(0.5, device="cuda")
        rows, columns = torch.full((32, 1), 0.5, device="cuda"), torch.full((1, 32), 2.0, device="cuda")
        result = self.assertFlyDSL(0, torch._scaled_mm, a, b_nk.t(), one, one, out_dtype=BF16)
        self.assertRight(result, a, b_nk, one, one)
        result = self.assertFlyDSL(0, torch._scaled_mm, a, b_nk.t(), rows, columns, out_dtype=BF16)
        self.assertRight(result, a, b_nk, rows, columns.t())
        args = (a, b_nk.t(), one, one)
        self.assertEqual(flydsl_utils.explain(torch._scaled_mm, *args), mx_rules.NOT_MX)

    def test_other_results_and_options(self):
        a, b_nk, scale_a, scale_b = args = self.operands(32, 32, 128, E2M1)
        self.assertDeclines("out_dtype is torch.float4_e2m1fn_x2", *args, out=None)
        self.assertRegex(
            str(flydsl_utils.explain("_scaled_mm", a, b_nk.t(), scale_a, scale_b, None, None, BF16, True)),
            "use_fast_accum",
        )
        self.assertDeclines("bias is .* not 32 numbers", *args, torch.zeros(2, 16, device="cuda"))


class TestControls(ScaledTestCase):
    def test_reasons_and_switches(self):
        controls = torch.backends.python_native
        args = self.operands(32, 32, 128)
        self.assertTrue(controls.flydsl.available and controls.flydsl.enabled)
        self.assertEqual(str(controls.flydsl.version), target.flydsl_version())
        self.assertIn("_scaled_mm_v2", controls.get_dsl_operations("flydsl"))
        self.assertIsNone(controls.flydsl.explain(torch.ops.aten._scaled_mm_v2.default, *v2(*args)))
        self.assertRegex(controls.flydsl.explain("mm"), "does not override aten::mm")
        with controls.flydsl.disabled():
            self.assertRegex(controls.flydsl.explain("_scaled_mm_v2", *v2(*args)), "flydsl is disabled")
            self.assertRight(self.assertFlyDSL(0, product, *args), *args)
        with controls.operations_disabled("_scaled_mm_v2"):
            self.assertRegex(controls.flydsl.explain("_scaled_mm_v2", *v2(*args)), "are disabled")
            self.assertFlyDSL(0, product, *args)
            a, b_nk, scale_a, scale_b = args
            self.assertFlyDSL(1, torch._scaled_mm, a, b_nk.t(), scale_a, scale_b, out_dtype=BF16)
        with flydsl_utils.base_kernels():
            self.assertFlyDSL(0, product, *args)
        self.assertRight(self.assertFlyDSL(1, product, *args), *args)

    def test_a_reason_is_logged_once(self):
        args = self.operands(32, 32, 96)
        flydsl_utils._log_once.cache_clear()
        with self.assertLogs(flydsl_utils.log, logging.INFO) as logs:
            product(*args)
            product(*args)
        self.assertEqual(len(logs.records), 1)
        self.assertIn("aten::_scaled_mm_v2: K=96 is not a multiple of 128", logs.output[0])

    def test_a_kernel_that_does_not_compile_is_aten_s_and_reported_once(self):
        args = self.operands(32, 32, 256)
        with mock.patch.object(flydsl_utils, "_kernels", flydsl_utils.KernelCache()):
            failures = mock.patch.dict(flydsl_utils._failures, clear=True)
            broken = mock.patch.object(flydsl_impl, "_build", side_effect=RuntimeError("no linker"))
            with failures, broken as build, self.assertLogs(flydsl_utils.log, logging.WARNING) as logs:
                self.assertRight(self.assertFlyDSL(0, product, *args), *args)
                self.assertRight(self.assertFlyDSL(0, product, *args), *args)
                self.assertRegex(
                    flydsl_utils.explain("_scaled_mm_v2", *v2(*args)), "could not be compiled: .*no linker"
                )
            self.assertEqual((build.call_count, len(logs.records)), (1, 1))

    def test_nothing_is_compiled_while_a_graph_is_captured(self):
        args = self.operands(32, 32, 256)
        with mock.patch.object(flydsl_utils, "_kernels", flydsl_utils.KernelCache()):
            with mock.patch.object(torch.cuda, "is_current_stream_capturing", return_value=True):
                self.assertRegex(flydsl_utils.explain("_scaled_mm_v2", *v2(*args)), "a graph is being captured")
                with mock.patch.object(flydsl_impl, "_build") as build:
                    self.assertRight(self.assertFlyDSL(0, product, *args), *args)
                self.assertEqual(build.call_count, 0)
            self.assertIsNone(flydsl_utils.prewarm("_scaled_mm_v2", *v2(*args)))
            self.assertFlyDSL(1, product, *args)
            with mock.patch.object(torch.cuda, "is_current_stream_capturing", return_value=True):
                self.assertFlyDSL(1, product, *args)

    def test_prewarm_takes_fake_tensors(self):
        from torch._subclasses import FakeTensorMode

        with FakeTensorMode():
            a, b_nk = torch.empty(8, 128, dtype=E4M3, device="cuda"), torch.empty(16, 128, dtype=E4M3, device="cuda")
            scales = [torch.empty(rows, 4, dtype=E8M0, device="cuda") for rows in (8, 16)]
            before = launches()
            self.assertIsNone(flydsl_utils.prewarm("_scaled_mm_v2", *v2(a, b_nk, *scales)))
            self.assertEqual(launches(), before)

    def test_first_calls_of_many_threads(self):
        args = self.operands(16, 16, 128)
        wanted, results = product(*args), []
        with mock.patch.object(flydsl_utils, "_kernels", flydsl_utils.KernelCache()):
            threads = [threading.Thread(target=lambda: results.append(product(*args))) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(flydsl_utils._kernels.info().misses, 1)
        for result in results:
            self.assertEqual(result, wanted, atol=0, rtol=0)
        self.assertEqual(len(results), 4)

    def test_s20_memory_does_not_grow_with_shapes(self):
        a, b_nk, scale_a, scale_b = self.operands(200, 16, 128)
        product(a, b_nk, scale_a, scale_b)
        gc.collect()
        before = torch.cuda.memory_allocated()
        with mock.patch.object(flydsl_impl, "_PLANS_LIMIT", 50):
            for m in range(1, 200):
                product(a[:m], b_nk, scale_a[:m], scale_b)
                self.assertLessEqual(len(flydsl_impl._decisions), 50)
        gc.collect()
        self.assertEqual(torch.cuda.memory_allocated(), before)

    def test_a_tuned_configuration_is_taken(self):
        from torch._inductor.kernel.flydsl import scaled_gemm_config, tuned
        from torch._inductor.kernel.flydsl.scaled_gemm_arguments import scaled_problem_of
        from torch._inductor.utils import fresh_inductor_cache

        args = self.operands(16, 64, 1024)
        problem = scaled_problem_of(*args, product(*args), "block32")
        with fresh_inductor_cache(), mock.patch.dict(flydsl_impl._decisions, clear=True):
            self.assertIsNone(tuned.tuned_config(problem, "gfx950"))
            first, other = scaled_gemm_config.configs(problem)[:2]
            tuned.record(problem, "gfx950", first, 2.0)
            tuned.record(problem, "gfx950", other, 1.0)
            tuned.record(problem, "gfx950", first, 3.0)
            plan = flydsl_impl.plan_v2(*v2(*args))
            self.assertIn(other.tile_k, plan.key)
            self.assertEqual(plan.key, scaled_gemm_config.spec_for(problem, other, "gfx950").key)
            self.assertRight(self.assertFlyDSL(1, product, *args), *args)


class TestWithoutFlyDSL(TestCase):
    def check(self, code: str, **environment: str) -> str:
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def test_import_torch_imports_no_flydsl(self):
        code = "import sys, torch; print('flydsl' in sys.modules, 'torch._inductor' in sys.modules)"
        self.assertEqual(self.check(code), "False False")

    def test_a_cpu_build_is_left_alone(self):
        code = """
import torch
controls = torch.backends.python_native
print(controls.flydsl.available, controls.flydsl.version, controls.get_dsl_operations("flydsl"))
print(controls.flydsl.explain("_scaled_mm_v2"))
print(torch._library.simple_registry.singleton.find("aten::_scaled_mm_v2").fake_impl.kernel)
"""
        self.assertEqual(
            self.check(code, GFX950_EMULATOR="0").splitlines(),
            ["False None []", "this PyTorch is not a ROCm build", "None"],
        )

    @unittest.skipIf(CANNOT_RUN is not None, f"needs a gfx950, real or emulated: {CANNOT_RUN}")
    def test_switched_off_by_the_environment(self):
        code = """
import torch
print(torch.backends.python_native.get_dsl_operations("flydsl"))
print(torch.backends.python_native.flydsl.explain("_scaled_mm_v2"))
"""
        self.assertEqual(
            self.check(code, TORCH_DISABLE_NATIVE_JIT="1").splitlines(), ["[]", "TORCH_DISABLE_NATIVE_JIT=1 is set"]
        )


if __name__ == "__main__":
    run_tests()
