"""bf16 and fp16 GEMM for gfx950: ``C[M, N] = A[M, K] @ B[N, K]^T``, row-major operands with padded rows allowed.

Contract
- A, B, C have the same type, bf16 or fp16. Products are exact in fp32, summed in fp32 by v_mfma_f32_16x16x32 in a fixed
  order (increasing K), and rounded once to nearest even. The result does not depend on the tails of M and N.
- M >= 1; N and K multiples of 8; row strides and addresses multiples of 16 bytes. M, N, K and strides are run-time
  values: one compiled kernel serves all problems of a ``GemmSpec``.
- Elements of C outside [M, N] (padding of rows) are not written; elements of A outside [M, K] and of B outside [N, K]
  are not used.

How: a workgroup computes a tile of C. LDS DMA brings K tiles of A and B into ``stages`` buffers, ``stages - 1`` ahead;
each wave reads its fragments with ds_read_b128 and keeps its accumulators in registers. One barrier per K tile.
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

import torch
from torch._inductor.runtime.cache_dir_utils import cache_dir
from torch._native.flydsl import target
from torch._native.flydsl.cache import KernelCache, source_digest
from torch._native.flydsl.flydsl_private import wave_uniform
from torch._native.flydsl.launch import FlyDSLKernel

import flydsl.compiler as flyc
import flydsl.expr as fx

from .epilogue import store_tile
from .gemm_config import ITEM_BYTES, MFMA_K, MFMA_MN, GemmConfig, GemmProblem, GemmSpec, config_unsupported_reason
from .pipeline import Fragments, TileLoads, bounded_rows, wait_for_stage
from .workgroup_order import tile_of

_ELEMENTS = {"bf16": fx.BFloat16, "fp16": fx.Float16}
_TORCH_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
_CHECKED_LIMIT = 1024  # shapes that a kernel remembers as valid
_ALIGNMENT = 16  # bytes, of every address: LDS DMA, LDS reads and stores move 16 bytes a lane


# ---- kernel ----------------------------------------------------------------------------------------------------------


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


def _issue(loads: tuple[TileLoads, ...], k_tile: Any, k: Any, stage_offset: Any, k_tail: bool) -> None:
    for operand in loads:
        operand.issue(k_tile, k, stage_offset, k_tail)


def _fragments(a: Fragments, b: Fragments, step: int, stage_offset: Any) -> tuple[list[Any], list[Any]]:
    """A's and B's fragments of one MFMA step, read in the order in which the products need them."""
    first = a.load(step, stage_offset, range(1))
    columns = b.load(step, stage_offset, range(b.tiles))
    return first + a.load(step, stage_offset, range(1, a.tiles)), columns


def _compute(
    accumulators: _Accumulators,
    values: list[Any],
    first: tuple[list[Any], list[Any]],
    a: Fragments,
    b: Fragments,
    steps: int,
    stage_offset: Any,
    loads: int,
) -> list[Any]:
    """One K tile, whose first step's fragments are being read and whose ``loads`` LDS DMA loads have been issued.

    Where a wave has more products than LDS reads, the hints at the end order the tile's instructions: reads of the
    first step, then the loads behind the first MFMA, then one LDS read of the following steps at a time between MFMAs,
    so that the MFMA pipe seldom waits for LDS. Small tiles read everything first, as the compiler does by itself.
    """
    current = first
    for step in range(steps):
        following = _fragments(a, b, step + 1, stage_offset) if step + 1 < steps else current
        values = accumulators.multiply(values, *current)
        current = following
    reads, mfmas = a.tiles + b.tiles, a.tiles * b.tiles
    between = mfmas // (reads + 1)
    if between > 0:
        fx.rocdl.sched_dsrd(reads)
        if loads:
            fx.rocdl.sched_mfma(1)
            fx.rocdl.sched_vmem(loads)
        for _ in range(reads * (steps - 1)):
            fx.rocdl.sched_mfma(between)
            fx.rocdl.sched_dsrd(1)
        fx.rocdl.sched_mfma(mfmas * steps - between * reads * (steps - 1) - (1 if loads else 0))
    return values


def _tiles(size: Any, tile: int) -> Any:
    """How many tiles cover ``size``; ``tile`` is a power of two and size + tile - 1 stays below 2^31."""
    return (size + (tile - 1)) >> (tile.bit_length() - 1)


def _config_of(key: tuple[Any, ...]) -> tuple[str, bool, GemmConfig]:
    """Back from ``GemmSpec.key``: the kernel's only compile-time argument, so FlyDSL's own keys hold all of it."""
    _, _, dtype, _, _, _, k_tail, _, *fields = key
    config = GemmConfig(**dict(zip([field.name for field in dataclasses.fields(GemmConfig)], fields, strict=True)))
    return dtype, k_tail, config


def _next_stage(offset: Any, config: GemmConfig) -> Any:
    """Offset in elements of the stage after the one at ``offset``."""
    stage_items = config.stage_bytes // ITEM_BYTES
    following = offset + stage_items
    return (following == config.stages * stage_items).select(fx.Int32(0), following)


def _make_launcher(name: str) -> Any:
    @flyc.kernel(name=name)
    def gemm_kernel(
        a: fx.Pointer,
        b: fx.Pointer,
        c: fx.Pointer,
        m: fx.Int32,
        n: fx.Int32,
        k: fx.Int32,
        lda: fx.Int32,
        ldb: fx.Int32,
        ldc: fx.Int32,
        key: fx.Constexpr[tuple],
    ) -> Any:  # a generator only to mypy: FlyDSL rewrites the loop that yields
        dtype, k_tail, config = _config_of(key[0])
        element = _ELEMENTS[dtype]
        tile_m, tile_n, tile_k, stages = config.tile_m, config.tile_n, config.tile_k, config.stages
        wave_m, wave_n = tile_m // config.waves_m, tile_n // config.waves_n

        thread = fx.thread_idx.x
        lane = thread & (target.WAVE_SIZE - 1)
        wave = wave_uniform(thread >> 6)
        tiles_m, tiles_n = fx.Uint32(_tiles(m, tile_m)), fx.Uint32(_tiles(n, tile_n))
        tile_row, tile_col = tile_of(fx.Uint32(fx.block_idx.x), tiles_m, tiles_n, config.group_m, fx.min)
        first_row, first_col = fx.Int32(tile_row) * tile_m, fx.Int32(tile_col) * tile_n

        lds = fx.SharedAllocator().allocate(fx.Array[element, config.lds_bytes // ITEM_BYTES, 1024]).peek().ptr
        lds_b = lds + tile_m * tile_k  # a stage is A's tile followed by B's
        a_rows = bounded_rows(a, first_row, m, tile_m, k, lda)
        b_rows = bounded_rows(b, first_col, n, tile_n, k, ldb)
        loads = (
            TileLoads(a_rows, lda, lds, tile_m, tile_k, config.waves, wave, lane, False),
            TileLoads(b_rows, ldb, lds_b, tile_n, tile_k, config.waves, wave, lane, True),
        )
        wave_row, wave_col = wave // config.waves_n * wave_m, wave % config.waves_n * wave_n
        a_fragments = Fragments(lds, wave_row, wave_m // MFMA_MN, tile_k, lane, False)
        b_fragments = Fragments(lds_b, wave_col, wave_n // MFMA_MN, tile_k, lane, True)
        accumulators, steps = _Accumulators(wave_m // MFMA_MN, wave_n // MFMA_MN, element), tile_k // MFMA_K

        # Invariant at the top of an iteration: stages - 1 K tiles, from the one to compute on, are loading or have
        # landed.
        k_tiles = _tiles(k, tile_k)
        for ahead in fx.range_constexpr(stages - 1):
            _issue(loads, fx.Int32(ahead), k, ahead * (config.stage_bytes // ITEM_BYTES), k_tail)
        write_offset = fx.Int32((stages - 1) * (config.stage_bytes // ITEM_BYTES))
        state = [fx.Int32(0), write_offset, *accumulators.zeros()]
        for k_tile, carried in range(fx.Int32(0), k_tiles - (stages - 1), fx.Int32(1), init=state):  # type: ignore[call-overload]
            read_offset, write_offset = carried[0], carried[1]
            wait_for_stage((stages - 2) * config.loads_per_stage)
            first = _fragments(a_fragments, b_fragments, 0, read_offset)
            _issue(loads, fx.Int32(k_tile) + (stages - 1), k, write_offset, k_tail)
            values = _compute(
                accumulators,
                list(carried[2:]),
                first,
                a_fragments,
                b_fragments,
                steps,
                read_offset,
                config.loads_per_stage,
            )
            state = yield [_next_stage(read_offset, config), _next_stage(write_offset, config), *values]

        read_offset, values = state[0], list(state[2:])
        for left in fx.range_constexpr(stages - 1):
            wait_for_stage((stages - 2 - left) * config.loads_per_stage)
            first = _fragments(a_fragments, b_fragments, 0, read_offset)
            values = _compute(accumulators, values, first, a_fragments, b_fragments, steps, read_offset, 0)
            read_offset = _next_stage(read_offset, config)

        c_rows = bounded_rows(c, first_row, m, tile_m, n, ldc)
        store_tile(c_rows, ldc, accumulators.rows(values), wave_row, first_col + wave_col, n, lane)

    @flyc.jit
    def launch_gemm(
        a: fx.Pointer,
        b: fx.Pointer,
        c: fx.Pointer,
        m: fx.Int32,
        n: fx.Int32,
        k: fx.Int32,
        lda: fx.Int32,
        ldb: fx.Int32,
        ldc: fx.Int32,
        key: fx.Constexpr[tuple],
        stream: fx.Stream,
    ) -> None:
        _, _, config = _config_of(key[0])
        tiles = _tiles(m, config.tile_m) * _tiles(n, config.tile_n)
        gemm_kernel(a, b, c, m, n, k, lda, ldb, ldc, key).launch(
            grid=(tiles, 1, 1), block=(config.threads, 1, 1), stream=stream
        )

    return launch_gemm


# ---- compile cache and entry -----------------------------------------------------------------------------------------


@functools.cache
def _sources() -> str:
    return source_digest(Path(__file__).parent.glob("*.py"))


def compile_key(spec: GemmSpec) -> tuple[object, ...]:
    """Everything that decides the code: the spec, the sources of these kernels and the FlyDSL release."""
    return (spec.key, _sources(), target.flydsl_version())


class CompiledGemm:
    """A kernel that computes ``out = a @ b_nk.T`` for every problem of its spec."""

    def __init__(self, spec: GemmSpec) -> None:
        self.spec = spec
        self._key = compile_key(spec)
        pointer = flyc.from_c_void_p(_ELEMENTS[spec.dtype], 0, assumed_align=_ALIGNMENT)
        self.kernel = FlyDSLKernel(
            name=spec.name,
            make_launcher=functools.partial(_make_launcher, spec.name),
            example_args=(pointer, pointer, pointer, *(8,) * 6, self._key, None),
            arch=spec.arch,
            cache_dir=Path(cache_dir()) / "flydsl",
        )
        self._checked: set[tuple[Any, ...]] = set()

    @property
    def launches(self) -> int:
        return self.kernel.launches

    def __call__(
        self, a: torch.Tensor, b_nk: torch.Tensor, out: torch.Tensor, stream: int, *epilogue_inputs: torch.Tensor
    ) -> None:
        """Launch on the raw ``stream`` of the tensors' device, which must be current. Strides are the tensors'.

        Tensors are [M, K], [N, K] and [M, N] whatever their layout, or have a batch dimension before these;
        ``epilogue_inputs`` come in the epilogue's order.
        """
        if epilogue_inputs:
            raise ValueError(f"{self.spec.name} takes no epilogue inputs, got {len(epilogue_inputs)}")
        shapes = (a.shape, b_nk.shape, out.shape, a.stride(), b_nk.stride(), out.stride())
        if shapes not in self._checked:
            self._check(a, b_nk, out)
            if len(self._checked) >= _CHECKED_LIMIT:
                self._checked.clear()
            self._checked.add(shapes)
        m, k = a.shape
        n = b_nk.shape[0]
        element = _ELEMENTS[self.spec.dtype]
        pointers = []
        for tensor in (a, b_nk, out):
            address = tensor.data_ptr()
            if address % _ALIGNMENT:
                raise ValueError(f"{self.spec.name}: address {address:#x} is not a multiple of {_ALIGNMENT} bytes")
            pointers.append(flyc.from_c_void_p(element, address, assumed_align=_ALIGNMENT))
        # A single row's stride means nothing and may be anything; the kernel's bounds want it to cover the row.
        lda = a.stride(0) if m > 1 else k
        ldb = b_nk.stride(0) if n > 1 else k
        ldc = out.stride(0) if m > 1 else n
        self.kernel.launch(out.device.index, *pointers, m, n, k, lda, ldb, ldc, self._key, stream)

    def _check(self, a: torch.Tensor, b_nk: torch.Tensor, out: torch.Tensor) -> None:
        spec = self.spec
        for name, tensor in (("a", a), ("b_nk", b_nk), ("out", out)):
            if tensor.dtype != _TORCH_DTYPES[spec.dtype]:
                raise ValueError(f"{spec.name}: {name} is {tensor.dtype}, compiled for {_TORCH_DTYPES[spec.dtype]}")
            if tensor.dim() != 2 or (tensor.shape[1] > 1 and tensor.stride(1) != 1):
                raise ValueError(
                    f"{spec.name}: {name} has shape {tuple(tensor.shape)} and strides {tensor.stride()}, not rows"
                )
            if tensor.device != out.device:
                raise ValueError(f"{spec.name}: {name} is on {tensor.device}, out on {out.device}")
        m, k = a.shape
        n = b_nk.shape[0]
        if b_nk.shape[1] != k or tuple(out.shape) != (m, n):
            raise ValueError(f"{spec.name}: a {tuple(a.shape)} x b_nk {tuple(b_nk.shape)}^T is not {tuple(out.shape)}")
        lda, ldb, ldc = a.stride(0), b_nk.stride(0), out.stride(0)
        problem = GemmProblem(m=m, n=n, k=k, dtype=spec.dtype, lda=lda, ldb=ldb, ldc=ldc)
        reason = config_unsupported_reason(problem, spec.config)
        if reason is None and k % spec.config.tile_k and not spec.k_tail:
            reason = (
                f"K={k} is not a multiple of tile_k={spec.config.tile_k} and the kernel was compiled without a K tail"
            )
        if reason is not None:
            raise ValueError(f"{spec.name} cannot compute {problem}: {reason}")


_compiled: KernelCache[CompiledGemm] = KernelCache()


def compile_gemm(spec: GemmSpec) -> CompiledGemm:
    """Compile a spec, once a process. Needs flydsl and its linker, no device: works in a compile worker.

    The artifact lands in FlyDSL's disk cache under Inductor's cache directory (or FLYDSL_RUNTIME_CACHE_DIR where set).
    """
    return _compiled.get_or_build(compile_key(spec), lambda: CompiledGemm(spec))


def launch_count() -> int:
    """Launches that returned, of all GEMMs compiled in this process: tells whether a product came from here."""
    return sum(compiled.launches for compiled in _compiled.values())
