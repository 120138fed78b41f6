"""The scaled GEMM kernel: how a workgroup computes its tile of C. scaled_gemm has the contract and the entry.

As the dense GEMM (gemm_kernel), whose schedules, loads, order of workgroups and epilogue it uses: operands of 8 and 4
bits move as bytes. Block scales come into the same stages of LDS by the same DMA, and are read beside the fragments of
the MFMA steps that they scale, so nothing waits for a scale that does not wait for its elements.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from torch._native.flydsl import target
from torch._native.flydsl.flydsl_private import wave_uniform

import flydsl.compiler as flyc
import flydsl.expr as fx

from .epilogue import Input, Output, Program, pieces
from .epilogue_expr import Epilogue, EpilogueInput
from .gemm_config import ITEM_BYTES
from .pipeline import Matrix, StraightLoads, sum_over_waves
from .scaled_gemm_config import ScaledGemmSpec
from .scaled_gemm_numbers import ScaledNumbers
from .scaled_gemm_tile import BITS, SCALE_K, ScaledGemmConfig
from .scaled_layout import ScaledRows, log2
from .scaled_pipeline import ScaledAccumulators, ScaledFragments, ScaleLoads, ScaleReads, scale_begins
from .schedule import Read, Walk, main_loop
from .shared_tile import Parts, if_last
from .workgroup_order import tile_of


def _tiles(size: Any, tile: int) -> Any:
    """How many tiles cover ``size``; ``tile`` is a power of two and size + tile - 1 stays below 2^31."""
    return (size + (tile - 1)) >> log2(tile)


def _spec_of(key: tuple[Any, ...]) -> ScaledGemmSpec:
    """Back from ``ScaledGemmSpec.key``: the kernel's only compile-time argument, so that FlyDSL's keys hold it all."""
    _, arch, a_format, b_format, out_dtype, recipe, masked, (inputs, steps), *fields = key
    names = [field.name for field in dataclasses.fields(ScaledGemmConfig)]
    return ScaledGemmSpec(
        a_format=a_format,
        b_format=b_format,
        out_dtype=out_dtype,
        recipe=recipe,
        config=ScaledGemmConfig(**dict(zip(names, fields, strict=True))),
        arch=arch,
        k_tail=masked,
        epilogue=Epilogue(inputs=tuple(EpilogueInput(dtype=dtype, kind=kind) for dtype, kind in inputs), steps=steps),
    )


def _operand(
    spec: ScaledGemmSpec, work: SimpleNamespace, which: int, matrix: Matrix, first: Any, wave_first: Any
) -> tuple[StraightLoads, ScaledFragments]:
    """Loads and fragments of A (0) or B (1)."""
    config, stage = spec.config, spec.stage
    tile, waves = ((config.tile_m, config.waves_m), (config.tile_n, config.waves_n))[which]
    row_items = spec.operands.row_bytes(config.tile_k)[which] // ITEM_BYTES
    bits = BITS[(spec.a_format, spec.b_format)[which]]
    layout = ScaledRows(tile, row_items, config.mfma_rows, bits=bits, window=stage.window)
    lds = work.lds + (0, stage.a_bytes // ITEM_BYTES)[which]
    loads = StraightLoads(layout, matrix, first, lds, config.waves, work.wave, work.lane, spec.k_tail)
    tiles, first_step = tile // waves // config.mfma_rows, work.wave_k * config.steps
    return loads, ScaledFragments(layout, lds, wave_first, tiles, first_step, config.steps, work.lane)


def _work(
    spec: ScaledGemmSpec, operands: tuple[Any, Any], scales: tuple[Any, Any], shared: tuple[Any, Any], numbers: Any
) -> SimpleNamespace:
    """What a workgroup has to do: its tile, its part of K, and the parts of the pipeline."""
    config, stage = spec.config, spec.stage
    (a, b), (scale_a, scale_b), m, n = operands, scales, numbers.m, numbers.n
    lane = fx.thread_idx.x & (target.WAVE_SIZE - 1)
    wave = wave_uniform(fx.thread_idx.x >> 6)
    waves_mn = config.waves_m * config.waves_n
    wave_mn, wave_k = (wave, 0) if config.waves_k == 1 else (wave % waves_mn, wave // waves_mn)
    tiles_m, tiles_n = fx.Uint32(_tiles(m, config.tile_m)), fx.Uint32(_tiles(n, config.tile_n))
    tile_row, tile_col = tile_of(fx.Uint32(fx.block_idx.x), tiles_m, tiles_n, config.group_m, fx.min)
    first_row, first_col = fx.Int32(tile_row) * config.tile_m, fx.Int32(tile_col) * config.tile_n
    k, k_a, k_b, k_scales = numbers.k, numbers.k_a, numbers.k_b, numbers.k_scales
    items_a, items_b = (row // ITEM_BYTES for row in spec.operands.row_bytes(config.tile_k))
    if config.split_k > 1:
        # Parts of as many K tiles as the others or one more.
        k_tiles, part = _tiles(k, config.tile_k), fx.Int32(fx.block_idx.y)
        first_tile, end_tile = k_tiles * part // config.split_k, k_tiles * (part + 1) // config.split_k
        per_tile = config.tile_k // SCALE_K
        a, b = a + fx.Int64(first_tile * items_a), b + fx.Int64(first_tile * items_b)
        scale_a, scale_b = scale_a + fx.Int64(first_tile * per_tile), scale_b + fx.Int64(first_tile * per_tile)
        k = fx.min(k, end_tile * config.tile_k) - first_tile * config.tile_k
        k_a = fx.min(k_a, end_tile * items_a) - first_tile * items_a
        k_b = fx.min(k_b, end_tile * items_b) - first_tile * items_b
        k_scales = fx.min(k_scales, end_tile * per_tile) - first_tile * per_tile
    wave_m, wave_n = config.tile_m // config.waves_m, config.tile_n // config.waves_n
    wave_row, wave_col = wave_mn // config.waves_n * wave_m, wave_mn % config.waves_n * wave_n
    work = SimpleNamespace(
        config=config,
        lane=lane,
        wave=wave,
        wave_mn=wave_mn,
        wave_k=wave_k,
        waves_mn=waves_mn,
        lds=fx.SharedAllocator().allocate(fx.Array[fx.Int16, stage.lds_bytes // ITEM_BYTES, 1024]).peek().ptr,
        workspace=shared[0],
        counters=shared[1],
        k_tiles=_tiles(k, config.tile_k),
        accumulators=ScaledAccumulators(wave_m // config.mfma_rows, wave_n // config.mfma_rows, stage),
        first_row=first_row,
        wave_row=wave_row,
        wave_col=first_col + wave_col,
        scale_loads=None,
        scales=(),
    )
    loads_a, work.a = _operand(spec, work, 0, Matrix(a, m, k_a, numbers.lda), first_row, wave_row)
    loads_b, work.b = _operand(spec, work, 1, Matrix(b, n, k_b, numbers.ldb), first_col, wave_col)
    work.loads = (loads_a, loads_b)
    if spec.operands.block_scales:
        matrices = Matrix(scale_a, m, k_scales, numbers.scales_a), Matrix(scale_b, n, k_scales, numbers.scales_b)
        firsts, first_step = (first_row, first_col), wave_k * config.steps
        work.scale_loads = ScaleLoads(stage, matrices, firsts, work.lds, wave, lane, spec.k_tail)
        work.scales = tuple(
            ScaleReads(stage, work.lds, begin, wave_first, part.tiles, first_step, lane)
            for begin, wave_first, part in zip(scale_begins(stage), (wave_row, wave_col), (work.a, work.b), strict=True)
        )
    return work


def _reads(work: SimpleNamespace, step: int, k_tile: Any, stage_offset: Any) -> list[Read]:
    """What an MFMA step needs, in the order in which its products do. Places count A's fragments, B's, A's scales and
    B's."""
    found, place = [], 0
    for part, instructions in ((work.a, work.a.reads_per_tile), (work.b, work.b.reads_per_tile)):
        found.append([Read(place + i, instructions, read) for i, read in enumerate(part.each(step, stage_offset))])
        place += part.tiles
    scales: list[Read] = []
    for part in work.scales:
        scales += [Read(place + i, 1, read) for i, read in enumerate(part.each(step, k_tile, stage_offset))]
        place += part.tiles
    of_a, of_b = found
    return [*scales, *of_a[:1], *of_b, *of_a[1:]]


