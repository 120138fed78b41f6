"""ALU instructions against golden/*.json, results that AMD's pseudocode gives; make_golden.py wrote them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import test_scalar_alu
from assemble import KernelText
from core_library import Program
from values import typed, words
from vector_case import VectorCase

GOLDEN = Path(__file__).parent / "golden"


def rows_of(family: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((GOLDEN / f"{family}.json").read_text())["rows"]
    return rows


def vector_case(row: dict[str, Any]) -> VectorCase:
    return VectorCase(row["text"], tuple(row["sources"]), row["result"], lambda: None, mask=row["mask"])


def scalar_case(row: dict[str, Any]) -> test_scalar_alu.Case:
    return test_scalar_alu.Case(row["text"], tuple(row["sources"]), row["result"], lambda: (0, None))


@cache
def vector_rows() -> list[dict[str, Any]]:
    return [row for family in ("alu", "convert", "16bit", "f64") for row in rows_of(f"vector_{family}")]


@cache
def scalar_rows() -> list[dict[str, Any]]:
    return rows_of("scalar_alu")


def spread(values: list[int]) -> np.ndarray:
    """One row of 64 lanes; the vectors are fewer and repeat."""
    return np.resize(np.array(values, np.uint64), 64)


def check_vector(row: dict[str, Any], launch: Any) -> None:
    case = vector_case(row)
    inputs = np.zeros((1, case.input_rows, 64), np.uint32)
    operands = [(case.row_of(index), kind, row["inputs"][index]) for index, kind in enumerate(case.sources)]
    if case.result:
        operands.append((0, case.result, row["old"]))
    for place, kind, values in operands:
        for word in range(words(kind)):
            inputs[0, place + word] = (spread(values) >> np.uint64(32 * word)).astype(np.uint32)
    vcc = np.packbits(spread(row["vcc"]).astype(bool), bitorder="little").view(np.uint32)
    inputs[0, -1, :4] = 0xFFFFFFFF, 0xFFFFFFFF, vcc[0], vcc[1]
    outputs = np.zeros((1, case.output_rows, 64), np.uint32)
    launch(1, [inputs, outputs])
    patterns = [spread(values) for values in row["inputs"]] or [spread([0])]
    everywhere = np.ones(64, bool)
    if case.result:
        raw = np.zeros(64, np.uint64)
        for word in range(case.destination_words):
            raw |= outputs[0, word].astype(np.uint64) << np.uint64(32 * word)
        ours, theirs = typed(case.result, raw), typed(case.result, spread(row["results"]))
        case.compare(ours, theirs, everywhere, patterns, "result")
    if case.mask:
        mask = np.unpackbits(outputs[0, -1, :2].copy().view(np.uint8), bitorder="little")
        case.compare(mask, spread(row["masks"]).astype(np.uint8), everywhere, patterns, "mask")


def check_scalar(row: dict[str, Any], launch: Any) -> None:
    def fixed(case: test_scalar_alu.Case) -> Iterator[tuple[int, bool]]:
        for index in range(len(row["inputs"])):
            yield (row["results"][index] if case.result else 0), bool(row["scc"][index])

    case = scalar_case(row)
    outcomes = fixed(case)
    known = dataclasses.replace(case, reference=lambda *_: next(outcomes))
    known.run_on([tuple(values) for values in row["inputs"]], launch)


@pytest.fixture(scope="module")
def program() -> Program:
    kernels: list[KernelText] = [vector_case(row).kernel(f"vector{index}") for index, row in enumerate(vector_rows())]
    kernels += [scalar_case(row).kernel(f"scalar{index}") for index, row in enumerate(scalar_rows())]
    return Program(kernels)


@pytest.mark.parametrize("index", range(len(vector_rows())), ids=[str(vector_case(row)) for row in vector_rows()])
def test_vector(program: Program, index: int) -> None:
    check_vector(vector_rows()[index], lambda groups, buffers: program.launch(f"vector{index}", groups, buffers))


@pytest.mark.parametrize("index", range(len(scalar_rows())), ids=[str(scalar_case(row)) for row in scalar_rows()])
def test_scalar(program: Program, index: int) -> None:
    check_scalar(scalar_rows()[index], lambda groups, buffers: program.launch(f"scalar{index}", groups, buffers))
