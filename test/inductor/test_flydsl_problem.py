# Owner(s): ["module: inductor"]
"""From a graph's nodes to the kernel's terms: layouts, addends, batches, and what symbolic sizes guard (T0)."""

from __future__ import annotations

import contextlib
from typing import Any

import sympy
import torch
from torch._dynamo.source import ConstantSource
from torch._inductor import ir
from torch._inductor.codegen.flydsl.iteration import Strides, Walk
from torch._inductor.codegen.flydsl.problem import GemmCall, gemm_call
from torch._inductor.graph import GraphLowering
from torch._inductor.kernel.flydsl import epilogue_expr, gemm_config
from torch._inductor.virtualized import V
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.testing._internal.common_utils import (
    TestCase,
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    subtest,
)

BF16 = torch.bfloat16
M, N, K = 48, 64, 96


def node(name: str, size: list[Any], stride: list[Any], dtype: torch.dtype = BF16, offset: int = 0) -> ir.InputBuffer:
    return ir.InputBuffer(name=name, layout=layout(size, stride, dtype, offset))


def layout(size: list[Any], stride: list[Any], dtype: torch.dtype = BF16, offset: int = 0) -> ir.FixedLayout:
    sizes, strides = [sympy.sympify(s) for s in size], [sympy.sympify(s) for s in stride]
    return ir.FixedLayout(torch.device("cuda:0"), dtype, sizes, strides, sympy.Integer(offset))


OUT = ([M, N], [N, 1])


