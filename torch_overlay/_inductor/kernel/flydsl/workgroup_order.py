"""Which tile of C a workgroup computes.

Workgroups go to the XCDs in turn, each XCD with an L2 of its own. With ``group_m`` every XCD gets a contiguous run of
tiles, and runs go down bands of ``group_m`` tiles along M, so neighbours in time share rows of A and columns of B in
one L2. Plain integer arithmetic: traced with FlyDSL integers, tested with Python's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._native.flydsl.target import XCDS


def tile_of(
    workgroup: Any, tiles_m: Any, tiles_n: Any, group_m: int, minimum: Callable[[Any, Any], Any] = min
) -> tuple[Any, Any]:
    """(tile along M, tile along N); a bijection from [0, tiles_m * tiles_n)."""
    if group_m == 0:
        return workgroup % tiles_m, workgroup // tiles_m
    total = tiles_m * tiles_n
    xcd, turn = workgroup % XCDS, workgroup // XCDS
    # The first total % XCDS of the XCDs get one workgroup more than the others.
    index = xcd * (total // XCDS) + minimum(xcd, total % XCDS) + turn
    band = index // (group_m * tiles_n)
    height = minimum(tiles_m - band * group_m, group_m)
    inside = index - band * group_m * tiles_n
    return band * group_m + inside % height, inside // height
