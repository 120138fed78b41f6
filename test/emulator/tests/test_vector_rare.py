"""Vector instructions that compilers make seldom, against numpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import lane_math
import ml_dtypes
import mpmath
import numpy as np
import pytest
from core_library import Program
from vector_case import VectorCase as Case

CASES: list[Case] = []
U16, U32, I16, I32, I64, F16, F32, F64 = (
    np.uint16,
    np.uint32,
    np.int16,
    np.int32,
    np.int64,
    np.float16,
    np.float32,
    np.float64,
)


def turns(kind: type, limit: float) -> list[int]:
    """Angles, but for the zeros of sine and cosine, where no relative bound holds."""
    values = np.linspace(-limit, limit, 97).astype(kind)
    return [int(value) for value in values[4 * values % 1 != 0].view(f"u{values.itemsize}")]


TURNS, HALF_TURNS = turns(F32, 300.3), turns(F16, 60.3)


def add(text: str, sources: str, result: str, reference: Callable[..., Any], **options: Any) -> None:
    CASES.append(Case(text, tuple(sources.split()), result, reference, **options))


def halves(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    pairs = values.view(I16).reshape(-1, 2).astype(I64)
    return pairs[:, 0], pairs[:, 1]


def dot_i16(a: np.ndarray, b: np.ndarray, old: np.ndarray) -> np.ndarray:
    (a0, a1), (b0, b1) = halves(a), halves(b)
    return (a0 * b0 + a1 * b1 + old.astype(I64)).astype(U32)


def pack_saturated(low: int, high: int) -> Callable[..., np.ndarray]:
    def reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        parts = [np.clip(x.astype(I64), low, high).astype(I64) & 0xFFFF for x in (a, b)]
        return (parts[0] | parts[1] << 16).astype(U32)

    return reference


def to_integer(low: int, high: int, unsigned: Any) -> Callable[[np.ndarray], np.ndarray]:
    def reference(a: np.ndarray) -> np.ndarray:
        whole = np.trunc(np.nan_to_num(a.astype(F64), nan=0.0))
        return np.clip(whole, low, high).astype(I64).astype(unsigned)

    return reference


def rounded(rule: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    def reference(a: np.ndarray) -> np.ndarray:
        whole = rule(np.nan_to_num(a.astype(F64), nan=0.0))
        return np.clip(whole, -(2.0**31), 2.0**31 - 1).astype(I64).astype(I32)

    return reference


def fraction(a: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        below = np.nextafter(a.dtype.type(1), a.dtype.type(0))
        return np.where(np.isinf(a), a.dtype.type(np.nan), np.minimum(a - np.floor(a), below)).astype(a.dtype)


def swapped_pair(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    low = np.uint64(0xFFFFFFFF)
    return (a >> np.uint64(32)) | (b & low) << np.uint64(32)


add("v_add_i32 {d}, {0}, {1}", "u32 u32", "u32", lambda a, b: a + b)
add("v_sub_i32 {d}, {0}, {1}", "u32 u32", "u32", lambda a, b: a - b)
add("v_add_i16 {d}, {0}, {1}", "u16 u16", "u16", lambda a, b: a + b, high_half="any")
add("v_sub_i16 {d}, {0}, {1}", "u16 u16", "u16", lambda a, b: a - b, high_half="any")
add("v_mad_i16 {d}, {0}, {1}, {2}", "u16 u16 u16", "u16", lambda a, b, c: a * b + c, high_half="any")
add("v_mad_legacy_i16 {d}, {0}, {1}, {2}", "u16 u16 u16", "u16", lambda a, b, c: a * b + c, high_half="any")
add("v_dot2c_i32_i16_e32 {d}, {0}, {1}", "b32 b32", "u32", dot_i16, needs=("old",))
add("v_cvt_pk_i16_i32 {d}, {0}, {1}", "i32 i32", "u32", pack_saturated(-(1 << 15), (1 << 15) - 1))
add("v_cvt_pk_u16_u32 {d}, {0}, {1}", "u32 u32", "u32", pack_saturated(0, (1 << 16) - 1))
add("v_cvt_i16_f16_e32 {d}, {0}", "f16", "u16", to_integer(-(1 << 15), (1 << 15) - 1, U16), high_half="any")
add("v_cvt_u16_f16_e32 {d}, {0}", "f16", "u16", to_integer(0, (1 << 16) - 1, U16), high_half="any")
add("v_cvt_flr_i32_f32_e32 {d}, {0}", "f32", "i32", rounded(np.floor))
add("v_cvt_rpi_i32_f32_e32 {d}, {0}", "f32", "i32", rounded(lambda a: np.floor(a + 0.5)))
add("v_fract_f32_e32 {d}, {0}", "f32", "f32", fraction)
add("v_fract_f64_e32 {d}, {0}", "f64", "f64", fraction)
add("v_sqrt_f64_e32 {d}, {0}", "f64", "f64", np.sqrt, ulps=1)
add("v_rsq_f64_e32 {d}, {0}", "f64", "f64", lambda a: 1 / np.sqrt(a), ulps=2)
for name, function in (("sin", np.sin), ("cos", np.cos)):
    for kind, values, ulps in (("f32", TURNS, 64), ("f16", HALF_TURNS, 2)):

        def of_turns(a: np.ndarray, function: Any = function) -> np.ndarray:
            return function(2 * np.pi * np.remainder(a.astype(F64), 1))

        add(f"v_{name}_{kind}_e32 {{d}}, {{0}}", kind, kind, of_turns, values={0: values}, ulps=ulps)
add("v_pk_mov_b32 {d}, {0}, {1} op_sel:[1,0]", "b64 b64", "b64", swapped_pair)
add(
    "v_mul_legacy_f32 {d}, {0}, {1}",
    "f32 f32",
    "f32",
    lambda a, b: np.where((a == 0) | (b == 0), np.float32(0), a * b),
)
add(
    "v_cvt_f32_bf16_e32 {d}, {0}",
    "u16",
    "f32",
    lambda a: a.view(ml_dtypes.bfloat16).astype(F32),
)


def of_halves(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    def apply(*pairs: np.ndarray) -> np.ndarray:
        lows, highs = zip(*(lane_math.halves(pair) for pair in pairs), strict=True)
        return lane_math.join_halves(function(*lows), function(*highs))

    return apply


def one_nan(pair: np.ndarray) -> np.ndarray:
    words = pair.astype(U32).view(U16)
    return np.where((words & 0x7FFF) > 0x7C00, U16(0x7E00), words).view(U32)


def larger(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """As numbers; 0 is more than -0."""
    return np.where((a > b) | ((a == b) & ~np.signbit(a)) | np.isnan(b), a, b)


def smaller(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where((a < b) | ((a == b) & np.signbit(a)) | np.isnan(b), a, b)


def median(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The middle one; with a NaN among them the smallest of the others."""
    ordered = larger(smaller(a, b), smaller(larger(a, b), c))
    return np.where(np.isnan(a) | np.isnan(b) | np.isnan(c), smaller(smaller(a, b), c), ordered)


