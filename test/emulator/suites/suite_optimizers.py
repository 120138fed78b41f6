"""Every optimizer of PyTorch's database, in every configuration and implementation: the device against the CPU."""

from __future__ import annotations

import copy

import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_optimizers import (
    _get_optim_inputs_including_global_cliquey_kwargs,
    optim_db,
    optims,
)
from torch.testing._internal.common_utils import TestCase

STEPS = 4


class TestOptimRenewed(TestCase):
    """The class name is the one that the database's own exceptions name."""

    def train(self, optim_info, parameters, keywords, gradients):
        if "lr" in keywords and isinstance(keywords["lr"], torch.Tensor):
            keywords = keywords | {
                "lr": keywords["lr"].to(parameters[0].device if keywords.get("capturable") else "cpu")
            }
        optimizer = optim_info.optim_cls(parameters, **keywords)
        for step in range(STEPS):

            def closure(step=step):
                for parameter, gradient in zip(parameters, gradients[step], strict=True):
                    parameter.grad = gradient.to(parameter.device)
                return torch.zeros((), device=parameters[0].device)

            if optim_info.step_requires_closure:
                optimizer.step(closure)
            else:
                closure()
                optimizer.step()
        return optimizer

    @optims(optim_db, dtypes=[torch.float32, torch.float64])
    def test_cpu_gpu_parity(self, device, dtype, optim_info):
        for config in _get_optim_inputs_including_global_cliquey_kwargs(
            device, dtype, optim_info, skip=("differentiable",)
        ):
            torch.manual_seed(0)
            only_matrices = optim_info.optim_cls is torch.optim.Muon
            shapes = [(4, 6), (3, 2)] if only_matrices else [(4, 6), (6,), ()]
            start = [torch.randn(shape, dtype=dtype) for shape in shapes]
            gradients = [[torch.randn(shape, dtype=dtype) for shape in shapes] for _ in range(STEPS)]
            plain = copy.deepcopy(config.kwargs)
            for flag in ("foreach", "fused", "capturable"):
                plain.pop(flag, None)
            with self.subTest(configuration=config.desc):
                host = [t.clone().requires_grad_() for t in start]
                gpu = [t.to(device).requires_grad_() for t in start]
                self.train(optim_info, host, plain, gradients)
                optimizer = self.train(optim_info, gpu, copy.deepcopy(config.kwargs), gradients)
                for of_gpu, of_host in zip(gpu, host, strict=True):
                    self.assertEqual(of_gpu, of_host, exact_device=False, rtol=1e-4, atol=1e-5)
                loaded = optim_info.optim_cls(gpu, **copy.deepcopy(config.kwargs))
                loaded.load_state_dict(copy.deepcopy(optimizer.state_dict()))
                self.assertEqual(
                    loaded.state_dict(), optimizer.state_dict(), exact_dtype=False
                )  # it takes the parameter's


instantiate_device_type_tests(TestOptimRenewed, globals(), only_for="cuda")
