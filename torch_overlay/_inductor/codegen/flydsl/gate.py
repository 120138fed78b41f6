"""Whether a GEMM may use FlyDSL. Every "no" has a reason, logged once per process.

The log is ``TORCH_LOGS=native_dsl``, as for FlyDSL's eager operators: one switch answers why FlyDSL was not used.
"""

from __future__ import annotations

import functools
import logging
from typing import Any

import sympy
import torch
from torch._inductor import config, ir
from torch._inductor.kernel.flydsl import gemm_config
from torch._inductor.virtualized import V
from torch._native.flydsl import target

from .lowering import BACKEND

log = logging.getLogger("torch._native.flydsl.inductor")

DTYPES: dict[torch.dtype, gemm_config.DType] = {torch.bfloat16: "bf16", torch.float16: "fp16"}

# Global loads and LDS DMA move 16 bytes per lane.
ALIGNMENT_BYTES = 16


@functools.cache
def log_once(level: int, message: str) -> None:
    log.log(level, message)


def input_layout(node: Any) -> ir.Layout:
    """A realized input's layout, with the strides that a flexible one will be frozen to."""
    while isinstance(node, ir.MutableBox):
        node = node.data
    layout = node.get_layout()
    if isinstance(layout, ir.FlexibleLayout) and not isinstance(node, ir.ReinterpretView):
        return layout.get_fixed_layout_without_freezing()
    return layout


def static_ints(values: Any) -> list[int] | None:
    """``values`` as ints, or None if one of them is symbolic."""
    if not all(isinstance(value, (int, sympy.Integer)) for value in values):
        return None
    return [int(value) for value in values]


def _operand_reason(name: str, node: Any, layout: ir.Layout, unit_dim: int) -> str | None:
    strides = static_ints(layout.stride)
    offset = static_ints([layout.offset])
    if strides is None or offset is None:
        return f"{name} has dynamic strides {tuple(layout.stride)} or offset {layout.offset}"
    if strides[unit_dim] != 1:
        kind = "row-major" if unit_dim == 1 else "column-major"
        return f"{name} must be {kind}, but has strides {tuple(strides)}"
    if offset[0] * layout.dtype.itemsize % ALIGNMENT_BYTES or node.get_name() in V.graph.unaligned_buffers:
        return f"{name} does not start at a multiple of {ALIGNMENT_BYTES} bytes"
    return None


def gemm_problem(layout: ir.Layout, mat1: Any, mat2: Any) -> gemm_config.GemmProblem | str:
    """The problem ``out[M, N] = mat1[M, K] @ mat2[K, N]`` in the kernel's terms, or why it has none.

    The kernel reads B as [N, K] row-major, which is a column-major ``mat2``.
    """
    a, b = input_layout(mat1), input_layout(mat2)
    for name, operand in (("mat1", a), ("mat2", b), ("the output", layout)):
        if operand.dtype not in DTYPES:
            return f"{name} has dtype {operand.dtype}, not one of {', '.join(map(str, DTYPES))}"
        if operand.dtype != a.dtype:
            return f"{name} has dtype {operand.dtype} and mat1 {a.dtype}"
        if len(operand.size) != 2:
            return f"{name} has {len(operand.size)} dimensions, not 2"
        if static_ints(operand.size) is None:
            return f"{name} has a dynamic shape {tuple(operand.size)}"
    for name, node, operand, unit_dim in (("mat1", mat1, a, 1), ("mat2", mat2, b, 0)):
        reason = _operand_reason(name, node, operand, unit_dim)
        if reason is not None:
            return reason
    strides = static_ints(layout.stride)
    if strides is None or strides[1] != 1:
        return f"the output must be row-major, but has strides {tuple(layout.stride)}"
    if layout.offset != 0:
        return f"the output has a storage offset of {layout.offset}"
    return gemm_config.GemmProblem(
        m=int(a.size[0]),
        n=int(b.size[1]),
        k=int(a.size[1]),
        dtype=DTYPES[a.dtype],
        lda=int(a.stride[0]),
        ldb=int(b.stride[1]),
        ldc=strides[0],
    )


def unsupported_reason(layout: ir.Layout, mat1: Any, mat2: Any, out_dtype: torch.dtype | None = None) -> str | None:
    """Why FlyDSL cannot take this GEMM, given that it is available; None if it can."""
    if not (config.max_autotune or config.max_autotune_gemm):
        return "max_autotune is off"
    if V.graph.cpp_wrapper or V.graph.aot_mode:
        return "the C++ wrapper and AOTInductor cannot call a FlyDSL kernel"
    device = layout.device
    if device.type != "cuda":
        return f"the device is {device.type}, not a GPU"
    if out_dtype is not None and out_dtype != mat1.get_dtype():
        return f"out_dtype {out_dtype} differs from the inputs' {mat1.get_dtype()}"
    index = torch.cuda.current_device() if device.index is None else device.index
    reason = target.arch_unsupported_reason(target.device_arch(index))
    if reason is not None:
        return reason
    problem = gemm_problem(layout, mat1, mat2)
    if isinstance(problem, str):
        return problem
    reason = gemm_config.unsupported_reason(problem)
    if reason is None and gemm_config.default_config(problem) is None:
        return f"no configuration computes {problem}"
    return reason


def use_flydsl_template(layout: ir.Layout, mat1: Any, mat2: Any, out_dtype: torch.dtype | None = None) -> bool:
    """Whether to offer FlyDSL candidates, which were asked for by name. Says why not, once.

    A warning if FlyDSL cannot work here at all, else at INFO: a graph may hold many GEMMs that it does not take.
    """
    reason = gemm_config.unavailable_reason()
    if reason is not None:
        log_once(logging.WARNING, f"{BACKEND} is in max_autotune_gemm_backends but unavailable: {reason}")
        return False
    reason = unsupported_reason(layout, mat1, mat2, out_dtype)
    if reason is not None:
        shapes = " @ ".join(str(list(node.get_size())) for node in (mat1, mat2))
        log_once(logging.INFO, f"{BACKEND} not used for mm {shapes}: {reason}")
        return False
    return True