def _loads(work: SimpleNamespace, k_tile: Any, stage_offset: Any) -> list[Callable[[], None]]:
    """What a K tile brings: scales first, which are least and of which none is waited for alone."""
    loads = list(work.scale_loads.each(k_tile, stage_offset)) if work.scale_loads is not None else []
    for operand in work.loads:
        loads += operand.each(fx.Int32(k_tile), stage_offset)
    return loads


def _walk(work: SimpleNamespace, spec: ScaledGemmSpec) -> Walk:
    config, stage = spec.config, spec.stage
    return Walk(
        k_tiles=work.k_tiles,
        steps=config.steps,
        stages=config.stages,
        stage_items=stage.items,
        loads_per_stage=stage.loads,
        interleave=config.interleave,
        late_loads=stage.late_loads,
        mfmas=work.a.tiles * work.b.tiles,
        loads=functools.partial(_loads, work),
        reads=functools.partial(_reads, work),
        multiply=work.accumulators.multiply,
        zeros=work.accumulators.zeros,
    )


def _finish(work: SimpleNamespace, values: list[Any], spec: ScaledGemmSpec, c: Matrix, inputs: list[Input]) -> None:
    """Bring a workgroup's tile of C from accumulators to memory."""
    config, enabled = work.config, None
    if config.waves_k > 1:
        values = sum_over_waves(values, work.lds, work.waves_mn, config.waves_k, work.wave, work.lane)
        enabled = work.wave_k == 0

    def store(values: list[Any]) -> None:
        program = Program(spec.full_epilogue, inputs, c, work.first_row, config.tile_m)
        output = Output(c, spec.out_dtype, work.first_row, config.tile_m, enabled)
        rows = work.accumulators.rows(values)
        for piece in pieces(rows, work.wave_row, work.wave_col, work.lane, config.mfma_rows):
            output.store(piece, program.run(piece))

    if config.split_k == 1:
        store(values)
        return
    tile, items = fx.block_idx.x, config.tile_m * config.tile_n
    lane_items = config.mfma_rows**2 // target.WAVE_SIZE
    parts = Parts(work.workspace, tile, fx.grid_dim.x, items, work.wave_mn, work.lane, lane_items)
    parts.store(fx.block_idx.y, values, enabled)
    cell = fx.recast_iter(fx.Int32, work.lds)
    if_last(
        work.counters + fx.Int64(tile), config.split_k, cell, lambda: store(parts.total(config.split_k, len(values)))
    )


