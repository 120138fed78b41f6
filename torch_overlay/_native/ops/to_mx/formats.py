"""Element formats of OCP's Microscaling specification (v1.0) that gfx950 multiplies. No flydsl."""

from __future__ import annotations

import dataclasses

import torch

BLOCK = 32  # elements that share a scale
E8M0_BIAS = 127
E8M0_NAN = 255


@dataclasses.dataclass(frozen=True)
class Format:
    """``largest_exponent`` is the specification's emax: the exponent of the largest normal number."""

    name: str
    dtype: torch.dtype
    largest_exponent: int
    largest: float
    packed: bool = False  # two elements a byte, the first in the low nibble


FORMATS = {
    "e4m3fn": Format("e4m3fn", torch.float8_e4m3fn, 8, 448.0),
    "e5m2": Format("e5m2", torch.float8_e5m2, 15, 57344.0),
    "e2m1": Format("e2m1", torch.float4_e2m1fn_x2, 2, 6.0, packed=True),
}
FORMAT_OF = {fmt.dtype: fmt for fmt in FORMATS.values()}
INPUT_NAMES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
