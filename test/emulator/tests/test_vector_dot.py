"""Dot products of packed elements, and the smaller vector instructions that compilers emit around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from core_library import Program
from vector_case import VectorCase as Case

U8, U16, I16, U32, I32, F16, F32 = np.uint8, np.uint16, np.int16, np.uint32, np.int32, np.float16, np.float32
CASES: list[Case] = []


def add(text: str, sources: str, result: str, reference: Callable[..., Any], **options: Any) -> None:
    CASES.append(Case(text, tuple(sources.split()), result, reference, **options))


def elements(packed: np.ndarray, bits: int, is_signed: bool) -> np.ndarray:
    """[lanes] u32 -> [lanes, 32 / bits] i64."""
    shifts = np.arange(0, 32, bits, dtype=U32)
    values = (packed[:, None] >> shifts & U32((1 << bits) - 1)).astype(np.int64)
    return np.where(values >= 1 << (bits - 1), values - (1 << bits), values) if is_signed else values


def dot(bits: int, is_signed: bool) -> Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]:
    def reference(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        total = (elements(a, bits, is_signed) * elements(b, bits, is_signed)).sum(1) + c.astype(np.int64)
        return (total & 0xFFFFFFFF).astype(U32)

    return reference


for name, bits, is_signed in [
    ("dot2_i32_i16", 16, True),
    ("dot2_u32_u16", 16, False),
    ("dot4_i32_i8", 8, True),
    ("dot4_u32_u8", 8, False),
    ("dot8_i32_i4", 4, True),
    ("dot8_u32_u4", 4, False),
]:
    add(f"v_{name} {{d}}, {{0}}, {{1}}, {{2}}", "b32 b32 b32", "b32", dot(bits, is_signed))
for name, bits in [("dot4c_i32_i8", 8), ("dot8c_i32_i4", 4)]:
    add(
        f"v_{name}_e32 {{d}}, {{0}}, {{1}}",
        "b32 b32",
        "b32",
        lambda a, b, old, bits=bits: dot(bits, True)(a, b, old),
        needs=("old",),
    )


def half_products(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    left, right = (x.view(F16).reshape(-1, 2).astype(F32) for x in (a, b))
    return left[:, 0] * right[:, 0], left[:, 1] * right[:, 1]


def dot_f16(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    low, high = half_products(a, b)
    return (c + low) + high


add("v_dot2_f32_f16 {d}, {0}, {1}, {2}", "b32 b32 f32", "f32", dot_f16)
add("v_mad_u32_u16 {d}, {0}, {1}, {2}", "u16 u16 b32", "b32", lambda a, b, c: a.astype(U32) * b.astype(U32) + c)
add(
    "v_mad_i32_i16 {d}, {0}, {1}, {2}",
    "u16 u16 b32",
    "b32",
    lambda a, b, c: (a.view(I16).astype(I32) * b.view(I16).astype(I32)).view(U32) + c,
)
add("v_mad_legacy_u16 {d}, {0}, {1}, {2}", "u16 u16 u16", "u16", lambda a, b, c: a * b + c)
add("v_prng_b32_e32 {d}, {0}", "b32", "b32", lambda a: a << U32(1) ^ np.where(a >> U32(31), U32(197), U32(0)))


def saturated(low: int, high: int) -> Callable[..., np.ndarray]:
    def reference(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        parts = [np.clip(x.view(I32) >> (c & U32(31)).astype(I32), low, high) & 0xFF for x in (a, b)]
        return (parts[0] | parts[1] << 8).astype(U16)

    return reference


add("v_ashr_pk_i8_i32 {d}, {0}, {1}, {2}", "b32 b32 b32", "u16", saturated(-128, 127), high_half="keep")
add("v_ashr_pk_u8_i32 {d}, {0}, {1}, {2}", "b32 b32 b32", "u16", saturated(0, 255), high_half="keep")
add("v_frexp_mant_f16_e32 {d}, {0}", "f16", "f16", lambda a: np.where(np.isfinite(a), np.frexp(a)[0], a).astype(F16))
add(
    "v_frexp_exp_i16_f16_e32 {d}, {0}",
    "f16",
    "u16",
    lambda a: np.where(np.isfinite(a), np.frexp(a)[1], 0).astype(I16).view(U16),
)
add(
    "v_ldexp_f16_e32 {d}, {0}, {1}",
    "f16 u16",
    "f16",
    lambda a, b: np.ldexp(a.astype(np.float64), b.view(I16).astype(I32)).astype(F16),
)
add(
    "v_fract_f16_e32 {d}, {0}",
    "f16",
    "f16",
    lambda a: np.where(np.isinf(a), F16(np.nan), np.minimum(a - np.floor(a), F16(0.9995))),
)


def quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a / b


# With 1 for an estimate every finite quotient becomes its sign; the special cases are those of a division.
add(
    "v_div_fixup_f16 {d}, {0}, {1}, {2}",
    "f16 f16 f16",
    "f16",
    lambda estimate, denominator, numerator: np.where(
        np.isfinite(denominator) & np.isfinite(numerator) & (denominator != 0) & (numerator != 0),
        np.copysign(estimate, np.copysign(F16(1), denominator) * np.copysign(F16(1), numerator)),
        quotient(numerator, denominator),
    ),
    high_half="keep",
)


@pytest.fixture(scope="module")
def program() -> Program:
    return Program([case.kernel(f"case{index}") for index, case in enumerate(CASES)])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("index", range(len(CASES)), ids=[str(case) for case in CASES])
def test_instruction(program: Program, index: int) -> None:
    CASES[index].run(lambda groups, buffers: program.launch(f"case{index}", groups, buffers))
