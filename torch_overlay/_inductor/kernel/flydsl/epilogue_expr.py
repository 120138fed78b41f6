"""What a GEMM does to its accumulator before it stores: a small program over fp32 values, as plain data.

An ``Epilogue`` is hashable and equal in every process: it goes into kernels' keys and generated modules as it is.
Steps are numbered, and name earlier steps by number, so a value that is used twice is computed once. ``Builder`` makes
one; the last step is what is stored.

Numbers
- The accumulator and all inputs are widened to fp32, every step computes in fp32, and the result is rounded once, to
  nearest even, to C's type. Nothing in between is rounded except by a ``to`` step: an unfused graph, which rounds the
  product to bf16 before the next operator, is reproduced by ``to`` and bettered without it.
- ``add``, ``sub``, ``mul``, ``neg``, ``abs``, comparisons and ``where`` are correctly rounded or exact; ``div``,
  ``exp``, ``sigmoid``, ``silu``, ``tanh``, ``erf`` and the gelus are within a few units of the last place of fp32.
- ``maximum``, ``minimum`` and ``relu`` return NaN if an operand is NaN, as ATen's do.

Importable without flydsl.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

InputDType = Literal["bf16", "fp16", "fp32"]
InputKind = Literal["full", "row", "column", "scalar"]
Step = tuple[str | int | float, ...]

ITEM_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}
KINDS = ("full", "row", "column", "scalar")
MAX_INPUTS = 4  # slots in the kernel's argument list
MAX_STEPS = 64  # more than any graph fuses; a bound on registers

# Operands of each operator. Comparisons give a condition, which only ``where`` takes.
VALUE_OPS = {
    "add": 2,
    "sub": 2,
    "mul": 2,
    "div": 2,
    "maximum": 2,
    "minimum": 2,
    "neg": 1,
    "abs": 1,
    "relu": 1,
    "exp": 1,
    "sigmoid": 1,
    "silu": 1,
    "tanh": 1,
    "erf": 1,
    "gelu": 1,  # exact: x * (1 + erf(x / sqrt 2)) / 2
    "gelu_tanh": 1,
}
COMPARE_OPS = {"lt": 2, "le": 2, "gt": 2, "ge": 2, "eq": 2, "ne": 2}


@dataclasses.dataclass(frozen=True, kw_only=True)
class EpilogueInput:
    """One tensor that an epilogue reads.

    ``kind`` says what it is broadcast from: ``full`` [M, N] with a row stride and unit columns, ``row`` [N],
    ``column`` [M] with an element stride, ``scalar`` one element. Each may have a batch stride, 0 to share it.
    """

    dtype: InputDType
    kind: InputKind


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputStrides:
    """Run-time strides of an input in elements: from row to row (``full``, ``column``) and from batch to batch."""

    row: int = 0
    batch: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Epilogue:
    """``steps`` are ``("acc",)``, ``("input", i)``, ``("const", value)``, ``("to", step, dtype)``, ``(op, step...)`` of
    VALUE_OPS and COMPARE_OPS, and ``("where", condition, step, step)``. The default stores the accumulator."""

    inputs: tuple[EpilogueInput, ...] = ()
    steps: tuple[Step, ...] = (("acc",),)

    @property
    def is_identity(self) -> bool:
        return self.steps == (("acc",),)

    @property
    def key(self) -> tuple[object, ...]:
        return (tuple((i.dtype, i.kind) for i in self.inputs), self.steps)

    @property
    def name(self) -> str:
        """For kernel names: the operators in order, without what only the key must tell apart."""
        shown = [str(step[0]) for step in self.steps if step[0] not in ("acc", "input", "const", "to")]
        return "_".join(shown[:6])


IDENTITY = Epilogue()


def invalid_reason(epilogue: Epilogue) -> str | None:
    """Why an epilogue cannot be built, whatever the problem; None if it can."""
    if len(epilogue.inputs) > MAX_INPUTS:
        return f"{len(epilogue.inputs)} epilogue inputs, over {MAX_INPUTS} that the kernel has arguments for"
    for i, operand in enumerate(epilogue.inputs):
        if operand.dtype not in ITEM_BYTES or operand.kind not in KINDS:
            return f"epilogue input {i} is {operand.kind} of {operand.dtype}, not of {KINDS} and {tuple(ITEM_BYTES)}"
    if not 1 <= len(epilogue.steps) <= MAX_STEPS:
        return f"an epilogue of {len(epilogue.steps)} steps, not 1 to {MAX_STEPS}"
    conditions: set[int] = set()
    for i, step in enumerate(epilogue.steps):
        reason = _step_invalid_reason(epilogue, i, step, conditions)
        if reason is not None:
            return f"epilogue step {i} {step}: {reason}"
    if len(epilogue.steps) - 1 in conditions:
        return "the epilogue's last step is a condition, not a value"
    return None


def _step_invalid_reason(epilogue: Epilogue, i: int, step: Step, conditions: set[int]) -> str | None:
    op, *args = step
    if op == "acc":
        return None if not args else "takes nothing"
    if op == "input":
        known = len(args) == 1 and isinstance(args[0], int) and 0 <= args[0] < len(epilogue.inputs)
        return None if known else f"there are {len(epilogue.inputs)} inputs"
    if op == "const":
        known = len(args) == 1 and isinstance(args[0], float) and math.isfinite(args[0])
        return None if known else "takes one finite float"
    if op == "to":
        if len(args) != 2 or args[1] not in ITEM_BYTES:
            return f"rounds a step to one of {tuple(ITEM_BYTES)}"
        operands, wanted = args[:1], [False]
    elif op == "where":
        operands, wanted = args, [True, False, False]
    elif op in VALUE_OPS or op in COMPARE_OPS:
        operands, wanted = args, [False] * (VALUE_OPS.get(str(op)) or COMPARE_OPS[str(op)])
    else:
        return "no such operator"
    if len(operands) != len(wanted):
        return f"takes {len(wanted)} operands"
    for operand, condition in zip(operands, wanted, strict=True):
        if not isinstance(operand, int) or isinstance(operand, bool) or not 0 <= operand < i:
            return f"operand {operand!r} is no earlier step"
        if (operand in conditions) != condition:
            return f"operand {operand} is {'a value' if condition else 'a condition'}"
    if op in COMPARE_OPS:
        conditions.add(i)
    return None


class Builder:
    """Makes an Epilogue step by step. Methods return step numbers; equal steps are one step."""

    def __init__(self) -> None:
        self._inputs: list[EpilogueInput] = []
        self._steps: list[Step] = []
        self._numbers: dict[tuple[object, ...], int] = {}

    def _step(self, step: Step) -> int:
        # The types too: 1 and 1.0, 0.0 and -0.0 are equal as keys.
        key = tuple((type(item).__name__, repr(item)) for item in step)
        if key not in self._numbers:
            self._numbers[key] = len(self._steps)
            self._steps.append(step)
        return self._numbers[key]

    def acc(self) -> int:
        """The fp32 accumulator."""
        return self._step(("acc",))

    def input(self, dtype: InputDType, kind: InputKind) -> int:
        """A new input, the next in the order in which the kernel takes them. Load each tensor once."""
        self._inputs.append(EpilogueInput(dtype=dtype, kind=kind))
        return self._step(("input", len(self._inputs) - 1))

    def const(self, value: float) -> int:
        return self._step(("const", float(value)))

    def op(self, name: str, *operands: int) -> int:
        return self._step((name, *operands))

    def to(self, value: int, dtype: InputDType) -> int:
        """``value`` rounded to ``dtype`` and widened again."""
        return value if dtype == "fp32" else self._step(("to", value, dtype))

    def build(self, result: int) -> Epilogue:
        """The epilogue that stores ``result``. Raises ValueError if it is not valid."""
        steps = list(self._steps[: result + 1])  # what comes behind the result is not needed
        epilogue = Epilogue(inputs=tuple(self._inputs), steps=tuple(steps))
        reason = invalid_reason(epilogue)
        if reason is not None:
            raise ValueError(reason)
        return epilogue


def addmm(bias: EpilogueInput, alpha: float = 1.0, beta: float = 1.0) -> Epilogue:
    """``alpha * product + beta * bias``, rounded once. With beta 0 the bias is not read, as in ATen: NaN stays out."""
    builder = Builder()
    value = builder.acc()
    if alpha != 1.0:
        value = builder.op("mul", value, builder.const(alpha))
    if beta != 0.0:
        added = builder.input(bias.dtype, bias.kind)
        if beta != 1.0:
            added = builder.op("mul", added, builder.const(beta))
        value = builder.op("add", value, added)
    return builder.build(value)


def input_unsupported_reason(
    name: str, operand: EpilogueInput, strides: InputStrides, m: int, n: int, batch: int
) -> str | None:
    """Why an input of these strides cannot be read. Spans are checked in Python integers: nothing overflows."""
    item = ITEM_BYTES[operand.dtype]
    per_load = 16 // item
    if strides.row < 0 or strides.batch < 0:
        return f"{name} has negative strides {strides}"
    if operand.kind == "full" and m > 1:
        if strides.row % per_load:
            return f"{name}: row stride {strides.row} is not a multiple of {per_load} elements (16 bytes)"
        if strides.row >= 2**31:
            return f"{name}: row stride {strides.row} is not below 2^31: the kernel counts in 32 bits"
    if operand.kind in ("full", "row") and batch > 1 and strides.batch % per_load:
        return f"{name}: batch stride {strides.batch} is not a multiple of {per_load} elements (16 bytes)"
    rows, cols = (m if operand.kind in ("full", "column") else 1), (n if operand.kind in ("full", "row") else 1)
    span = ((rows - 1) * strides.row + cols) * item
    if span >= 2**32:
        return f"{name} spans ({rows}-1)*{strides.row}+{cols} elements = {span} bytes, not below 2^32"
    if batch > 1 and (batch - 1) * strides.batch * item >= 2**63:
        return f"{name}: {batch} batches of stride {strides.batch} do not fit 64-bit addresses"
    return None
