"""Every module of PyTorch's module database: forward and backward, the device against the CPU."""

from __future__ import annotations

import copy

import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests, tol, toleranceOverride
from torch.testing._internal.common_modules import module_db, modules
from torch.testing._internal.common_utils import TestCase, freeze_rng_state
from torch.utils import _pytree as pytree


def to_device(value, device):
    def move(leaf):
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return leaf.detach().to(device).requires_grad_(leaf.requires_grad)

    return pytree.tree_map(move, value)


def differentiable(outputs):
    return [t for t in pytree.tree_leaves(outputs) if isinstance(t, torch.Tensor) and t.requires_grad]


def leaves(value):
    return [t for t in pytree.tree_leaves(value) if isinstance(t, torch.Tensor) and t.requires_grad]


class TestModule(TestCase):
    """The class and test names are those that the database's own exceptions name."""

    @toleranceOverride({torch.float32: tol(5e-2, 1e-3), torch.float64: tol(4e-4, 1e-6)})
    @modules(module_db)
    def test_cpu_gpu_parity(self, device, dtype, module_info, training):
        samples = module_info.module_inputs_func(
            module_info, device="cpu", dtype=dtype, requires_grad=True, training=training
        )
        for sample in samples:
            if sample.forward_input is None:
                continue
            make, run = sample.constructor_input, sample.forward_input
            with freeze_rng_state():
                host = module_info.module_cls(*make.args, **make.kwargs).to("cpu").to(dtype)
            host.train(training)
            if module_info.is_lazy:
                host(*copy.deepcopy(run.args), **run.kwargs)
            gpu = copy.deepcopy(host).to(device)
            host_args, host_kwargs = to_device((run.args, run.kwargs), "cpu")
            gpu_args, gpu_kwargs = to_device((run.args, run.kwargs), device)
            with freeze_rng_state():
                expected = host(*host_args, **host_kwargs)
            with freeze_rng_state():
                actual = gpu(*gpu_args, **gpu_kwargs)
            self.assertEqual(actual, expected, exact_device=False)

            expected, actual = differentiable(expected), differentiable(actual)
            self.assertEqual(len(actual), len(expected))
            if not expected:
                continue
            directions = [torch.randn_like(t) for t in expected]
            torch.autograd.backward(expected, directions)
            torch.autograd.backward(actual, [t.to(device) for t in directions])
            pairs = [*zip(leaves((gpu_args, gpu_kwargs)), leaves((host_args, host_kwargs)), strict=True)]
            pairs += zip(gpu.parameters(), host.parameters(), strict=True)
            for of_gpu, of_host in pairs:
                self.assertEqual(of_gpu.grad, of_host.grad, exact_device=False)

    @modules(module_db)
    def test_parameters_are_made_where_told(self, device, dtype, module_info, training):
        """Parameters are made where and as the module is told."""
        samples = module_info.module_inputs_func(
            module_info, device=device, dtype=dtype, requires_grad=False, training=training
        )
        for sample in samples:
            make = sample.constructor_input
            try:
                module = module_info.module_cls(*make.args, **(make.kwargs | {"device": device, "dtype": dtype}))
            except TypeError as error:
                self.assertIn("unexpected keyword argument", str(error))
                return
            if module_info.is_lazy:
                continue
            for tensor in (*module.parameters(), *module.buffers()):
                self.assertEqual(tensor.device, torch.device(device))
                if tensor.is_floating_point():
                    self.assertEqual(tensor.dtype, dtype)


instantiate_device_type_tests(TestModule, globals(), only_for="cuda")