def with_nan(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    def apply(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        some = np.isnan(a) | np.isnan(b) | np.isnan(c)
        return np.where(some, F16(np.nan), function(function(a, b), c)).astype(F16)

    return apply


QUIET = [0, 0x8000, 0x3C00, 0xBC00, 0x4100, 0x7C00, 0xFC00, 0x7E01, 0x0001, 0x83FF, 0x7BFF, 0x2E66]
TRIPLE = "f16 f16 f16"
add(
    "v_max3_f16 {d}, {0}, {1}, {2}",
    TRIPLE,
    "f16",
    lambda a, b, c: larger(larger(a, b), c),
    values=dict.fromkeys(range(3), QUIET),
)
add(
    "v_min3_f16 {d}, {0}, {1}, {2}",
    TRIPLE,
    "f16",
    lambda a, b, c: smaller(smaller(a, b), c),
    values=dict.fromkeys(range(3), QUIET),
)
add("v_med3_f16 {d}, {0}, {1}, {2}", TRIPLE, "f16", median, values=dict.fromkeys(range(3), QUIET))
for name, function in (("maximum", larger), ("minimum", smaller)):
    text = f"v_pk_{name}3_f16 {{d}}, {{0}}, {{1}}, {{2}}"
    add(text, "f16x2 f16x2 f16x2", "f16x2", of_halves(with_nan(function)), canonical=one_nan)


def float_dot(kind: Any) -> Callable[..., np.ndarray]:
    """Rounded after each addition, in the order that core/exec/dot.cpp states; hardware may keep more."""

    def apply(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        left, right = (x.view(kind).reshape(-1, 2).astype(F32) for x in (a, b))
        low, high = left[:, 0] * right[:, 0], left[:, 1] * right[:, 1]
        return (c + low) + high if kind is F16 else (high + low) + c

    return apply


ORDINARY = {  # sums that do not depend on how NaN and infinity meet
    F16: [0, 0x3C003C00, 0xBC004100, 0x38002E66, 0x00010400, 0x7BFF3C00, 0xC2483800],
    ml_dtypes.bfloat16: [0, 0x3F803F80, 0xBF80C020, 0x3F003DCC, 0x34000080, 0x49744049, 0xC2483F00],
}
for kind, name in ((F16, "f16"), (ml_dtypes.bfloat16, "bf16")):
    values = dict.fromkeys((0, 1), ORDINARY[kind])
    if name == "bf16":
        add("v_dot2_f32_bf16 {d}, {0}, {1}, {2}", "b32 b32 f32", "f32", float_dot(kind), values=values)
    add(
        f"v_dot2c_f32_{name}_e32 {{d}}, {{0}}, {{1}}",
        "b32 b32",
        "f32",
        lambda a, b, old, kind=kind: float_dot(kind)(a, b, old),
        needs=("old",),
        values=values,
    )


def reduction_segment(x: np.ndarray, segment: np.ndarray) -> np.ndarray:
    """53 bits of 2/pi from where the exponent of x and the segment's number put them, by AMD's pseudocode."""
    with mpmath.workprec(1400):
        two_over_pi = int(mpmath.floor(mpmath.ldexp(2 / mpmath.pi, 1201)))
    results = []
    for bits, number in zip(x.view(np.uint64), segment, strict=True):
        exponent = int(bits) >> 52 & 0x7FF
        shift = (int(number) & 31) * 53 + max(0, exponent - 1077)
        kept = two_over_pi << shift & (1 << 1201) - 1
        scale = -53 - shift + (128 if exponent >= 1968 else 0)
        results.append(math.ldexp(kept >> 1201 - 53, scale))
    return np.array(results)


WIDE = [
    0x3FF0000000000000,
    0x4350000000000000,
    0x43F0000000000000,
    0x5FF123456789ABCD,
    0x7B00000000000000,
    0x7FE0000000000000,
]
add(
    "v_trig_preop_f64 {d}, {0}, {1}", "f64 u32", "f64", reduction_segment, values={0: WIDE, 1: [0, 1, 2, 3, 17, 31, 32]}
)


@pytest.fixture(scope="module")
def program() -> Program:
    return Program([case.kernel(f"case{index}") for index, case in enumerate(CASES)])


@pytest.mark.parametrize("index", range(len(CASES)), ids=[str(case) for case in CASES])
def test_instruction(program: Program, index: int) -> None:
    CASES[index].run(lambda groups, buffers: program.launch(f"case{index}", groups, buffers))
