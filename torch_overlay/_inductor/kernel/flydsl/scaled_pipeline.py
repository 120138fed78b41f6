"""Parts of the scaled GEMM's pipeline: block scales by LDS DMA, fragments of 8- and 4-bit elements, the scaled MFMA.

Trace-time helpers, see pipeline.py. LDS is counted in units of two bytes, as there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from torch._native.flydsl.target import WAVE_SIZE

import flydsl.expr as fx

from .gemm_config import ITEM_BYTES
from .pipeline import Matrix, StraightFragments
from .scaled_gemm_tile import SCALE_K, SCALE_RUN_BYTES, Stage
from .scaled_layout import ScaledRows, ScaleRows, log2

FORMATS = {"e4m3": fx.Float8E4M3FN, "e5m2": fx.Float8E5M2, "e2m1": fx.Float4E2M1FN}
# Far outside every descriptor, with room for the scalar offset above it.
_OUT_OF_BOUNDS_DWORDS = 2**29 - 4
_DWORD_ITEMS = 4 // ITEM_BYTES


class ScaleLoads:
    """LDS DMA of the block scales of A and B, a dword (four blocks of a row) a lane.

    ``scales`` are matrices of dwords. A run of 64 dwords belongs to A, to B or to the padding, whose descriptor holds
    nothing; which of them is the same for all lanes of a wave. Rows and blocks beyond the matrix become 0, which means
    2^-127: their elements are zeros, and stay so.

    With ``scale_tiles`` = T > 1, K tile q + 1 brings part q % T, as many rows of A and of B, of the scales for K tiles
    T * (q / T + 1) .. + T - 1, into the half that K tiles before q - q % T have been done with: tile q has been read
    when the loads of q + 2 start, that is two stages. The first K tile brings all of the first T's.
    """

    def __init__(
        self, stage: Stage, scales: tuple[Matrix, Matrix], firsts: tuple[Any, Any], lds: Any, wave: Any, lane: Any,
        mask_k: bool,
    ) -> None:  # fmt: skip
        config, dwords = stage.config, stage.scale_dwords
        self._tiles, self._dwords, self._half = stage.scale_tiles, dwords, stage.scale_bytes // 4
        self._mask_k, self._cols = mask_k or stage.scale_tiles > 1, scales[0].cols
        self._atom = fx.make_copy_atom(fx.rocdl.cdna4.BufferLoadAsyncLDS32b(), fx.Int32)
        self._layout = fx.make_layout(1, 1)
        self._lds = fx.recast_iter(fx.Int32, lds)
        self._runs: list[SimpleNamespace] = []
        runs_a, runs_b = stage.scale_runs
        bases, records = [], []
        for matrix, first, rows in zip(scales, firsts, (config.tile_m, config.tile_n), strict=True):
            valid = fx.min(matrix.rows - first, fx.Int32(rows))
            bases.append(matrix.base + fx.Int64(first) * fx.Int64(matrix.stride))
            records.append((fx.Int64(valid - 1) * fx.Int64(matrix.stride) + fx.Int64(matrix.cols)) * 4)
        layout, begins = scale_rows(stage), scale_begins(stage)
        for i in range(stage.scale_loads):
            run = wave * stage.scale_loads + i
            of_a, of_b = run < runs_a, run < runs_a + runs_b
            address = of_a.select(fx.Int64(fx.ptrtoint(bases[0])), fx.Int64(fx.ptrtoint(bases[1])))
            held = of_a.select(records[0], of_b.select(records[1], fx.Int64(0)))
            base = fx.inttoptr(bases[0].type, address)
            stride = of_a.select(scales[0].stride, scales[1].stride)
            first = of_a.select(run, run - runs_a) * WAVE_SIZE
            row, column = layout.dword_at(first + lane)
            rows = of_a.select(fx.Int32(config.tile_m // self._tiles), fx.Int32(config.tile_n // self._tiles))
            self._runs.append(
                SimpleNamespace(
                    buffer=fx.rocdl.make_buffer_ptr(base, num_records_bytes=held),
                    column=column,
                    offset=row * stride + column,
                    part_offset=rows * stride,
                    place=of_a.select(fx.Int32(begins[0] // 4), fx.Int32(begins[1] // 4)) + first,
                    part_place=rows * dwords,
                )
            )

    def each(self, k_tile: Any, stage_offset: Any) -> list[Callable[[], None]]:
        """Functions that start one load each beside K tile ``k_tile`` into the stage at ``stage_offset``."""
        if self._tiles == 1:
            return self._part(None, fx.Int32(k_tile), _in_units(stage_offset, 4))
        if isinstance(k_tile, int) and k_tile == 0:
            return [start for part in range(self._tiles) for start in self._part(fx.Int32(part), fx.Int32(0), 0)]
        before = fx.Int32(k_tile) - 1
        which = (before >> log2(self._tiles)) + 1
        return self._part(before & (self._tiles - 1), which, (which & 1) * self._half)

    def _part(self, part: Any, which: Any, place: Any) -> list[Callable[[], None]]:
        """Loads of a part (None: everything) of the scales of the ``which``-th ``scale_tiles`` K tiles."""
        first = which * self._dwords
        atom = fx.atom_set_value(self._atom, "soffset", first)

        def start(run: SimpleNamespace) -> None:
            offset, target = run.offset, run.place + place
            if part is not None:
                offset, target = offset + part * run.part_offset, target + part * run.part_place
            if self._mask_k:
                offset = (first + run.column < self._cols).select(offset, fx.Int32(_OUT_OF_BOUNDS_DWORDS))
            source = fx.make_view(run.buffer + offset, self._layout)
            fx.copy_atom_call(atom, source, fx.make_view(self._lds + target, self._layout))

        return [functools.partial(start, run) for run in self._runs]


def scale_rows(stage: Stage) -> ScaleRows:
    config = stage.config
    span = WAVE_SIZE // config.mfma_rows * stage.window // 4
    return ScaleRows(dwords=stage.scale_dwords, span=span, mfma_rows=config.mfma_rows)


def scale_begins(stage: Stage) -> tuple[int, int]:
    """Bytes of LDS where scales of A and of B begin, in the first stage or the first half behind the stages."""
    config = stage.config
    first = stage.a_bytes + stage.b_bytes if stage.scale_tiles == 1 else config.stages * stage.bytes
    return first, first + stage.scale_runs[0] * SCALE_RUN_BYTES * stage.scale_tiles


def _in_units(items: Any, unit_bytes: int) -> Any:
    """A multiple of ``unit_bytes``, counted in elements of LDS, in units of 1, 2 or 4 bytes."""
    if isinstance(items, int):
        return items * ITEM_BYTES // unit_bytes
    return items << 1 if unit_bytes == 1 else items >> log2(unit_bytes // ITEM_BYTES)


class ScaleReads:
    """A wave's scales for a window of MFMA steps: a byte for each step in the register of the row's lane.

    Counted in units of a lane's read; ``begin`` is in bytes.
    """

    def __init__(
        self, stage: Stage, lds: Any, begin: int, first_row: Any, tiles: int, first_step: Any, lane: Any
    ) -> None:
        config, layout = stage.config, scale_rows(stage)
        self.tiles, self._window, self._scale_tiles = tiles, stage.window, stage.scale_tiles
        kind = {1: fx.Uint8, 2: fx.Uint16, 4: fx.Uint32}[stage.window]
        self._lds = fx.recast_iter(kind, lds)
        self._per_dword = 4 // stage.window
        self._half = stage.scale_bytes // stage.window
        self._tile_dwords, self._span, self._first_step = config.tile_k // SCALE_K, layout.span, first_step
        row, group = lane & (config.mfma_rows - 1), lane >> log2(config.mfma_rows)
        self._key = layout.key(row)
        self._place = (first_row + row) * (layout.dwords * self._per_dword) + group + begin // stage.window
        self._tile = config.mfma_rows * layout.dwords * self._per_dword

    def each(self, step: int, k_tile: Any, stage_offset: Any) -> list[Callable[[], Any]]:
        """Functions that read one tile's scales each; none but for the first step of a window."""
        if step % self._window:
            return []
        dword = ((self._first_step + step) >> log2(self._window)) * self._span
        if self._scale_tiles == 1:
            place = self._place + _in_units(stage_offset, self._window)
        else:
            dword = (k_tile & (self._scale_tiles - 1)) * self._tile_dwords + dword
            place = self._place + (k_tile >> log2(self._scale_tiles) & 1) * self._half
        base = self._lds + (place + (self._key ^ dword) * self._per_dword)

        def read(tile: int) -> Any:
            return fx.Int32(fx.ptr_load(base + tile * self._tile).to(fx.Uint32))

        return [functools.partial(read, tile) for tile in range(self.tiles)]


