"""Timing a FlyDSL candidate, in this process or in the autotuner's subprocess."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import torch
from torch._dynamo.device_interface import get_interface_for_device
from torch._inductor.autotune_process import BenchmarkRequest, GPUDeviceBenchmarkMixin, TensorMeta
from torch._inductor.codecache import PyCodeCache
from torch._native.flydsl.counters import counters
from torch._prims_common import compute_required_storage_length

from .compile import adopt_environment, environment, load_module
from .problem import View, hint
from .render import MAIN_SUFFIX


def meta_of(view: View) -> TensorMeta:
    """What a view is at the sizes that symbolic ones are expected to have."""
    layout = view.node.get_layout()
    sizes, strides = [hint(size) for size in view.size], [hint(stride) for stride in view.stride]
    return TensorMeta(layout.device, layout.dtype, sizes, strides, hint(view.offset), view.node.get_name())


def _tensor_of(meta: TensorMeta) -> torch.Tensor:
    """A random tensor with the meta's strides and storage offset (``to_tensor`` alone leaves the offset out)."""
    return meta.to_tensor().as_strided(meta.sizes, meta.strides, meta.offset)


def _view_of(tensor: torch.Tensor, meta: TensorMeta) -> torch.Tensor:
    """The view that ``meta`` describes, over the storage of ``tensor`` if it is large enough."""
    base = tensor if tensor._base is None else tensor._base
    needed = compute_required_storage_length(meta.sizes, meta.strides, meta.offset)
    if base.dtype != meta.dtype or base.untyped_storage().nbytes() < needed * base.element_size():
        return _tensor_of(meta)
    return base.as_strided(meta.sizes, meta.strides, meta.offset)


class FlyDSLBenchmarkRequest(GPUDeviceBenchmarkMixin, BenchmarkRequest):
    """Pickled into the autotuner's subprocess, so it holds text and sizes only.

    ``input_tensor_meta`` are the kernel's inputs as the generated wrapper passes them. A kernel is timed on tensors
    laid out as in the graph. The autotuner gives choices other than ATen one tensor for each buffer name of the
    operator's inputs, ``buffer_names``, unsliced; the views are rebuilt over those.
    """

    def __init__(
        self,
        kernel_name: str,
        input_tensor_meta: Sequence[TensorMeta],
        output_tensor_meta: TensorMeta,
        source: str,
        buffer_names: Sequence[str | None],
    ) -> None:
        super().__init__(kernel_name, list(input_tensor_meta), output_tensor_meta, extra_args=())
        self.module_cache_key, self.module_path = PyCodeCache.write(source)
        self.environment = environment()
        self.owner_pid = os.getpid()
        self.buffer_names = list(dict.fromkeys(buffer_names))

    def graph_views(self, tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """The kernel's inputs from the autotuner's."""
        if len(tensors) != len(self.buffer_names):
            names = ", ".join(map(str, self.buffer_names))
            raise ValueError(f"{len(tensors)} benchmark inputs for the {len(self.buffer_names)} buffers {names}")
        by_name = dict(zip(self.buffer_names, tensors, strict=True))
        return tuple(_view_of(by_name[meta.name], meta) for meta in self.input_tensor_meta)

    def benchmark(self, *input_tensors: torch.Tensor, out: torch.Tensor | None = None) -> float:
        if out is None:
            input_tensors = tuple(_tensor_of(meta) for meta in self.input_tensor_meta)
            out = _tensor_of(self.output_tensor_meta)
        return super().benchmark(*input_tensors, out=out)

    def make_run_fn(self, *input_tensors: torch.Tensor, out: torch.Tensor) -> Callable[[], None]:
        if os.getpid() != self.owner_pid:
            adopt_environment(self.environment)
        # The autotuner evicts benchmark modules when it is done; those of the final graph are in sys.modules.
        module = load_module(self.module_cache_key, self.module_path, self.kernel_name, set_sys_modules=False)
        kernel = getattr(module, f"{self.kernel_name}_{MAIN_SUFFIX}")
        a, b, *epilogue_inputs = input_tensors
        get_raw_stream = get_interface_for_device(out.device.type).get_raw_stream
        if out.is_cuda:
            # Zeroed once a process, which is no part of a candidate's time.
            counters(1, out.device, get_raw_stream(out.device.index))

        def run() -> None:
            kernel(a, b, out, get_raw_stream(out.device.index), *epilogue_inputs)

        return run

    def __str__(self) -> str:
        return f"{self.kernel_name} in {self.module_path}"
