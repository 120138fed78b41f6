"""What makes a call of the scaled matrix products one of MX operands, and how its scales lie. No flydsl, no Inductor.

Eager calls and Inductor's lowering ask the same functions, so that compiled code takes what eager code takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

ELEMENTS = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float4_e2m1fn_x2)
OUT_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
BLOCK = 32
BLOCKWISE_1X32 = 3  # torch.nn.functional.ScalingType
NO_SWIZZLE = 0  # torch.nn.functional.SwizzleType

NOT_MX = "scales of tensors and rows stay with ATen: no measurement says that FlyDSL is faster there"


def packed(dtype: torch.dtype) -> int:
    """Elements of K in a stored one."""
    return 2 if dtype == torch.float4_e2m1fn_x2 else 1


def recipe_reason(recipes: Sequence[Sequence[int]], swizzles: Sequence[Sequence[int]]) -> str | None:
    """Why the second version's recipes are not those of MX."""
    for recipe in recipes:
        if list(recipe) != [BLOCKWISE_1X32]:
            return NOT_MX if len(recipe) == 1 and recipe[0] < 2 else f"recipe {list(recipe)} is not BlockWise1x32"
    for swizzle in swizzles:
        if any(each != NO_SWIZZLE for each in swizzle):
            return f"scales of swizzle {list(swizzle)}: the kernel reads NO_SWIZZLE"
    return None


def dtype_reason(
    a: torch.dtype, b: torch.dtype, scale_a: torch.dtype, scale_b: torch.dtype, out: torch.dtype | None
) -> str | None:
    for name, dtype in (("a", a), ("b", b)):
        if dtype not in ELEMENTS:
            return f"{name} is {dtype}, not one of {', '.join(map(str, ELEMENTS))}"
    for name, dtype in (("scale_a", scale_a), ("scale_b", scale_b)):
        if dtype != torch.float8_e8m0fnu:
            return f"{name} is {dtype}, not torch.float8_e8m0fnu"
    if out not in OUT_DTYPES:
        return f"out_dtype is {out or a}, not one of {', '.join(map(str, OUT_DTYPES))}"
    return None


def scale_rows(shape: Sequence[Any], contiguous: bool, rows: Any, k: Any, padded: bool) -> Any | None:
    """How many rows of K/32 scales lie in a scale tensor of this shape; None if it is none for [rows, k].

    [rows, K/32] with any strides, or any shape of as many elements if contiguous. The first version takes contiguous
    scales alone, but also those that are padded to multiples of 128 rows, as its other backends want them.
    """
    columns = k // BLOCK
    if list(shape) == [rows, columns] and not padded:
        return rows
    count = 1
    for size in shape:
        count *= size
    if not contiguous:
        return None
    if count == rows * columns:
        return rows
    above = -(-rows // 128) * 128
    return above if padded and columns % 4 == 0 and count == above * columns else None


def aten_reason(
    a: torch.dtype, b: torch.dtype, m: int, n: int, k: int, out: torch.dtype, bias: torch.dtype | None
) -> str | None:
    """Why ATen's second version does not compute an MX product on ROCm, by its own checks."""
    if a != b or a == torch.float8_e5m2:
        return f"ATen multiplies {a} by {b} on no ROCm device"
    for name, size in (("M", m), ("N", n), ("stored K", k // packed(a))):
        if size % 32:
            return f"ATen wants multiples of 32, and {name} is {size}"
    if out == torch.float32 or (bias is not None and bias != out):
        return f"ATen makes bf16 or fp16 with a bias of that type, not {out} with {bias}"
    return None
