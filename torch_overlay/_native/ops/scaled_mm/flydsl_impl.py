"""When FlyDSL computes an eager scaled matrix product, and how: MX operands, see mx_rules.

Another layout than A row-major and B column-major is copied, as the lowering of compiled code does. Scales of tensors
and rows in fp32 stay with ATen (``NOT_MX``); compiled code times FlyDSL for them beside the others.

What depends on shapes, strides and dtypes alone is decided once for each, in a cache that is emptied when it is full.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch._native import flydsl_utils
from torch._native.flydsl import target
from torch._native.flydsl_utils import Plan

from . import meta, mx_rules

if TYPE_CHECKING:
    from torch._inductor.kernel.flydsl.scaled_gemm_config import ScaledGemmSpec

_ALIGNMENT = 16  # bytes, of operands and output: a lane moves as many
_SCALE_ALIGNMENT = 4
_SCALES_K = 128  # elements whose scales fill a dword, the least that the kernel loads
_PLANS_LIMIT = 1024


class _Call(NamedTuple):
    """The arguments of either version, and where the result goes."""

    a: torch.Tensor
    b: torch.Tensor  # [K, N]
    scale_a: torch.Tensor
    scale_b: torch.Tensor
    bias: torch.Tensor | None
    out_dtype: torch.dtype | None
    out: torch.Tensor | None
    padded_scales: bool

    @property
    def signature(self) -> tuple[object, ...]:
        tensors = (self.a, self.b, self.scale_a, self.scale_b, self.bias, self.out)
        shapes = [None if t is None else (t.shape, t.stride(), t.dtype, t.device) for t in tensors]
        return (*shapes, self.out_dtype, self.padded_scales)


@dataclasses.dataclass(frozen=True)
class _Decision:
    """What the signature decides."""

    spec: ScaledGemmSpec
    key: tuple[object, ...]
    copy_a: bool
    copy_b: bool
    scale_shapes: tuple[tuple[int, int], tuple[int, int]]


_decisions: dict[tuple[object, ...], _Decision | str] = {}


@functools.cache
def _device_reason(index: int) -> str | None:
    return target.arch_unsupported_reason(target.device_arch(index))


def _address(tensor: torch.Tensor) -> int:
    """Of a fake tensor only the offset is known; what is allocated begins well aligned."""
    if isinstance(tensor, torch._subclasses.FakeTensor):
        return int(tensor.storage_offset()) * tensor.element_size()
    return tensor.data_ptr()


@functools.lru_cache(maxsize=64)
def _not_whole_scales(k: int) -> str:
    return (
        f"K={k} is not a multiple of {_SCALES_K}: the kernel loads four scales of {mx_rules.BLOCK} elements at a time"
    )


# ---- may -------------------------------------------------------------------------------------------------------------


def _row_major(tensor: torch.Tensor) -> bool:
    """Rows that the kernel loads as they are."""
    return tensor.stride(1) == 1 and (tensor.size(0) == 1 or tensor.stride(0) % _ALIGNMENT == 0)


def _decide(call: _Call) -> _Decision | str:
    a, b = call.a, call.b
    if a.dim() != 2 or b.dim() != 2:
        return f"a and b have {a.dim()} and {b.dim()} dimensions, not 2"
    out_dtype = call.out_dtype
    if call.out is not None:
        if out_dtype not in (None, call.out.dtype):
            return f"out is {call.out.dtype} and out_dtype {out_dtype}"
        out_dtype = call.out.dtype
    reason = mx_rules.dtype_reason(a.dtype, b.dtype, call.scale_a.dtype, call.scale_b.dtype, out_dtype)
    if reason is not None:
        return reason
    assert out_dtype is not None
    m, n = a.size(0), b.size(1)
    k, k_of_b = a.size(1) * mx_rules.packed(a.dtype), b.size(0) * mx_rules.packed(b.dtype)
    if k != k_of_b:
        return f"a has {k} columns and b {k_of_b} rows"
    for tensor in (b, call.scale_a, call.scale_b, *(t for t in (call.bias, call.out) if t is not None)):
        if tensor.device != a.device:
            return f"tensors are on {a.device} and {tensor.device}"
    if call.bias is not None and (call.bias.dtype not in mx_rules.OUT_DTYPES or tuple(call.bias.shape) != (n,)):
        return f"bias is {call.bias.dtype} {tuple(call.bias.shape)}, not {n} numbers of bf16, fp16 or fp32"
    if call.out is not None and (tuple(call.out.shape) != (m, n) or (call.out.stride(1) != 1 and n > 1)):
        return f"out has shape {tuple(call.out.shape)} and strides {call.out.stride()}, not {m} contiguous rows of {n}"
    return _decide_kernel(call, m, n, k, out_dtype)


def _decide_kernel(call: _Call, m: int, n: int, k: int, out_dtype: torch.dtype) -> _Decision | str:
    # Here and not at the top: it brings Inductor, which `import torch` does not.
    from torch._inductor.kernel.flydsl import epilogue_expr, gemm_arguments, scaled_gemm_arguments, scaled_gemm_config
    from torch._inductor.kernel.flydsl.tuned import tuned_config

    if m == 0 or n == 0 or k == 0:
        return f"M={m}, N={n}, K={k}: an empty product is ATen's"
    shapes = []
    for name, scale, rows in (("scale_a", call.scale_a, m), ("scale_b", call.scale_b, n)):
        found = mx_rules.scale_rows(scale.shape, scale.is_contiguous(), rows, k, call.padded_scales)
        if found is None or k % mx_rules.BLOCK:
            return f"{name} has shape {tuple(scale.shape)}, not one scale for each 32 of {k} elements of {rows} rows"
        shapes.append((found, k // mx_rules.BLOCK))
    epilogue = epilogue_expr.IDENTITY
    strides: tuple[epilogue_expr.InputStrides, ...] = ()
    if call.bias is not None:
        bias = epilogue_expr.EpilogueInput(dtype=gemm_arguments.OUT_DTYPES[call.bias.dtype], kind="row")
        epilogue, strides = epilogue_expr.addmm(bias), (epilogue_expr.InputStrides(),)
    b_nk = call.b.t()
    copy_a, copy_b = not _row_major(call.a), not _row_major(b_nk)
    columns = k // mx_rules.BLOCK
    scale_strides = [s.stride(0) if _scale_is_direct(s, columns) else columns for s in (call.scale_a, call.scale_b)]
    problem = scaled_gemm_config.ScaledGemmProblem(
        m=m,
        n=n,
        k=k,
        a_format=scaled_gemm_arguments.FORMATS[call.a.dtype],
        b_format=scaled_gemm_arguments.FORMATS[call.b.dtype],
        out_dtype=gemm_arguments.OUT_DTYPES[out_dtype],
        recipe="block32",
        lda=call.a.size(1) if copy_a or m == 1 else call.a.stride(0),
        ldb=b_nk.size(1) if copy_b or n == 1 else b_nk.stride(0),
        ldc=n if call.out is None or m == 1 else call.out.stride(0),
        scale_a_stride=scale_strides[0],
        scale_b_stride=scale_strides[1],
        epilogue=epilogue,
        epilogue_strides=strides,
    )
    reason = scaled_gemm_config.unavailable_reason() or scaled_gemm_config.unsupported_reason(problem)
    if reason is not None:
        return reason
    arch = target.device_arch(call.a.get_device())
    config = tuned_config(problem, arch) or scaled_gemm_config.default_config(problem)
    if config is None:
        return f"no configuration computes {problem}"
    spec = scaled_gemm_config.spec_for(problem, config, arch)
    return _Decision(spec, spec.key, copy_a, copy_b, (shapes[0], shapes[1]))


def _scale_is_direct(scale: torch.Tensor, columns: int) -> bool:
    """Whether the kernel reads a [rows, K/32] tensor of scales as it lies."""
    direct = scale.dim() == 2 and scale.size(1) == columns and (scale.stride(1) == 1 or columns == 1)
    return direct and (scale.size(0) == 1 or scale.stride(0) % _SCALE_ALIGNMENT == 0)


def _plan(call: _Call, run: Any) -> Plan | str:
    if not call.a.is_cuda:
        return f"a is on {call.a.device}, not a GPU"
    index = call.a.get_device()
    reason = _device_reason(index)
    if reason is not None:
        return reason
    if call.a.dim() == 2 and call.a.size(1) % (_SCALES_K // mx_rules.packed(call.a.dtype)):
        return _not_whole_scales(call.a.size(1) * mx_rules.packed(call.a.dtype))
    signature = call.signature
    decision = _decisions.get(signature)
    if decision is None:
        if len(_decisions) >= _PLANS_LIMIT:
            _decisions.clear()
        decision = _decisions[signature] = _decide(call)
    if isinstance(decision, str):
        return decision
    aligned = [("a", call.a, decision.copy_a), ("b", call.b, decision.copy_b)]
    if call.out is not None:
        aligned.append(("out", call.out, False))
    for name, tensor, copied in aligned:
        if not copied and _address(tensor) % _ALIGNMENT:
            return f"{name} does not start at a multiple of {_ALIGNMENT} bytes"
    return Plan(
        key=decision.key,
        device_index=index,
        build=functools.partial(_build, decision.spec),
        run=functools.partial(run, decision),
    )


# ---- how -------------------------------------------------------------------------------------------------------------


def _build(spec: ScaledGemmSpec) -> Any:
    from torch._inductor.kernel.flydsl.scaled_gemm import compile_scaled_gemm

    return compile_scaled_gemm(spec)


def contiguous_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """A row-major copy; by bytes, for not every operator knows the formats of one byte."""
    return tensor.view(torch.uint8).clone(memory_format=torch.contiguous_format).view(tensor.dtype)


def _scales(scale: torch.Tensor, shape: tuple[int, int], rows: int) -> torch.Tensor:
    if _scale_is_direct(scale, shape[1]) and scale.size(0) == shape[0]:
        found = scale
    else:
        found = (scale if scale.is_contiguous() else contiguous_bytes(scale)).view(shape)
    if found.data_ptr() % _SCALE_ALIGNMENT:
        found = contiguous_bytes(found)
    return found[:rows] if shape[0] != rows else found


def _run(decision: _Decision, built: Any, call: _Call) -> torch.Tensor:
    index = call.a.get_device()
    if torch.cuda.current_device() != index:
        with torch.cuda.device(index):
            return _run(decision, built, call)
    a, b_nk, bias, out = call.a, call.b.t(), call.bias, call.out
    if decision.copy_a:
        a = contiguous_bytes(a)
    if decision.copy_b:
        b_nk = contiguous_bytes(b_nk)
    if out is None:
        out = torch.empty((a.size(0), b_nk.size(0)), dtype=call.out_dtype, device=a.device)
    scale_a = _scales(call.scale_a, decision.scale_shapes[0], a.size(0))
    scale_b = _scales(call.scale_b, decision.scale_shapes[1], b_nk.size(0))
    inputs: tuple[torch.Tensor, ...] = ()
    if bias is not None:
        if bias.stride(0) != 1 or bias.data_ptr() % _ALIGNMENT:
            bias = bias.clone(memory_format=torch.contiguous_format)
        inputs = (bias,)
    built(a, b_nk, scale_a, scale_b, out, torch._C._cuda_getCurrentRawStream(index), *inputs)
    return out


# ---- the operators ---------------------------------------------------------------------------------------------------


def plan_v1(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    bias: torch.Tensor | None = None,
    scale_result: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
    *,
    out: torch.Tensor | None = None,
) -> Plan | str:
    if scale_a.dtype is torch.float32:
        return mx_rules.NOT_MX
    if scale_result is not None:
        return "scale_result is given, which is for results in float8"
    if use_fast_accum and (a.dtype is torch.float4_e2m1fn_x2 or b.dtype is torch.float4_e2m1fn_x2):
        return "use_fast_accum is refused for 4-bit operands"
    call = _Call(a, b, scale_a, scale_b, bias, out_dtype, out, True)
    return _plan(call, _run_v1)


def _run_v1(
    decision: _Decision,
    built: Any,
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    bias: torch.Tensor | None = None,
    scale_result: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    return _run(decision, built, _Call(a, b, scale_a, scale_b, bias, out_dtype, out, True))


def plan_v2(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: Sequence[torch.Tensor],
    recipe_a: Sequence[int],
    swizzle_a: Sequence[int],
    scale_b: Sequence[torch.Tensor],
    recipe_b: Sequence[int],
    swizzle_b: Sequence[int],
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    contraction_dim: Sequence[int] = (),
    use_fast_accum: bool = False,
    *,
    out: torch.Tensor | None = None,
) -> Plan | str:
    if recipe_a and recipe_a[0] < 2:
        return mx_rules.NOT_MX
    reason = mx_rules.recipe_reason((recipe_a, recipe_b), (swizzle_a, swizzle_b))
    if reason is not None:
        return reason
    if len(scale_a) != 1 or len(scale_b) != 1:
        return f"{len(scale_a)} and {len(scale_b)} tensors of scales, not one each"
    if len(contraction_dim) and list(contraction_dim) != [-1, -2]:
        return f"contraction_dim is {list(contraction_dim)}, not [-1, -2]"
    if use_fast_accum and (a.dtype is torch.float4_e2m1fn_x2 or b.dtype is torch.float4_e2m1fn_x2):
        return "use_fast_accum is refused for 4-bit operands"
    return _plan(_Call(a, b, scale_a[0], scale_b[0], bias, out_dtype, out, False), _run_v2)


def _run_v2(
    decision: _Decision,
    built: Any,
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: Sequence[torch.Tensor],
    recipe_a: Sequence[int],
    swizzle_a: Sequence[int],
    scale_b: Sequence[torch.Tensor],
    recipe_b: Sequence[int],
    swizzle_b: Sequence[int],
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    contraction_dim: Sequence[int] = (),
    use_fast_accum: bool = False,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    return _run(decision, built, _Call(a, b, scale_a[0], scale_b[0], bias, out_dtype, out, False))


def register() -> None:
    for overload in ("", ".out"):
        flydsl_utils.override(f"_scaled_mm{overload}", plan_v1)
        flydsl_utils.override(f"_scaled_mm_v2{overload}", plan_v2)
    meta.register()
