"""From the nodes of a graph to the kernel's terms: layouts, strides, symbolic sizes, and the views that a call passes.

Sizes may be symbolic. The problem then holds their hints, which choose the configuration, and what the kernel relies
on beyond the hints becomes a guard of the graph: divisibility, alignment, and spans that 32 bits hold. So one kernel
serves every size that the guards admit, and any other size compiles a graph of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch._inductor import ir
from torch._inductor.kernel.flydsl import epilogue_expr, gemm_config
from torch._inductor.virtualized import V
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils._sympy.functions import Mod

DTYPES: dict[torch.dtype, gemm_config.DType] = {torch.bfloat16: "bf16", torch.float16: "fp16"}
STORED_DTYPES: dict[torch.dtype, gemm_config.OutDType] = {**DTYPES, torch.float32: "fp32"}

# Global loads and LDS DMA move 16 bytes per lane.
ALIGNMENT_BYTES = 16

_TALLEST_TILE = 256  # rows of a tile of any configuration
_DEEP_K = 4096  # from here on every configuration has the K tiles that its pipeline loads ahead


@dataclasses.dataclass(frozen=True)
class View:
    """A tensor of the kernel's call: the graph's buffer ``node``, or a view of it, with these sizes and strides."""

    node: Any
    size: tuple[Any, ...]
    stride: tuple[Any, ...]
    offset: Any

    @property
    def dtype(self) -> torch.dtype:
        return self.node.get_layout().dtype


@dataclasses.dataclass(frozen=True)
class GemmCall:
    """A product in the kernel's terms, with the tensors that it is called with: A, B as [N, K], the epilogue's inputs.

    ``least_k`` and ``least_m`` are the smallest sizes that the graph's guards admit; a static size is its own. A
    symbolic K may be hinted at its least size, so ``static_k`` says which it is.
    """

    problem: gemm_config.GemmProblem
    views: tuple[View, ...]
    least_m: int
    least_k: int
    static_k: bool

    operands = 2  # of the views; the others are the epilogue's inputs

    @property
    def formats(self) -> str:
        return self.problem.dtype

    def with_epilogue(
        self,
        views: Sequence[View],
        out_dtype: gemm_config.OutDType,
        ldc: int,
        stride_c: int,
        epilogue: epilogue_expr.Epilogue,
        strides: tuple[epilogue_expr.InputStrides, ...],
    ) -> GemmCall:
        """The same product with another epilogue, of inputs ``views``."""
        problem = dataclasses.replace(
            self.problem,
            out_dtype=None if out_dtype == self.problem.dtype else out_dtype,
            ldc=ldc,
            stride_c=stride_c,
            epilogue=epilogue,
            epilogue_strides=strides,
        )
        return dataclasses.replace(self, problem=problem, views=(*self.views[: self.operands], *views))

    def record(self, config: gemm_config.GemmConfig, arch: str, milliseconds: float) -> None:
        """Eager products are ATen's: nobody asks for timings."""

    @property
    def smallest(self) -> gemm_config.GemmProblem:
        return dataclasses.replace(self.problem, m=self.least_m, k=self.least_k)

    def config_unsupported_reason(self, config: gemm_config.GemmConfig) -> str | None:
        """Why a configuration does not compute the product at every size that the guards admit; None if it does."""
        return gemm_config.config_unsupported_reason(self.problem, config) or (
            gemm_config.config_unsupported_reason(self.smallest, config)
        )

    def configs(self, exhaustive: bool = False) -> list[gemm_config.GemmConfig]:
        """The configurations to search, most promising first."""
        found = gemm_config.configs(self.problem, exhaustive=exhaustive)
        return [config for config in found if self.config_unsupported_reason(config) is None]

    def config_by_rule(self) -> gemm_config.GemmConfig | None:
        """The configuration for when nothing is measured."""
        by_rule = gemm_config.default_config(self.problem)
        if by_rule is not None and self.config_unsupported_reason(by_rule) is None:
            return by_rule
        return next(iter(self.configs()), None)

    def spec(self, config: gemm_config.GemmConfig, arch: str) -> gemm_config.GemmSpec:
        """What to compile. Raises ValueError if the configuration or the architecture cannot do it."""
        spec = gemm_config.spec_for(self.problem, config, arch)
        if self.static_k:
            return spec
        # The last K tile may be any part of one.
        any_k = dataclasses.replace(self.problem, k=gemm_config.CHUNK_ITEMS)
        return dataclasses.replace(spec, k_tail=gemm_config.k_tail(any_k, config))


