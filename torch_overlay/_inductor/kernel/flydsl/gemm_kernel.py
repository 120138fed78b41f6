"""The GEMM kernel: how a workgroup computes its tile of C. gemm has the contract and the entry.

LDS DMA brings K tiles of A and B into buffers of LDS; each wave reads its fragments, transposed where K is not
contiguous, and keeps its accumulators in registers. schedule says when.
"""

from __future__ import annotations

import dataclasses
import functools
from types import SimpleNamespace
from typing import Any

from torch._native.flydsl import target
from torch._native.flydsl.flydsl_private import wave_uniform

import flydsl.compiler as flyc
import flydsl.expr as fx

from .epilogue import ELEMENTS, Input, Output, Program, pieces
from .epilogue_expr import Epilogue, EpilogueInput
from .gemm_config import ITEM_BYTES, MFMA_K, MFMA_MN, GemmConfig, GemmSpec
from .gemm_numbers import Numbers
from .pipeline import Matrix, operand_parts, sum_over_waves
from .schedule import Read, Walk, main_loop
from .shared_tile import Parts, if_last
from .workgroup_order import tile_of


class _Accumulators:
    """A wave's part of C in registers: ``tiles_m x tiles_n`` MFMA tiles, each four fp32 values a lane."""

    def __init__(self, tiles_m: int, tiles_n: int, element: Any) -> None:
        self.tiles_m, self.tiles_n = tiles_m, tiles_n
        self._element = element
        self._atom = fx.make_mma_atom(fx.rocdl.MFMA(MFMA_MN, MFMA_MN, MFMA_K, element))

    def zeros(self) -> list[Any]:
        return [fx.Vector.filled(4, 0.0, fx.Float32) for _ in range(self.tiles_m * self.tiles_n)]

    def multiply(self, values: list[Any], a: list[Any], b: list[Any]) -> list[Any]:
        """One MFMA step of every tile. B is the instruction's first operand, so a lane holds 4 columns of a row."""
        return [
            self._mfma(values[i * self.tiles_n + j], b[j], a[i])
            for i in range(self.tiles_m)
            for j in range(self.tiles_n)
        ]

    def _mfma(self, value: Any, first: Any, second: Any) -> Any:
        registers = []
        for vector, element in ((first, self._element), (second, self._element), (value, fx.Float32)):
            register = fx.make_rmem_tensor(vector.numel, element)
            register.store(vector)
            registers.append(register)
        first_register, second_register, accumulator = registers
        fx.mma_atom_call(self._atom, accumulator, first_register, second_register, accumulator)
        return accumulator.load()

    def rows(self, values: list[Any]) -> list[list[Any]]:
        return [values[i * self.tiles_n : (i + 1) * self.tiles_n] for i in range(self.tiles_m)]


def _reads(work: SimpleNamespace, step: int, k_tile: Any, stage_offset: Any) -> list[Read]:
    """The fragments of an MFMA step, in the order in which the products need them. Places count A's, then B's."""
    a, b = work.a.each(step, stage_offset), work.b.each(step, stage_offset)
    of_a = [Read(i, work.a.reads_per_tile, read) for i, read in enumerate(a)]
    of_b = [Read(len(a) + j, work.b.reads_per_tile, read) for j, read in enumerate(b)]
    return [*of_a[:1], *of_b, *of_a[1:]]


def _walk(work: SimpleNamespace) -> Walk:
    config, accumulators = work.config, work.accumulators
    return Walk(
        k_tiles=work.k_tiles,
        steps=config.steps,
        stages=config.stages,
        stage_items=config.stage_bytes // ITEM_BYTES,
        loads_per_stage=config.loads_per_stage,
        interleave=config.interleave,
        late_loads=0,
        mfmas=work.a.tiles * work.b.tiles,
        loads=lambda k_tile, offset: [
            start for operand in work.loads for start in operand.each(fx.Int32(k_tile), offset)
        ],
        reads=functools.partial(_reads, work),
        multiply=lambda values, held, step: accumulators.multiply(values, held[: work.a.tiles], held[work.a.tiles :]),
        zeros=accumulators.zeros,
    )


