"""From the winning FlyDSL candidate to a kernel and a call in the generated wrapper."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch._dynamo.utils import counters
from torch._inductor import config
from torch._inductor.codecache import code_hash, get_path
from torch._inductor.codegen.common import BackendFeature, IndentedBuffer, Kernel
from torch._inductor.codegen.wrapper import pexpr
from torch._inductor.ir import FixedLayout, ReinterpretView, StorageBox
from torch._inductor.scheduler import BaseSchedulerNode, BaseScheduling, WhyNoFuse
from torch._inductor.utils import Placeholder, get_fused_kernel_name, get_kernel_metadata
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from .fusion import Chosen, can_fuse_epilogue, chosen, traced_epilogue
from .problem import View, unwrapped
from .render import gemm_module
from .scaled_problem import Call


def _reinterpreted(view: View) -> ReinterpretView:
    """The view as the graph's wrapper writes it: the buffer's name alone where the buffer is laid out like that."""
    node = unwrapped(view.node)
    layout = node.get_layout()
    return ReinterpretView(
        data=node.data if isinstance(node, ReinterpretView) else StorageBox(node),
        layout=FixedLayout(layout.device, layout.dtype, list(view.size), list(view.stride), view.offset),
    )


def _product_view(kernel: Chosen) -> View:
    layout = kernel.product.get_layout()
    return View(kernel.product, tuple(layout.size), tuple(layout.stride), layout.offset)


def _site(device: torch.device, views: Sequence[View]) -> str:
    """An expression that is equal at two calls exactly if everything of the kernel's arguments but addresses is: the
    device, sizes and strides as text, and the values of the symbols in them."""
    symbols: set[sympy.Symbol] = set()
    shapes = []
    for view in views:
        shapes.append("/".join(f"[{','.join(map(pexpr, dims))}]" for dims in (view.size, view.stride)))
        symbols.update(*(sympy.sympify(value).free_symbols for value in (*view.size, *view.stride)))
    for symbol in symbols:
        V.graph.wrapper_code.ensure_size_computed(symbol)
    text = repr(" ".join((str(device), *shapes)))
    return f"({', '.join([text, *sorted(map(pexpr, symbols))])})" if symbols else text


class FlyDSLKernel(Kernel):
    """Writes the call of a FlyDSL kernel into the wrapper: tensors as the graph lays them out, and the raw stream."""

    def __init__(self, call: Call, out: View) -> None:
        super().__init__()
        a, b, *inputs = call.views
        self.site = _site(out.node.get_device(), (*call.views, out))
        self.arguments = [_reinterpreted(view) for view in (a, b, out, *inputs)]

    def call_kernel(self, name: str, node: Any = None) -> None:
        call_args = [argument.codegen_reference() for argument in self.arguments]
        arg_types = [argument.get_dtype() for argument in self.arguments]
        # triton=True selects the calling convention of Python kernels: name.run(..., stream=raw_stream).
        V.graph.wrapper_code.generate_kernel_call(
            name,
            [self.site, *call_args],
            triton=True,
            arg_types=[None, *arg_types],
            raw_args=[self.site, *self.arguments],
            raw_keys=[None] * (1 + len(self.arguments)),
        )


class FlyDSLScheduling(BaseScheduling):
    """Schedules FlyDSL templates; ``CUDACombinedScheduling`` delegates to it. Fuses pointwise epilogues."""

    @classmethod
    def get_backend_features(cls, device: torch.device) -> OrderedSet[BackendFeature]:
        return OrderedSet()

    @staticmethod
    def is_flydsl_template(node: BaseSchedulerNode) -> bool:
        return chosen(node) is not None

    def can_fuse_vertical(self, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> bool:
        return can_fuse_epilogue(node1, node2)

    def can_fuse_horizontal(self, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> bool:
        WhyNoFuse(node1, node2)("a FlyDSL template has no horizontal fusion")
        return False

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
        kernel = chosen(template_node)
        if kernel is None:
            raise RuntimeError(f"{template_node.get_name()} is not a FlyDSL template")
        if prologue_nodes:
            fused = ", ".join(node.get_name() for node in prologue_nodes)
            raise RuntimeError(f"FlyDSL template {template_node.get_name()} was fused with {fused} before it")
        call, out = kernel.call, _product_view(kernel)
        nodes = [template_node, *epilogue_nodes]
        for node in nodes:
            node.mark_run()
        if epilogue_nodes:
            traced = traced_epilogue(kernel, epilogue_nodes)
            call, out = traced.call, traced.out
            counters["inductor"]["flydsl_fused_epilogue_nodes"] += len(epilogue_nodes)
            # Computed in registers: the wrapper allocates none of them.
            V.graph.removed_buffers |= OrderedSet(traced.computed) - OrderedSet([traced.stored.get_name()])
        writer = FlyDSLKernel(call, out)
        with V.set_kernel_handler(writer):
            source = gemm_module(str(Placeholder.KERNEL_NAME), call.spec(kernel.config, kernel.arch))
            kernel_name = self.define_kernel(source, nodes)
        self.codegen_comment(nodes, kernel_name)
        writer.call_kernel(kernel_name)
        V.graph.removed_buffers |= writer.removed_buffers
        self.free_buffers_in_scheduler()