def unwrapped(node: Any) -> Any:
    """The buffer, or the view of one, behind a node."""
    while isinstance(node, ir.MutableBox):
        node = node.data
    return ir.ExternKernel.convert_to_reinterpret_view(node) if isinstance(node, ir.BaseView) else node


def input_layout(node: Any) -> ir.Layout:
    """A realized input's layout, with the strides that a flexible one will be frozen to."""
    while isinstance(node, ir.MutableBox):
        node = node.data
    layout = node.get_layout()
    if isinstance(layout, ir.FlexibleLayout) and not isinstance(node, ir.ReinterpretView):
        return layout.get_fixed_layout_without_freezing()
    return layout


def hint(value: Any) -> int:
    """A size or stride as a number: itself, or where it is symbolic what it is expected to be."""
    if isinstance(value, (int, sympy.Integer)):
        return int(value)
    return int(V.graph.sizevars.optimization_hint(value))


def least(value: Any, multiple: int = 1) -> int:
    """The smallest size, of those divisible by ``multiple``, that the graph's guards admit."""
    if isinstance(value, (int, sympy.Integer)):
        return int(value)
    lower = V.graph.sizevars.shape_env.bound_sympy(value).lower
    least = max(1, int(lower)) if lower.is_finite else 1
    return -(-least // multiple) * multiple


def is_one(value: Any) -> bool:
    return value == 1 or V.graph.sizevars.statically_known_equals(value, 1)


def holds(condition: Any) -> bool:
    """Whether a condition over sizes is true; a guard of the graph from now on if that depends on them."""
    return bool(V.graph.sizevars.guard_or_false(condition))


@dataclasses.dataclass(frozen=True)
class Matrix:
    """``rows`` runs of ``cols`` adjacent elements, ``stride`` apart, in ``batches`` that are ``batch_stride`` apart."""

    batches: Any
    rows: Any
    cols: Any
    stride: Any
    batch_stride: Any


def _matrix(layout: ir.Layout, dim: int) -> Matrix:
    """The layout as a matrix whose dimension ``dim`` (-1 or -2) is contiguous."""
    other = -3 - dim
    batched = len(layout.size) == 3
    batches = layout.size[0] if batched else sympy.Integer(1)
    return Matrix(
        batches=batches,
        rows=layout.size[other],
        cols=layout.size[dim],
        # Of a single run or batch the stride means nothing and may be anything.
        stride=layout.size[dim] if is_one(layout.size[other]) else layout.stride[other],
        batch_stride=sympy.Integer(0) if not batched or is_one(batches) else layout.stride[0],
    )


def _contiguous_dim(layout: ir.Layout) -> int | None:
    """The dimension whose elements are adjacent; of two such, as with a single row, the last."""
    for dim in (-1, -2):
        if V.graph.sizevars.statically_known_equals(layout.stride[dim], 1):
            return dim
    # One element a run: the run's own stride means nothing.
    return next((dim for dim in (-1, -2) if is_one(layout.size[dim])), None)


def start_reason(name: str, node: Any, layout: ir.Layout) -> str | None:
    offset = layout.offset * layout.dtype.itemsize
    aligned = V.graph.sizevars.statically_known_multiple_of(sympy.sympify(offset), ALIGNMENT_BYTES)
    if not aligned and not holds(sympy.Eq(Mod(offset, ALIGNMENT_BYTES), 0)):
        return f"{name} does not start at a multiple of {ALIGNMENT_BYTES} bytes"
    if node.get_name() in V.graph.unaligned_buffers:
        return f"{name} does not start at a multiple of {ALIGNMENT_BYTES} bytes"
    return None


def _addend(node: Any, layout: ir.Layout, name: str) -> tuple[epilogue_expr.EpilogueInput, Any, Any] | str:
    """The input that an addend already expanded to the output's sizes is, its row stride and its batch stride."""
    if layout.dtype not in STORED_DTYPES:
        return f"{name} has dtype {layout.dtype}, not one of {', '.join(map(str, STORED_DTYPES))}"
    rows = layout.size[-2]
    row, column = layout.stride[-2:]
    batch = layout.stride[0] if len(layout.size) == 3 and not is_one(layout.size[0]) else sympy.Integer(0)
    row = sympy.Integer(0) if is_one(rows) else row
    described = broadcast(layout.dtype, batch, row, column)
    if described is None:
        return f"{name} has strides {tuple(layout.stride)}: neither a row, a column, a scalar nor a row-major matrix"
    return described, row, batch


def broadcast(dtype: torch.dtype, batch: Any, row: Any, column: Any) -> epilogue_expr.EpilogueInput | None:
    """Which kind of epilogue input has these strides over the product's batches, rows and columns; None if none has."""
    known = V.graph.sizevars.statically_known_equals
    if known(column, 1):
        kind: epilogue_expr.InputKind = "row" if known(row, 0) else "full"
    elif known(column, 0):
        kind = "scalar" if known(row, 0) else "column"
    else:
        return None
    return epilogue_expr.EpilogueInput(dtype=STORED_DTYPES[dtype], kind=kind)


def input_view(
    node: Any, kind: epilogue_expr.InputKind, size: Sequence[Any], batch: Any, row: Any, offset: Any
) -> View:
    """The tensor that the kernel is called with for an epilogue input of a product of ``size``."""
    *batches, rows, cols = size
    dims: list[tuple[Any, Any]] = [(batches[0], batch)] if batches else []
    dims += {
        "full": [(rows, row), (cols, sympy.Integer(1))],
        "row": [(sympy.Integer(1), cols), (cols, sympy.Integer(1))],
        "column": [(rows, row), (sympy.Integer(1), sympy.Integer(1))],
        "scalar": [(sympy.Integer(1), sympy.Integer(1)), (sympy.Integer(1), sympy.Integer(1))],
    }[kind]
    return View(node, tuple(s for s, _ in dims), tuple(s for _, s in dims), offset)


def _view(node: Any, layout: ir.Layout, transposed: bool = False) -> View:
    size, stride = list(layout.size), list(layout.stride)
    if transposed:
        size[-2:], stride[-2:] = size[:-3:-1], stride[:-3:-1]
    return View(node, tuple(size), tuple(stride), layout.offset)


def gemm_call(
    layout: ir.Layout, mat1: Any, mat2: Any, addend: Any = None, *, alpha: Any = 1, beta: Any = 1
) -> GemmCall | str:
    """``out = alpha * mat1 @ mat2 + beta * addend``, batched or not, in the kernel's terms; or why it has none."""
    a, b = input_layout(mat1), input_layout(mat2)
    for name, operand in (("mat1", a), ("mat2", b)):
        if operand.dtype not in DTYPES:
            return f"{name} has dtype {operand.dtype}, not one of {', '.join(map(str, DTYPES))}"
        if operand.dtype != a.dtype:
            return f"{name} has dtype {operand.dtype} and mat1 {a.dtype}"
        if len(operand.size) not in (2, 3) or len(operand.size) != len(layout.size):
            return f"{name} has {len(operand.size)} dimensions and the output {len(layout.size)}, not 2 or 3 each"
    if layout.dtype not in (a.dtype, torch.float32):
        return f"the output has dtype {layout.dtype}, not {a.dtype} or torch.float32"
    sizes = (*a.size, *a.stride, *b.size, *b.stride, *layout.size, *layout.stride)
    unbacked = free_unbacked_symbols([value for value in sizes if isinstance(value, sympy.Expr)])
    if unbacked:
        return f"a size or stride depends on data ({', '.join(sorted(map(str, unbacked)))}), so nothing bounds it"
    dims = _contiguous_dim(a), _contiguous_dim(b)
    for name, operand, dim in (("mat1", a, dims[0]), ("mat2", b, dims[1])):
        if dim is None:
            return f"{name} has strides {tuple(operand.stride)}: neither rows nor columns are contiguous"
    if _contiguous_dim(layout) != -1:
        return f"the output must be row-major, but has strides {tuple(layout.stride)}"
    if layout.offset != 0:
        return f"the output has a storage offset of {layout.offset}"

    matrices = (_matrix(a, dims[0]), _matrix(b, dims[1]), _matrix(layout, -1))  # type: ignore[arg-type]
    views = [_view(mat1, a), _view(mat2, b, transposed=True)]
    epilogue, symbolic = epilogue_expr.IDENTITY, [*matrices]
    strides: tuple[epilogue_expr.InputStrides, ...] = ()
    if addend is not None:
        for name, value in (("alpha", alpha), ("beta", beta)):
            if not isinstance(value, (int, float)):
                return f"{name}={value} is not a number that is known when the kernel is compiled"
        if beta != 0:
            described = _addend(addend, input_layout(addend), "the addend")
            if isinstance(described, str):
                return described
            added, row, batch = described
            epilogue = epilogue_expr.addmm(added, float(alpha), float(beta))
            strides = (epilogue_expr.InputStrides(row=hint(row), batch=hint(batch)),)
            views.append(input_view(addend, added.kind, layout.size, batch, row, input_layout(addend).offset))
            if added.kind == "full":
                symbolic.append(_matrix(input_layout(addend), -1))
        elif alpha != 1:
            builder = epilogue_expr.Builder()
            epilogue = builder.build(builder.op("mul", builder.acc(), builder.const(float(alpha))))

    problem = gemm_config.GemmProblem(
        m=hint(layout.size[-2]),
        n=hint(layout.size[-1]),
        k=hint(a.size[-1]),
        dtype=DTYPES[a.dtype],
        lda=hint(matrices[0].stride),
        ldb=hint(matrices[1].stride),
        ldc=hint(matrices[2].stride),
        batch=hint(matrices[2].batches),
        out_dtype=STORED_DTYPES[layout.dtype] if layout.dtype != a.dtype else None,
        a_layout="k" if dims[0] == -1 else "m",
        b_layout="k" if dims[1] == -2 else "n",
        stride_a=hint(matrices[0].batch_stride),
        stride_b=hint(matrices[1].batch_stride),
        stride_c=hint(matrices[2].batch_stride),
        epilogue=epilogue,
        epilogue_strides=strides,
    )
    for size in (layout.size[-1], a.size[-1]):
        # Guarded either way, so that a graph of a size that no lane can load does not serve the others.
        if not isinstance(size, (int, sympy.Integer)):
            holds(sympy.Eq(Mod(size, gemm_config.CHUNK_ITEMS), 0))
    reason = gemm_config.unsupported_reason(problem)
    if reason is not None:
        return reason
    # In this order: these guards are taken only where the hints would do.
    for name, node in (("mat1", mat1), ("mat2", mat2), *((("the addend", addend),) if len(views) > 2 else ())):
        reason = start_reason(name, node, input_layout(node))
        if reason is not None:
            return reason
    items = (2, 2, layout.dtype.itemsize, *(view.dtype.itemsize for view in views[2:]))
    for matrix, item in zip(symbolic, items, strict=False):
        reason = guard_matrix(matrix, item)
        if reason is not None:
            return reason
    if problem.k >= gemm_config.MFMA_K:
        # A guard, if K is symbolic: deep pipelines need K tiles to load ahead.
        holds(sympy.Ge(a.size[-1], min(_DEEP_K, 1 << (problem.k.bit_length() - 1))))
    least_m, least_k = least(layout.size[-2]), least(a.size[-1], gemm_config.CHUNK_ITEMS)
    return GemmCall(problem, tuple(views), least_m, least_k, isinstance(a.size[-1], (int, sympy.Integer)))


def guard_matrix(matrix: Matrix, item: int) -> str | None:
    """Take as guards what the kernel relies on for every size; a reason if the sizes at hand already break it."""
    span = ((matrix.rows - 1) * matrix.stride + matrix.cols) * item
    chunk = ALIGNMENT_BYTES // item
    conditions = [
        sympy.Ge(matrix.stride, matrix.cols),
        sympy.Eq(Mod(matrix.stride, chunk), 0),
        sympy.Lt(span, gemm_config.SPAN_LIMIT),
        sympy.Eq(Mod(matrix.batch_stride, chunk), 0),
        sympy.Le(matrix.batches, gemm_config.GRID_Z_LIMIT),
    ]
    if is_one(matrix.rows):
        conditions = conditions[2:]
    if not isinstance(matrix.stride, (int, sympy.Integer)):
        # What a configuration asks of a tile, for the tallest of all tiles.
        tile = (_TALLEST_TILE * matrix.stride + matrix.cols) * item
        conditions.append(sympy.Lt(tile, gemm_config.TILE_SPAN_LIMIT))
    for condition in conditions:
        if isinstance(condition, sympy.Rel) and not holds(condition):
            return f"{condition} cannot be guarded"
    return None
