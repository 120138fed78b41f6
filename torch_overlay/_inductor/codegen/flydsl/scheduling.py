"""From the winning FlyDSL candidate to a kernel and a call in the generated wrapper."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import torch
from torch._inductor import config
from torch._inductor.codecache import code_hash, get_path
from torch._inductor.codegen.common import BackendFeature, IndentedBuffer, Kernel
from torch._inductor.ir import BaseView, ExternKernel, FixedLayout, MutableBox, ReinterpretView, StorageBox
from torch._inductor.scheduler import BaseSchedulerNode, BaseScheduling, SchedulerNode, WhyNoFuse
from torch._inductor.utils import Placeholder, get_fused_kernel_name, get_kernel_metadata
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from .buffer import FlyDSLTemplateBuffer
from .render import gemm_module


def _as_buffer_or_view(node: Any) -> Any:
    while isinstance(node, MutableBox):
        node = node.data
    return ExternKernel.convert_to_reinterpret_view(node) if isinstance(node, BaseView) else node


def _transposed(node: Any) -> ReinterpretView:
    layout = node.get_layout()
    size, stride = list(reversed(layout.size)), list(reversed(layout.stride))
    return ReinterpretView(
        data=node.data if isinstance(node, ReinterpretView) else StorageBox(node),
        layout=FixedLayout(layout.device, layout.dtype, size, stride, layout.offset),
    )


class FlyDSLKernel(Kernel):
    """Writes the call of a FlyDSL kernel into the wrapper: tensors as the graph lays them out, and the raw stream."""

    def __init__(self, buffer: FlyDSLTemplateBuffer) -> None:
        super().__init__()
        self.buffer = buffer

    def call_kernel(self, name: str, node: Any = None) -> None:
        mat1, mat2 = (_as_buffer_or_view(tensor) for tensor in self.buffer.inputs)
        # The kernel reads B as [N, K]: of ``a @ b.T`` that is b itself, and no view is made at the call.
        raw_args: list[Any] = [mat1, _transposed(mat2), None]  # the wrapper finds the output by its name
        call_args = [mat1.codegen_reference(), raw_args[1].codegen_reference(), self.buffer.get_name()]
        arg_types: list[torch.dtype] = [tensor.get_dtype() for tensor in (mat1, mat2, self.buffer)]
        # triton=True selects the calling convention of Python kernels: name.run(..., stream=raw_stream).
        V.graph.wrapper_code.generate_kernel_call(
            name, call_args, triton=True, arg_types=arg_types, raw_args=raw_args, raw_keys=[None] * len(raw_args)
        )


class FlyDSLScheduling(BaseScheduling):
    """Schedules FlyDSL templates; ``CUDACombinedScheduling`` delegates to it. Fuses nothing."""

    @classmethod
    def get_backend_features(cls, device: torch.device) -> OrderedSet[BackendFeature]:
        return OrderedSet()

    @staticmethod
    def is_flydsl_template(node: BaseSchedulerNode) -> bool:
        return isinstance(node, SchedulerNode) and isinstance(node.node, FlyDSLTemplateBuffer)

    def _refuse_fusion(self, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> bool:
        WhyNoFuse(node1, node2)("a FlyDSL template has no prologue, epilogue or horizontal fusion")
        return False

    can_fuse_vertical = _refuse_fusion
    can_fuse_horizontal = _refuse_fusion

    def define_kernel(self, source: str, node_schedule: Sequence[BaseSchedulerNode]) -> str:
        wrapper = V.graph.wrapper_code
        if source in wrapper.src_to_kernel:
            return wrapper.src_to_kernel[source]
        parts = ["flydsl"]
        if config.triton.descriptive_names:
            parts.append(get_fused_kernel_name(node_schedule, config.triton.descriptive_names))
        parts.append(hashlib.sha256(source.encode()).hexdigest()[:8])
        kernel_name = "_".join(parts)
        wrapper.src_to_kernel[source] = kernel_name
        source = source.replace(str(Placeholder.KERNEL_NAME), kernel_name)

        definition = IndentedBuffer()
        definition.writeline(f"async_compile.flydsl({kernel_name!r}, r'''")
        definition.splice(source, strip=True)
        definition.writeline("''')")
        _, _, path = get_path(code_hash(source.strip()), "py")
        origins, detailed_origins = get_kernel_metadata(node_schedule, wrapper)
        wrapper.define_kernel(
            kernel_name, definition.getvalue(), f"# kernel path: {path}\n{origins}\n{detailed_origins}"
        )
        return kernel_name

    def codegen_template(
        self,
        template_node: BaseSchedulerNode,
        epilogue_nodes: Sequence[BaseSchedulerNode],
        prologue_nodes: Sequence[BaseSchedulerNode],
    ) -> None:
        buffer = template_node.node
        if not isinstance(buffer, FlyDSLTemplateBuffer):
            raise RuntimeError(f"{template_node.get_name()} is not a FlyDSL template")
        if epilogue_nodes or prologue_nodes:
            fused = ", ".join(node.get_name() for node in (*prologue_nodes, *epilogue_nodes))
            raise RuntimeError(
                f"FlyDSL template {template_node.get_name()} was fused with {fused}; it supports no fusion"
            )
        kernel = FlyDSLKernel(buffer)
        template_node.mark_run()
        with V.set_kernel_handler(kernel):
            kernel_name = self.define_kernel(gemm_module(str(Placeholder.KERNEL_NAME), buffer.spec), [template_node])
        self.codegen_comment([template_node], kernel_name)
        kernel.call_kernel(kernel_name)
        V.graph.removed_buffers |= kernel.removed_buffers
        self.free_buffers_in_scheduler()
