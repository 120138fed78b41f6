"""Arithmetic that numpy lacks, as the instructions define it: fused multiply-add, packed halves, float to integer."""

from __future__ import annotations

import numpy as np


def odd_sum(product: np.ndarray, addend: np.ndarray) -> np.ndarray:
    """product + addend in float64, rounded to odd: a second rounding to f32 or f16 then equals a single one."""
    total = product + addend
    back = total - product
    error = (product - (total - back)) + (addend - back)  # exact remainder
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & (error != 0) & ((bits & 1) == 0)
    nudge = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(inexact, bits + nudge, bits).view(np.float64)


def fma32(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return odd_sum(a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)).astype(np.float32)


def fma16(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return odd_sum(a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)).astype(np.float16)


def halves(pair: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """f16x2 -> low and high."""
    return pair.astype(np.uint16).view(np.float16), (pair >> np.uint32(16)).astype(np.uint16).view(np.float16)


def join_halves(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return low.astype(np.float16).view(np.uint16).astype(np.uint32) | high.astype(np.float16).view(np.uint16).astype(
        np.uint32
    ) << np.uint32(16)


def floats(pair: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """f32x2 -> low and high."""
    return pair.astype(np.uint32).view(np.float32), (pair >> np.uint64(32)).astype(np.uint32).view(np.float32)


def join_floats(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return low.astype(np.float32).view(np.uint32).astype(np.uint64) | high.astype(np.float32).view(np.uint32).astype(
        np.uint64
    ) << np.uint64(32)


def to_integer(value: np.ndarray, low: int, high: int) -> np.ndarray:
    """Truncates; out of range goes to the nearest limit, NaN to 0."""
    wide = np.clip(
        np.trunc(np.nan_to_num(value.astype(np.float64), nan=0.0, posinf=2.0**63, neginf=-(2.0**63))), low, high
    )
    return wide.astype(np.int64)


def is_signalling(value: np.ndarray) -> np.ndarray:
    bits = value.view(f"u{value.dtype.itemsize}")
    quiet = {2: 1 << 9, 4: 1 << 22, 8: 1 << 51}[value.dtype.itemsize]
    return np.isnan(value) & (bits & bits.dtype.type(quiet) == 0)


def number_max(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """v_max: IEEE mode. A signalling NaN wins, a quiet one loses, and 0 is above -0."""
    larger = np.where((a > b) | ((a == b) & ~np.signbit(a)), a, b)
    result = np.where(np.isnan(a), b, np.where(np.isnan(b), a, larger))
    return np.where(is_signalling(a) | is_signalling(b), a.dtype.type(np.nan), result)


def number_min(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.negative(number_max(-a, -b))


def nan_max(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """v_maximum: any NaN wins."""
    larger = np.where((a > b) | ((a == b) & ~np.signbit(a)), a, b)
    return np.where(np.isnan(a) | np.isnan(b), a.dtype.type(np.nan), larger)


def nan_min(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.negative(nan_max(-a, -b))


def clamp01(value: np.ndarray) -> np.ndarray:
    """The clamp bit of a float result: NaN becomes 0."""
    zero, one = value.dtype.type(0), value.dtype.type(1)
    return np.where(np.isnan(value), zero, np.minimum(np.maximum(value, zero), one)) + zero


def bitop3(table: int, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    result = np.zeros_like(a)
    for index in range(8):
        if table >> index & 1:
            result |= (a if index & 4 else ~a) & (b if index & 2 else ~b) & (c if index & 1 else ~c)
    return result


def per_bit_count(bits: np.ndarray) -> np.ndarray:
    return np.bitwise_count(bits).astype(np.uint32)
