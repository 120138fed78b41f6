"""Fused RMS norm, the pieces of synchronised batch norm, and small CUDA-only operators on the emulated device."""

import torch
import torch.nn.functional as F
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests

ops = torch.ops.aten
FLOATS = (torch.float32, torch.bfloat16, torch.float16)


class TestRmsNorm(TestCase):
    def agree(self, actual, exact, dtype, factor=4):
        eps = torch.finfo(dtype).eps
        self.assertEqual(actual.detach().cpu().double(), exact, rtol=factor * eps, atol=factor * eps)

    @parametrize("weighted", [True, False])
    @parametrize("dtype", FLOATS)
    def test_forward_and_backward(self, dtype, weighted):
        torch.manual_seed(51)
        x, grad = torch.randn(2, 3, 5, 7).to(dtype), torch.randn(2, 3, 5, 7).to(dtype)
        weight = torch.randn(5, 7).to(dtype) if weighted else None
        leaves = [t.cuda().requires_grad_() for t in (x, weight) if t is not None]
        exact_leaves = [t.double().requires_grad_() for t in (x, weight) if t is not None]
        y = F.rms_norm(leaves[0], (5, 7), *leaves[1:], eps=1e-3)
        exact = F.rms_norm(exact_leaves[0], (5, 7), *exact_leaves[1:], eps=1e-3)
        self.assertIn("FusedRmsNorm", y.grad_fn.name())
        self.assertEqual(y.dtype, dtype)
        self.agree(y, exact.detach(), dtype)
        y.backward(grad.cuda())
        exact.backward(grad.double())
        for leaf, exact_leaf in zip(leaves, exact_leaves, strict=True):
            self.assertEqual(leaf.grad.dtype, dtype)
            self.agree(leaf.grad, exact_leaf.grad, dtype, factor=8)

    def test_rstd_comes_back_in_float32(self):
        x = torch.randn(4, 6).bfloat16()
        y, rstd = ops._fused_rms_norm(x.cuda(), [6], None, None)
        self.assertEqual((rstd.dtype, rstd.shape), (torch.float32, (4, 1)))
        expected = (x.double().square().mean(1, keepdim=True) + torch.finfo(torch.float32).eps).rsqrt()
        self.assertEqual(rstd.cpu().double(), expected, rtol=1e-6, atol=0)
        self.assertEqual(y.dtype, torch.bfloat16)

    def test_squares_beyond_float16(self):  # R1
        y = F.rms_norm(torch.full((2, 4096), 300.0, device="cuda", dtype=torch.float16), (4096,))
        self.assertEqual(y.cpu(), torch.ones(2, 4096, dtype=torch.float16))

    def test_strides_of_operands(self):  # R4, R5
        x = torch.randn(6, 10)
        for view in (lambda t: t[:, ::2], lambda t: t.t(), lambda t: t[:1].expand(4, 10)):
            size = view(x).size(-1)
            weight = torch.full((1,), 1.5).expand(size)
            exact = F.rms_norm(view(x).double(), (size,), weight.double(), eps=1e-6)
            on_device = torch.full((1,), 1.5, device="cuda").expand(size)
            actual = F.rms_norm(view(x.cuda()), (size,), on_device, eps=1e-6)
            self.agree(actual, exact, torch.float32)

    def test_another_type_of_weight_takes_the_composite_path(self):  # R3
        x, weight = torch.randn(3, 8).bfloat16(), torch.randn(8)
        self.assertEqual(F.rms_norm(x.cuda(), (8,), weight.cuda()).cpu(), F.rms_norm(x, (8,), weight))

    def test_refusals(self):
        x = torch.zeros(4, 6, device="cuda")
        with self.assertRaisesRegex(RuntimeError, "expected input with shape"):
            ops._fused_rms_norm(x, [5], None, None)
        with self.assertRaisesRegex(RuntimeError, "Expected weight to be of same shape as normalized_shape"):
            ops._fused_rms_norm(x, [6], torch.zeros(5, device="cuda"), None)


