"""The FLYDSL template of scaled products."""

from __future__ import annotations

from typing import Any

from torch._inductor.ir import Buffer, Layout
from torch._inductor.kernel.flydsl.scaled_gemm_config import ScaledGemmConfig
from torch._inductor.template_heuristics.registry import register_template_heuristic

from .scaled_problem import Call, scaled_call
from .template import FlyDSLGemmConfigHeuristics, FlyDSLGemmTemplate


class FlyDSLScaledTemplate(FlyDSLGemmTemplate):
    """Makes a candidate from the fields of a ``ScaledGemmConfig``."""

    config_type: Any = ScaledGemmConfig

    def call_of(self, input_nodes: list[Buffer], layout: Layout, alpha: float, beta: float) -> Call | str:
        return scaled_call(layout, *input_nodes)


flydsl_scaled_template = FlyDSLScaledTemplate("flydsl_scaled_gemm")

register_template_heuristic(flydsl_scaled_template.uid, "cuda", op_name="scaled_mm")(FlyDSLGemmConfigHeuristics)
