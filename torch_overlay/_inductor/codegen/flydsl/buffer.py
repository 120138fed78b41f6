"""A FlyDSL kernel's output in the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch._inductor.ir import IRNode, Layout, TemplateBuffer


class FlyDSLTemplateBuffer(TemplateBuffer):
    """The output of a FlyDSL GEMM. Allows no fusion; ``spec`` is what the kernel's module is rendered from."""

    def __init__(self, layout: Layout, inputs: Sequence[IRNode], spec: Any) -> None:
        super().__init__(layout, inputs, make_kernel_render=None)
        self.spec = spec
        self.allow_epilogue_fusion = False
        self.allow_prologue_fusion = False