class ScaledFragments:
    """Fragments of ``mfma_rows`` rows x one MFMA step: one 16-byte read a lane of 4-bit elements, two of 8-bit ones."""

    def __init__(
        self, layout: ScaledRows, lds: Any, first_row: Any, tiles: int, first_step: Any, steps: int, lane: Any
    ) -> None:
        self.tiles, self.reads_per_tile = tiles, layout.reads
        reads = layout.reads
        self._runs = StraightFragments(layout, lds, first_row, tiles, first_step * reads, steps * reads, lane)

    def each(self, step: int, stage_offset: Any) -> list[Callable[[], Any]]:
        """Functions that read one fragment each of a step of the stage at ``stage_offset``."""
        if self.reads_per_tile == 1:
            return self._runs.each(step, stage_offset)
        halves = [self._runs.each(2 * step + half, stage_offset) for half in range(2)]

        def read(first: Callable[[], Any], second: Callable[[], Any]) -> Any:
            low, high = first(), second()
            return low.shuffle(high, list(range(2 * low.numel)))

        return [functools.partial(read, first, second) for first, second in zip(*halves, strict=True)]


class ScaledAccumulators:
    """A wave's part of C in registers: ``tiles_m x tiles_n`` MFMA tiles."""

    def __init__(self, tiles_m: int, tiles_n: int, stage: Stage) -> None:
        self.tiles_m, self.tiles_n = tiles_m, tiles_n
        config, operands = stage.config, stage.operands
        self._block_scales, self._window = operands.block_scales, stage.window
        self._values = config.mfma_rows**2 // WAVE_SIZE
        self._elements = FORMATS[operands.b], FORMATS[operands.a]
        rows, depth = config.mfma_rows, config.mfma_k
        # With no scale given the instruction is the one without, which multiplies by 1.
        self._atoms = [
            fx.make_mma_atom(fx.rocdl.cdna4.MFMA_Scale(rows, rows, depth, *self._elements, opsel_a=byte, opsel_b=byte))
            for byte in range(self._window)
        ]

    def zeros(self) -> list[Any]:
        return [fx.Vector.filled(self._values, 0.0, fx.Float32) for _ in range(self.tiles_m * self.tiles_n)]

    def multiply(self, values: list[Any], held: list[Any], step: int) -> list[Any]:
        """One MFMA step of every tile. ``held`` are A's fragments, B's, A's scales, B's. B is the instruction's first
        operand, so a lane holds columns of one row."""
        a, b = held[: self.tiles_m], held[self.tiles_m : self.tiles_m + self.tiles_n]
        scales = held[self.tiles_m + self.tiles_n :]
        atom, results = self._atoms[step % self._window], []
        for i in range(self.tiles_m):
            for j in range(self.tiles_n):
                scaled = atom
                if self._block_scales:
                    scaled = atom.set_value("scale_a", scales[self.tiles_m + j]).set_value("scale_b", scales[i])
                results.append(self._mfma(scaled, values[i * self.tiles_n + j], b[j], a[i]))
        return results

    def _mfma(self, atom: Any, value: Any, first: Any, second: Any) -> Any:
        operands = []
        for vector, element in zip((first, second), self._elements, strict=True):
            register = fx.make_rmem_tensor(vector.numel, vector.dtype)
            register.store(vector)
            items = vector.numel * vector.dtype.width // element.width
            view = fx.make_view(fx.recast_iter(element, fx.get_iter(register)), fx.make_layout(items, 1))
            operands.append(view)
        accumulator = fx.make_rmem_tensor(self._values, fx.Float32)
        accumulator.store(value)
        fx.mma_atom_call(atom, accumulator, *operands, accumulator)
        return accumulator.load()

    def rows(self, values: list[Any]) -> list[list[Any]]:
        return [values[i * self.tiles_n : (i + 1) * self.tiles_n] for i in range(self.tiles_m)]
