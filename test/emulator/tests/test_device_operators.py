"""Operators that ATen has no CPU kernel for, and zero tensors: values, gradients and times on the emulated device."""

import copy

import torch
from torch.autograd import forward_ad
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests
from torch.utils._pytree import tree_leaves

import gfx950_emulator


class TestZeroTensors(TestCase):
    def test_what_reads_one_sees_zeros(self):
        zeros = torch._efficientzerotensor(3, device="cuda")
        self.assertTrue(zeros._is_zerotensor())
        self.assertEqual(zeros.device, torch.device("cuda", 0))
        self.assertEqual(zeros.cpu(), torch.zeros(3))
        self.assertEqual(zeros.clone().cpu(), torch.zeros(3))
        self.assertEqual((zeros + torch.ones(3, device="cuda")).cpu(), torch.ones(3))
        self.assertEqual(torch.cat([zeros, torch.ones(1, device="cuda")]).cpu(), torch.tensor([0.0, 0, 0, 1]))
        self.assertEqual(torch.full((3,), 7.0, device="cuda").copy_(zeros).cpu(), torch.zeros(3))
        self.assertEqual(torch.full((3,), 7.0).copy_(zeros), torch.zeros(3))
        self.assertEqual(torch.dot(zeros, torch.ones(3, device="cuda")).item(), 0)
        self.assertEqual(zeros.sum().item(), 0)

    def test_views_stay_zero_tensors(self):
        zeros = torch._efficientzerotensor(2, 3, device="cuda")
        for view in (zeros[1:], zeros.t(), zeros.view(6), zeros.expand(4, 2, 3), zeros.detach()):
            self.assertTrue(view._is_zerotensor())
            self.assertEqual(view.cpu(), torch.zeros(view.shape))

    def test_writing_to_one_is_refused(self):
        zeros = torch._efficientzerotensor(3, device="cuda")
        with self.assertRaisesRegex(RuntimeError, "ZeroTensors are immutable"):
            zeros.copy_(torch.ones(3, device="cuda"))
        with self.assertRaisesRegex(RuntimeError, "ZeroTensors are immutable"):
            zeros.add_(1)

    def test_second_derivatives(self):
        hessian = torch.func.hessian(lambda x: x.pow(3).sum())(torch.ones(3, device="cuda"))
        self.assertEqual(hessian.cpu(), 6 * torch.eye(3))
        x = torch.arange(1.0, 4.0)
        function = lambda x: (x.sin() * x.flip(0).exp()).prod()  # noqa: E731
        self.assertEqual(torch.func.hessian(function)(x.cuda()).cpu(), torch.func.hessian(function)(x))

    def test_forward_mode(self):
        x, tangent = torch.arange(3.0, device="cuda"), torch.full((3,), 2.0, device="cuda")
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, tangent)
            joined = torch.cat([dual * dual, torch.ones(2, device="cuda")])
            value, derivative = forward_ad.unpack_dual(joined)
            self.assertEqual(value.cpu(), torch.tensor([0.0, 1, 4, 1, 1]))
            self.assertEqual(derivative.cpu(), torch.tensor([0.0, 4, 8, 0, 0]))


