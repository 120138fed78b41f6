"""Products with weights of 4 bits: packing, values against float64, and what is refused."""

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests


def problem(n, k, group, seed=5):
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(0, 16, (n, k), generator=generator)
    scale_and_zero = torch.randn(k // group, n, 2, generator=generator).bfloat16()
    pairs = (codes[:, ::2] << 4 | codes[:, 1::2]).to(torch.uint8)
    scale, zero = (scale_and_zero[..., part].float().t().repeat_interleave(group, 1) for part in (0, 1))
    return pairs, scale_and_zero, ((codes - 8) * scale + zero).bfloat16()


class TestInt4(TestCase):
    @parametrize("inner", [2, 4, 8])
    @parametrize("m,n,k,group", [(1, 8, 128, 32), (5, 64, 256, 64), (32, 48, 512, 128), (7, 16, 256, 256)])
    def test_product(self, inner, m, n, k, group):
        pairs, scale_and_zero, weight = problem(n, k, group)
        x = torch.randn(m, k).bfloat16()
        packed = torch._convert_weight_to_int4pack(pairs.cuda(), inner)
        self.assertEqual(packed.shape, (n // 8, k // (16 * inner), 32, inner // 2))
        result = torch._weight_int4pack_mm(x.cuda(), packed, group, scale_and_zero.cuda()).cpu()
        expected = x.double() @ weight.double().t()
        bound = expected.abs() * 2**-8 + k * 2**-24 * (x.double().abs() @ weight.double().abs().t())
        self.assertTrue(((result.double() - expected).abs() <= bound).all())

    def test_shapes_agree_with_fake_tensors(self):
        pairs, scale_and_zero, _ = problem(16, 128, 32)
        x = torch.randn(3, 128).bfloat16()
        packed = torch._convert_weight_to_int4pack(pairs.cuda(), 2)
        real = torch._weight_int4pack_mm(x.cuda(), packed, 32, scale_and_zero.cuda())
        inputs = (pairs.cuda(), x.cuda(), scale_and_zero.cuda())
        with FakeTensorMode() as mode:
            fakes = [mode.from_tensor(tensor) for tensor in inputs]
            fake_packed = torch._convert_weight_to_int4pack(fakes[0], 2)
            fake = torch._weight_int4pack_mm(fakes[1], fake_packed, 32, fakes[2])
        self.assertEqual((fake_packed.shape, fake.shape, fake.dtype), (packed.shape, real.shape, real.dtype))

    def test_refused(self):
        pairs, scale_and_zero, _ = problem(16, 128, 32)
        packed = torch._convert_weight_to_int4pack(pairs.cuda(), 2)
        x = torch.randn(3, 128).bfloat16().cuda()
        scales = scale_and_zero.cuda()
        with self.assertRaisesRegex(RuntimeError, "innerKTiles must be 2, 4 or 8, got 3"):
            torch._convert_weight_to_int4pack(pairs.cuda(), 3)
        with self.assertRaisesRegex(RuntimeError, "a weight .* of uint8, got .* of Int"):
            torch._convert_weight_to_int4pack(pairs.int().cuda(), 2)
        with self.assertRaisesRegex(RuntimeError, "expected x .* of bfloat16, got .* of Float"):
            torch._weight_int4pack_mm(x.float(), packed, 32, scales)
        with self.assertRaisesRegex(RuntimeError, "group size must be 32, 64, 128 or 256, got 48"):
            torch._weight_int4pack_mm(x, packed, 48, scales)
        with self.assertRaisesRegex(RuntimeError, "x has K = 64, the weight 128"):
            torch._weight_int4pack_mm(x[:, :64].contiguous(), packed, 32, scales)
        with self.assertRaisesRegex(RuntimeError, r"expected scales and zeros .* = \[4, 16, 2\]"):
            torch._weight_int4pack_mm(x, packed, 32, scales[:2])


instantiate_parametrized_tests(TestInt4)

if __name__ == "__main__":
    run_tests()
