"""A FlyDSL kernel's output in the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch._inductor.ir import IRNode, Layout, TemplateBuffer

from .scaled_problem import Call


class FlyDSLTemplateBuffer(TemplateBuffer):
    """The output of a FlyDSL GEMM: which product, with which configuration. Its pointwise users may be fused."""

    def __init__(self, layout: Layout, inputs: Sequence[IRNode], call: Call, config: Any, arch: str) -> None:
        super().__init__(layout, inputs, make_kernel_render=None)
        self.call = call
        self.config = config
        self.arch = arch
        self.allow_prologue_fusion = False
