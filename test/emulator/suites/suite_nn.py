"""PyTorch's older tables of modules and criterions (common_nn): each brings its own comparison of CUDA with the CPU."""

from __future__ import annotations

import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_nn import (
    CriterionTest,
    NewModuleTest,
    NNTestCase,
    criterion_tests,
    get_new_module_tests,
    module_tests,
)
from torch.testing._internal.common_utils import parametrize


def made(test_class, tables):
    """The tables name a class of torch.nn where they give no constructor."""
    cases = []
    for row in tables:
        parameters = {key: value for key, value in row.items() if key not in ("module_name", "decorator")}
        if "module_name" in row:
            parameters.setdefault("constructor", getattr(torch.nn, row["module_name"]))
        cases.append(test_class(**parameters))
    return cases


MODULES = made(NewModuleTest, [*module_tests, *get_new_module_tests()])
CRITERIONS = made(CriterionTest, criterion_tests)


def numbered(cases):
    return [(index, case.get_name().removeprefix("test_")) for index, case in enumerate(cases)]


def name_of(index, name):
    return f"{name}_{index}"


class TestTables(NNTestCase):
    def _forward(self, module, input):
        with torch.random.fork_rng(devices=[0]):
            return module(*input) if isinstance(input, tuple) else module(input)

    def _backward(self, module, input, output, grad_output, create_graph=False):
        output.backward(grad_output, retain_graph=True, create_graph=create_graph)
        inputs = input if isinstance(input, tuple) else (input,)
        grads = tuple(t.grad.data if t.grad is not None else None for t in inputs)
        return grads if isinstance(input, tuple) else grads[0]

    def _forward_criterion(self, criterion, input, target, extra_args=None):
        extra = extra_args or ()
        return criterion(*input, target, *extra) if isinstance(input, tuple) else criterion(input, target, *extra)

    def _backward_criterion(self, criterion, input, output, target, gradOutput=None, extra_args=None):
        inputs = input if isinstance(input, tuple) else (input,)
        for tensor in inputs:
            if tensor.grad is not None:
                tensor.grad.data.zero_()
        value = self._forward_criterion(criterion, input, target, extra_args)
        value.backward(torch.ones(()).type_as(value) if gradOutput is None else gradOutput)
        grads = tuple(tensor.grad.data for tensor in inputs)
        return grads if isinstance(input, tuple) else grads[0]

    def _get_parameters(self, module):
        parameters = list(module.parameters())
        return parameters, [parameter.grad for parameter in parameters]

    def _zero_grad_parameters(self, module):
        for parameter in module.parameters():
            if parameter.grad is not None:
                parameter.grad.zero_()

    def _zero_grad_input(self, input):
        for tensor in input if isinstance(input, tuple) else (input,):
            if isinstance(tensor, torch.Tensor) and tensor.requires_grad and tensor.grad is not None:
                tensor.grad.zero_()

    @parametrize("index,name", numbered(MODULES), name_fn=name_of)
    def test_module(self, device, index, name):
        MODULES[index].test_cuda(self)

    @parametrize("index,name", numbered(CRITERIONS), name_fn=name_of)
    def test_criterion(self, device, index, name):
        CRITERIONS[index].test_cuda(self, dtype=torch.float)


instantiate_device_type_tests(TestTables, globals(), only_for="cuda")
