"""From accumulators to C: the epilogue's program in registers, rounding, and 16-byte stores masked at the edges.

Trace-time helpers, see pipeline.py. The program is epilogue_expr's; its values are fp32 vectors of the neighbouring
columns that a lane stores together.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

from torch._native.flydsl.flydsl_private import swap_halves, swap_odd_and_even_rows

import flydsl.expr as fx

from .epilogue_expr import ITEM_BYTES, Epilogue, EpilogueInput
from .gemm_config import CHUNK_BYTES, MFMA_MN
from .pipeline import Matrix, bounded_rows

ELEMENTS = {"bf16": fx.BFloat16, "fp16": fx.Float16, "fp32": fx.Float32}
# Outside every descriptor in whatever element size, and far enough below 2^31 bytes that nothing wraps.
_OUTSIDE_BYTES = 2**31 - 64


def _outside(item_bytes: int) -> Any:
    return fx.Int32(_OUTSIDE_BYTES // item_bytes)


@dataclasses.dataclass(frozen=True)
class Input:
    """An epilogue's tensor in the kernel: base of this batch, and the stride from row to row."""

    operand: EpilogueInput
    base: Any
    stride: Any


@dataclasses.dataclass(frozen=True)
class Piece:
    """Neighbouring columns of one row of C that a lane holds. ``row`` counts within the tile, ``col`` within C."""

    row: Any
    col: Any
    values: Any  # fp32 vector of 4 or 8
    numbers: tuple[int, int]  # of the MFMA tiles' row and column: pieces that share one share rows or columns


def pieces(
    accumulators: list[list[Any]], wave_row: Any, wave_col: Any, lane: Any, mfma_rows: int = MFMA_MN
) -> Iterator[Piece]:
    """A wave's accumulators as pieces, for one 16-byte store of 16-bit elements where there are eight columns to it."""
    return (_pieces_of_16 if mfma_rows == MFMA_MN else _pieces_of_32)(accumulators, wave_row, wave_col, lane)


def _pieces_of_16(accumulators: list[list[Any]], wave_row: Any, wave_col: Any, lane: Any) -> Iterator[Piece]:
    """``accumulators[i][j]`` is MFMA tile (i, j): a lane holds row ``lane % 16`` and columns 4g..4g+3, g = lane / 16.

    Two tiles side by side make eight columns a lane: lane groups 1 and 3 hand the first tile's columns to groups 0 and
    2, and get the second tile's.
    """
    row = lane & (MFMA_MN - 1)
    group = lane >> 4
    tiles_n = len(accumulators[0])
    for j in range(0, tiles_n - 1, 2):
        col = wave_col + j * MFMA_MN + (group & 1) * MFMA_MN + (group >> 1) * 8
        for i, tiles in enumerate(accumulators):
            values = _swapped(swap_odd_and_even_rows, tiles[j], tiles[j + 1])
            yield Piece(wave_row + i * MFMA_MN + row, col, values, (i, j))
    if tiles_n % 2:
        j = tiles_n - 1
        for i, tiles in enumerate(accumulators):
            yield Piece(wave_row + i * MFMA_MN + row, wave_col + j * MFMA_MN + group * 4, tiles[j], (i, j))


def _pieces_of_32(accumulators: list[list[Any]], wave_row: Any, wave_col: Any, lane: Any) -> Iterator[Piece]:
    """Tiles of 32 x 32: a lane holds row ``lane % 32`` and columns 8q + 4g..8q + 4g + 3, q = 0..3, g = lane / 32.

    Group 1 hands its columns of an even q to group 0, and gets those of the odd q behind it.
    """
    row, group = lane & 31, lane >> 5
    for j in range(len(accumulators[0])):
        for pair in range(2):
            col = wave_col + j * 32 + pair * 16 + group * 8
            for i, tiles in enumerate(accumulators):
                quads = [
                    tiles[j].shuffle(tiles[j], [first, first + 1, first + 2, first + 3])
                    for first in (8 * pair, 8 * pair + 4)
                ]
                yield Piece(wave_row + i * 32 + row, col, _swapped(swap_halves, *quads), (i, 2 * j + pair))