class ProblemTestCase(TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.env = ShapeEnv()
        self.graph = GraphLowering(make_fx(lambda: torch.zeros(2, 3))(), shape_env=self.env)
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        stack.enter_context(V.set_graph_handler(self.graph))

    def call(self, *args: Any, **scalars: float) -> GemmCall:
        found = gemm_call(*args, **scalars)
        assert isinstance(found, GemmCall), found
        return found

    def symbol(self, hint: int, name: str) -> sympy.Symbol:
        return self.env.create_symbol(hint, source=ConstantSource(name), dynamic_dim=DimDynamic.DYNAMIC)


@instantiate_parametrized_tests
class TestLayouts(ProblemTestCase):
    @parametrize(
        "a_stride,b_stride,layouts,leading",
        [
            subtest(((K, 1), (1, K), "kk", (K, K)), name="nt"),
            subtest(((K, 1), (N, 1), "kn", (K, N)), name="nn"),
            subtest(((1, M), (N, 1), "mn", (M, N)), name="tn"),
            subtest(((1, M), (1, K), "mk", (M, K)), name="tt"),
            subtest(((128, 1), (80, 1), "kn", (128, 80)), name="padded_nn"),
            subtest(((1, 56), (1, 104), "mk", (56, 104)), name="padded_tt"),
        ],
    )
    def test_read_from_strides(self, a_stride: Any, b_stride: Any, layouts: str, leading: tuple[int, int]) -> None:
        call = self.call(layout(*OUT), node("a", [M, K], list(a_stride)), node("b", [K, N], list(b_stride)))
        p = call.problem
        self.assertEqual((p.a_layout + p.b_layout, p.lda, p.ldb, p.ldc), (layouts, *leading, N))
        self.assertEqual([view.size for view in call.views], [(M, K), (N, K)])
        self.assertEqual([view.stride for view in call.views], [a_stride, b_stride[::-1]])

    def test_of_a_single_row_the_stride_means_nothing(self) -> None:
        p = self.call(layout([1, N], [7, 1]), node("a", [1, K], [3, 1]), node("b", [K, N], [1, K])).problem
        self.assertEqual((p.a_layout, p.lda, p.ldc), ("k", K, N))

    def test_output_type(self) -> None:
        a, b = node("a", [M, K], [K, 1]), node("b", [K, N], [1, K])
        self.assertIsNone(self.call(layout(*OUT), a, b).problem.out_dtype)
        self.assertEqual(self.call(layout(*OUT, dtype=torch.float32), a, b).problem.out_dtype, "fp32")

    def test_batches(self) -> None:
        a, b = node("a", [3, M, K], [M * K, K, 1]), node("b", [3, K, N], [0, 1, K])
        p = self.call(layout([3, M, N], [M * N, N, 1]), a, b).problem
        self.assertEqual((p.batch, p.stride_a, p.stride_b, p.stride_c), (3, M * K, 0, M * N))

    def test_batches_beyond_32_bits(self) -> None:
        """Case M8: a batch's matrices start at 64-bit addresses, so only a single matrix has to fit 32 bits."""
        batch, size = 4096, 1024
        a, b = (node(name, [batch, size, size], [size * size, size, 1]) for name in "ab")
        p = self.call(layout([batch, size, size], [size * size, size, 1]), a, b).problem
        self.assertGreater(p.batch * p.stride_c, 2**31)
        far = node("a", [2, size, size], [2**33, 2**23, 1])
        reason = gemm_call(
            layout([2, size, size], [size * size, size, 1]), far, node("b", [2, size, size], [size * size, size, 1])
        )
        self.assertRegex(str(reason), r"^A spans .* not below 2\^32")


@instantiate_parametrized_tests
class TestAddends(ProblemTestCase):
    def addmm(self, stride: list[Any], **scalars: Any) -> Any:
        a, b = node("a", [M, K], [K, 1]), node("b", [K, N], [1, K])
        return gemm_call(layout(*OUT), a, b, node("c", [M, N], stride), **scalars)

    @parametrize(
        "stride,kind,row",
        [([0, 1], "row", 0), ([N, 1], "full", N), ([80, 1], "full", 80), ([1, 0], "column", 1), ([0, 0], "scalar", 0)],
    )
    def test_kinds(self, stride: list[int], kind: str, row: int) -> None:
        """An addend is expanded to the output's sizes; its strides tell what it was."""
        call = self.addmm(stride)
        self.assertEqual(call.problem.epilogue.inputs, (epilogue_expr.EpilogueInput(dtype="bf16", kind=kind),))
        self.assertEqual(call.problem.epilogue_strides, (epilogue_expr.InputStrides(row=row),))
        rows, cols = (M if kind in ("full", "column") else 1), (N if kind in ("full", "row") else 1)
        self.assertEqual(call.views[2].size, (rows, cols))

    def test_column_major_addend(self) -> None:
        self.assertEqual(
            self.addmm([1, M]),
            "the addend has strides (1, 48): neither a row, a column, a scalar nor a row-major matrix",
        )

    def test_scalars(self) -> None:
        self.assertEqual(self.addmm([0, 1], alpha=0.5, beta=2).problem.epilogue.name, "mul_mul_add")
        self.assertEqual(self.addmm([0, 1]).problem.epilogue.name, "add")

    def test_beta_0_has_no_addend(self) -> None:
        call = self.addmm([0, 1], alpha=2, beta=0)
        self.assertEqual((call.problem.epilogue.name, len(call.views)), ("mul", 2))
        self.assertTrue(self.addmm([0, 1], alpha=1, beta=0).problem.epilogue.is_identity)

    def test_symbolic_scalar(self) -> None:
        reason = self.addmm([0, 1], alpha=sympy.Symbol("s9"))
        self.assertEqual(reason, "alpha=s9 is not a number that is known when the kernel is compiled")


class TestSymbols(ProblemTestCase):
    def test_rows_guard_only_what_limits_them(self) -> None:
        m = self.symbol(33, "m")
        call = self.call(layout([m, N], [N, 1]), node("a", [m, K], [K, 1]), node("b", [K, N], [1, K]))
        self.assertEqual((call.problem.m, call.least_m, call.least_k), (33, 2, K))

        def admitted(size: int) -> bool:
            return all(guard.expr.subs(m, size) == sympy.true for guard in self.env.guards)

        self.assertTrue(all(admitted(size) for size in (2, 7, 300, 4096, 1_000_000)))
        limit = 2**32 // (2 * K)
        self.assertTrue(admitted(limit))
        self.assertFalse(admitted(limit + 1))

    def test_columns_and_depth_guard_divisibility(self) -> None:
        n, k = self.symbol(64, "n"), self.symbol(96, "k")
        call = self.call(layout([M, n], [n, 1]), node("a", [M, k], [k, 1]), node("b", [k, n], [n, 1]))
        self.assertEqual((call.problem.n, call.problem.k, call.least_k), (64, 96, 64))
        for size, expected in ((72, True), (640, True), (68, False), (65, False)):
            for symbol, other in ((n, k), (k, n)):
                holds = all(guard.expr.subs({symbol: size, other: 64}) == sympy.true for guard in self.env.guards)
                self.assertEqual(holds, expected, f"{symbol}={size}")
        self.assertTrue(call.configs())
        for config in call.configs():
            self.assertIsNone(gemm_config.config_unsupported_reason(call.smallest, config))
            self.assertTrue(call.spec(config, "gfx950").k_tail)

    def test_deep_products_guard_the_depth(self) -> None:
        k = self.symbol(4096, "k")
        call = self.call(layout(*OUT), node("a", [M, k], [k, 1]), node("b", [k, N], [1, k]))
        self.assertEqual(call.least_k, 4096)
        self.assertEqual(call.configs(), gemm_config.configs(call.problem))

    def test_sizes_that_depend_on_data(self) -> None:
        m = self.env.create_unbacked_symint().node.expr
        reason = gemm_call(layout([m, N], [N, 1]), node("a", [m, K], [K, 1]), node("b", [K, N], [1, K]))
        self.assertEqual(reason, f"a size or stride depends on data ({m}), so nothing bounds it")


@instantiate_parametrized_tests
class TestWalk(ProblemTestCase):
    """Index expressions of pointwise nodes over a product of [M, N]."""

    ROW, COL, LAST = sympy.symbols("i0 i1 i2", integer=True, nonnegative=True)

    @parametrize(
        "ranges,index,expected",
        [
            subtest(([M, N], lambda i, j, _: i * N + j, (0, 0, N, 1)), name="row_major"),
            subtest(([M, N], lambda i, j, _: i * 80 + j + 8, (8, 0, 80, 1)), name="padded"),
            subtest(([M, N], lambda i, j, _: j, (0, 0, 0, 1)), name="row"),
            subtest(([M, N], lambda i, j, _: i, (0, 0, 1, 0)), name="column"),
            subtest(([M, N], lambda i, j, _: sympy.Integer(3), (3, 0, 0, 0)), name="scalar"),
            subtest(([M, N], lambda i, j, _: j * M + i, (0, 0, 1, M)), name="column_major"),
            subtest(([6, 8, N], lambda i, j, n: (8 * i + j) * N + n, (0, 0, N, 1)), name="split_rows"),
            subtest(([M, 4, 16], lambda i, h, d: i * N + 16 * h + d, (0, 0, N, 1)), name="split_columns"),
            subtest(([6, 8, N], lambda i, j, n: i * N + n, None), name="broadcast_in_part_of_the_rows"),
            subtest(([M, N], lambda i, j, _: i * i + j, None), name="not_linear"),
            subtest(([M, N], lambda i, j, _: i * j, None), name="bilinear"),
        ],
    )
    def test_strides(self, ranges: list[int], index: Any, expected: Any) -> None:
        variables = [self.ROW, self.COL, self.LAST][: len(ranges)]
        walk = Walk.over(variables, [sympy.Integer(size) for size in ranges], [sympy.Integer(M), sympy.Integer(N)])
        assert walk is not None
        found = walk.strides(index(self.ROW, self.COL, self.LAST))
        self.assertEqual(found, None if expected is None else Strides(*map(sympy.Integer, expected)))

    @parametrize("ranges", [[N, M], [M * N], [M, N, 2], [M // 2, N]])
    def test_ranges_that_are_no_split(self, ranges: list[int]) -> None:
        variables = [self.ROW, self.COL, self.LAST][: len(ranges)]
        self.assertIsNone(Walk.over(variables, [sympy.Integer(size) for size in ranges], [M, N]))


if __name__ == "__main__":
    run_tests()
