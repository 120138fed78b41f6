"""Scaled GEMM for gfx950: ``C[M, N] = epilogue((A * scales)[M, K] @ (B * scales)[N, K]^T)`` of 8- and 4-bit operands.

Contract
- A and B each hold e4m3fn, e5m2 or e2m1fn (two to a byte, the first in the low bits), in any combination; C bf16, fp16
  or fp32. Scales by recipe (scaled_gemm_config): E8M0 bytes for blocks of 32 elements along K, or fp32 numbers for
  rows or tensors (of 8-bit operands).
- Block scales: byte e means 2^(e-127) from 2^-127 (0x00) to 2^127, 0xFF is NaN and makes NaN of all of C that its block
  goes into, and of nothing else. v_mfma_scale sums the products of a block and adds the sum, times both scales, in
  fp32; blocks come in a fixed order that the configuration decides. Scales of rows and tensors multiply the fp32 sum,
  A's first. Then the epilogue in fp32 (epilogue_expr), and one rounding to nearest even.
- The result does not depend on the tails of M and N, nor from run to run.
- M >= 1; N a multiple of 16; K a multiple of 128 with block scales, of 16 bytes else. Rows and addresses of A, B and C
  lie at multiples of 16 bytes, of block scales at multiples of 4. Sizes and strides are run-time values: one compiled
  kernel serves all problems of a ``ScaledGemmSpec``.
- Elements of C outside [M, N] (padding of rows) are not written; padding between rows of A, B and scales is not used.

scaled_gemm_kernel says how, scaled_gemm_config what is supported and which configurations there are.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import torch
from torch._inductor.runtime.cache_dir_utils import cache_dir
from torch._native.flydsl import target
from torch._native.flydsl.cache import KernelCache, source_digest
from torch._native.flydsl.counters import counters
from torch._native.flydsl.launch import FlyDSLKernel, ReadyLaunches

import flydsl.compiler as flyc
import flydsl.expr as fx

from .epilogue import ELEMENTS
from .epilogue_expr import MAX_INPUTS, InputStrides
from .gemm_config import ITEM_BYTES, OUT_ITEM_BYTES
from .scaled_gemm_arguments import scaled_problem_of
from .scaled_gemm_config import ScaledGemmSpec, config_unsupported_reason, k_tail
from .scaled_gemm_kernel import make_launcher
from .scaled_gemm_numbers import NUMBERS, ScaledNumbers
from .scaled_gemm_tile import SCALE_K

_READY_LIMIT = 1024  # shapes of which a thread keeps a launch that is ready
_ALIGNMENT = 16  # bytes, of addresses where LDS DMA or stores move 16 bytes a lane
_SCALE_ALIGNMENT = 4  # a dword a lane


@functools.cache
def _sources() -> str:
    return source_digest(Path(__file__).parent.glob("*.py"))


def compile_key(spec: ScaledGemmSpec) -> tuple[object, ...]:
    """Everything that decides the code: the spec, the sources of these kernels and the FlyDSL release."""
    return (spec.key, _sources(), target.flydsl_version())


class CompiledScaledGemm:
    """A kernel that computes ``out = epilogue((a * scale_a) @ (b_nk * scale_b)^T)`` for every problem of its spec."""

    def __init__(self, spec: ScaledGemmSpec) -> None:
        self.spec = spec
        self._key = compile_key(spec)
        inputs = spec.full_epilogue.inputs
        # Slots without an input get C's address, which the kernel does not look at.
        self._unused = MAX_INPUTS - len(inputs)
        out = ELEMENTS[spec.out_dtype]
        self._elements = [fx.Int16, fx.Int16, fx.Int32, fx.Int32, out, fx.Float32, fx.Int32]
        self._elements += [*(ELEMENTS[operand.dtype] for operand in inputs), *[out] * self._unused]
        scale = _SCALE_ALIGNMENT if spec.recipe == "block32" else 1
        self._alignments = [_ALIGNMENT, _ALIGNMENT, scale, scale, _ALIGNMENT, _ALIGNMENT, _ALIGNMENT]
        # One element of a column or a scalar is read at a time, of everything else 16 bytes.
        self._alignments += [_ALIGNMENT if o.kind in ("full", "row") else OUT_ITEM_BYTES[o.dtype] for o in inputs]
        self._alignments += [OUT_ITEM_BYTES[spec.out_dtype]] * self._unused
        self.kernel = FlyDSLKernel(
            name=spec.name,
            make_launcher=functools.partial(make_launcher, spec.name),
            example_args=(*(0,) * len(self._elements), ScaledNumbers(*[8] * NUMBERS), self._key, None),
            typed_args=self._pointers,
            arch=spec.arch,
            cache_dir=Path(cache_dir()) / "flydsl",
        )
        self._changing = (*range(7 + len(inputs)), len(self._elements) + 2)  # addresses and the stream
        self._local = ReadyLaunches()
        self._splits, self._block_scales = spec.config.split_k, spec.operands.block_scales

    @property
    def launches(self) -> int:
        return self.kernel.launches

    def __call__(
        self,
        a: torch.Tensor,
        b_nk: torch.Tensor,
        scale_a: torch.Tensor,
        scale_b: torch.Tensor,
        out: torch.Tensor,
        stream: int,
        *epilogue_inputs: torch.Tensor,
    ) -> None:
        """Launch on the raw ``stream`` of the tensors' device, which must be current. Strides are the tensors'.

        Tensors as scaled_problem_of says; ``epilogue_inputs`` come in the epilogue's order: [M, N], [N] or [1, N],
        [M, 1], [] or [1].
        """
        tensors = (a, b_nk, scale_a, scale_b, out, *epilogue_inputs)
        shapes = tuple([(x.shape, x.stride(), x.dtype, x.device) for x in tensors])
        self.launch(self._local, shapes, a, b_nk, scale_a, scale_b, out, stream, epilogue_inputs)

    def launch(
        self,
        ready: ReadyLaunches,
        key: Hashable,
        a: torch.Tensor,
        b_nk: torch.Tensor,
        scale_a: torch.Tensor,
        scale_b: torch.Tensor,
        out: torch.Tensor,
        stream: int,
        epilogue_inputs: tuple[torch.Tensor, ...],
    ) -> None:
        """The same for a caller that knows when tensors have the sizes, strides, types and device of an earlier call:
        what has been made for a ``key`` in ``ready`` is used again."""
        read = epilogue_inputs if self._block_scales else (scale_a, scale_b, *epilogue_inputs)
        addresses = [x.data_ptr() for x in (a, b_nk, scale_a, scale_b, out, out, out, *read)]
        if self._splits > 1:
            # Given back when this returns, and handed out again on this stream only: behind the kernel that uses it.
            parts, counts = self._shared(out, stream)
            addresses[5:7] = parts.data_ptr(), counts.data_ptr()
        every_bit = 0
        for address in addresses:
            every_bit |= address
        if every_bit & (_ALIGNMENT - 1):
            self._check_alignment(addresses)
        bound = ready.launches.get(key)
        if bound is not None:
            bound(*addresses, stream)
            self.kernel.launches += 1
            return
        numbers = ScaledNumbers(*self._check(a, b_nk, scale_a, scale_b, out, epilogue_inputs))
        args = (*addresses, *(addresses[4],) * self._unused, numbers, self._key, stream)
        device = out.get_device()
        self.kernel.launch(device, *args)
        bound = self.kernel.bound(device, args, self._changing)
        if bound is not None:
            if len(ready.launches) >= _READY_LIMIT:
                ready.launches.clear()
            ready.launches[key] = bound

    def _shared(self, out: torch.Tensor, stream: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Where workgroups that share a tile of ``out`` leave their parts, and the tiles' counters."""
        config = self.spec.config
        tiles = -(-out.shape[0] // config.tile_m) * -(-out.shape[1] // config.tile_n)
        items = self._splits * tiles * config.tile_m * config.tile_n
        return torch.empty(items, dtype=torch.float32, device=out.device), counters(tiles, out.device, stream)

    def _check_alignment(self, addresses: list[int]) -> None:
        for address, alignment in zip(addresses, self._alignments, strict=False):
            if address % alignment:
                raise ValueError(f"{self.spec.name}: address {address:#x} is not a multiple of {alignment} bytes")

    def _pointers(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of a launch as FlyDSL wants them where it compiles: addresses know what they point to."""
        pointers = [
            flyc.from_c_void_p(element, address, assumed_align=max(alignment, element.width // 8))
            for element, alignment, address in zip(self._elements, self._alignments, args, strict=False)
        ]
        return (*pointers, *args[len(pointers) :])

    def _check(
        self,
        a: torch.Tensor,
        b_nk: torch.Tensor,
        scale_a: torch.Tensor,
        scale_b: torch.Tensor,
        out: torch.Tensor,
        inputs: tuple[torch.Tensor, ...],
    ) -> tuple[int, ...]:
        """The kernel's numbers for these tensors. Raises ValueError if it cannot compute them."""
        spec = self.spec
        try:
            p = scaled_problem_of(a, b_nk, scale_a, scale_b, out, spec.recipe, spec.epilogue, inputs)
        except ValueError as error:
            raise ValueError(f"{spec.name}: {error}") from error
        if (p.operands, p.out_dtype) != (spec.operands, spec.out_dtype):
            raise ValueError(
                f"{spec.name}: {p.a_format} x {p.b_format} to {p.out_dtype}, compiled for "
                f"{spec.a_format} x {spec.b_format} to {spec.out_dtype}"
            )
        reason = config_unsupported_reason(p, spec.config)
        if reason is None and k_tail(p, spec.config) and not spec.k_tail:
            reason = f"K={p.k} is not a multiple of tile_k={spec.config.tile_k}; compiled without a K tail"
        if reason is not None:
            raise ValueError(f"{spec.name} cannot compute {p}: {reason}")
        a_bytes, b_bytes = p.operands.row_bytes(p.k)
        rows = [strides.row for strides in (*p.full_strides, *[InputStrides()] * self._unused)]
        items = (a_bytes // ITEM_BYTES, b_bytes // ITEM_BYTES, p.k // SCALE_K)
        scales = (p.scale_a_stride // 4, p.scale_b_stride // 4) if spec.recipe == "block32" else (0, 0)
        return (p.m, p.n, p.k, *items, p.lda // ITEM_BYTES, p.ldb // ITEM_BYTES, p.ldc, *scales, *rows)


_compiled: KernelCache[CompiledScaledGemm] = KernelCache()


def compile_scaled_gemm(spec: ScaledGemmSpec) -> CompiledScaledGemm:
    """Compile a spec, once a process. Needs flydsl and its linker, no device: works in a compile worker.

    The artifact lands in FlyDSL's disk cache under Inductor's cache directory (or FLYDSL_RUNTIME_CACHE_DIR where set).
    """
    return _compiled.get_or_build(compile_key(spec), lambda: CompiledScaledGemm(spec))


def launch_count() -> int:
    """Launches that returned, of all scaled GEMMs compiled in this process."""
    return sum(compiled.launches for compiled in _compiled.values())
