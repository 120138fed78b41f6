"""Scaled matrix product C = (A * scales) @ (B * scales)^T of 8- and 4-bit operands: reference, bound, makers of inputs.

The reference is the float64 product of the dequantised operands. Dequantising is exact: an element has at most 4
significand bits, a scale of a block is a power of two. E8M0's byte e is 2^(e-127), 0x00 included; 0xFF is NaN. A
product of two elements and two such scales has 8 bits and an exponent within float64's.

The bound is mm's: fp32 accumulation in an order that we do not prescribe, one rounding to the output's type. To it
comes half the spacing of fp32's subnormals for each block, where a block's scaled sum falls below fp32's normal range;
with fp32 scales of rows or tensors, two roundings of fp32.
"""

from __future__ import annotations

import torch

from reference import mm

BLOCK = 32
FP8 = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
FORMATS = {**FP8, "e2m1": torch.float4_e2m1fn_x2}
_E2M1 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0], dtype=torch.float64)
_E2M1_CODES = torch.cat([_E2M1, -_E2M1])
_FP32_UNIT = 2.0**-24
_FP32_HALF_SUBNORMAL = 2.0**-150
_LARGEST = {dtype: torch.finfo(dtype).max for dtype in (torch.bfloat16, torch.float16, torch.float32)}


def elements(operand: torch.Tensor) -> torch.Tensor:
    """The numbers that an operand holds, in float64 on the CPU; [M, K/2] of e2m1 becomes [M, K]."""
    operand = operand.detach().cpu()
    if operand.dtype != torch.float4_e2m1fn_x2:
        return operand.to(torch.float32).double()
    codes = operand.view(torch.uint8)
    pairs = torch.stack([codes & 15, codes >> 4], dim=-1)
    return _E2M1_CODES[pairs.flatten(-2).long()]


def e8m0(scales: torch.Tensor) -> torch.Tensor:
    """E8M0 scales in float64, without trust in any conversion of torch's."""
    codes = scales.detach().cpu().view(torch.uint8).to(torch.int64)
    values = torch.ldexp(torch.ones(codes.shape, dtype=torch.float64), codes - 127)
    return torch.where(codes == 255, torch.nan, values)


def dequantised(operand: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """The operand [rows, K] in float64, times E8M0 scales [rows, K/32] or fp32 scales of rows or the tensor."""
    values = elements(operand)
    if scale.dtype == torch.float8_e8m0fnu:
        return values * e8m0(scale).repeat_interleave(BLOCK, dim=1)
    factors = scale.detach().cpu().double()
    return values * (factors.reshape(-1, 1) if factors.numel() > 1 else factors.reshape(1, 1))


def product_and_bound(
    a: torch.Tensor,
    b_nk: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    out_dtype: torch.dtype,
    bias: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The float64 result, NaN where a scale or an element is; how far from it each element of a correct one may be."""
    left, right = dequantised(a, scale_a), dequantised(b_nk, scale_b)
    exact, accumulated = mm.product_and_accumulation_error(left, right)
    accumulated = accumulated + left.shape[1] // BLOCK * _FP32_HALF_SUBNORMAL
    roundings = 0 if scale_a.dtype == torch.float8_e8m0fnu else 2
    if bias is not None:
        exact, roundings = exact + bias.detach().cpu().double(), roundings + 1
        accumulated = accumulated + _FP32_UNIT * bias.detach().cpu().double().abs()
    accumulated = accumulated + roundings * _FP32_UNIT * exact.abs() + roundings * _FP32_HALF_SUBNORMAL
    return exact, accumulated + mm.OUTPUT_UNIT[out_dtype] * (exact.abs() + accumulated) + mm.HALF_SUBNORMAL[out_dtype]


def excess(
    result: torch.Tensor,
    a: torch.Tensor,
    b_nk: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    bias: torch.Tensor | None = None,
) -> float:
    """The largest error in units of its bound: at most 1 for a correct result, inf if an element is NaN where the
    reference is not, or not where it is. What is beyond the output's range must be infinite or the largest number."""
    exact, bound = product_and_bound(a, b_nk, scale_a, scale_b, result.dtype, bias)
    got = result.detach().cpu().double()
    if not torch.equal(got.isnan(), exact.isnan()):
        return float("inf")
    largest = _LARGEST[result.dtype]
    beyond = exact.abs() >= largest
    right_end = (got.sign() == exact.sign()) & (got.abs() >= largest)
    inside = torch.where(got.isinf() & (exact.abs() + bound < largest), torch.inf, (got - exact).abs() / bound)
    ratio = torch.where(beyond, torch.where(right_end, 0.0, torch.inf), inside)
    return float(torch.where(exact.isnan(), 0.0, ratio).max())


def bytes_of(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Codes as an operand: bytes of an 8-bit format, or 4-bit codes of which two go to a byte."""
    if dtype != torch.float4_e2m1fn_x2:
        return values.to(torch.uint8).view(dtype)
    codes = values.to(torch.uint8)
    return (codes[:, ::2] | (codes[:, 1::2] << 4)).contiguous().view(dtype)


def random_operand(rows: int, k: int, kind: str, seed: int = 0) -> torch.Tensor:
    """Every finite code of the format with equal chance."""
    generator = torch.Generator().manual_seed(seed)
    if kind == "e2m1":
        return bytes_of(torch.randint(0, 16, (rows, k), generator=generator), FORMATS[kind])
    codes = torch.randint(0, 256, (rows, k), generator=generator).to(torch.uint8)
    finite = codes.view(FP8[kind]).float().isfinite()
    return torch.where(finite, codes, torch.zeros_like(codes)).view(FP8[kind])


def integer_operand(rows: int, k: int, kind: str, seed: int = 0, largest: int = 2) -> torch.Tensor:
    """Integers up to ``largest``, at most 4: products and their sums are exact in fp32."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(-largest, largest + 1, (rows, k), generator=generator)
    if kind != "e2m1":
        return values.float().to(FP8[kind])
    codes = torch.tensor([0, 2, 4, 5, 6])[values.abs()] + 8 * (values < 0)
    return bytes_of(codes, FORMATS[kind])


def random_scales(rows: int, k: int, seed: int = 0, lowest: int = 120, highest: int = 134) -> torch.Tensor:
    """E8M0 scales with bytes from ``lowest`` to ``highest``."""
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(lowest, highest + 1, (rows, k // BLOCK), generator=generator)
    return codes.to(torch.uint8).view(torch.float8_e8m0fnu)


def strided(values: torch.Tensor, stride: int, device: str, poison: int = 0xFF) -> torch.Tensor:
    """The same bytes with rows ``stride`` bytes apart, on ``device``; ``poison`` between and behind them, which nobody
    may use: 0xFF is NaN as a scale and as an 8-bit element."""
    stored = values.view(torch.uint8)
    backing = torch.full((stored.shape[0], stride), poison, dtype=torch.uint8)
    backing[:, : stored.shape[1]] = stored
    return backing.to(device)[:, : stored.shape[1]].view(values.dtype)
