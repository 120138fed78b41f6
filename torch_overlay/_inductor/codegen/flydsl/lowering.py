"""What the lowerings of the base call: the FlyDSL templates for a problem."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch._inductor.utils import _use_autotune_backend

if TYPE_CHECKING:
    import torch
    from torch._inductor.codegen.common import KernelTemplate
    from torch._inductor.ir import Layout


# The name in config.max_autotune_gemm_backends.
BACKEND = "FLYDSL"


def mm_templates(layout: Layout, mat1: Any, mat2: Any, out_dtype: torch.dtype | None) -> list[KernelTemplate]:
    """Templates for ``aten.mm``: none if FLYDSL is not among the backends or cannot take the problem."""
    if not _use_autotune_backend(BACKEND):
        return []
    # Not at the top: the templates import Inductor's heuristics, which import the lowerings that call this.
    from .gate import use_flydsl_template
    from .template import flydsl_mm_template

    return [flydsl_mm_template] if use_flydsl_template(layout, mat1, mat2, out_dtype) else []
