"""Whether a GEMM may use FlyDSL. Every "no" has a reason, logged once per process.

The log is ``TORCH_LOGS=native_dsl``, as for FlyDSL's eager operators: one switch answers why FlyDSL was not used.
"""

from __future__ import annotations

import functools
import logging

import torch
from torch._inductor import config, ir
from torch._inductor.kernel.flydsl import gemm_config
from torch._inductor.kernel_inputs import KernelInputs
from torch._inductor.virtualized import V
from torch._native.flydsl import target

from .lowering import BACKEND
from .problem import gemm_call
from .scaled_problem import Call, scaled_call

log = logging.getLogger("torch._native.flydsl.inductor")


@functools.cache
def log_once(level: int, message: str) -> None:
    log.log(level, message)


def device_index(device: torch.device) -> int:
    return torch.cuda.current_device() if device.index is None else device.index


def call_of(op_name: str, kernel_inputs: KernelInputs, layout: ir.Layout) -> Call | str:
    """The problem of an operator with these inputs in the kernel's terms, or why it has none."""
    nodes = kernel_inputs.nodes()
    if op_name == "scaled_mm":
        return scaled_call(layout, *nodes)
    if op_name in ("addmm", "baddbmm"):
        addend, mat1, mat2 = nodes
        scalars = {name: kernel_inputs.get_scalar(name) for name in ("alpha", "beta")}
        return gemm_call(layout, mat1, mat2, addend, **scalars)
    mat1, mat2 = nodes
    return gemm_call(layout, mat1, mat2)


def unsupported_reason(op_name: str, kernel_inputs: KernelInputs, layout: ir.Layout) -> str | None:
    """Why FlyDSL cannot take this GEMM, given that it is available; None if it can."""
    if not (config.max_autotune or config.max_autotune_gemm):
        return "max_autotune is off"
    if V.graph.cpp_wrapper or V.graph.aot_mode:
        return "the C++ wrapper and AOTInductor cannot call a FlyDSL kernel"
    device = layout.device
    if device.type != "cuda":
        return f"the device is {device.type}, not a GPU"
    reason = target.arch_unsupported_reason(target.device_arch(device_index(device)))
    if reason is not None:
        return reason
    call = call_of(op_name, kernel_inputs, layout)
    if isinstance(call, str):
        return call
    if call.config_by_rule() is None:
        return f"no configuration computes {call.problem}"
    return None


def use_flydsl_template(op_name: str, kernel_inputs: KernelInputs, layout: ir.Layout) -> bool:
    """Whether to offer FlyDSL candidates, which were asked for by name. Says why not, once.

    A warning if FlyDSL cannot work here at all, or if it is the only backend asked for, for then the compile fails;
    else at INFO: a graph may hold many GEMMs that it does not take.
    """
    reason = gemm_config.unavailable_reason()
    if reason is not None:
        log_once(logging.WARNING, f"{BACKEND} is in max_autotune_gemm_backends but unavailable: {reason}")
        return False
    reason = unsupported_reason(op_name, kernel_inputs, layout)
    if reason is not None:
        nodes = kernel_inputs.nodes()
        product = nodes[:2] if op_name == "scaled_mm" else nodes[-2:]
        shapes = " @ ".join(str(list(node.get_size())) for node in product)
        alone = config.max_autotune_gemm_backends.strip().upper() == BACKEND
        log_once(logging.WARNING if alone else logging.INFO, f"{BACKEND} not used for {op_name} {shapes}: {reason}")
        return False
    return True
