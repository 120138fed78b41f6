"""A FlyDSL kernel's output in the graph."""

from __future__ import annotations

from collections.abc import Sequence

from torch._inductor.ir import IRNode, Layout, TemplateBuffer
from torch._inductor.kernel.flydsl import gemm_config

from .problem import GemmCall


class FlyDSLTemplateBuffer(TemplateBuffer):
    """The output of a FlyDSL GEMM: which product, with which configuration. Its pointwise users may be fused."""

    def __init__(
        self, layout: Layout, inputs: Sequence[IRNode], call: GemmCall, config: gemm_config.GemmConfig, arch: str
    ) -> None:
        super().__init__(layout, inputs, make_kernel_render=None)
        self.call = call
        self.config = config
        self.arch = arch
        self.allow_prologue_fusion = False
