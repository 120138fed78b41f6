"""Every comparison of every type, and those that also write EXEC, against numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from core_library import Program
from values import TYPES
from vector_case import VectorCase as Case

Compare = Callable[[np.ndarray, np.ndarray], np.ndarray]
ORDER: dict[str, Compare] = {
    "f": lambda a, b: np.zeros(a.shape, bool),
    "lt": np.less,
    "eq": np.equal,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
INTEGER: dict[str, Compare] = {**ORDER, "ne": np.not_equal, "t": lambda a, b: np.ones(a.shape, bool)}
FLOAT: dict[str, Compare] = {
    **ORDER,
    "lg": lambda a, b: (a < b) | (a > b),
    "o": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "u": lambda a, b: np.isnan(a) | np.isnan(b),
    "nge": lambda a, b: ~(a >= b),
    "nlg": lambda a, b: ~((a < b) | (a > b)),
    "ngt": lambda a, b: ~(a > b),
    "nle": lambda a, b: ~(a <= b),
    "neq": lambda a, b: ~(a == b),
    "nlt": lambda a, b: ~(a < b),
    "tru": lambda a, b: np.ones(a.shape, bool),
}
KINDS = dict.fromkeys(("u16", "i32", "u32", "i64", "u64"), INTEGER) | dict.fromkeys(("f16", "f32", "f64"), FLOAT)
FRACTION = {"f16": 10, "f32": 23, "f64": 52}
CASES: list[Case] = []


def add(name: str, sources: str, compare: Callable[..., Any]) -> None:
    """As it is, and with an instruction behind it that runs under the EXEC that v_cmpx leaves."""

    def under_mask(a: np.ndarray, b: np.ndarray, old: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mask = np.asarray(compare(a, b), bool)
        return np.where(mask, np.uint32(0xFFFFFFFF), old), mask

    operands = ", ".join(f"{{{index}}}" for index in range(len(sources.split())))
    kinds = tuple(sources.split())
    CASES.append(Case(f"v_cmp_{name}_e64 {{m}}, {operands}", kinds, "", compare, mask="m"))
    marked = f"v_cmpx_{name}_e32 vcc, {operands}\nv_mov_b32_e32 {{d}}, -1"
    CASES.append(Case(marked, kinds, "u32", under_mask, needs=("old",), mask="vcc"))


def classify(kind: str) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Bit of the second operand: signalling NaN, quiet NaN, -infinity, -normal, -denormal, -0, and up again."""
    bits, fraction = TYPES[kind][0], FRACTION[kind]
    unsigned = np.dtype(f"u{bits // 8}").type

    def reference(value: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        raw = value.view(unsigned)
        negative = raw >> unsigned(bits - 1) != 0
        magnitude = raw & unsigned((1 << bits - 1) - 1)
        infinity = unsigned(((1 << bits - 1 - fraction) - 1) << fraction)
        quiet = magnitude & unsigned(1 << fraction - 1) != 0
        nan = magnitude > infinity
        bit = np.select(
            [nan & ~quiet, nan, magnitude == infinity, magnitude >= unsigned(1 << fraction), magnitude > 0],
            [0, 1, np.where(negative, 2, 9), np.where(negative, 3, 8), np.where(negative, 4, 7)],
            np.where(negative, 5, 6),
        )
        return (wanted >> bit.astype(np.uint32)) & np.uint32(1) != 0

    return reference


for kind, comparisons in KINDS.items():
    for name, compare in comparisons.items():
        add(f"{name}_{kind}", f"{kind} {kind}", compare)
for name, compare in INTEGER.items():
    signed = lambda a, b, compare=compare: compare(a.view(np.int16), b.view(np.int16))  # noqa: E731
    add(f"{name}_i16", "u16 u16", signed)
for kind in FRACTION:
    add(f"class_{kind}", f"{kind} class", classify(kind))


@pytest.fixture(scope="module")
def program() -> Program:
    return Program([case.kernel(f"case{index}") for index, case in enumerate(CASES)])


@pytest.mark.parametrize("index", range(len(CASES)), ids=[str(case) for case in CASES])
def test_instruction(program: Program, index: int) -> None:
    CASES[index].run(lambda groups, buffers: program.launch(f"case{index}", groups, buffers))
