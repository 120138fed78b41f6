"""What the lowerings of the base call: the FlyDSL templates for a problem."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch._inductor.utils import _use_autotune_backend

if TYPE_CHECKING:
    from torch._inductor.codegen.common import KernelTemplate
    from torch._inductor.ir import Layout
    from torch._inductor.kernel_inputs import KernelInputs


# The name in config.max_autotune_gemm_backends.
BACKEND = "FLYDSL"


def flydsl_gemm_templates(op_name: str, kernel_inputs: KernelInputs, layout: Layout) -> list[KernelTemplate]:
    """Templates for ``mm``, ``addmm``, ``bmm`` or ``baddbmm``: none if FLYDSL is not among the backends or cannot take
    the problem."""
    if not _use_autotune_backend(BACKEND):
        return []
    # Not at the top: the templates import Inductor's heuristics, which import the lowerings that call this.
    from .gate import use_flydsl_template
    from .template import flydsl_gemm_template

    return [flydsl_gemm_template] if use_flydsl_template(op_name, kernel_inputs, layout) else []


def flydsl_scaled_templates(kernel_inputs: KernelInputs, layout: Layout) -> list[KernelTemplate]:
    """Templates for ``_scaled_mm`` and ``_scaled_mm_v2``, whichever recipe the scales are of."""
    if not _use_autotune_backend(BACKEND):
        return []
    from .gate import use_flydsl_template
    from .scaled_template import flydsl_scaled_template

    return [flydsl_scaled_template] if use_flydsl_template("scaled_mm", kernel_inputs, layout) else []
