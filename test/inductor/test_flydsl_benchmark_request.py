# Owner(s): ["module: inductor"]
"""The tensors that a FlyDSL candidate is timed on have the graph's strides and storage offsets (T0: on the CPU)."""

from __future__ import annotations

import os
import pickle
import tempfile
from typing import Any
from unittest import mock

import torch
from torch._inductor.autotune_process import TensorMeta
from torch._inductor.codegen.flydsl.benchmark_request import FlyDSLBenchmarkRequest
from torch.testing._internal.common_utils import TestCase, run_tests

# Writes what it was given into the output, instead of a product.
MODULE = """\
import torch


def probe_precompile():
    pass


def probe_main(arg_a, arg_b, out, stream, *epilogue_inputs):
    seen = []
    for arg in (arg_a, arg_b, *epilogue_inputs):
        seen += [*arg.shape, *arg.stride(), arg.storage_offset()]
    out.view(-1)[: len(seen)] = torch.tensor(seen, dtype=out.dtype)
"""


def meta(name: str, size: list[int], stride: list[int], offset: int = 0) -> TensorMeta:
    return TensorMeta(torch.device("cpu"), torch.float32, size, stride, offset, name)


OUT = meta("out", [4, 8], [8, 1])


class TestBenchmarkTensors(TestCase):
    def setUp(self) -> None:
        super().setUp()
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.enterContext(mock.patch.dict(os.environ, {"TORCHINDUCTOR_CACHE_DIR": folder}))

    def request(self, *inputs: TensorMeta) -> FlyDSLBenchmarkRequest:
        return FlyDSLBenchmarkRequest("probe", inputs, OUT, MODULE, [str(each.name) for each in inputs])

    def seen(self, request: FlyDSLBenchmarkRequest, *tensors: torch.Tensor) -> list[int]:
        """Sizes, strides and offset of each operand, as the kernel found them."""
        operands = len(request.input_tensor_meta)
        found: list[int] = []

        def do_bench(fn: Any, *args: Any, **kwargs: Any) -> float:
            fn()
            out = args[-1] if args[-1] is not None else kwargs["out"]
            found.extend(int(value) for value in out.view(-1)[: 5 * operands])
            return 1.0

        interface = mock.Mock()
        interface.get_raw_stream.return_value = 0
        with (
            mock.patch.object(FlyDSLBenchmarkRequest, "do_bench", lambda self, fn, *a, **k: do_bench(fn, *a, **k)),
            mock.patch(
                "torch._inductor.codegen.flydsl.benchmark_request.get_interface_for_device", return_value=interface
            ),
        ):
            if tensors:
                request.benchmark(*request.graph_views(tensors), out=torch.zeros(4, 8))
            else:
                request.benchmark()
        return found

    def test_made_from_the_description_alone(self) -> None:
        """As in the autotuner's subprocess, which gets a pickled request and no tensors."""
        request = self.request(meta("a", [4, 16], [24, 1], 8), meta("b", [8, 16], [32, 1], 64))
        request = pickle.loads(pickle.dumps(request))
        self.assertEqual(self.seen(request), [4, 16, 24, 1, 8, 8, 16, 32, 1, 64])

    def test_views_over_the_autotuners_buffers(self) -> None:
        request = self.request(meta("a", [4, 16], [24, 1], 8), meta("b", [8, 16], [16, 1]))
        a, b = torch.zeros(4, 24), torch.zeros(8, 16).t()
        views = request.graph_views((a[:, :16], b))
        self.assertEqual([view.untyped_storage().data_ptr() for view in views],
                         [tensor.untyped_storage().data_ptr() for tensor in (a, b)])  # fmt: skip
        self.assertEqual(self.seen(request, a[:, :16], b), [4, 16, 24, 1, 8, 8, 16, 16, 1, 0])

    def test_one_buffer_twice(self) -> None:
        """``a @ a.T``: the autotuner passes one tensor for the two operands."""
        request = self.request(meta("a", [8, 8], [8, 1]), meta("a", [8, 8], [8, 1]))
        self.assertEqual(self.seen(request, torch.zeros(8, 8)), [8, 8, 8, 1, 0, 8, 8, 8, 1, 0])

    def test_an_epilogues_input(self) -> None:
        """A row that the autotuner got expanded to the output's sizes."""
        request = self.request(meta("a", [4, 16], [16, 1]), meta("b", [8, 16], [16, 1]), meta("bias", [1, 8], [8, 1]))
        bias = torch.zeros(8).expand(4, 8)
        views = request.graph_views((torch.zeros(4, 16), torch.zeros(8, 16), bias))
        self.assertEqual(views[2].untyped_storage().data_ptr(), bias.untyped_storage().data_ptr())
        self.assertEqual(self.seen(request, torch.zeros(4, 16), torch.zeros(8, 16), bias)[10:], [1, 8, 8, 1, 0])

    def test_a_buffer_that_the_kernel_does_not_read(self) -> None:
        """The addend of ``addmm(..., beta=0)``: the autotuner passes it all the same."""
        request = FlyDSLBenchmarkRequest(
            "probe", [meta("a", [4, 16], [16, 1]), meta("b", [8, 16], [16, 1])], OUT, MODULE, ["c", "a", "b"]
        )
        tensors = (torch.zeros(4, 8), torch.zeros(4, 16), torch.zeros(8, 16))
        self.assertEqual(self.seen(request, *tensors), [4, 16, 16, 1, 0, 8, 16, 16, 1, 0])

    def test_a_buffer_too_small_for_the_view(self) -> None:
        """Two slices of one buffer have one name; the tensor that the autotuner made for it may be the smaller."""
        request = self.request(meta("x", [4, 16], [16, 1], 128), meta("x", [8, 16], [16, 1]))
        self.assertEqual(self.seen(request, torch.zeros(8, 16)), [4, 16, 16, 1, 128, 8, 16, 16, 1, 0])

    def test_another_process_takes_over_the_compile_environment(self) -> None:
        """A kernel timed in the autotuner's subprocess is compiled with the options that the graph's own would be."""
        with mock.patch.dict(os.environ, {"FLYDSL_COMPILE_OPT_LEVEL": "3"}):
            request = self.request(meta("a", [4, 16], [16, 1]), meta("b", [8, 16], [16, 1]))
        stale = {"FLYDSL_COMPILE_OPT_LEVEL": "1", "FLYDSL_OF_AN_EARLIER_JOB": "1"}
        for owner_pid, expected in ((os.getpid(), ("1", "1")), (os.getpid() + 1, ("3", None))):
            request.owner_pid = owner_pid
            with mock.patch.dict(os.environ, stale):
                self.seen(request, torch.zeros(4, 16), torch.zeros(8, 16).t())
                self.assertEqual(tuple(os.environ.get(name) for name in stale), expected)

    def test_the_wrong_number_of_tensors(self) -> None:
        request = self.request(meta("a", [4, 16], [16, 1]), meta("b", [8, 16], [16, 1]))
        with self.assertRaisesRegex(ValueError, "1 benchmark inputs for the 2 buffers a, b"):
            request.graph_views((torch.zeros(4, 16),))


if __name__ == "__main__":
    run_tests()
