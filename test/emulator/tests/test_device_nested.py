"""Nested tensors with strides on the emulated device, through ATen's CPU kernels."""

import warnings

import torch
import torch.nn.functional as F
from torch import nn
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests

OPERATIONS = {
    "scale": lambda t: t * 2,
    "add": lambda t: t + t,
    "softmax": lambda t: torch.softmax(t, -1),
    "transpose": lambda t: t.transpose(1, 2),
    "linear": lambda t: F.linear(t, torch.arange(8.0, device=t.device).view(2, 4), torch.ones(2, device=t.device)),
    "sum": lambda t: t.sum(-1, keepdim=True),
    "layer_norm": lambda t: F.layer_norm(t, (4,), torch.ones(4, device=t.device), torch.ones(4, device=t.device)),
    "in_place": lambda t: t.clone().mul_(3),
    "bmm": lambda t: torch.bmm(t, t.transpose(1, 2)),
    "relu": lambda t: t.relu(),
    "bfloat16": lambda t: t.to(torch.bfloat16),
}


class TestNested(TestCase):
    def setUp(self):
        super().setUp()
        warnings.filterwarnings("ignore", "The PyTorch API of nested tensors")
        torch.manual_seed(4)
        self.pieces = [torch.randn(3, 4), torch.randn(5, 4)]

    @parametrize("name", list(OPERATIONS))
    def test_operation(self, name):
        host, device = (torch.nested.nested_tensor(self.pieces, device=kind) for kind in ("cpu", "cuda"))
        expected, actual = OPERATIONS[name](host), OPERATIONS[name](device)
        self.assertTrue(actual.is_nested and actual.is_cuda)
        self.assertEqual([part.cpu() for part in actual.unbind()], list(expected.unbind()))

    def test_there_and_back(self):
        moved = torch.nested.nested_tensor(self.pieces).cuda()
        self.assertTrue(moved.is_cuda)
        self.assertEqual([part.device.type for part in moved.unbind()], ["cuda", "cuda"])
        self.assertEqual(list(moved.cpu().unbind()), self.pieces)
        self.assertEqual(moved.to_padded_tensor(-1.0).cpu(), nn.utils.rnn.pad_sequence(self.pieces, True, -1.0))

    def test_gradients(self):
        grads = []
        for kind in ("cpu", "cuda"):
            torch.manual_seed(5)
            layer = nn.Linear(4, 2).to(kind)
            layer(torch.nested.nested_tensor(self.pieces, device=kind)).to_padded_tensor(0.0).square().sum().backward()
            grads.append([layer.weight.grad.cpu(), layer.bias.grad.cpu()])
        self.assertEqual(*grads)

    def test_the_encoder_s_fast_path(self):
        encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2).eval()
        x, padding = torch.randn(2, 5, 32), torch.zeros(2, 5, dtype=torch.bool)
        padding[0, 3:] = True
        with torch.inference_mode():
            expected = encoder(x, src_key_padding_mask=padding)
            actual = encoder.cuda()(x.cuda(), src_key_padding_mask=padding.cuda())
        self.assertEqual(actual.cpu(), expected)


instantiate_parametrized_tests(TestNested)

if __name__ == "__main__":
    run_tests()
