# Owner(s): ["module: nn"]
"""Quantising to MX: the reference against ml_dtypes (T0), the kernel against the reference (T2, T3)."""

from __future__ import annotations

import os
import re
import sys
import unittest
import unittest.mock

import ml_dtypes
import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._native.flydsl import target
from torch._native.flydsl.launch import linker_missing_reason
from torch._native.ops.to_mx import flydsl_impl
from torch.nn.microscaling import from_mx, to_mxfp4, to_mxfp8
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests

E4M3, E5M2, E2M1 = torch.float8_e4m3fn, torch.float8_e5m2, torch.float4_e2m1fn_x2
FORMATS = (E4M3, E5M2, E2M1)
INPUTS = (torch.float32, torch.bfloat16, torch.float16)
NUMPY = {E4M3: ml_dtypes.float8_e4m3fn, E5M2: ml_dtypes.float8_e5m2, E2M1: ml_dtypes.float4_e2m1fn}
EMAX = {E4M3: 8, E5M2: 15, E2M1: 2}
CANNOT_RUN = target.unavailable_reason() or linker_missing_reason()
ON_GPU = torch.cuda.is_available() and CANNOT_RUN is None


def quantise(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    return to_mxfp4(x) if dtype == E2M1 else to_mxfp8(x, dtype)


def raw(tensor: torch.Tensor) -> np.ndarray:
    return tensor.cpu().view(torch.uint8).numpy()


def codes_of(data: torch.Tensor) -> np.ndarray:
    """An element's code each, whatever the packing."""
    stored = raw(data)
    return np.stack((stored & 15, stored >> 4), -1).reshape(*stored.shape[:-1], -1) if data.dtype == E2M1 else stored


def expected(x: np.ndarray, dtype: torch.dtype) -> tuple[np.ndarray, np.ndarray]:
    """(codes, scale bytes) of finite float32 blocks [.., 32], from the specification's words, with ml_dtypes' casts."""
    numbers = x.astype(np.float64)
    largest = np.abs(numbers).max(-1, keepdims=True)
    _, exponent = np.frexp(largest)  # largest = f * 2^exponent, f in [1/2, 1)
    shared = np.where(largest == 0, -127, np.clip(exponent - 1 - EMAX[dtype], -127, 127))
    scaled = numbers / np.ldexp(1.0, shared)
    limit = float(ml_dtypes.finfo(NUMPY[dtype]).max)
    # Scaled values have 24 bits within a normal float32 or are so small that every format rounds them to zero.
    codes = np.clip(scaled, -limit, limit).astype(np.float32).astype(NUMPY[dtype]).view(np.uint8)
    return codes & (15 if dtype == E2M1 else 255), (shared[..., 0] + 127).astype(np.uint8)


def blocks_from(bits: list[int]) -> np.ndarray:
    """Blocks of finite float32 from bit patterns: exponents of 255 become 254."""
    words = np.array(bits, dtype=np.uint32)
    words = np.where((words >> 23) & 255 == 255, words & ~np.uint32(1 << 23), words).astype(np.uint32)
    return words.view(np.float32).reshape(-1, 32)


def edge_cases() -> torch.Tensor:
    """Rows of 64: each power of two, the numbers beside it, ties of every format, NaN, infinity, zeros, denormals."""
    powers = torch.ldexp(torch.ones(277), torch.arange(-149, 128))
    rows = [torch.nextafter(powers, torch.tensor(0.0)), powers, powers * 1.5, powers * (1 - 2**-9)]
    values = torch.cat(rows).reshape(-1, 1)
    ties = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.5, 7.9, 1.0625, 1.1875, 3.0, 2**-10, 1.5 * 2**-10])
    body = torch.cat((ties, -ties, torch.tensor([0.0, -0.0, 7.0]))) / 8
    first = torch.cat((values, values * body), 1)  # the amax first, then what it scales
    special = torch.zeros(6, 32)
    special[0, 3], special[1, 4], special[2, 5] = float("nan"), float("inf"), float("-inf")
    special[3] = -0.0
    special[4], special[5, 7] = 3.0, 2.0**-149
    blocks = torch.cat((first, special))
    blocks = torch.cat((blocks, blocks.flip(0)))
    return blocks.reshape(-1, 64)


