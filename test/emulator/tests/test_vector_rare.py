"""Vector instructions that compilers make seldom, against numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
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


@pytest.fixture(scope="module")
def program() -> Program:
    return Program([case.kernel(f"case{index}") for index, case in enumerate(CASES)])


@pytest.mark.parametrize("index", range(len(CASES)), ids=[str(case) for case in CASES])
def test_instruction(program: Program, index: int) -> None:
    CASES[index].run(lambda groups, buffers: program.launch(f"case{index}", groups, buffers))
