"""Vector instructions on 16-bit values: f16, i16, u16, and packed pairs of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from core_library import Program
from lane_math import fma16, fma32, halves, join_halves, number_max, number_min
from vector_case import VectorCase as Case

U16, I16, U32, F16, F32, F64 = np.uint16, np.int16, np.uint32, np.float16, np.float32, np.float64
CASES: list[Case] = []


def add(text: str, sources: str, result: str, reference: Callable[..., Any], **options: Any) -> None:
    CASES.append(Case(text, tuple(sources.split()), result, reference, **options))


def signed(operation: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """An operation on i16, given and giving u16 bits."""

    def apply(*values: np.ndarray) -> np.ndarray:
        return np.asarray(operation(*(value.view(I16) for value in values))).astype(I16).view(U16)

    return apply


def middle(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return np.sort(np.stack([a, b, c]), axis=0)[1]


for form in ("e32", "e64"):
    for name, reference in {
        "subrev_u16": lambda a, b: b - a,
        "min_u16": np.minimum,
        "max_u16": np.maximum,
        "min_i16": signed(np.minimum),
        "max_i16": signed(np.maximum),
        "ashrrev_i16": lambda a, b: (b.view(I16) >> (a & U16(15)).astype(I16)).view(U16),
    }.items():
        add(f"v_{name}_{form} {{d}}, {{0}}, {{1}}", "u16 u16", "u16", reference)
    for name, reference in {
        "sub_f16": lambda a, b: a - b,
        "subrev_f16": lambda a, b: b - a,
        "min_f16": number_min,
    }.items():
        add(f"v_{name}_{form} {{d}}, {{0}}, {{1}}", "f16 f16", "f16", reference)
    for name, unary in {"trunc": np.trunc, "floor": np.floor, "ceil": np.ceil, "rndne": np.rint}.items():
        add(f"v_{name}_f16_{form} {{d}}, {{0}}", "f16", "f16", unary)
    add(f"v_sqrt_f16_{form} {{d}}, {{0}}", "f16", "f16", lambda a: np.sqrt(a.astype(F64)), ulps=1)
    add(f"v_rcp_f16_{form} {{d}}, {{0}}", "f16", "f16", lambda a: 1 / a.astype(F64), ulps=1)
    add(f"v_rsq_f16_{form} {{d}}, {{0}}", "f16", "f16", lambda a: 1 / np.sqrt(a.astype(F64)), ulps=1)
    add(f"v_exp_f16_{form} {{d}}, {{0}}", "f16", "f16", lambda a: np.exp2(a.astype(F64)), ulps=1)
    add(f"v_log_f16_{form} {{d}}, {{0}}", "f16", "f16", lambda a: np.log2(a.astype(F64)), ulps=1)
    add(f"v_cvt_f16_u16_{form} {{d}}, {{0}}", "u16", "f16", lambda a: a.astype(F16))
    add(f"v_cvt_f16_i16_{form} {{d}}, {{0}}", "u16", "f16", lambda a: a.view(I16).astype(F16))

for name, ternary in {
    "min3_u16": lambda a, b, c: np.minimum(np.minimum(a, b), c),
    "max3_u16": lambda a, b, c: np.maximum(np.maximum(a, b), c),
    "med3_u16": middle,
    "min3_i16": signed(lambda a, b, c: np.minimum(np.minimum(a, b), c)),
    "max3_i16": signed(lambda a, b, c: np.maximum(np.maximum(a, b), c)),
    "med3_i16": signed(middle),
    "mad_u16": lambda a, b, c: a * b + c,
}.items():
    add(f"v_{name} {{d}}, {{0}}, {{1}}, {{2}}", "u16 u16 u16", "u16", ternary, high_half="any")

# ---- packed ----------------------------------------------------------------------------------------------


def per_half(operation: Callable[..., np.ndarray], kind: Any) -> Callable[..., np.ndarray]:
    """The operation on the low and on the high halves of dwords, taken as `kind`."""

    def apply(*pairs: np.ndarray) -> np.ndarray:
        parts = []
        for shift in (0, 16):
            values = [(pair >> U32(shift)).astype(U16).view(kind) for pair in pairs]
            parts.append(np.asarray(operation(*values)).astype(kind).view(U16).astype(U32))
        return parts[0] | parts[1] << U32(16)

    return apply


INTEGER_PAIRS: dict[str, tuple[Any, Callable[..., np.ndarray]]] = {
    "add_u16": (U16, lambda a, b: a + b),
    "sub_u16": (U16, lambda a, b: a - b),
    "add_i16": (U16, lambda a, b: a + b),
    "sub_i16": (U16, lambda a, b: a - b),
    "mul_lo_u16": (U16, lambda a, b: a * b),
    "min_u16": (U16, np.minimum),
    "max_u16": (U16, np.maximum),
    "min_i16": (I16, np.minimum),
    "max_i16": (I16, np.maximum),
    "lshlrev_b16": (U16, lambda a, b: b << (a & U16(15))),
    "lshrrev_b16": (U16, lambda a, b: b >> (a & U16(15))),
    "ashrrev_i16": (I16, lambda a, b: b >> (a & I16(15))),
}
for name, (kind, operation) in INTEGER_PAIRS.items():
    add(f"v_pk_{name} {{d}}, {{0}}, {{1}}", "b32 b32", "b32", per_half(operation, kind))
for name in ("mad_u16", "mad_i16"):
    add(f"v_pk_{name} {{d}}, {{0}}, {{1}}, {{2}}", "b32 b32 b32", "b32", per_half(lambda a, b, c: a * b + c, U16))


def f16_pairs(operation: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    def apply(*pairs: np.ndarray) -> np.ndarray:
        lows, highs = zip(*(halves(pair) for pair in pairs), strict=True)
        return join_halves(operation(*lows), operation(*highs))

    return apply


def one_nan(pair: np.ndarray) -> np.ndarray:
    words = pair.astype(U32).view(U16)
    return np.where((words & 0x7FFF) > 0x7C00, U16(0x7E00), words).view(U32)


def swapped(pair: np.ndarray) -> np.ndarray:
    return pair >> U32(16) | pair << U32(16)


add("v_pk_fma_f16 {d}, {0}, {1}, {2}", "f16x2 f16x2 f16x2", "f16x2", f16_pairs(fma16), canonical=one_nan)
# Without signalling NaNs: the core lets them lose to a number here, where hardware makes them quiet.
_PAIRS = [0x3C00C000, 0x7E010000, 0x80000000, 0x7C00FC00, 0x000183FF, 0x7BFF7E00, 0xBC003C00, 0x38004100, 0xFE00FBFF]
for name, number in (("max", number_max), ("min", number_min)):
    add(
        f"v_pk_{name}_f16 {{d}}, {{0}}, {{1}}",
        "f16x2 f16x2",
        "f16x2",
        f16_pairs(number),
        canonical=one_nan,
        values={0: _PAIRS, 1: _PAIRS},
    )
add(
    "v_pk_add_f16 {d}, {0}, {1} op_sel:[1,0] op_sel_hi:[0,1] neg_hi:[0,1]",
    "f16x2 f16x2",
    "f16x2",
    lambda a, b: f16_pairs(lambda x, y: x + y)(swapped(a), b ^ U32(0x80000000)),
    canonical=one_nan,
)
add(
    "v_pack_b32_f16 {d}, {0}, {1}",
    "f16 f16",
    "b32",
    lambda a, b: a.view(U16).astype(U32) | b.view(U16).astype(U32) << U32(16),
    canonical=one_nan,
)
add(
    "v_fma_mixhi_f16 {d}, {0}, {1}, {2}",
    "f32 f32 f32",
    "b32",
    lambda a, b, c, old: (old & U32(0xFFFF)) | fma32(a, b, c).astype(F16).view(U16).astype(U32) << U32(16),
    needs=("old",),
    canonical=lambda word: np.where(
        (word >> U32(16) & U32(0x7FFF)) > 0x7C00, (word & U32(0xFFFF)) | U32(0x7E000000), word
    ),
)


@pytest.fixture(scope="module")
def program() -> Program:
    return Program([case.kernel(f"case{index}") for index, case in enumerate(CASES)])


@pytest.mark.parametrize("index", range(len(CASES)), ids=[str(case) for case in CASES])
def test_instruction(program: Program, index: int) -> None:
    CASES[index].run(lambda groups, buffers: program.launch(f"case{index}", groups, buffers))
