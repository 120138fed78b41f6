"""The second pass of a GEMM whose workgroups shared K: add the parts in order, then the epilogue.

Trace-time helper, see pipeline.py. The parts lie in a workspace [parts, batch, M, N] of fp32. The order of the sum is
that of the parts, so results do not depend on which workgroup finished first.
"""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx

from .epilogue import Input, Output, Piece, Program, load_run
from .epilogue_expr import Epilogue
from .pipeline import Matrix

THREADS = 256
COLUMNS = 8  # a thread's share of a row of C


def reduce_parts(c: Matrix, workspace: Any, parts: int, dtype: str, epilogue: Epilogue, inputs: list[Input]) -> None:
    """Eight columns of C a thread; the grid is ceil(M * N / 8 / THREADS) x 1 x batch."""
    index = fx.Int32(fx.block_idx.x) * THREADS + fx.Int32(fx.thread_idx.x)
    per_row = c.cols >> 3
    row = index // per_row
    col = (index - row * per_row) * COLUMNS
    size = fx.Int64(c.rows) * fx.Int64(c.cols)
    total = None
    for part in range(parts):
        number = fx.Int64(part) * fx.Int64(fx.grid_dim.z) + fx.Int64(fx.block_idx.z)
        buffer = fx.rocdl.make_buffer_ptr(workspace + number * size, num_records_bytes=size * 4)
        values = load_run(buffer, index * COLUMNS, COLUMNS, "fp32")
        total = values if total is None else total + values
    # A tile of rows that no matrix has, so that the bounds are those of all of C.
    every_row = 2**30
    piece = Piece(row, col, total, (0, 0))
    Output(c, dtype, fx.Int32(0), every_row, row < c.rows).store(
        piece, Program(epilogue, inputs, c, fx.Int32(0), every_row).run(piece)
    )