def _tiles(size: Any, tile: int) -> Any:
    """How many tiles cover ``size``; ``tile`` is a power of two and size + tile - 1 stays below 2^31."""
    return (size + (tile - 1)) >> (tile.bit_length() - 1)


def _spec_of(key: tuple[Any, ...]) -> GemmSpec:
    """Back from ``GemmSpec.key``: the kernel's only compile-time argument, so FlyDSL's own keys hold all of it."""
    _, arch, dtype, out_dtype, a_layout, b_layout, masked, (inputs, steps), *fields = key
    names = [field.name for field in dataclasses.fields(GemmConfig)]
    return GemmSpec(
        dtype=dtype,
        config=GemmConfig(**dict(zip(names, fields, strict=True))),
        arch=arch,
        k_tail=masked,
        out_dtype=out_dtype,
        a_layout=a_layout,
        b_layout=b_layout,
        epilogue=Epilogue(inputs=tuple(EpilogueInput(dtype=dtype, kind=kind) for dtype, kind in inputs), steps=steps),
    )


def _work(spec: GemmSpec, a: Any, b: Any, workspace: Any, counters: Any, numbers: Any) -> SimpleNamespace:
    """What a workgroup has to do: its tile, its part of K, and the parts of the pipeline for both operands."""
    config = spec.config
    m, n, k, lda, ldb = numbers.m, numbers.n, numbers.k, numbers.lda, numbers.ldb
    element = ELEMENTS[spec.dtype]
    lane = fx.thread_idx.x & (target.WAVE_SIZE - 1)
    wave = wave_uniform(fx.thread_idx.x >> 6)
    waves_mn = config.waves_m * config.waves_n
    wave_mn, wave_k = (wave, 0) if config.waves_k == 1 else (wave % waves_mn, wave // waves_mn)
    tiles_m, tiles_n = fx.Uint32(_tiles(m, config.tile_m)), fx.Uint32(_tiles(n, config.tile_n))
    tile_row, tile_col = tile_of(fx.Uint32(fx.block_idx.x), tiles_m, tiles_n, config.group_m, fx.min)
    first_row, first_col = fx.Int32(tile_row) * config.tile_m, fx.Int32(tile_col) * config.tile_n
    a_straight, b_straight = spec.a_layout == "k", spec.b_layout == "k"
    if config.split_k > 1:
        # Parts of as many K tiles as the others or one more.
        k_tiles, part = _tiles(k, config.tile_k), fx.Int32(fx.block_idx.y)
        first_k = k_tiles * part // config.split_k * config.tile_k
        end_k = k_tiles * (part + 1) // config.split_k * config.tile_k
        a = a + (fx.Int64(first_k) if a_straight else fx.Int64(first_k) * fx.Int64(lda))
        b = b + (fx.Int64(first_k) if b_straight else fx.Int64(first_k) * fx.Int64(ldb))
        k = fx.min(k, end_k) - first_k
    lds = fx.SharedAllocator().allocate(fx.Array[element, config.lds_bytes // ITEM_BYTES, 1024]).peek().ptr
    wave_m, wave_n = config.tile_m // config.waves_m, config.tile_n // config.waves_n
    wave_row, wave_col = wave_mn // config.waves_n * wave_m, wave_mn % config.waves_n * wave_n
    parts = []
    for straight, base, size, stride, first, tile, place, wave_first, wave_size in (
        (a_straight, a, m, lda, first_row, config.tile_m, 0, wave_row, wave_m),
        (b_straight, b, n, ldb, first_col, config.tile_n, config.tile_m * config.tile_k, wave_col, wave_n),
    ):
        matrix = Matrix(base, size, k, stride) if straight else Matrix(base, k, size, stride)
        parts.append(
            operand_parts(
                straight,
                matrix,
                first,
                tile,
                config.tile_k,
                lds + place,  # a stage is A's tile followed by B's
                wave_first,
                wave_size // MFMA_MN,
                config.waves,
                wave,
                wave_k * config.steps,
                config.steps,
                lane,
                spec.k_tail,
            )
        )
    return SimpleNamespace(
        config=config,
        lane=lane,
        wave=wave,
        wave_mn=wave_mn,
        wave_k=wave_k,
        waves_mn=waves_mn,
        lds=lds,
        workspace=workspace,
        counters=counters,
        k_tiles=_tiles(k, config.tile_k),
        loads=tuple(loads for loads, _ in parts),
        a=parts[0][1],
        b=parts[1][1],
        accumulators=_Accumulators(wave_m // MFMA_MN, wave_n // MFMA_MN, element),
        first_row=first_row,
        wave_row=wave_row,
        wave_col=first_col + wave_col,
    )


def _finish(work: SimpleNamespace, values: list[Any], spec: GemmSpec, c: Matrix, inputs: list[Input]) -> None:
    """Bring a workgroup's tile of C from accumulators to memory."""
    config, enabled = work.config, None
    if config.waves_k > 1:
        values = sum_over_waves(values, work.lds, work.waves_mn, config.waves_k, work.wave, work.lane)
        enabled = work.wave_k == 0

    def store(values: list[Any]) -> None:
        program = Program(spec.epilogue, inputs, c, work.first_row, config.tile_m)
        output = Output(c, spec.stored_dtype, work.first_row, config.tile_m, enabled)
        for piece in pieces(work.accumulators.rows(values), work.wave_row, work.wave_col, work.lane):
            output.store(piece, program.run(piece))

    if config.split_k == 1:
        store(values)
        return
    # A number of its own for each workgroup that shares a tile, whichever tile that is.
    tile = fx.block_idx.z * fx.grid_dim.x + fx.block_idx.x
    tiles = fx.Int64(fx.grid_dim.x) * fx.Int64(fx.grid_dim.z)
    parts = Parts(work.workspace, tile, tiles, config.tile_m * config.tile_n, work.wave_mn, work.lane)
    parts.store(fx.block_idx.y, values, enabled)
    cell = fx.recast_iter(fx.Int32, work.lds)
    if_last(
        work.counters + fx.Int64(tile), config.split_k, cell, lambda: store(parts.total(config.split_k, len(values)))
    )


def _inputs(epilogue: Epilogue, pointers: tuple[Any, ...], numbers: Any) -> list[Input]:
    rows = (numbers.row0, numbers.row1, numbers.row2, numbers.row3)
    batches = (numbers.batch0, numbers.batch1, numbers.batch2, numbers.batch3)
    return [
        Input(operand, pointer + fx.Int64(fx.block_idx.z) * batch, row)
        for operand, pointer, row, batch in zip(epilogue.inputs, pointers, rows, batches)  # noqa: B905 - unused slots
    ]


def make_launcher(name: str) -> Any:
    @flyc.kernel(name=name)
    def gemm_kernel(
        a: fx.Pointer,
        b: fx.Pointer,
        c: fx.Pointer,
        workspace: fx.Pointer,
        counters: fx.Pointer,
        e0: fx.Pointer,
        e1: fx.Pointer,
        e2: fx.Pointer,
        e3: fx.Pointer,
        numbers: Numbers,
        key: fx.Constexpr[tuple],
    ) -> None:
        spec = _spec_of(key[0])
        batch = fx.Int64(fx.block_idx.z)
        work = _work(spec, a + batch * numbers.stride_a, b + batch * numbers.stride_b, workspace, counters, numbers)
        values = main_loop(_walk(work))
        inputs = _inputs(spec.epilogue, (e0, e1, e2, e3), numbers)
        _finish(work, values, spec, Matrix(c + batch * numbers.stride_c, numbers.m, numbers.n, numbers.ldc), inputs)

    @flyc.jit
    def launch_gemm(
        a: fx.Pointer,
        b: fx.Pointer,
        c: fx.Pointer,
        workspace: fx.Pointer,
        counters: fx.Pointer,
        e0: fx.Pointer,
        e1: fx.Pointer,
        e2: fx.Pointer,
        e3: fx.Pointer,
        numbers: Numbers,
        key: fx.Constexpr[tuple],
        stream: fx.Stream,
    ) -> None:
        config = _spec_of(key[0]).config
        m, n, batch = numbers.m, numbers.n, numbers.batch
        tiles = _tiles(m, config.tile_m) * _tiles(n, config.tile_n)
        gemm_kernel(a, b, c, workspace, counters, e0, e1, e2, e3, numbers, key).launch(
            grid=(tiles, config.split_k, batch), block=(config.threads, 1, 1), stream=stream
        )

    return launch_gemm
