"""Quantising to MX in PyTorch operators: what every device computes, and what the gfx950 kernel equals bit for bit."""

from __future__ import annotations

import itertools

import torch

from .formats import BLOCK, E8M0_BIAS, E8M0_NAN, FORMAT_OF, Format

# Between neighbouring magnitudes of e2m1: a tie goes to the one whose code is even.
_E2M1_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def _e2m1_codes(values: torch.Tensor) -> torch.Tensor:
    magnitude, codes = values.abs(), torch.zeros_like(values, dtype=torch.uint8)
    for code, (below, above) in enumerate(itertools.pairwise(_E2M1_VALUES)):
        middle = (below + above) / 2
        codes += (magnitude > middle) if code % 2 == 0 else (magnitude >= middle)
    return codes | (torch.signbit(values).to(torch.uint8) << 3)


def _elements(values: torch.Tensor, fmt: Format) -> torch.Tensor:
    """The bytes of fp32 values that are already scaled: saturated, and rounded once to nearest even."""
    values = values.clamp(-fmt.largest, fmt.largest)
    if not fmt.packed:
        return values.to(fmt.dtype).view(torch.uint8)
    codes = _e2m1_codes(values)
    return codes[..., ::2] | (codes[..., 1::2] << 4)


def to_mx(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Blocks of 32 along the last dimension as (elements, scales)."""
    fmt = FORMAT_OF[dtype]
    blocks = x.float().unflatten(-1, (x.shape[-1] // BLOCK, BLOCK))
    # Integers order magnitudes, and put an infinity above every number and a NaN above that. The exponent comes from
    # here and nowhere else: by way of bf16, 2^k * (1 - 2^-9) would round up across a power of two.
    bits = blocks.contiguous().view(torch.int32) & 0x7FFFFFFF
    largest = bits.amax(-1, keepdim=True) if bits.numel() else bits[..., :1]
    poisoned = largest >= 0x7F800000
    shared = ((largest >> 23) - fmt.largest_exponent).clamp(min=0)
    factor = ((2 * E8M0_BIAS - shared) << 23).view(torch.float32)
    elements = _elements(torch.where(poisoned, 0.0, blocks * factor), fmt).flatten(-2)
    scales = torch.where(poisoned, E8M0_NAN, shared).squeeze(-1).to(torch.uint8)
    return elements.view(dtype), scales.view(torch.float8_e8m0fnu)


def from_mx(data: torch.Tensor, scale: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The numbers that elements and scales stand for, exact in float64, rounded once to ``dtype``."""
    fmt = FORMAT_OF[data.dtype]
    if fmt.packed:
        stored = data.view(torch.uint8)
        codes = torch.stack((stored & 15, stored >> 4), -1).flatten(-2)
        table = torch.tensor(_E2M1_VALUES, dtype=torch.float64, device=data.device)
        values = table[(codes & 7).long()]
        values = torch.where(codes >= 8, -values, values)
    else:
        values = data.double()
    exponents = scale.view(torch.uint8).long()
    scales = ((exponents - E8M0_BIAS + 1023) << 52).view(torch.float64)  # the exponent field of a float64
    scales = torch.where(exponents == E8M0_NAN, torch.nan, scales)
    return (values.unflatten(-1, (scale.shape[-1], BLOCK)) * scales.unsqueeze(-1)).flatten(-2).to(dtype)