class TestBatchNormPieces(TestCase):
    @parametrize("dtype", FLOATS)
    def test_two_halves_give_batch_norm_of_the_whole(self, dtype):
        torch.manual_seed(52)
        x, grad = torch.randn(8, 3, 4, 2).to(dtype), torch.randn(8, 3, 4, 2).to(dtype)
        weight, bias = torch.rand(3) + 0.5, torch.randn(3)
        running_mean, running_var = torch.zeros(3), torch.ones(3)
        exact_x, exact_w, exact_b = (t.double().requires_grad_() for t in (x, weight, bias))
        exact_mean, exact_var = running_mean.double(), running_var.double()
        exact = F.batch_norm(exact_x, exact_mean, exact_var, exact_w, exact_b, True, 0.1, 1e-5)
        exact.backward(grad.double())

        halves, halves_of_grad = x.cuda().chunk(2), grad.cuda().chunk(2)
        on_device = running_mean.cuda(), running_var.cuda()
        statistics = [ops.batch_norm_stats(half, 1e-5) for half in halves]
        mean, invstd = (torch.stack(parts) for parts in zip(*statistics, strict=True))
        counts = torch.full((2,), 4 * 4 * 2.0, device="cuda")
        args = halves[0], mean, invstd, *on_device, 0.1, 1e-5
        total_mean, total_invstd = ops.batch_norm_gather_stats_with_counts(*args, counts)
        tolerance = {"rtol": 8 * torch.finfo(dtype).eps, "atol": 8 * torch.finfo(dtype).eps}
        self.assertEqual(on_device[0].cpu().double(), exact_mean, rtol=1e-5, atol=1e-5)
        self.assertEqual(on_device[1].cpu().double(), exact_var, rtol=1e-5, atol=1e-5)
        parameters = weight.cuda(), bias.cuda(), total_mean, total_invstd, 1e-5
        y = torch.cat([ops.batch_norm_elemt(half, *parameters) for half in halves])
        self.assertEqual(y.dtype, dtype)
        self.assertEqual(y.cpu().double(), exact.detach(), **tolerance)
        reduced = [
            ops.batch_norm_backward_reduce(g, half, total_mean, total_invstd, weight.cuda(), True, True, True)
            for g, half in zip(halves_of_grad, halves, strict=True)
        ]
        sum_dy, sum_dy_xmu, grad_weight, grad_bias = (sum(parts) for parts in zip(*reduced, strict=True))
        self.assertEqual(grad_weight.cpu().double(), exact_w.grad, **tolerance)
        self.assertEqual(grad_bias.cpu().double(), exact_b.grad, **tolerance)
        grad_x = torch.cat(
            [
                ops.batch_norm_backward_elemt(
                    g, half, total_mean, total_invstd, weight.cuda(), sum_dy, sum_dy_xmu, counts.int()
                )
                for g, half in zip(halves_of_grad, halves, strict=True)
            ]
        )
        self.assertEqual(grad_x.cpu().double(), exact_x.grad, **tolerance)

    def test_one_count_for_all(self):
        x = torch.randn(4, 3, 5, device="cuda")
        mean, invstd = ops.batch_norm_stats(x, 1e-5)
        together = ops.batch_norm_gather_stats(x, mean[None], invstd[None], None, None, 0.1, 1e-5, 20)
        self.assertEqual(together, (mean, invstd), rtol=1e-5, atol=1e-6)
        out = torch.empty_like(x)
        ops.batch_norm_elemt.out(x, None, None, mean, invstd, 1e-5, out=out)
        self.assertEqual(out.mean((0, 2)).cpu(), torch.zeros(3), atol=1e-5, rtol=0)


class TestCudaOnly(TestCase):
    @parametrize("spatial", [2, 3])
    def test_depthwise_convolution(self, spatial):
        x, weight = torch.randn(2, 4, *[9] * spatial), torch.randn(8, 1, *[3] * spatial)
        bias = torch.randn(8)
        function = ops._conv_depthwise2d if spatial == 2 else ops.conv_depthwise3d
        convolution = F.conv2d if spatial == 2 else F.conv3d
        args = [3] * spatial, bias.cuda(), [2] * spatial, [1] * spatial, [1] * spatial
        expected = convolution(x, weight, bias, 2, 1, groups=4)
        self.assertEqual(function(x.cuda(), weight.cuda(), *args).cpu(), expected)

    def test_fused_dropout(self):
        x = torch.rand(1000, device="cuda") + 1
        torch.cuda.manual_seed(3)
        y, mask = ops._fused_dropout(x, 0.8)
        torch.cuda.manual_seed(3)
        self.assertEqual(ops._fused_dropout(x, 0.8)[0], y)
        self.assertEqual(mask.dtype, torch.uint8)
        self.assertEqual(y, x * mask / 0.8)
        self.assertLess(abs(mask.float().mean().item() - 0.8), 0.05)
        self.assertEqual(ops._masked_scale(x, mask, 1.25), x * mask * 1.25)

    @parametrize("name", ["_mixed_dtypes_linear", "_cslt_sparse_mm"])
    def test_what_is_missing_fails_by_its_name(self, name):
        x = torch.zeros(8, 16, device="cuda", dtype=torch.bfloat16)
        arguments = {
            "_mixed_dtypes_linear": (x, x.to(torch.int8), x[0]),
            "_cslt_sparse_mm": (x, x),
        }[name]
        with self.assertRaisesRegex(NotImplementedError, name):
            getattr(ops, name)(*arguments)


instantiate_parametrized_tests(TestRmsNorm)
instantiate_parametrized_tests(TestBatchNormPieces)
instantiate_parametrized_tests(TestCudaOnly)

if __name__ == "__main__":
    run_tests()