@instantiate_parametrized_tests
class TestReference(TestCase):
    @parametrize("dtype", FORMATS)
    def test_any_finite_blocks_against_ml_dtypes(self, dtype):
        pattern = st.integers(0, 2**32 - 1)
        near = st.tuples(st.integers(0, 254), st.integers(0, 2**23 - 1), st.integers(-3, 3), st.booleans())

        @settings(max_examples=120, deadline=None, database=None)
        @given(
            st.one_of(
                st.lists(pattern, min_size=32, max_size=32),
                st.tuples(near, st.lists(near, min_size=31, max_size=31)).map(
                    # exponents near each other, so that elements are no zeros
                    lambda t: [
                        (sign << 31) | (min(254, max(0, t[0][0] + step)) << 23) | mantissa
                        for _, mantissa, step, sign in (t[0], *t[1])
                    ]
                ),
            )
        )
        def check(bits):
            blocks = blocks_from(bits)
            data, scale = quantise(torch.from_numpy(blocks.copy()), dtype)
            codes, scales = expected(blocks, dtype)
            np.testing.assert_array_equal(raw(scale)[:, 0], scales)
            np.testing.assert_array_equal(codes_of(data), codes)

        check()

    @parametrize("dtype", FORMATS)
    def test_edge_cases_against_ml_dtypes(self, dtype):
        blocks = edge_cases().reshape(-1, 32)
        blocks = blocks[blocks.isfinite().all(1)]
        data, scale = quantise(blocks, dtype)
        codes, scales = expected(blocks.numpy(), dtype)
        np.testing.assert_array_equal(raw(scale)[:, 0], scales)
        np.testing.assert_array_equal(codes_of(data), codes)

    @parametrize("dtype", FORMATS)
    def test_an_exponent_comes_from_fp32(self, dtype):
        """S14, S15: 2^k * (1 - 2^-9) rounds to 2^k in bf16, and 1.5 * 2^k keeps nothing of its mantissa."""
        for k in (-20, 0, 37):
            for factor, exponent in ((1 - 2**-9, k - 1), (1.5, k), (1.0, k), (2 - 2**-22, k)):
                _, scale = quantise(torch.full((1, 32), factor * 2.0**k), dtype)
                self.assertEqual(int(raw(scale)[0, 0]), exponent - EMAX[dtype] + 127, (k, factor))

    @parametrize("dtype", FORMATS)
    def test_nan_and_infinity_poison_their_block_alone(self, dtype):
        x = torch.ones(2, 96)
        x[0, 40], x[1, 3], x[1, 95] = float("nan"), float("inf"), float("-inf")
        data, scale = quantise(x, dtype)
        poisoned = torch.tensor([[False, True, False], [True, False, True]])
        self.assertTrue(torch.equal(scale.view(torch.uint8) == 255, poisoned))
        self.assertEqual(from_mx(data, scale).isnan(), poisoned.repeat_interleave(32, 1))
        self.assertEqual(from_mx(data, scale)[~poisoned.repeat_interleave(32, 1)], torch.ones(32 * 3))

    @parametrize("dtype", FORMATS)
    def test_zeros_keep_their_signs(self, dtype):
        x = torch.zeros(1, 32)
        x[0, ::3] = -0.0
        data, scale = quantise(x, dtype)
        self.assertEqual(int(raw(scale)[0, 0]), 0)
        self.assertEqual(torch.signbit(from_mx(data, scale)), torch.signbit(x))

    def test_the_first_element_is_in_the_low_four_bits(self):
        x = torch.zeros(1, 32)
        x[0, 0], x[0, 1] = 6.0, -0.5
        self.assertEqual(int(raw(to_mxfp4(x)[0])[0, 0]), 0x97)

    @parametrize("dtype", FORMATS)
    def test_error_is_within_half_a_step(self, dtype):
        x = torch.randn(64, 256, generator=torch.Generator().manual_seed(0))
        data, scale = quantise(x, dtype)
        bits = {E4M3: 3, E5M2: 2, E2M1: 1}[dtype]
        largest = x.unflatten(1, (8, 32)).abs().amax(-1, keepdim=True).expand(-1, -1, 32).flatten(1)
        # Between the format's largest and the next power of two values saturate: a quarter of the amax at most.
        self.assertTrue(bool(((from_mx(data, scale) - x).abs() <= largest * max(2.0 ** -(bits + 1), 0.25)).all()))
        inside = x.abs() <= largest / 2
        self.assertTrue(bool(((from_mx(data, scale) - x).abs() <= largest * 2.0 ** -(bits + 1))[inside].all()))

    @parametrize("shape", ((0, 64), (3, 0), (2, 0, 32), (32,), (2, 3, 64)))
    def test_shapes(self, shape):
        x = torch.randn(shape)
        for dtype in FORMATS:
            data, scale = quantise(x, dtype)
            columns = shape[-1] // (2 if dtype == E2M1 else 1)
            self.assertEqual((data.shape, data.dtype), ((*shape[:-1], columns), dtype))
            self.assertEqual((scale.shape, scale.dtype), ((*shape[:-1], shape[-1] // 32), torch.float8_e8m0fnu))
            meta, meta_scale = quantise(x.to("meta"), dtype)
            self.assertEqual((meta.shape, meta_scale.shape), (data.shape, scale.shape))

    def test_what_is_refused(self):
        with self.assertRaisesRegex(ValueError, "blocks of 32 along the last dimension"):
            to_mxfp8(torch.zeros(2, 48))
        with self.assertRaisesRegex(ValueError, "blocks of 32"):
            to_mxfp4(torch.zeros(()))
        with self.assertRaisesRegex(TypeError, "torch.float64"):
            to_mxfp4(torch.zeros(2, 32, dtype=torch.float64))
        with self.assertRaisesRegex(TypeError, "torch.float8_e4m3fnuz"):
            to_mxfp8(torch.zeros(2, 32), torch.float8_e4m3fnuz)
        data, scale = to_mxfp8(torch.zeros(2, 64))
        with self.assertRaisesRegex(ValueError, "not one for 32"):
            from_mx(data, scale[:, :1])
        with self.assertRaisesRegex(TypeError, "float8_e8m0fnu scales"):
            from_mx(data, torch.zeros(2, 2))


@unittest.skipUnless(ON_GPU, f"needs a gfx950, real or emulated (GFX950_EMULATOR=1), and flydsl: {CANNOT_RUN}")
@instantiate_parametrized_tests
class TestKernel(TestCase):
    def assertSameBits(self, x: torch.Tensor, dtype: torch.dtype) -> None:
        self.assertIsNone(flydsl_impl.kernel_unsupported_reason(x))
        emulator = sys.modules.get("gfx950_emulator")
        before = emulator.launch_counts() if emulator is not None else {}
        data, scale = quantise(x, dtype)
        torch.cuda.synchronize()
        if emulator is not None:
            counts = emulator.launch_counts()
            ran = [name for name in counts if counts[name] != before.get(name, 0)]
            self.assertEqual(len(ran), 1)
            self.assertTrue(ran[0].startswith("to_mx_"), ran)
        wanted, wanted_scale = quantise(x.cpu(), dtype)
        np.testing.assert_array_equal(raw(scale), raw(wanted_scale))
        np.testing.assert_array_equal(raw(data), raw(wanted))

    @parametrize("input_dtype", INPUTS)
    @parametrize("dtype", FORMATS)
    def test_edge_cases(self, dtype, input_dtype):
        with unittest.mock.patch.dict(os.environ, {"GFX950_CHECK": "2"}):
            self.assertSameBits(edge_cases().to(input_dtype).cuda(), dtype)

    @parametrize("dtype", FORMATS)
    def test_random_bits(self, dtype):
        bits = np.random.default_rng(7).integers(0, 2**32, 32 * 300).tolist()
        self.assertSameBits(torch.from_numpy(blocks_from(bits).copy()).cuda(), dtype)
        step = np.random.default_rng(8).normal(size=(70, 96)).astype(np.float32)
        self.assertSameBits(torch.from_numpy(step).cuda(), dtype)

    @parametrize("blocks", (1, 255, 256, 257))
    def test_tails_of_the_grid(self, blocks):
        x = torch.randn(blocks, 32, generator=torch.Generator().manual_seed(blocks)).bfloat16()
        with unittest.mock.patch.dict(os.environ, {"GFX950_CHECK": "2", "GFX950_SCHEDULE": "random:1"}):
            self.assertSameBits(x.cuda(), E2M1)

    def test_views(self):
        x = torch.randn(6, 160, generator=torch.Generator().manual_seed(0)).cuda()
        for view in (x[:, 32:96], x[1:, 64:], x.t().contiguous().t(), x.flatten()[1 : 1 + 64].view(2, 32)):
            data, scale = to_mxfp8(view)
            wanted, wanted_scale = to_mxfp8(view.cpu())
            np.testing.assert_array_equal(raw(data), raw(wanted))
            np.testing.assert_array_equal(raw(scale), raw(wanted_scale))

    def test_compiled_and_exported(self):
        x = torch.randn(4, 64, generator=torch.Generator().manual_seed(0)).cuda()

        class Quantise(torch.nn.Module):
            def forward(self, x):
                return to_mxfp4(x * 2)

        wanted = quantise(x.cpu() * 2, E2M1)
        exported = torch.export.export(Quantise(), (x,)).module()
        for function in (torch.compile(Quantise(), fullgraph=True), exported):
            for got, want in zip(function(x), wanted, strict=True):
                np.testing.assert_array_equal(raw(got), raw(want))

    def test_nothing_spills(self):
        from torch._native.ops.to_mx.flydsl_kernels import compile_quantiser

        for name, dtype in (("e4m3fn", "fp32"), ("e2m1", "bf16")):
            text = compile_quantiser(name, dtype, "gfx950").kernel.compiled_ir()
            for field in ("vgpr_spill_count", "sgpr_spill_count", "private_segment_fixed_size"):
                self.assertEqual(re.findall(rf"{field} = (\d+)", text), ["0"], field)


if __name__ == "__main__":
    run_tests()
