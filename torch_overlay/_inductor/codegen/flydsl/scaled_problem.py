"""From the nodes of a graph to a scaled product in the kernel's terms. See problem for how symbolic sizes are held."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeAlias

import sympy
import torch
from torch._inductor import ir
from torch._inductor.kernel.flydsl import epilogue_expr, scaled_gemm_config, tuned
from torch._inductor.kernel.flydsl.scaled_gemm_arguments import FORMATS
from torch._inductor.kernel.flydsl.scaled_gemm_config import Recipe, ScaledGemmConfig, ScaledGemmProblem, ScaledGemmSpec
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from .problem import STORED_DTYPES, GemmCall, View, hint, holds, input_layout, input_view, is_one, least, start_reason


@dataclasses.dataclass(frozen=True)
class ScaledCall:
    """A scaled product and the tensors that it is called with: A, B as [N, K], their scales, the epilogue's inputs.

    N and K are static. M may be symbolic: ``problem`` then holds its hint, ``least_m`` the least that the guards admit.
    """

    problem: ScaledGemmProblem
    views: tuple[View, ...]
    least_m: int
    static: bool

    operands = 4  # of the views; the others are the epilogue's inputs

    @property
    def formats(self) -> str:
        return f"{self.problem.a_format}x{self.problem.b_format} {self.problem.recipe}"

    def config_unsupported_reason(self, config: ScaledGemmConfig) -> str | None:
        """Why a configuration does not compute the product at every M that the guards admit; None if it does."""
        smallest = dataclasses.replace(self.problem, m=self.least_m)
        return scaled_gemm_config.config_unsupported_reason(self.problem, config) or (
            scaled_gemm_config.config_unsupported_reason(smallest, config)
        )

    def configs(self, exhaustive: bool = False) -> list[ScaledGemmConfig]:
        """The configurations to search, most promising first."""
        found = scaled_gemm_config.configs(self.problem, exhaustive=exhaustive)
        return [config for config in found if self.config_unsupported_reason(config) is None]

    def config_by_rule(self) -> ScaledGemmConfig | None:
        """The configuration for when nothing is measured."""
        return next(iter(self.configs()), None)

    def spec(self, config: ScaledGemmConfig, arch: str) -> ScaledGemmSpec:
        """What to compile. Raises ValueError if the configuration or the architecture cannot do it."""
        return scaled_gemm_config.spec_for(self.problem, config, arch)

    def with_epilogue(
        self,
        views: Sequence[View],
        out_dtype: Any,
        ldc: int,
        stride_c: int,
        epilogue: epilogue_expr.Epilogue,
        strides: tuple[epilogue_expr.InputStrides, ...],
    ) -> ScaledCall:
        """The same product with another epilogue, of inputs ``views``."""
        problem = dataclasses.replace(
            self.problem, out_dtype=out_dtype, ldc=ldc, epilogue=epilogue, epilogue_strides=strides
        )
        return dataclasses.replace(self, problem=problem, views=(*self.views[: self.operands], *views))

    def record(self, config: ScaledGemmConfig, arch: str, milliseconds: float) -> None:
        """Eager calls of this size take the fastest configuration that was timed."""
        if self.static:
            tuned.record(self.problem, arch, config, milliseconds)


Call: TypeAlias = GemmCall | ScaledCall


def _static(value: Any) -> bool:
    return isinstance(value, (int, sympy.Integer))


def _recipe(dtypes: tuple[torch.dtype, torch.dtype], scales: tuple[ir.Layout, ir.Layout], m: Any, n: Any) -> Any:
    """The recipe that the scales are of by dtype and size, or the reason why they are of none."""
    kinds = {scale.dtype for scale in scales}
    if kinds == {torch.float8_e8m0fnu}:
        return "block32"
    if kinds != {torch.float32}:
        return f"scales are {', '.join(sorted(map(str, kinds)))}: not both float8_e8m0fnu or float32"
    counts = [sympy.prod(map(sympy.sympify, scale.size)) for scale in scales]
    if all(is_one(count) for count in counts):
        return "tensor"
    sizes = [list(scale.size) for scale in scales]
    if sizes == [[m, 1], [1, n]]:
        return "row"
    return f"float32 scales of sizes {sizes} are neither of tensors nor of rows"


def _scale_view(name: str, node: Any, layout: ir.Layout, recipe: Recipe, rows: Any, k: Any) -> View | str:
    if recipe == "tensor":
        return View(node, (), (), layout.offset)
    if recipe == "row":
        along = 0 if name == "scale_a" else 1
        stride = sympy.Integer(1) if is_one(rows) else layout.stride[along]
        if name == "scale_b" and stride != 1:
            return f"{name} has strides {tuple(layout.stride)}: its numbers are not contiguous"
        size = (rows, sympy.Integer(1)) if along == 0 else (sympy.Integer(1), rows)
        return View(node, size, (stride, sympy.Integer(1)) if along == 0 else (rows, stride), layout.offset)
    columns = k // scaled_gemm_config.BLOCK
    if list(layout.size) != [rows, columns] or (columns > 1 and layout.stride[1] != 1):
        return (
            f"{name} of size {list(layout.size)} and strides {list(layout.stride)} is not [{rows}, {columns}] by rows"
        )
    if layout.offset % 4:
        return f"{name} does not start at a multiple of 4 bytes"
    return View(node, tuple(layout.size), tuple(layout.stride), layout.offset)


def scaled_call(layout: ir.Layout, mat_a: Any, mat_b: Any, scale_a: Any, scale_b: Any, bias: Any = None) -> Any:
    """``out = (mat_a * scale_a) @ (mat_b * scale_b) + bias`` as a ``ScaledCall``, or why it is none."""
    a, b = input_layout(mat_a), input_layout(mat_b)
    scales = input_layout(scale_a), input_layout(scale_b)
    for name, operand in (("mat_a", a), ("mat_b", b)):
        if operand.dtype not in FORMATS:
            return f"{name} has dtype {operand.dtype}, not one of {', '.join(map(str, FORMATS))}"
    if layout.dtype not in STORED_DTYPES:
        return f"the output has dtype {layout.dtype}, not one of {', '.join(map(str, STORED_DTYPES))}"
    m, n = layout.size
    packing = [2 if operand.dtype == torch.float4_e2m1fn_x2 else 1 for operand in (a, b)]
    k = a.size[1] * packing[0]
    if not all(map(_static, (n, k, *a.stride[1:], *b.size, *b.stride))):
        return f"N={n} or K={k} is symbolic"
    if not _static(a.stride[0]) or a.stride[1] != 1 or b.stride[0] != 1:
        return f"strides {list(a.stride)} and {list(b.stride)} are not those of row-major mat_a and column-major mat_b"
    if list(layout.stride) != [n, 1] or layout.offset != 0:
        return f"the output has strides {list(layout.stride)} and offset {layout.offset}, not contiguous rows"
    if isinstance(m, sympy.Expr) and free_unbacked_symbols(m):
        return f"M={m} depends on data, so nothing bounds it"
    recipe = _recipe((a.dtype, b.dtype), scales, m, n)
    if recipe not in scaled_gemm_config.RECIPES:
        return recipe
    views = [
        View(mat_a, tuple(a.size), tuple(a.stride), a.offset),
        View(mat_b, (b.size[1], b.size[0]), (b.stride[1], b.stride[0]), b.offset),
    ]
    for name, node, scale, rows in (("scale_a", scale_a, scales[0], m), ("scale_b", scale_b, scales[1], n)):
        view = _scale_view(name, node, scale, recipe, rows, k)
        if isinstance(view, str):
            return view
        views.append(view)
    epilogue = epilogue_expr.IDENTITY
    strides: tuple[epilogue_expr.InputStrides, ...] = ()
    if bias is not None:
        added = input_layout(bias)
        if added.dtype not in STORED_DTYPES or list(added.size) != [n] or (n > 1 and added.stride[0] != 1):
            return f"bias is {added.dtype} {list(added.size)} of strides {list(added.stride)}, not {n} numbers in a row"
        reason = start_reason("bias", bias, added)
        if reason is not None:
            return reason
        row = epilogue_expr.EpilogueInput(dtype=STORED_DTYPES[added.dtype], kind="row")
        epilogue, strides = epilogue_expr.addmm(row), (epilogue_expr.InputStrides(),)
        views.append(input_view(bias, "row", layout.size, 0, sympy.Integer(0), added.offset))
    return _checked(layout, mat_a, mat_b, recipe, views, epilogue, strides)


def _checked(
    layout: ir.Layout,
    mat_a: Any,
    mat_b: Any,
    recipe: Recipe,
    views: list[View],
    epilogue: epilogue_expr.Epilogue,
    strides: tuple[epilogue_expr.InputStrides, ...],
) -> ScaledCall | str:
    a, b, scale_a, scale_b = views[:4]
    m, n = layout.size
    k = int(a.size[1]) * (2 if a.dtype == torch.float4_e2m1fn_x2 else 1)
    block = recipe == "block32"
    row_of_a, row_of_b = 0, 0
    if recipe != "tensor":
        row_of_a, row_of_b = scale_a.stride[0], scale_b.stride[0 if block else 1]
    problem = ScaledGemmProblem(
        m=hint(m),
        n=int(n),
        k=k,
        a_format=FORMATS[a.dtype],
        b_format=FORMATS[b.dtype],
        out_dtype=STORED_DTYPES[layout.dtype],
        recipe=recipe,
        lda=hint(a.size[1] if is_one(m) else a.stride[0]),
        ldb=hint(b.size[1] if is_one(n) else b.stride[0]),
        ldc=int(n),
        scale_a_stride=hint(scale_a.size[1] if block and is_one(m) else row_of_a),
        scale_b_stride=hint(scale_b.size[1] if block and is_one(n) else row_of_b),
        epilogue=epilogue,
        epilogue_strides=strides,
    )
    reason = scaled_gemm_config.unsupported_reason(problem)
    if reason is not None:
        return reason
    for name, node in (("mat_a", mat_a), ("mat_b", mat_b)):
        reason = start_reason(name, node, input_layout(node))
        if reason is not None:
            return reason
    static = _static(m)
    if not static:
        for stride, item in ((problem.lda, 1), (problem.ldc, layout.dtype.itemsize), (problem.scale_a_stride, 4)):
            if not holds(sympy.Lt((m + 256) * stride * item, 2**31)):
                return f"M={m} rows of {stride * item} bytes cannot be guarded to lie within 2^31"
    return ScaledCall(problem, tuple(views), least(m), static)