def _swapped(swap: Callable[[Any, Any], tuple[Any, Any]], first: Any, second: Any) -> Any:
    """Eight columns of which a lane held four each in ``first`` and ``second``, exchanged between lanes by ``swap``."""
    swapped = [swap(first[e], second[e]) for e in range(4)]
    return fx.Vector.from_elements([pair[0] for pair in swapped] + [pair[1] for pair in swapped])


class Output:
    """Where a workgroup's tile of C goes: ``enabled`` False (a wave that only helped) stores nothing."""

    def __init__(self, c: Matrix, dtype: str, first_row: Any, tile_m: int, enabled: Any = None) -> None:
        self._dtype = dtype
        self._cols, self._stride = c.cols, c.stride
        self._buffer = bounded_rows(c.base, first_row, c.rows, tile_m, c.cols, c.stride, ITEM_BYTES[dtype])
        self._enabled = enabled

    def store(self, piece: Piece, values: Any) -> None:
        inside = piece.col < self._cols
        if self._enabled is not None:
            inside = inside & self._enabled
        offset = inside.select(piece.row * self._stride + piece.col, _outside(ITEM_BYTES[self._dtype]))
        store_run(self._buffer, offset, values.to(ELEMENTS[self._dtype]), self._dtype)


def _runs(count: int, dtype: str) -> Iterator[tuple[int, int, Any]]:
    """(first, items, copy atom's operation) of the accesses, at most 16 bytes each, that cover ``count`` elements."""
    longest = CHUNK_BYTES // ITEM_BYTES[dtype]
    for first in range(0, count, longest):
        items = min(longest, count - first)
        bits = items * ITEM_BYTES[dtype] * 8
        yield first, items, getattr(fx.rocdl, f"BufferCopy{bits}b")()


def store_run(buffer: Any, offset: Any, values: Any, dtype: str) -> None:
    """Store a vector at consecutive elements."""
    element = ELEMENTS[dtype]
    for first, items, operation in _runs(values.numel, dtype):
        registers = fx.make_rmem_tensor(items, element)
        part = values if items == values.numel else values.shuffle(values, list(range(first, first + items)))
        registers.store(part)
        view = fx.make_view(buffer + offset + first, fx.make_layout(items, 1))
        fx.copy_atom_call(fx.make_copy_atom(operation, element), registers, view)


def load_run(buffer: Any, offset: Any, count: int, dtype: str) -> Any:
    """``count`` consecutive elements as an fp32 vector."""
    element, parts = ELEMENTS[dtype], []
    for first, items, operation in _runs(count, dtype):
        registers = fx.make_rmem_tensor(items, element)
        view = fx.make_view(buffer + offset + first, fx.make_layout(items, 1))
        fx.copy_atom_call(fx.make_copy_atom(operation, element), view, registers)
        parts.append(registers.load().to(fx.Float32))
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.shuffle(part, list(range(whole.numel + part.numel)))
    return whole