class TestRecurrent(TestCase):
    def compare(self, module, *arguments, tolerance=1e-5):
        """Forward and backward on the device against the CPU, in the gradients of parameters and arguments."""
        on_device = copy.deepcopy(module).cuda()

        def run(net, move):
            leaves = [move(argument).detach().requires_grad_() for argument in arguments]
            state = leaves[1:] if len(leaves) > 2 else leaves[1]
            outputs = tree_leaves(net(leaves[0], state))
            sum((out.float() * (i + 1)).square().sum() for i, out in enumerate(outputs)).backward()
            return [*outputs, *(leaf.grad for leaf in leaves), *(p.grad for p in net.parameters())]

        for expected, actual in zip(run(module, lambda t: t), run(on_device, lambda t: t.cuda()), strict=True):
            self.assertEqual(actual.device.type, "cuda")
            self.assertEqual(actual.cpu(), expected, atol=tolerance, rtol=tolerance)

    @parametrize("bias", [True, False])
    @parametrize("kind", ["LSTM", "GRU", "LSTMCell", "GRUCell"])
    def test_matches_the_cpu(self, kind, bias):
        torch.manual_seed(4)
        states = 2 if "LSTM" in kind else 1
        if kind.endswith("Cell"):
            module = getattr(torch.nn, kind)(5, 7, bias=bias)
            x, shape = torch.randn(3, 5), (3, 7)
        else:
            module = getattr(torch.nn, kind)(5, 7, num_layers=2, bidirectional=True, bias=bias)
            x, shape = torch.randn(4, 3, 5), (4, 3, 7)
        self.compare(module, x, *(torch.randn(shape) for _ in range(states)))

    @parametrize("kind", ["LSTMCell", "GRUCell"])
    def test_half_precision(self, kind):
        torch.manual_seed(5)
        module = getattr(torch.nn, kind)(5, 7).bfloat16()
        states = 2 if kind == "LSTMCell" else 1
        inputs = [torch.randn(3, 5).bfloat16(), *(torch.randn(3, 7).bfloat16() for _ in range(states))]
        self.compare(module, *inputs, tolerance=0.05)  # the CPU rounds every step to bfloat16, the fused cell one

    def test_a_gradient_of_a_gradient(self):
        torch.manual_seed(6)
        results = []
        cell, x, state = torch.nn.GRUCell(2, 3), torch.randn(4, 2), torch.randn(4, 3)
        for device in ("cpu", "cuda"):
            net, leaf = copy.deepcopy(cell).to(device), x.to(device).detach().requires_grad_()
            (first,) = torch.autograd.grad(net(leaf, state.to(device)).square().sum(), leaf, create_graph=True)
            results.append(torch.autograd.grad(first.square().sum(), leaf)[0].cpu())
        self.assertEqual(results[0], results[1])

    def test_a_cell_is_one_launch_on_the_clock(self):
        gates, state = torch.randn(8, 64, device="cuda"), torch.randn(8, 16, device="cuda")
        clock = gfx950_emulator.clock_ns()
        outputs = torch.ops.aten._thnn_fused_lstm_cell(gates, gates, state)
        moved = 2 * gates.nbytes + state.nbytes + sum(out.nbytes for out in outputs)
        self.assertEqual(gfx950_emulator.clock_ns() - clock, 7000 + moved / 7200, atol=1e-2, rtol=0)

    def test_wrong_sizes_are_refused(self):
        gates, state = torch.randn(8, 64, device="cuda"), torch.randn(8, 20, device="cuda")
        with self.assertRaisesRegex(RuntimeError, r"4 gates for a state of size \[8, 20\] cannot have size \[8, 64\]"):
            torch.ops.aten._thnn_fused_lstm_cell(gates, gates, state)


class TestTypedProducts(TestCase):
    @parametrize("dtype", [torch.float16, torch.bfloat16])
    @parametrize("name", ["mm", "bmm", "addmm", "baddbmm"])
    def test_sums_are_not_rounded_to_the_operands_type(self, name, dtype):
        torch.manual_seed(7)
        batch = (3,) if name.endswith("bmm") else ()
        a, b = torch.randn(*batch, 17, 40).to(dtype), torch.randn(*batch, 40, 9).to(dtype)
        exact = a.double() @ b.double()
        arguments = [a.cuda(), b.cuda()]
        if "add" in name:
            added = torch.randn(*batch, 17, 9)
            arguments, exact = [added.cuda(), *arguments], exact + added.double()
        function = getattr(torch, name)
        actual = function(*arguments, out_dtype=torch.float32)
        self.assertEqual(actual.dtype, torch.float32)
        self.assertEqual(actual.device.type, "cuda")
        self.assertEqual(actual.cpu().double(), exact, atol=1e-4, rtol=1e-5)
        self.assertNotEqual(actual.to(dtype).float(), actual)  # rounding would have shown
        out = torch.empty(0, device="cuda")
        self.assertIs(function(*arguments, out_dtype=torch.float32, out=out), out)
        self.assertEqual(out, actual)

    def test_costs_what_mm_costs(self):
        x = torch.randn(1024, 1024, device="cuda", dtype=torch.bfloat16)
        clock = gfx950_emulator.clock_ns()
        torch.mm(x, x, out_dtype=torch.float32)
        once = gfx950_emulator.clock_ns() - clock
        torch.mm(x, x)
        self.assertEqual(gfx950_emulator.clock_ns() - clock, 2 * once, atol=1, rtol=1e-6)

    def test_other_types_are_refused(self):
        x = torch.ones(2, 2, device="cuda", dtype=torch.bfloat16)
        with self.assertRaisesRegex(RuntimeError, "out_dtype must be that of the operands, or float32"):
            torch.mm(x, x, out_dtype=torch.float64)
        with self.assertRaisesRegex(RuntimeError, "operands of one dtype"):
            torch.mm(x, x.half(), out_dtype=torch.float32)


instantiate_parametrized_tests(TestRecurrent)
instantiate_parametrized_tests(TestTypedProducts)

if __name__ == "__main__":
    run_tests()
