"""The small number formats by their documents, for tests of conversions: ml_dtypes for exact numbers and rounding to
nearest; stochastic rounding from its definition, in float64."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

U32, F64 = np.uint32, np.float64


@dataclass(frozen=True)
class SmallFormat:
    kind: np.dtype
    bits: int
    fraction_bits: int
    lowest_exponent: int  # of a normal number
    largest: float
    saturates: bool  # always; the others go to infinity or NaN


FORMATS = {
    "fp4": SmallFormat(np.dtype(ml_dtypes.float4_e2m1fn), 4, 1, 0, 6.0, True),
    "fp6": SmallFormat(np.dtype(ml_dtypes.float6_e2m3fn), 6, 3, 0, 7.5, True),
    "bf6": SmallFormat(np.dtype(ml_dtypes.float6_e3m2fn), 6, 2, -2, 28.0, True),
    "fp8": SmallFormat(np.dtype(ml_dtypes.float8_e4m3fn), 8, 3, -6, 448.0, False),
    "bf8": SmallFormat(np.dtype(ml_dtypes.float8_e5m2), 8, 2, -14, 57344.0, False),
    "f16": SmallFormat(np.dtype(np.float16), 16, 10, -14, 65504.0, False),
    "bf16": SmallFormat(np.dtype(ml_dtypes.bfloat16), 16, 7, -126, (2 - 2.0**-7) * 2.0**127, False),
}
_WIDE = {"f32": np.dtype(np.float32), "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32}


def scale_of(bits: np.ndarray) -> np.ndarray:
    """The exponent field alone counts: 2^(field - 127), NaN for 255."""
    field = (bits >> U32(23) & U32(255)).astype(F64)
    return np.where(field == 255, np.nan, np.exp2(field - 127))


def decoded(name: str, codes: np.ndarray) -> np.ndarray:
    kind = _WIDE.get(name) or FORMATS[name].kind
    return codes.astype(_UNSIGNED[kind.itemsize]).view(kind).astype(F64)


def wide_values(name: str, values: np.ndarray) -> np.ndarray:
    """Codes of f32, f16 or bf16, nearest even; by way of f32, which holds a few bits times a power of two exactly."""
    kind = _WIDE[name]
    with np.errstate(over="ignore"):
        return values.astype(np.float32).astype(kind).view(_UNSIGNED[kind.itemsize]).astype(U32)


def next_random(word: np.ndarray) -> np.ndarray:
    """v_prng_b32."""
    return word << U32(1) ^ np.where(word >> U32(31) != 0, U32(197), U32(0))


def encoded(name: str, values: np.ndarray, random: np.ndarray | None = None) -> np.ndarray:
    """Codes of numbers that f32 holds; no NaN. With `random`: rounded stochastically by its top bits, of which as many
    count as a 24-bit significand loses."""
    form = FORMATS[name]
    if random is not None:
        magnitude = np.abs(values)
        finite = np.isfinite(values) & (values != 0)
        safe = np.where(finite, magnitude, 1.0)
        exponent = np.frexp(safe)[1] - 1
        kept_exponent = np.maximum(exponent, form.lowest_exponent)
        cut = np.minimum(23 - form.fraction_bits + kept_exponent - exponent, 31)
        unit = np.exp2((kept_exponent - form.fraction_bits).astype(F64))
        kept = np.floor(np.ldexp(safe / unit, 31)) / 2.0**31  # random bits reach no further
        added = np.floor(np.ldexp(random.astype(F64), cut - 32)) / np.exp2(cut.astype(F64))
        values = np.where(finite, np.copysign(np.floor(kept + added) * unit, values), values)
    if form.saturates:
        values = np.clip(values, -form.largest, form.largest)
    elif random is not None:  # rounded already: what is beyond the largest overflows
        values = np.where(np.abs(values) > form.largest, np.copysign(np.inf, values), values)
    return values.astype(form.kind).view(_UNSIGNED[form.kind.itemsize]).astype(U32) & U32((1 << form.bits) - 1)
