"""How a pointwise node walks the product that it reads: its index expressions in terms of batch, row and column.

Inductor gives a node's loads and stores as expressions of its own loop variables, whose ranges may split the product's
rows and columns (``[8, 64, 1024]`` over a product of ``[512, 1024]``). A fused epilogue sees one element of the product
at a time, so each expression must be an offset and one stride for the batch, the rows and the columns.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import sympy
from torch._inductor.virtualized import V


@dataclasses.dataclass(frozen=True)
class Strides:
    """An index expression: ``offset + batch * b + row * m + column * n``. A stride of a single item is 0."""

    offset: Any
    batch: Any
    row: Any
    column: Any


def _equal(left: Any, right: Any) -> bool:
    return left == right or V.graph.sizevars.statically_known_equals(left, right)


class Walk:
    """The loop variables of a node, assigned to the batch, the rows and the columns of the product."""

    def __init__(self, variables: Sequence[Any], ranges: Sequence[Any], groups: tuple[list[int], ...]) -> None:
        self.variables = list(variables)
        self.ranges = list(ranges)
        self._groups = groups

    @staticmethod
    def over(variables: Sequence[Any], ranges: Sequence[Any], product_size: Sequence[Any]) -> Walk | None:
        """None if the ranges are no split of the product's sizes, ``[M, N]`` or ``[B, M, N]``, in its order."""
        sizes = [sympy.Integer(1)] * (3 - len(product_size)) + list(product_size)
        groups: list[list[int]] = [[], [], []]
        dim = len(ranges) - 1
        for group in (2, 1, 0):
            covered = sympy.Integer(1)
            while not _equal(covered, sizes[group]):
                if dim < 0:
                    return None
                covered *= ranges[dim]
                groups[group].insert(0, dim)
                dim -= 1
        if any(not _equal(ranges[left], 1) for left in range(dim + 1)):
            return None
        return Walk(variables, ranges, (groups[0], groups[1], groups[2]))

    def strides(self, index: Any) -> Strides | None:
        """``index`` in the product's terms; None if it is not linear in batch, row and column."""
        ranges = {v: r for v, r in zip(self.variables, self.ranges, strict=True) if isinstance(v, sympy.Symbol)}
        index = sympy.expand(V.graph.sizevars.simplify_with_ranges(sympy.sympify(index), ranges))
        offset = index.subs(dict.fromkeys(ranges, 0))
        steps = {v: index.coeff(v, 1) for v in ranges}
        linear = offset + sum(step * v for v, step in steps.items())
        if sympy.expand(index - linear) != 0 or any(step.free_symbols & ranges.keys() for step in steps.values()):
            return None
        found = []
        for group in self._groups:
            stride: Any = None
            covered: Any = sympy.Integer(1)
            for dim in reversed(group):
                if self.variables[dim] not in ranges:  # a single item
                    continue
                step = steps[self.variables[dim]]
                if stride is None:
                    stride = step
                elif not _equal(step, stride * covered):
                    return None
                covered *= self.ranges[dim]
            found.append(sympy.Integer(0) if stride is None else stride)
        return Strides(offset, *found)
