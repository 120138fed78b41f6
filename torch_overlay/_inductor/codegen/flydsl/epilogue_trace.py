"""Pointwise nodes of the graph as the epilogue of a product.

A node's own function is run once, symbolically: what it loads, computes and stores becomes an ``Epilogue`` over the
accumulator. What the kernel cannot compute raises ``NotFusible`` with the reason, and stays a kernel of its own.

Values are fp32 throughout, as in Inductor's Triton kernels: a cast to a 16-bit type in between rounds only with
``config.emulate_precision_casts``, and so does the product itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch._inductor import config, ir
from torch._inductor.kernel.flydsl import epilogue_expr
from torch._inductor.ops_handler import DefaultHandler
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from .iteration import Strides, Walk
from .problem import ALIGNMENT_BYTES, STORED_DTYPES, Matrix, View, broadcast, guard_matrix, hint, input_view
from .scaled_problem import Call

# Inductor's name of an operator and the epilogue's.
_OPERATORS = {
    **{name: name for name in (*epilogue_expr.VALUE_OPS, *epilogue_expr.COMPARE_OPS, "where")},
    "truediv": "div",
}


class NotFusible(Exception):
    """Why a node cannot become part of an epilogue."""


@dataclasses.dataclass(frozen=True)
class Traced:
    """An epilogue and where its result goes."""

    call: Call
    stored: ir.ComputedBuffer
    out: View  # the result as the product's [M, N] or [B, M, N]
    computed: tuple[str, ...]  # buffers that the epilogue computes, the product's first


class _Tracer(DefaultHandler):
    """An ops handler whose values are the numbers of an epilogue's steps."""

    def __init__(self, product: ir.Buffer, call: Call) -> None:
        self.call = call
        self.size = tuple(product.get_size())
        self.device = product.get_device()
        self.builder = epilogue_expr.Builder()
        self.views: list[View] = []
        self.strides: list[epilogue_expr.InputStrides] = []
        self.walk: Walk | None = None
        self.stored: dict[str, tuple[int, Strides]] = {}
        self._loaded: dict[tuple[Any, ...], int] = {}
        # Where the product lies; its layout is settled, so it can be compared with what its readers expect.
        stride = [sympy.Integer(0)] * (3 - len(self.size)) + list(product.get_stride())
        self.stored[product.get_name()] = (self._start(product), Strides(sympy.Integer(0), *stride))

    def _start(self, product: ir.Buffer) -> int:
        """The product itself, with the epilogue that addmm or a bias gave it."""
        base, steps = self.call.problem.epilogue, {}
        operands = iter(
            zip(base.inputs, self.call.views[self.call.operands :], self.call.problem.epilogue_strides, strict=True)
        )
        for number, (op, *args) in enumerate(base.steps):
            if op == "acc":
                steps[number] = self.builder.acc()
            elif op == "input":
                operand, view, strides = next(operands)
                self.views.append(view)
                self.strides.append(strides)
                steps[number] = self.builder.input(operand.dtype, operand.kind)
            elif op == "const":
                steps[number] = self.builder.const(float(args[0]))
            else:
                steps[number] = self.builder.op(str(op), *(steps[int(arg)] for arg in args))
        value = steps[len(base.steps) - 1]
        if config.emulate_precision_casts:
            value = self.builder.to(value, STORED_DTYPES[product.get_dtype()])
        return value

    def _strides(self, name: str, index: Any) -> Strides:
        assert self.walk is not None
        strides = self.walk.strides(index)
        if strides is None:
            raise NotFusible(f"{name}[{index}] is not a batch, row and column of the product")
        return strides

    def load(self, name: str, index: Any) -> int:
        strides = self._strides(name, index)
        if name in self.stored:
            value, stored = self.stored[name]
            if not self._same(strides, stored):
                raise NotFusible(f"{name} is read at [{index}], not where it is computed")
            return value
        return self._input(name, strides)

    def _same(self, left: Strides, right: Strides) -> bool:
        known, (*batch, rows, _) = V.graph.sizevars.statically_known_equals, self.size
        pairs = [(left.offset, right.offset), (left.column, right.column)]
        if not known(rows, 1):
            pairs.append((left.row, right.row))
        if batch and not known(batch[0], 1):
            pairs.append((left.batch, right.batch))
        return all(known(one, other) for one, other in pairs)

    def _input(self, name: str, strides: Strides) -> int:
        key = (name, strides)
        if key in self._loaded:
            return self._loaded[key]
        dtype = V.graph.get_dtype(name)
        if dtype not in STORED_DTYPES:
            raise NotFusible(f"{name} is {dtype}, not one of {', '.join(map(str, STORED_DTYPES))}")
        operand = broadcast(dtype, strides.batch, strides.row, strides.column)
        if operand is None:
            raise NotFusible(f"{name} has strides {strides}: neither a row, a column, a scalar nor a row-major matrix")
        buffer = V.graph.try_get_buffer(name)
        if buffer is None or isinstance(buffer, ir.TorchBindObject):
            raise NotFusible(f"{name} is no tensor of the graph")
        if buffer.get_device() != self.device:
            raise NotFusible(f"{name} is on {buffer.get_device()} and the product on {self.device}")
        offset = sympy.sympify(strides.offset * dtype.itemsize)
        aligned = V.graph.sizevars.statically_known_multiple_of(offset, ALIGNMENT_BYTES)
        if operand.kind in ("full", "row") and (not aligned or name in V.graph.unaligned_buffers):
            raise NotFusible(f"{name} does not start at a multiple of {ALIGNMENT_BYTES} bytes")
        if operand.kind == "full":
            self.guard(name, strides, dtype.itemsize)
        row = sympy.Integer(0) if operand.kind in ("row", "scalar") else strides.row
        self.views.append(input_view(buffer, operand.kind, self.size, strides.batch, row, strides.offset))
        self.strides.append(epilogue_expr.InputStrides(row=hint(row), batch=hint(strides.batch)))
        self._loaded[key] = self.builder.input(operand.dtype, operand.kind)
        return self._loaded[key]

    def guard(self, name: str, strides: Strides, item: int) -> None:
        """Guard on what the kernel relies on for a matrix like the product; static sizes belong to the problem."""
        *batch, rows, cols = self.size
        matrix = Matrix(batch[0] if batch else sympy.Integer(1), rows, cols, strides.row, strides.batch)
        reason = guard_matrix(matrix, item)
        if reason is not None:
            raise NotFusible(f"{name}: {reason}")

    def store(self, name: str, index: Any, value: int, mode: str | None = None) -> None:
        if mode is not None:
            raise NotFusible(f"{name} is stored by {mode}")
        self.stored[name] = (value, self._strides(name, index))

    def constant(self, value: Any, dtype: torch.dtype) -> int:
        return self.builder.const(float(value))

    def to_dtype(
        self, x: int, dtype: torch.dtype, src_dtype: torch.dtype | None = None, use_compute_types: bool = True
    ) -> int:
        if dtype not in STORED_DTYPES:
            raise NotFusible(f"a value is cast to {dtype}")
        if use_compute_types and not config.emulate_precision_casts:
            return x
        return self.builder.to(x, STORED_DTYPES[dtype])

    def identity(self, x: int) -> int:
        return x

    def square(self, x: int) -> int:
        return self.builder.op("mul", x, x)

    def reciprocal(self, x: int) -> int:
        return self.builder.op("div", self.builder.const(1.0), x)

    def _default(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        operator = _OPERATORS.get(name)
        if operator is None or kwargs or not all(type(arg) is int for arg in args):
            raise NotFusible(f"the kernels' epilogues have no {name}")
        return self.builder.op(operator, *args)


def _pointwise(node: Any) -> ir.ComputedBuffer:
    buffer = node.node
    if not isinstance(buffer, ir.ComputedBuffer) or type(buffer.data) is not ir.Pointwise:
        kind = type(getattr(buffer, "data", buffer)).__name__
        raise NotFusible(f"{node.get_name()} is no pointwise operator but {kind}")
    if buffer.get_dtype() not in STORED_DTYPES:
        raise NotFusible(f"{buffer.get_name()} is {buffer.get_dtype()}, which the kernels do not store")
    return buffer


def trace(product: ir.Buffer, call: Call, nodes: Sequence[Any]) -> Traced:
    """The epilogue that computes scheduler nodes ``nodes`` from a product that is computed by ``call``."""
    tracer = _Tracer(product, call)
    buffers = [_pointwise(node) for node in nodes]
    for buffer in buffers:
        variables = buffer.data._index(buffer.data.ranges)
        tracer.walk = Walk.over(variables, buffer.data.ranges, tracer.size)
        if tracer.walk is None:
            ranges = list(buffer.data.ranges)
            raise NotFusible(f"{buffer.get_name()} walks {ranges}, no split of the product's {list(tracer.size)}")
        with V.set_ops_handler(tracer):
            buffer.get_store_function()(variables)

    names = (product.get_name(), *(buffer.get_name() for buffer in buffers))
    operations = OrderedSet(V.graph.scheduler.name_to_buf[name].defining_op_name() for name in names)
    needed = [n for n in names if not V.graph.scheduler.can_buffer_be_removed_through_fusion(n, operations)]
    if len(needed) != 1 or needed[0] == product.get_name():
        raise NotFusible(f"{', '.join(needed)} are used elsewhere: a kernel stores one result")
    [stored] = [buffer for buffer in buffers if buffer.get_name() == needed[0]]
    value, strides = tracer.stored[stored.get_name()]
    return Traced(_fused_call(tracer, stored, value, strides), stored, _out_view(tracer, stored, strides), names)


def _out_view(tracer: _Tracer, stored: ir.ComputedBuffer, strides: Strides) -> View:
    *batch, _, _ = tracer.size
    stride = ((strides.batch,) if batch else ()) + (strides.row, strides.column)
    return View(stored, tracer.size, stride, strides.offset)


def _fused_call(tracer: _Tracer, stored: ir.ComputedBuffer, value: int, strides: Strides) -> Call:
    known, (*batch, rows, cols) = V.graph.sizevars.statically_known_equals, tracer.size
    single_row, single_batch = known(rows, 1), not batch or known(batch[0], 1)
    if not known(strides.column, 1) or not known(strides.offset, 0):
        raise NotFusible(f"{stored.get_name()} is not stored row by row")
    tracer.guard(stored.get_name(), strides, stored.get_dtype().itemsize)
    try:
        epilogue = tracer.builder.build(value)
    except ValueError as error:
        raise NotFusible(str(error)) from error
    return tracer.call.with_epilogue(
        views=tracer.views,
        out_dtype=STORED_DTYPES[stored.get_dtype()],
        ldc=hint(cols if single_row else strides.row),
        stride_c=0 if single_batch else hint(strides.batch),
        epilogue=epilogue,
        strides=tuple(tracer.strides),
    )
