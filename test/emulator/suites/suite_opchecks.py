"""What PyTorch checks about any operator: fake tensors foresee its results on the device, and it can be traced."""

from __future__ import annotations

import torch
from torch.testing._internal.autograd_function_db import autograd_function_db
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import TestCase
from torch.testing._internal.custom_op_db import custom_op_db
from torch.testing._internal.optests import fake_check, make_fx_check


class TestChecks(TestCase):
    def samples(self, device, dtype, op, requires_grad=False):
        return list(op.sample_inputs(device, dtype, requires_grad=requires_grad))[:6]

    @ops([op for op in op_db if torch.float32 in op.supported_dtypes("cuda")], allowed_dtypes=[torch.float32])
    def test_fake_tensors_agree(self, device, dtype, op):
        """Layout, dtype and device of every result, as Dynamo and Inductor foresee them."""
        for sample in self.samples(device, dtype, op):
            fake_check(op.op, (sample.input, *sample.args), sample.kwargs)

    @ops(custom_op_db + autograd_function_db, allowed_dtypes=[torch.float32])
    def test_custom_operators_match_the_cpu(self, device, dtype, op):
        for sample in self.samples(device, dtype, op):
            host = sample.transform(lambda t: t.cpu() if isinstance(t, torch.Tensor) else t)
            expected = op(host.input, *host.args, **host.kwargs)
            self.assertEqual(op(sample.input, *sample.args, **sample.kwargs), expected, exact_device=False)

    @ops(custom_op_db, allowed_dtypes=[torch.float32])
    def test_custom_operators_are_traced(self, device, dtype, op):
        for sample in self.samples(device, dtype, op):
            make_fx_check(op.op, (sample.input, *sample.args), sample.kwargs, "fake", self.assertEqual, False)


instantiate_device_type_tests(TestChecks, globals(), only_for="cuda")
