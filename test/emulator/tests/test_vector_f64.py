"""Vector instructions on f64, and conversions from and to it."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from core_library import Program
from lane_math import number_max, number_min, to_integer
from vector_case import VectorCase as Case

I32, U32, U64, F32, F64 = np.int32, np.uint32, np.uint64, np.float32, np.float64
CASES: list[Case] = []


def add(text: str, sources: str, result: str, reference: Callable[..., Any], **options: Any) -> None:
    CASES.append(Case(text, tuple(sources.split()), result, reference, **options))


def fused(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Exact, then rounded once: Python's int/int division rounds to nearest even, over the whole range."""
    result = np.where(np.isfinite(a) & np.isfinite(b) & np.isinf(c), c, a * b + c)  # right but for finite operands
    for index in np.flatnonzero(np.isfinite(a) & np.isfinite(b) & np.isfinite(c)):
        exact = Fraction(float(a[index])) * Fraction(float(b[index])) + Fraction(float(c[index]))
        if exact:
            try:
                result[index] = exact.numerator / exact.denominator
            except OverflowError:
                result[index] = np.inf if exact > 0 else -np.inf
        elif a[index] * b[index] == 0 and c[index] == 0:
            continue  # the sum of two zeros is right already
        else:
            result[index] = 0.0
    return result


_spread = np.random.default_rng(12)


def near_one(count: int) -> list[int]:
    values = _spread.standard_normal(count) * np.exp2(_spread.integers(-40, 40, count))
    return [int(code) for code in values.view(U64)]


for name, operation in {
    "add_f64": lambda a, b: a + b,
    "mul_f64": lambda a, b: a * b,
    "max_f64": number_max,
    "min_f64": number_min,
}.items():
    add(f"v_{name} {{d}}, {{0}}, {{1}}", "f64 f64", "f64", operation)
add("v_add_f64 {d}, -{0}, |{1}|", "f64 f64", "f64", lambda a, b: -a + np.abs(b))
add("v_mul_f64 {d}, {0}, 2.0", "f64", "f64", lambda a: a * 2)
add("v_mul_f64 {d}, {s0}, {1}", "f64 f64", "f64", lambda a, b: a * b)
add("v_fma_f64 {d}, {0}, {1}, {2}", "f64 f64 f64", "f64", fused)
add("v_fma_f64 {d}, {0}, {1}, -{2}", "f64 f64 f64", "f64", lambda a, b, c: fused(a, b, -c), values={0: near_one(99)})
add("v_fmac_f64_e32 {d}, {0}, {1}", "f64 f64", "f64", lambda a, b, old: fused(a, b, old), needs=("old",))
for form in ("e32", "e64"):
    for name, unary in {"trunc": np.trunc, "floor": np.floor, "ceil": np.ceil, "rndne": np.rint}.items():
        add(f"v_{name}_f64_{form} {{d}}, {{0}}", "f64", "f64", unary)
    add(f"v_cvt_f64_f32_{form} {{d}}, {{0}}", "f32", "f64", lambda a: a.astype(F64))
    add(f"v_cvt_f32_f64_{form} {{d}}, {{0}}", "f64", "f32", lambda a: a.astype(F32))
    add(f"v_cvt_f64_i32_{form} {{d}}, {{0}}", "i32", "f64", lambda a: a.astype(F64))
    add(f"v_cvt_f64_u32_{form} {{d}}, {{0}}", "u32", "f64", lambda a: a.astype(F64))
    add(
        f"v_cvt_i32_f64_{form} {{d}}, {{0}}",
        "f64",
        "i32",
        lambda a: to_integer(a, -(1 << 31), (1 << 31) - 1).astype(I32),
    )
    add(f"v_cvt_u32_f64_{form} {{d}}, {{0}}", "f64", "u32", lambda a: to_integer(a, 0, (1 << 32) - 1).astype(U32))
add("v_ldexp_f64 {d}, {0}, {1}", "f64 i32", "f64", lambda a, b: np.ldexp(a, np.clip(b, -5000, 5000)))

# Mantissa in [0.5, 1) and exponent; infinity and NaN keep themselves and have exponent 0.
add("v_frexp_mant_f64_e32 {d}, {0}", "f64", "f64", lambda a: np.frexp(a)[0])
add("v_frexp_mant_f32_e32 {d}, {0}", "f32", "f32", lambda a: np.frexp(a)[0])
add("v_frexp_exp_i32_f64_e32 {d}, {0}", "f64", "i32", lambda a: np.where(np.isfinite(a), np.frexp(a)[1], 0).astype(I32))
add("v_frexp_exp_i32_f32_e32 {d}, {0}", "f32", "i32", lambda a: np.where(np.isfinite(a), np.frexp(a)[1], 0).astype(I32))

# ---- division, as LLVM expands it ------------------------------------------------------------------------
# s_nop: v_div_fmas reads VCC, which needs four wait states behind the v_div_scale that writes it.

DIVISION = """v_div_scale_f64 v[20:21], s[24:25], {1}, {1}, {0}
v_rcp_f64_e32 v[22:23], v[20:21]
v_fma_f64 v[24:25], -v[20:21], v[22:23], 1.0
v_fma_f64 v[22:23], v[22:23], v[24:25], v[22:23]
v_fma_f64 v[24:25], -v[20:21], v[22:23], 1.0
v_fma_f64 v[22:23], v[22:23], v[24:25], v[22:23]
v_div_scale_f64 v[26:27], vcc, {0}, {1}, {0}
v_mul_f64 v[28:29], v[26:27], v[22:23]
v_fma_f64 v[24:25], -v[20:21], v[28:29], v[26:27]
s_nop 1
v_div_fmas_f64 v[24:25], v[24:25], v[22:23], v[28:29]
v_div_fixup_f64 {d}, v[24:25], {1}, {0}"""
_CLOSE = near_one(400)
add(DIVISION, "f64 f64", "f64", lambda a, b: a / b, values={0: _CLOSE, 1: _CLOSE[::-1]})
_LARGE = [int(code) for code in _spread.integers(0x7F00000000000000, 0x7FEFFFFFFFFFFFFF, 200)]
add(DIVISION + " ", "f64 f64", "f64", lambda a, b: a / b, values={0: _LARGE, 1: _CLOSE})
_SPECIAL = [0, 1 << 63, 0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 0x3FF0000000000000]
add(DIVISION + "  ", "f64 f64", "f64", lambda a, b: a / b, values={0: _SPECIAL, 1: _SPECIAL})


@pytest.fixture(scope="module")
def program() -> Program:
    return Program([case.kernel(f"case{index}") for index, case in enumerate(CASES)])


@pytest.mark.parametrize("index", range(len(CASES)), ids=[str(case) for case in CASES])
def test_instruction(program: Program, index: int) -> None:
    CASES[index].run(lambda groups, buffers: program.launch(f"case{index}", groups, buffers))