def _inputs(epilogue: Epilogue, pointers: tuple[Any, ...], numbers: Any) -> list[Input]:
    rows = (numbers.row0, numbers.row1, numbers.row2, numbers.row3)
    return [Input(*each) for each in zip(epilogue.inputs, pointers, rows)]  # noqa: B905 - unused slots


def make_launcher(name: str) -> Any:
    @flyc.kernel(name=name)
    def scaled_gemm_kernel(
        a: fx.Pointer,
        b: fx.Pointer,
        scale_a: fx.Pointer,
        scale_b: fx.Pointer,
        c: fx.Pointer,
        workspace: fx.Pointer,
        counters: fx.Pointer,
        e0: fx.Pointer,
        e1: fx.Pointer,
        e2: fx.Pointer,
        e3: fx.Pointer,
        numbers: ScaledNumbers,
        key: fx.Constexpr[tuple],
    ) -> None:
        spec = _spec_of(key[0])
        work = _work(spec, (a, b), (scale_a, scale_b), (workspace, counters), numbers)
        values = main_loop(_walk(work, spec))
        inputs = _inputs(spec.full_epilogue, (e0, e1, e2, e3), numbers)
        _finish(work, values, spec, Matrix(c, numbers.m, numbers.n, numbers.ldc), inputs)

    @flyc.jit
    def launch_scaled_gemm(
        a: fx.Pointer,
        b: fx.Pointer,
        scale_a: fx.Pointer,
        scale_b: fx.Pointer,
        c: fx.Pointer,
        workspace: fx.Pointer,
        counters: fx.Pointer,
        e0: fx.Pointer,
        e1: fx.Pointer,
        e2: fx.Pointer,
        e3: fx.Pointer,
        numbers: ScaledNumbers,
        key: fx.Constexpr[tuple],
        stream: fx.Stream,
    ) -> None:
        config = _spec_of(key[0]).config
        m, n = numbers.m, numbers.n
        tiles = _tiles(m, config.tile_m) * _tiles(n, config.tile_n)
        scaled_gemm_kernel(a, b, scale_a, scale_b, c, workspace, counters, e0, e1, e2, e3, numbers, key).launch(
            grid=(tiles, config.split_k, 1), block=(config.threads, 1, 1), stream=stream
        )

    return launch_scaled_gemm
