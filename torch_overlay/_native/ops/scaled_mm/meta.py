"""Shapes of MX products on ROCm for fake and meta tensors; for all else the base's own functions.

The base's functions (2.13) count the scales of both operands from A's stored sizes, which rejects every product with
N != M and all of fp4, and want 128-padded scales of the first version and no other layout than A row-major and B
column-major. What passes here and no eager backend computes raises when it runs, as in eager code.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from . import mx_rules


def _product(
    a: torch.Tensor, b: torch.Tensor, scales: Sequence[torch.Tensor], bias: Any, out_dtype: Any, padded: bool
) -> torch.Tensor:
    torch._check_value(
        a.dim() == 2 and b.dim() == 2, lambda: f"an MX product takes matrices, not {a.dim()}-D and {b.dim()}-D operands"
    )
    m, n = a.size(0), b.size(1)
    k, k_of_b = (tensor.size(i) * mx_rules.packed(tensor.dtype) for i, tensor in ((1, a), (0, b)))
    torch._check_value(k == k_of_b, lambda: f"a of {m}x{k} elements and b of {k_of_b}x{n} cannot be multiplied")
    torch._check_value(k % mx_rules.BLOCK == 0, lambda: f"K={k} is not a multiple of {mx_rules.BLOCK}")
    torch._check_value(n % 16 == 0, lambda: f"N={n} is not a multiple of 16")
    for name, scale, rows in (("scale_a", scales[0], m), ("scale_b", scales[1], n)):
        torch._check_value(
            mx_rules.scale_rows(scale.shape, scale.is_contiguous(), rows, k, padded) is not None,
            lambda name=name, scale=scale, rows=rows: (
                f"{name} has shape {tuple(scale.shape)}, not one scale for each {mx_rules.BLOCK} of {k} elements of "
                f"{rows} rows"
            ),
        )
    if bias is not None:
        torch._check_value(bias.numel() == n, lambda: f"bias has {bias.numel()} elements, not {n}")
    return torch.empty((m, n), dtype=a.dtype if out_dtype is None else out_dtype, device=a.device)


def _is_mx(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> bool:
    scales = torch.float8_e8m0fnu
    return (
        a.dtype in mx_rules.ELEMENTS
        and b.dtype in mx_rules.ELEMENTS
        and scale_a.dtype == scales
        and scale_b.dtype == scales
    )


def scaled_mm(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    bias: torch.Tensor | None = None,
    scale_result: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
) -> torch.Tensor:
    if _is_mx(a, b, scale_a, scale_b):
        return _product(a, b, (scale_a, scale_b), bias, out_dtype, padded=True)
    from torch._meta_registrations import meta_scaled_mm

    return meta_scaled_mm(a, b, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum)


def scaled_mm_v2(
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
) -> torch.Tensor:
    one_each = len(scale_a) == 1 and len(scale_b) == 1
    recipes = mx_rules.recipe_reason((recipe_a, recipe_b), (swizzle_a, swizzle_b)) is None
    if one_each and recipes and _is_mx(a, b, scale_a[0], scale_b[0]):
        return _product(a, b, (scale_a[0], scale_b[0]), bias, out_dtype, padded=False)
    from torch._meta_registrations import meta_scaled_mm_v2

    first = (list(scale_a), list(recipe_a), list(swizzle_a))
    second = (list(scale_b), list(recipe_b), list(swizzle_b))
    base: Any = meta_scaled_mm_v2  # takes enumerations by their values
    return base(a, b, *first, *second, bias, out_dtype, list(contraction_dim), use_fast_accum)


@functools.cache
def register() -> None:
    torch.library.register_fake("aten::_scaled_mm", scaled_mm)
    torch.library.register_fake("aten::_scaled_mm_v2", scaled_mm_v2)
