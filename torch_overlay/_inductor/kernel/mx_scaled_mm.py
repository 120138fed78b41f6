"""Lowering of scaled products of MX operands, where FlyDSL is available. Imported with the lowerings, as every module
of this folder.

The base (2.13) gives the MX operands of ``_scaled_mm_v2`` to the out overload of the first version, which wants other
scales. Here they become one of: ATen's second version, FlyDSL's templates where FLYDSL is among the backends, or, where
neither is known to compute them, the eager operator, which says why it cannot. Copies of operands in other layouts, of
scales that do not lie row by row, are part of the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.codegen.flydsl.lowering import flydsl_scaled_templates
from torch._inductor.kernel_inputs import MMKernelInputs
from torch._inductor.lowering import fallback_handler, lowerings, user_lowerings
from torch._inductor.select_algorithm import ExternKernelChoice, autotune_select_algorithm, realize_inputs
from torch._inductor.utils import use_aten_gemm_kernels
from torch._inductor.virtualized import V
from torch._native import flydsl_utils
from torch._native.flydsl import target
from torch._native.ops.scaled_mm import mx_rules

aten = torch.ops.aten


def mx_scaled_mm(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    out: torch.Tensor,
) -> torch.Tensor:
    """ATen's own, also where eager calls run FlyDSL's kernel."""
    recipe, swizzle = [mx_rules.BLOCKWISE_1X32], [mx_rules.NO_SWIZZLE]
    first, second = ([scale_a], recipe, swizzle), ([scale_b], recipe, swizzle)
    with flydsl_utils.base_kernels():
        return aten._scaled_mm_v2.out(a, b, *first, *second, bias, out.dtype, [], False, out=out)


aten_mx_scaled_mm = ExternKernelChoice(mx_scaled_mm, None)


def _copied(node: Any, order: Sequence[int]) -> Any:
    """The node with its dimensions in this order, by bytes: Triton knows no 4-bit elements to copy."""
    dtype = node.get_dtype()
    stored = lowerings[aten.view.dtype](node, torch.uint8)
    stored = ir.ExternKernel.require_stride_order(stored, order)
    return lowerings[aten.view.dtype](stored, dtype)


def _in_rows(node: Any, transposed: bool, multiple: int) -> Any:
    """The operand, or a copy of it, with contiguous rows (of its transposed, if so) at multiples of bytes."""
    ir.ExternKernel.realize_input(node)
    size, stride = node.get_size(), node.maybe_get_stride()
    known = V.graph.sizevars.statically_known_equals
    run, step = (0, 1) if transposed else (1, 0)
    if stride is not None and (known(stride[run], 1) or known(size[run], 1)):
        apart = known(size[step], 1) or V.graph.sizevars.statically_known_multiple_of(stride[step], multiple)
        if apart:
            return node
    return _copied(node, (0, 1) if transposed else (1, 0))


def _scales(node: Any, rows: Any, k: int, padded: bool) -> Any | None:
    """The scales as [rows, K/32]; None if they are not that many."""
    size, stride = list(node.get_size()), node.maybe_get_stride()
    contiguous = stride is None or V.graph.sizevars.statically_known_list_equals(
        stride, ir.FlexibleLayout.contiguous_strides(size)
    )
    found = mx_rules.scale_rows(size, contiguous, rows, k, padded)
    if found is None:
        return None
    if len(size) != 2 or size[1] != k // mx_rules.BLOCK:
        node = lowerings[aten.view.default](node, [found, k // mx_rules.BLOCK])
    if found != rows:
        node = lowerings[aten.slice.Tensor](node, 0, 0, rows)
    return _in_rows(node, False, 4)


def _lowered(
    op: Any,
    arguments: tuple[Any, ...],
    a: Any,
    b: Any,
    scales: tuple[Any, Any],
    bias: Any,
    out_dtype: torch.dtype,
    padded: bool,
) -> Any:
    """The product, given that recipes and dtypes are those of MX."""
    m, n = a.get_size()[0], b.get_size()[1]
    k = a.get_size()[1] * mx_rules.packed(a.get_dtype())
    known = V.graph.sizevars.statically_known_equals
    eager = fallback_handler(op, add_to_fallback_set=False)
    if not isinstance(k, int) and not getattr(k, "is_Integer", False):
        return eager(*arguments)
    if known(m, 0) or known(n, 0) or known(k, 0):
        return eager(*arguments)
    in_rows = [_scales(scale, rows, int(k), padded) for scale, rows in zip(scales, (m, n), strict=True)]
    if None in in_rows:
        return eager(*arguments)
    nodes = [_in_rows(a, False, 16), _in_rows(b, True, 16), *in_rows, *(() if bias is None else (bias,))]
    nodes = list(realize_inputs(*nodes))
    layout = ir.FixedLayout(a.get_device(), out_dtype, [m, n])
    inputs = MMKernelInputs(nodes, mat1_idx=0, mat2_idx=1, out_dtype=out_dtype)
    templates: list[Any] = [*flydsl_scaled_templates(inputs, layout)]
    choices = V.choices.get_template_configs(inputs, templates, "scaled_mm") if templates else []
    if not choices:
        return eager(*arguments)
    bias_dtype = None if bias is None else bias.get_dtype()
    # Of a symbolic M it is not known that it is always a multiple of 32.
    rows, columns = (int(size) if getattr(size, "is_Integer", isinstance(size, int)) else 1 for size in (m, n))
    reason = mx_rules.aten_reason(a.get_dtype(), b.get_dtype(), rows, columns, int(k), out_dtype, bias_dtype)
    if use_aten_gemm_kernels() and reason is None:
        choices = [aten_mx_scaled_mm.bind(nodes, layout), *choices]
    node, _ = autotune_select_algorithm("scaled_mm", choices, nodes, layout)
    return node


def _is_mx(*nodes: Any) -> bool:
    a, b, scale_a, scale_b = (node.get_dtype() for node in nodes)
    return mx_rules.dtype_reason(a, b, scale_a, scale_b, torch.bfloat16) is None


def lower_v1(
    mat_a: Any,
    mat_b: Any,
    scale_a: Any,
    scale_b: Any,
    bias: Any = None,
    scale_result: Any = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
    layout: Any = None,
) -> Any:
    if not _is_mx(mat_a, mat_b, scale_a, scale_b):
        return None  # the base's lowering
    arguments = (mat_a, mat_b, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum)
    op = aten._scaled_mm.default
    if out_dtype is None or out_dtype not in mx_rules.OUT_DTYPES or scale_result is not None:
        return fallback_handler(op, add_to_fallback_set=False)(*arguments)
    return _lowered(op, arguments, mat_a, mat_b, (scale_a, scale_b), bias, out_dtype, padded=True)


def lower_v2(
    mat_a: Any,
    mat_b: Any,
    scale_a: Sequence[Any],
    recipe_a: Sequence[int],
    swizzle_a: Sequence[int],
    scale_b: Sequence[Any],
    recipe_b: Sequence[int],
    swizzle_b: Sequence[int],
    bias: Any = None,
    out_dtype: torch.dtype | None = None,
    contraction_dim: Sequence[int] = (),
    use_fast_accum: bool = False,
    layout: Any = None,
) -> Any:
    if len(scale_a) != 1 or len(scale_b) != 1 or not _is_mx(mat_a, mat_b, scale_a[0], scale_b[0]):
        return None
    first, second = (scale_a, recipe_a, swizzle_a), (scale_b, recipe_b, swizzle_b)
    arguments = (mat_a, mat_b, *first, *second, bias, out_dtype, contraction_dim, use_fast_accum)
    op = aten._scaled_mm_v2.default
    recipes = mx_rules.recipe_reason((recipe_a, recipe_b), (swizzle_a, swizzle_b))
    others = recipes is not None or list(contraction_dim) not in ([], [-1, -2])
    if others or out_dtype is None or out_dtype not in mx_rules.OUT_DTYPES:
        return fallback_handler(op, add_to_fallback_set=False)(*arguments)
    return _lowered(op, arguments, mat_a, mat_b, (scale_a[0], scale_b[0]), bias, out_dtype, padded=False)


if target.unavailable_reason() is None:
    # Who registered a lowering of their own keeps it.
    user_lowerings.setdefault(aten._scaled_mm.default, lower_v1)
    user_lowerings.setdefault(aten._scaled_mm_v2.default, lower_v2)
