"""Scaled and grouped products on the emulated device: values against float64, and what ROCm refuses."""

import torch
from torch._native.flydsl_utils import base_kernels
from torch.nn.functional import ScalingType, SwizzleType
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests

E4M3, E5M2, FP4, E8M0 = torch.float8_e4m3fn, torch.float8_e5m2, torch.float4_e2m1fn_x2, torch.float8_e8m0fnu
BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
_FP4_VALUES = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float64)
TENSOR, ROW, MX = ScalingType.TensorWise.value, ScalingType.RowWise.value, ScalingType.BlockWise1x32.value
PLAIN, SWIZZLED = SwizzleType.NO_SWIZZLE.value, SwizzleType.SWIZZLE_32_4_4.value
ops = torch.ops.aten


def codes(rows, k, dtype):
    """Random finite elements, [rows, k] as stored: packed fp4 has k / 2 columns."""
    if dtype is FP4:
        return torch.randint(0, 256, (rows, k // 2), dtype=torch.uint8).view(FP4)
    return torch.randn(rows, k).mul_(3).to(dtype)


def scales(*shape, low=118, high=136):
    return torch.randint(low, high, shape, dtype=torch.uint8).view(E8M0)


def worth(stored, scale=None):
    """float64 [rows, k] of stored elements, by the formats' definitions and not by the device's code."""
    if stored.dtype is FP4:
        code = stored.view(torch.uint8).long()
        values = _FP4_VALUES[torch.stack((code & 15, code >> 4), -1).flatten(-2)]
    else:
        values = stored.double()
    if scale is None:
        return values
    code = scale.view(torch.uint8).double()
    power = torch.where(code == 255, torch.nan, torch.exp2(code - 127))
    return values * power.repeat_interleave(32, -1)


def rounded(exact, dtype):
    """The sum in an accumulator of float32, then in the type of the result."""
    return exact.float().to(dtype)


class DeviceTestCase(TestCase):
    """The device's own kernels, not those that FlyDSL puts before them."""

    def setUp(self):
        super().setUp()
        self.enterContext(base_kernels())


class TestScaledProduct(DeviceTestCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(31)

    def agree(self, actual, expected):
        self.assertEqual(actual.device.type, "cuda")
        # One rounding: float64 sums in another order may end on the other side of a tie of float32.
        self.assertEqual(actual.cpu(), expected, rtol=torch.finfo(expected.dtype).eps, atol=0)

    @parametrize("out_dtype", [BF16, FP16, FP32])
    @parametrize("kinds", [(E4M3, E4M3), (E4M3, E5M2), (E5M2, E4M3), (E5M2, E5M2)])
    def test_tensor_wise(self, kinds, out_dtype):
        a, b = codes(48, 64, kinds[0]), codes(32, 64, kinds[1])
        scale_a, scale_b = torch.tensor(0.5), torch.tensor(0.3)
        expected = rounded(worth(a) @ worth(b).t() * scale_a.double() * scale_b.double(), out_dtype)
        args = a.cuda(), b.cuda().t(), scale_a.cuda(), scale_b.cuda()
        self.agree(torch._scaled_mm(*args, out_dtype=out_dtype), expected)
        out = torch.empty(0, device="cuda", dtype=out_dtype)
        self.assertIs(ops._scaled_mm.out(*args, out_dtype=out_dtype, out=out), out)
        self.agree(out, expected)
        v2 = args[0], args[1], [args[2]], [TENSOR], [PLAIN], [args[3]], [TENSOR], [PLAIN], None, out_dtype
        self.agree(ops._scaled_mm_v2(*v2), expected)

    def test_row_wise(self):
        a, b = codes(48, 64, E4M3), codes(32, 64, E4M3)
        scale_a, scale_b = torch.rand(48, 1) + 0.1, torch.rand(1, 32) + 0.1
        expected = rounded(worth(a) @ worth(b).t() * scale_a.double() * scale_b.double(), BF16)
        args = a.cuda(), b.cuda().t(), scale_a.cuda(), scale_b.cuda()
        self.agree(torch._scaled_mm(*args, out_dtype=BF16), expected)
        v2 = args[0], args[1], [args[2]], [ROW], [PLAIN], [args[3]], [ROW], [PLAIN], None, BF16
        self.agree(ops._scaled_mm_v2(*v2), expected)

    def test_bias_is_added_before_the_rounding(self):
        a, b, one = codes(16, 32, E4M3), codes(16, 32, E4M3), torch.ones(())
        bias = torch.randn(16).bfloat16()
        exact = (worth(a) @ worth(b).t()).float() + bias.float()
        actual = torch._scaled_mm(a.cuda(), b.cuda().t(), one.cuda(), one.cuda(), bias=bias.cuda(), out_dtype=BF16)
        self.agree(actual, exact.to(BF16))

    def test_float8_result_is_scaled(self):
        a, b, one = codes(16, 32, E4M3), codes(16, 32, E4M3), torch.ones(())
        scale = torch.tensor(0.125)
        exact = (worth(a) @ worth(b).t()).float() * scale
        args = a.cuda(), b.cuda().t(), one.cuda(), one.cuda()
        actual = torch._scaled_mm(*args, scale_result=scale.cuda(), out_dtype=E4M3)
        self.assertEqual(actual.dtype, E4M3)
        self.assertEqual(actual.cpu().float(), exact.to(E4M3).float(), rtol=0.13, atol=0)

    @parametrize("out_dtype", [BF16, FP16])
    @parametrize("kinds", [(E4M3, E4M3), (E5M2, E4M3), (FP4, FP4)])
    def test_block_scales(self, kinds, out_dtype):
        m, n, k = 128, 256, 256
        a, b = codes(m, k, kinds[0]), codes(n, k, kinds[1])
        scale_a, scale_b = scales(m, k // 32, low=124, high=129), scales(n, k // 32, low=124, high=129)
        bias = torch.randn(n).to(out_dtype)
        exact = (worth(a, scale_a) @ worth(b, scale_b).t()).float() + bias.float()
        args = a.cuda(), b.cuda().t(), scale_a.cuda(), scale_b.cuda()
        expected = exact.to(out_dtype)
        self.agree(torch._scaled_mm(*args, bias=bias.cuda(), out_dtype=out_dtype), expected)
        if E5M2 in kinds:  # the second version takes e4m3fn alone
            return
        v2 = args[0], args[1], [args[2]], [MX], [PLAIN], [args[3]], [MX], [PLAIN], bias.cuda(), out_dtype
        self.agree(ops._scaled_mm_v2(*v2), expected)
        out = torch.empty(m, n, device="cuda", dtype=out_dtype)
        self.agree(ops._scaled_mm_v2.out(*v2, out=out), expected)

    def test_unswizzled_scales_where_both_layouts_have_one_size(self):  # S1
        a, b = codes(32, 256, E4M3), codes(32, 256, E4M3)
        scale_a, scale_b = scales(32, 8), scales(32, 8)
        expected = rounded(worth(a, scale_a) @ worth(b, scale_b).t(), BF16)
        v2 = [scale_a.cuda()], [MX], [PLAIN], [scale_b.cuda()], [MX], [PLAIN], None, BF16
        self.agree(ops._scaled_mm_v2(a.cuda(), b.cuda().t(), *v2), expected)

    def test_the_ends_of_e8m0(self):  # S2
        k = 128
        a, b = torch.full((32, k), 256.0).to(E4M3), torch.full((32, k), 256.0).to(E4M3)
        low = torch.zeros(32, k // 32, dtype=torch.uint8).view(E8M0)  # 2^-127
        high = torch.full((32, k // 32), 127 + 104, dtype=torch.uint8).view(E8M0)
        v2 = [low.cuda()], [MX], [PLAIN], [high.cuda()], [MX], [PLAIN], None, BF16
        result = ops._scaled_mm_v2(a.cuda(), b.cuda().t(), *v2).cpu()
        self.assertEqual(result, torch.full((32, 32), 1.0, dtype=BF16))  # 128 * 2^16 * 2^104 * 2^-127
        broken = scales(32, k // 32, low=127, high=128)
        broken.view(torch.uint8)[5, 2] = 255
        plain = scales(32, k // 32, low=127, high=128)
        v2 = [broken.cuda()], [MX], [PLAIN], [plain.cuda()], [MX], [PLAIN], None, BF16
        result = ops._scaled_mm_v2(a.cuda(), b.cuda().t(), *v2).cpu().isnan()
        self.assertTrue(result[5].all())
        self.assertEqual(result.sum(), 32)  # and no other

    def test_every_block_meets_its_own_scale(self):  # S8
        k = 32 * 13
        a, b = codes(32, k, FP4), codes(32, k, FP4)
        scale = (127 + torch.arange(13, dtype=torch.uint8)).repeat(32, 1).view(E8M0)
        ones = torch.full((32, 13), 127, dtype=torch.uint8).view(E8M0)
        expected = rounded(worth(a, scale) @ worth(b, ones).t(), BF16)
        with self.assertRaisesRegex(ValueError, "Matrix dimensions must be multiples of 32"):  # of stored ones: 208
            v2 = [scale.cuda()], [MX], [PLAIN], [ones.cuda()], [MX], [PLAIN], None, BF16
            ops._scaled_mm_v2(a.cuda(), b.cuda().t(), *v2)
        a, b = a.repeat(1, 2), b.repeat(1, 2)
        scale, ones = (s.view(torch.uint8).repeat(1, 2).view(E8M0) for s in (scale, ones))
        v2 = [scale.cuda()], [MX], [PLAIN], [ones.cuda()], [MX], [PLAIN], None, BF16
        self.agree(ops._scaled_mm_v2(a.cuda(), b.cuda().t(), *v2), (expected.double() * 2).bfloat16())

    @parametrize("mnk", [(0, 256, 256), (256, 0, 256), (256, 256, 0)])
    def test_nothing_to_multiply(self, mnk):  # S16
        m, n, k = mnk
        a, b = torch.zeros(m, k, device="cuda").to(E4M3), torch.zeros(n, k, device="cuda").to(E4M3).t()
        one = torch.ones((), device="cuda")
        for result in (
            torch._scaled_mm(a, b, one, one, out_dtype=BF16),
            ops._scaled_mm_v2(a, b, [one], [TENSOR], [PLAIN], [one], [TENSOR], [PLAIN], None, BF16),
        ):
            self.assertEqual(result.cpu(), torch.zeros(m, n, dtype=BF16))

    def test_the_public_functions_reach_it(self):
        a, b = codes(64, 128, E4M3), codes(32, 128, E4M3)
        scale_a, scale_b = scales(64, 4), scales(32, 4)
        actual = torch.nn.functional.scaled_mm(
            a.cuda(),
            b.cuda().t(),
            scale_a.cuda(),
            ScalingType.BlockWise1x32,
            scale_b.cuda(),
            ScalingType.BlockWise1x32,
            swizzle_a=SwizzleType.NO_SWIZZLE,
            swizzle_b=SwizzleType.NO_SWIZZLE,
            output_dtype=BF16,
        )
        self.agree(actual, rounded(worth(a, scale_a) @ worth(b, scale_b).t(), BF16))


def _v1(a=E4M3, m=32, n=32, k=128, scale_a=None, scale_b=None, b=None, columns=True, **kwargs):
    left, right = codes(m, k, a).cuda(), codes(n, k, b or a).cuda()
    one = torch.ones((), device="cuda")
    second = right.t() if columns else right.view(torch.uint8).t().contiguous().view(right.dtype)
    kwargs.setdefault("out_dtype", BF16)
    return torch._scaled_mm(
        left, second, one if scale_a is None else scale_a, one if scale_b is None else scale_b, **kwargs
    )


def _v2(a=E4M3, m=32, n=32, k=128, recipe=MX, swizzle=PLAIN, scale_a=None, scale_b=None, out_dtype=BF16, **kwargs):
    left, right = codes(m, k, a).cuda(), codes(n, k, a).cuda().t()
    scale_a = scales(m, k // 32).cuda() if scale_a is None else scale_a
    scale_b = scales(n, k // 32).cuda() if scale_b is None else scale_b
    swizzles = [swizzle] if isinstance(swizzle, int) else swizzle
    return ops._scaled_mm_v2(
        left,
        right,
        [scale_a],
        [recipe],
        swizzles,
        [scale_b],
        [recipe],
        swizzles,
        kwargs.pop("bias", None),
        out_dtype,
        **kwargs,
    )


def _cuda(*shape, dtype=FP32):
    return torch.ones(shape, device="cuda", dtype=dtype)


REFUSED = {
    "shapes": (
        lambda: ops._scaled_mm(_cuda(4, 16).to(E4M3), _cuda(32, 16).to(E4M3).t()[:8], _cuda(), _cuda()),
        RuntimeError,
        "shapes cannot be multiplied",
    ),
    "k of 16": (lambda: _v1(k=24), RuntimeError, "Expected trailing dimension of mat1 to be divisible by 16"),
    "n of 16": (lambda: _v1(n=24), RuntimeError, "must be divisible by 16"),
    "row-major b": (lambda: _v1(columns=False), RuntimeError, "Only multiplication of row-major and column-major"),
    "unknown scales": (lambda: _v1(scale_a=_cuda(7)), RuntimeError, "Invalid scaling configuration"),
    "row-wise float16": (
        lambda: _v1(scale_a=_cuda(32, 1), scale_b=_cuda(1, 32), out_dtype=FP16),
        ValueError,
        "hipblaslt rowwise _scaled_mm only supports BFloat16 output",
    ),
    "row-wise e5m2": (
        lambda: _v1(b=E5M2, scale_a=_cuda(32, 1), scale_b=_cuda(1, 32)),
        ValueError,
        r"Expected b.dtype\(\) == at::kFloat8_e4m3fn",
    ),
    "v1 block to float32": (
        lambda: _v1(m=128, n=128, scale_a=scales(128, 4).cuda(), scale_b=scales(128, 4).cuda(), out_dtype=FP32),
        ValueError,
        "Block-wise scaling only supports BFloat16 or Half",
    ),
    "v1 block K": (
        lambda: _v1(m=128, n=128, k=64, scale_a=scales(128, 4).cuda(), scale_b=scales(128, 4).cuda()),
        ValueError,
        "K must be multiple of 128 for block-wise scaling",
    ),
    "bias for float32": (
        lambda: _v1(bias=_cuda(32, dtype=BF16), out_dtype=FP32),
        RuntimeError,
        "Bias is not supported when out_dtype is set to Float32",
    ),
    "bias type": (lambda: _v1(bias=_cuda(32)), RuntimeError, "Bias must be BFloat16 or Half, but got Float"),
    "bias of the other half": (
        lambda: _v1(bias=_cuda(32, dtype=FP16)),
        RuntimeError,
        "Bias must be BFloat16 to compute BFloat16",
    ),
    "bias size": (lambda: _v1(bias=_cuda(16, dtype=BF16)), RuntimeError, "Bias must be size 32 but got 16"),
    "fast accumulation of fp4": (
        lambda: _v1(
            a=FP4, m=128, n=128, scale_a=scales(128, 4).cuda(), scale_b=scales(128, 4).cuda(), use_fast_accum=True
        ),
        RuntimeError,
        "`use_fast_accum` is not supported",
    ),
    "float32 operand": (
        lambda: torch._scaled_mm(_cuda(16, 16), _cuda(16, 16).t(), _cuda(), _cuda()),
        RuntimeError,
        "Invalid scaling configuration",
    ),
    "1x128 blocks": (
        lambda: _v1(m=128, n=128, k=256, scale_a=_cuda(2, 128).t(), scale_b=_cuda(2, 128)),
        RuntimeError,
        "1x128 blocks is only supported for CUDA",
    ),
    "1x16 blocks": (
        lambda: _v1(a=FP4, m=128, n=128, scale_a=_cuda(128, 8).to(E4M3), scale_b=_cuda(128, 8).to(E4M3)),
        RuntimeError,
        "1x16 blocks is only supported for CUDA",
    ),
    "v2 block e5m2": (lambda: _v2(a=E5M2), ValueError, "Invalid scaling configuration"),
    "swizzled": (lambda: _v2(swizzle=SWIZZLED), ValueError, "swizzle_a and swizzle_b must both be NO_SWIZZLE"),
    "two swizzles": (lambda: _v2(swizzle=[PLAIN, PLAIN]), ValueError, "must each have 1 value, got 2 and 2"),
    "m of 32": (lambda: _v2(m=48), ValueError, "scale_a should have 256 elements|multiples of 32"),  # S3
    "k of 32": (
        lambda: _v2(k=48, scale_a=scales(48).cuda(), scale_b=scales(48).cuda()),
        ValueError,
        "multiples of 32",
    ),  # S9
    "scales of another size": (
        lambda: _v2(scale_b=scales(33, 4).cuda()),
        ValueError,
        "scale_b should have 128 elements, got: 132",
    ),
    "block to float32": (lambda: _v2(out_dtype=FP32), ValueError, "Block-wise scaling only supports BFloat16 or Half"),
    "nvfp4": (
        lambda: _v2(
            a=FP4, recipe=ScalingType.BlockWise1x16.value, scale_a=_cuda(32, 8).to(E4M3), scale_b=_cuda(32, 8).to(E4M3)
        ),
        NotImplementedError,
        "NVFP4 scaling not supported on ROCM",
    ),
    "deepseek blocks": (
        lambda: _v2(recipe=ScalingType.BlockWise1x128.value, scale_a=_cuda(32, 1), scale_b=_cuda(32, 1)),
        NotImplementedError,
        "1x128 and 128x128 scaling not available with ROCm",
    ),
    "no recipe": (lambda: _v2(recipe=TENSOR), ValueError, "Invalid scaling configuration"),
    "contraction": (lambda: _v2(contraction_dim=[0, 1]), ValueError, "contraction dims"),
    "another device": (
        lambda: torch._scaled_mm(
            _cuda(16, 16).to(E4M3), _cuda(16, 16).to(E4M3).t(), torch.ones(()), _cuda(), out_dtype=BF16
        ),
        RuntimeError,
        "Expected all tensors to be on the same device",
    ),
}


class TestScaledProductRefuses(DeviceTestCase):
    @parametrize("case", list(REFUSED))
    def test_with_its_reason(self, case):
        call, kind, message = REFUSED[case]
        with self.assertRaisesRegex(kind, message):
            call()


class TestGroupedProduct(DeviceTestCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(32)

    @parametrize("dtype", [BF16, FP16, FP32])
    @parametrize("form", ["2d3d", "3d3d", "2d2d", "3d2d"])
    def test_values(self, form, dtype):
        groups, m, n, k = 4, 48, 32, 64
        a = torch.randn(*((groups,) if form[0] == "3" else ()), m, k).to(dtype)
        b = torch.randn(*((groups,) if form[2] == "3" else ()), n, k).to(dtype).transpose(-2, -1)
        ends = {"2d3d": [8, 8, 24, 40], "2d2d": [16, 16, 32, 64], "3d2d": [8, 8, 24, 32], "3d3d": None}[form]
        offsets = None if ends is None else torch.tensor(ends, dtype=torch.int32, device="cuda")
        actual = torch._grouped_mm(a.cuda(), b.cuda(), offs=offsets).cpu()
        begin = 0
        for group, end in enumerate(ends or [0] * groups):
            part = slice(begin, end)
            left = a[group] if form[0] == "3" else a[:, part] if form == "2d2d" else a[part]
            right = b[group] if form[2] == "3" else b[part] if form == "2d2d" else b[:, part]
            result = actual[group] if form[0] == form[2] else actual[part] if form == "2d3d" else actual[:, part]
            exact = left.double() @ right.double()
            self.assertEqual(result.double(), exact, rtol=2 * torch.finfo(dtype).eps, atol=1e-4)
            begin = end

    def test_rows_after_the_last_group_are_nobody_s(self):  # G1, G6
        a, b = torch.randn(128, 64).bfloat16(), torch.randn(4, 32, 64).bfloat16().transpose(1, 2)
        a[96:] = torch.nan
        offsets = torch.tensor([32, 64, 64, 96], dtype=torch.int32, device="cuda")
        actual = torch._grouped_mm(a.cuda(), b.cuda(), offs=offsets)
        self.assertEqual(actual.shape, (128, 32))
        self.assertFalse(actual[:96].isnan().any().item())

    def test_groups_that_no_tile_divides(self):  # G9
        for sizes in ([1, 3, 7, 15, 31, 63, 127, 255], [0, 24, 0, 12, 48, 3, 0, 21]):
            ends = torch.tensor(sizes).cumsum(0)
            a = torch.randn(int(ends[-1]), 32).bfloat16()
            b = torch.randn(8, 16, 32).bfloat16().transpose(1, 2)
            actual = torch._grouped_mm(a.cuda(), b.cuda(), offs=ends.int().cuda()).cpu()
            which = torch.repeat_interleave(torch.arange(8), torch.tensor(sizes))
            exact = torch.bmm(a.double().unsqueeze(1), b.double()[which]).squeeze(1)
            self.assertEqual(actual.double(), exact, rtol=0.01, atol=1e-3)

    def test_no_inner_dimension(self):  # G3
        a, b = torch.zeros(224, 0, device="cuda", dtype=BF16), torch.zeros(4, 0, 256, device="cuda", dtype=BF16)
        offsets = torch.tensor([56, 112, 168, 224], dtype=torch.int32, device="cuda")
        self.assertEqual(torch._grouped_mm(a, b, offs=offsets).cpu(), torch.zeros(224, 256, dtype=BF16))

    def test_float8_with_row_scales(self):
        a, b = codes(64, 32, E4M3), torch.stack([codes(16, 32, E4M3).view(torch.uint8) for _ in range(4)]).view(E4M3)
        scale_a, scale_b = torch.rand(64) + 0.1, torch.rand(4, 16) + 0.1
        ends = [16, 16, 40, 64]
        offsets = torch.tensor(ends, dtype=torch.int32, device="cuda")
        args = a.cuda(), b.cuda().transpose(1, 2), scale_a.cuda(), scale_b.cuda()
        actual = torch._scaled_grouped_mm(*args, offs=offsets, out_dtype=BF16).cpu()
        v2 = args[0], args[1], [args[2]], [ROW], [PLAIN], [args[3]], [ROW], [PLAIN], offsets
        self.assertEqual(ops._scaled_grouped_mm_v2(*v2).cpu(), actual)
        begin = 0
        for group, end in enumerate(ends):
            exact = worth(a[begin:end]) @ worth(b[group]).t()
            exact *= scale_a[begin:end, None].double() * scale_b[group].double()
            self.assertEqual(actual[begin:end], rounded(exact, BF16))
            begin = end

    @parametrize("dtype", [E4M3, FP4])
    @parametrize("form", ["2d3d", "3d3d", "2d2d", "3d2d"])
    def test_the_reference_with_block_scales(self, form, dtype):
        groups, m, n, k = 3, 48, 32, 128
        pack = 2 if dtype is FP4 else 1

        def operand(rows, batched):
            parts = [codes(rows, k, dtype).view(torch.uint8) for _ in range(groups if batched else 1)]
            blocks = [scales(rows, k // 32).view(torch.uint8) for _ in parts]
            stack = torch.stack if batched else lambda tensors: tensors[0]
            return stack(parts).view(dtype), stack(blocks).view(E8M0)

        (a, scale_a), (b, scale_b) = operand(m, form[0] == "3"), operand(n, form[2] == "3")
        ends = {"2d3d": [8, 8, 40], "2d2d": [32, 32, 128], "3d2d": [8, 8, 24], "3d3d": None}[form]
        stored = ends if ends is None or form != "2d2d" else [end // pack for end in ends]
        offsets = None if ends is None else torch.tensor(stored, dtype=torch.int32, device="cuda")
        args = a.cuda(), b.cuda().transpose(-1, -2), scale_a.cuda(), scale_b.cuda()
        actual = torch.ops.gfx950_emulator.mx_grouped_mm(*args, offsets).cpu()
        left, right, begin = worth(a, scale_a), worth(b, scale_b).transpose(-1, -2), 0
        for group, end in enumerate(ends or [0] * groups):
            part = slice(begin, end)
            of_a = left[group] if form[0] == "3" else left[:, part] if form == "2d2d" else left[part]
            of_b = right[group] if form[2] == "3" else right[part] if form == "2d2d" else right[:, part]
            result = actual[group] if form[0] == form[2] else actual[part] if form == "2d3d" else actual[:, part]
            self.assertEqual(result, rounded(of_a @ of_b, BF16), rtol=0.008, atol=1e-5)
            begin = end

    def test_rocm_has_no_grouped_product_with_block_scales(self):  # G12
        a, b = codes(64, 32, E4M3).cuda(), torch.zeros(2, 16, 32).to(E4M3).cuda().transpose(1, 2)
        scale_a, scale_b = scales(64, 1).cuda(), scales(2, 16).cuda()
        offsets = torch.tensor([32, 64], dtype=torch.int32, device="cuda")
        with self.assertRaisesRegex(ValueError, "For grouped FP8 rowwise, both scales must be float32"):
            torch._scaled_grouped_mm(a, b, scale_a, scale_b, offs=offsets)
        with self.assertRaisesRegex(NotImplementedError, "gfx950_emulator.mx_grouped_mm gives reference values"):
            ops._scaled_grouped_mm_v2(a, b, [scale_a], [MX], [PLAIN], [scale_b], [MX], [PLAIN], offsets)
        with self.assertRaisesRegex(ValueError, "both scale swizzle types must be SWIZZLE_NONE"):
            ops._scaled_grouped_mm_v2(a, b, [scale_a], [MX], [SWIZZLED], [scale_b], [MX], [SWIZZLED], offsets)

    def test_refusals(self):
        a, b = torch.zeros(64, 32, device="cuda", dtype=BF16), torch.zeros(2, 32, 16, device="cuda", dtype=BF16)
        offsets = torch.tensor([32, 64], dtype=torch.int32, device="cuda")
        for call, message in (
            (lambda: torch._grouped_mm(a, b), "Have to provide offsets if there is a 2d matrix"),
            (lambda: torch._grouped_mm(a, b, offs=offsets.long()), "Offsets have to be int32"),  # G5
            (lambda: torch._grouped_mm(a, b, offs=offsets[None]), "offs has to be 1D"),
            (
                lambda: torch._grouped_mm(a.double(), b, offs=offsets),
                "Expected mat_a to be Float32, BFloat16 or Float16",
            ),
            (
                lambda: torch._grouped_mm(a[:, :16], b, offs=offsets),
                "contraction dimension of mat_a and mat_b must match",
            ),
            (lambda: torch._grouped_mm(a, b, offs=offsets[:1]), "matrix batch sizes have to match"),
            (lambda: torch._grouped_mm(a, b, offs=offsets, out_dtype=FP32), "must match `mat_a` dtype"),
            (lambda: torch._grouped_mm(a[:, 1:25], b[:, :24], offs=offsets), "aligned to 16 bytes"),
            (lambda: torch._grouped_mm(a, b, offs=offsets.flip(0)), "offs must not decrease and not exceed 64"),
            (lambda: torch._grouped_mm(a, b, offs=offsets * 2), "offs must not decrease and not exceed 64"),
            (
                lambda: torch._grouped_mm(
                    torch.zeros(8, 1025, device="cuda", dtype=BF16),
                    torch.zeros(2, 1025, 8, device="cuda", dtype=BF16),
                    offs=offsets,
                ),
                "strides should be multiple of 16 bytes",
            ),  # G7
        ):
            with self.assertRaisesRegex(RuntimeError, message):
                call()


instantiate_parametrized_tests(TestScaledProduct)
instantiate_parametrized_tests(TestScaledProductRefuses)
instantiate_parametrized_tests(TestGroupedProduct)

if __name__ == "__main__":
    run_tests()