class _Reader:
    """Reads one input for the pieces of a tile; what a row or a column of pieces shares is read once."""

    def __init__(self, source: Input, c: Matrix, first_row: Any, tile_m: int) -> None:
        self._kind, self._dtype = source.operand.kind, source.operand.dtype
        self._stride, self._cols = source.stride, c.cols
        item = ITEM_BYTES[self._dtype]
        one = fx.Int32(1)
        if self._kind in ("full", "column"):
            cols = c.cols if self._kind == "full" else one
            self._buffer = bounded_rows(source.base, first_row, c.rows, tile_m, cols, source.stride, item)
        else:
            items = c.cols if self._kind == "row" else one
            self._buffer = fx.rocdl.make_buffer_ptr(source.base, num_records_bytes=fx.Int64(items) * item)
        self._seen: dict[object, Any] = {}

    def read(self, piece: Piece) -> Any:
        i, j = piece.numbers
        shared_by = {"full": (i, j), "row": ("row", j), "column": ("column", i), "scalar": "scalar"}[self._kind]
        if shared_by not in self._seen:
            self._seen[shared_by] = self._read(piece)
        value, width = self._seen[shared_by], piece.values.numel
        return value if value.numel == width else fx.Vector.filled(width, value[0], fx.Float32)

    def _read(self, piece: Piece) -> Any:
        if self._kind == "scalar":
            return load_run(self._buffer, fx.Int32(0), 1, self._dtype)
        if self._kind == "column":
            return load_run(self._buffer, piece.row * self._stride, 1, self._dtype)
        offset = piece.col if self._kind == "row" else piece.row * self._stride + piece.col
        offset = (piece.col < self._cols).select(offset, _outside(ITEM_BYTES[self._dtype]))
        return load_run(self._buffer, offset, piece.values.numel, self._dtype)


class Program:
    """An epilogue's steps on the pieces of one tile."""

    def __init__(self, epilogue: Epilogue, inputs: list[Input], c: Matrix, first_row: Any, tile_m: int) -> None:
        self._steps = epilogue.steps
        self._readers = [_Reader(source, c, first_row, tile_m) for source in inputs]

    def run(self, piece: Piece) -> Any:
        done: list[Any] = []
        for step in self._steps:
            op, args = str(step[0]), list[Any](step[1:])
            if op == "acc":
                value = piece.values
            elif op == "input":
                value = self._readers[args[0]].read(piece)
            elif op == "const":
                value = _constant(args[0], piece.values.numel)
            elif op == "to":
                value = done[args[0]].to(ELEMENTS[args[1]]).to(fx.Float32)
            else:
                value = _OPS[op](*(done[arg] for arg in args))
            done.append(value)
        return done[-1]


def _constant(value: float, width: int) -> Any:
    return fx.Vector.filled(width, value, fx.Float32)


def _select(condition: Any, first: Any, second: Any) -> Any:
    return fx.Vector(condition.select(first, second), first.shape, fx.Float32)


def _maximum(a: Any, b: Any) -> Any:
    # A comparison with NaN is false: the first select keeps a NaN in a, the second brings one in b.
    return _select(b != b, b, _select(a < b, b, a))


def _minimum(a: Any, b: Any) -> Any:
    return _select(b != b, b, _select(b < a, b, a))


def _relu(x: Any) -> Any:
    return _select(x < 0.0, _constant(0.0, x.numel), x)


def _sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + fx.exp(-x))


def _tanh(x: Any) -> Any:
    # 1 - 2 / (1 + exp(2x)) loses the digits of small values; below 1/4 the series is good to 4e-7 of the value.
    square = x * x
    series = x + x * square * (square * (square * (-17.0 / 315.0) + 2.0 / 15.0) - 1.0 / 3.0)
    return _select(abs(x) < 0.25, series, 1.0 - 2.0 / (1.0 + fx.exp(x + x)))


def _gelu(x: Any) -> Any:
    return x * 0.5 * (1.0 + fx.erf(x * math.sqrt(0.5)))


def _gelu_tanh(x: Any) -> Any:
    return x * 0.5 * (1.0 + _tanh((x + x * x * x * 0.044715) * math.sqrt(2.0 / math.pi)))


_OPS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "maximum": _maximum,
    "minimum": _minimum,
    "neg": lambda x: -x,
    "abs": abs,
    "relu": _relu,
    "exp": fx.exp,
    "sigmoid": _sigmoid,
    "silu": lambda x: x * _sigmoid(x),
    "tanh": _tanh,
    "erf": fx.erf,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "where": _select,
}
