"""bf16 and fp16 GEMM for gfx950: ``C[b, M, N] = epilogue(A[b, M, K] @ B[b, N, K]^T)``, any of the operands' layouts.

Contract
- A and B have the same type, bf16 or fp16; C that type or another of bf16, fp16 and fp32. Products are exact in fp32,
  summed in fp32 by v_mfma_f32_16x16x32 in a fixed order that the configuration decides, taken through the epilogue in
  fp32 (epilogue_expr) and rounded once to nearest even. The result does not depend on the tails of M and N.
- M >= 1; N and K multiples of 8; leading strides and addresses multiples of 16 bytes. Sizes, strides and the batch are
  run-time values: one compiled kernel serves all problems of a ``GemmSpec``.
- Elements of C outside [M, N] (padding of rows) are not written. Elements of A outside [M, K] and of B outside [N, K]
  are not used; where M is contiguous up to 7 elements behind a row's end are read, which its stride covers.

gemm_kernel says how, gemm_config what is supported and which configurations there are.
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
from .gemm_arguments import problem_of
from .gemm_config import OUT_ITEM_BYTES, GemmSpec, config_unsupported_reason, k_tail
from .gemm_kernel import make_launcher
from .gemm_numbers import NUMBERS, Numbers

_READY_LIMIT = 1024  # shapes of which a thread keeps a launch that is ready
_ALIGNMENT = 16  # bytes, of every address: LDS DMA, LDS reads and stores move 16 bytes a lane


@functools.cache
def _sources() -> str:
    return source_digest(Path(__file__).parent.glob("*.py"))


def compile_key(spec: GemmSpec) -> tuple[object, ...]:
    """Everything that decides the code: the spec, the sources of these kernels and the FlyDSL release."""
    return (spec.key, _sources(), target.flydsl_version())


class CompiledGemm:
    """A kernel that computes ``out = epilogue(a @ b_nk^T)`` for every problem of its spec."""

    def __init__(self, spec: GemmSpec) -> None:
        self.spec = spec
        self._key = compile_key(spec)
        inputs = [ELEMENTS[operand.dtype] for operand in spec.epilogue.inputs]
        out = ELEMENTS[spec.stored_dtype]
        # Slots without an input get C's address, which the kernel does not look at.
        self._unused = MAX_INPUTS - len(inputs)
        own = [*[ELEMENTS[spec.dtype]] * 2, out, ELEMENTS["fp32"], fx.Int32]  # A, B, C, workspace, counters
        self._elements = [*own, *inputs, *[out] * self._unused]
        # One element of a column or a scalar is read at a time, of everything else 16 bytes.
        lone = [1 if o.kind in ("full", "row") else _ALIGNMENT // OUT_ITEM_BYTES[o.dtype] for o in spec.epilogue.inputs]
        self._alignments = [_ALIGNMENT // few for few in (*[1] * len(own), *lone, *[1] * self._unused)]
        self._changing = (*range(len(own) + len(inputs)), len(self._elements) + 2)  # addresses and the stream
        addresses, numbers = (0,) * len(self._elements), Numbers(*[8] * NUMBERS)
        self.kernel = FlyDSLKernel(
            name=spec.name,
            make_launcher=functools.partial(make_launcher, spec.name),
            example_args=(*addresses, numbers, self._key, None),
            typed_args=self._pointers,
            arch=spec.arch,
            cache_dir=Path(cache_dir()) / "flydsl",
        )
        self._local = ReadyLaunches()
        self._splits = spec.config.split_k

    @property
    def launches(self) -> int:
        return self.kernel.launches

    def __call__(
        self, a: torch.Tensor, b_nk: torch.Tensor, out: torch.Tensor, stream: int, *epilogue_inputs: torch.Tensor
    ) -> None:
        """Launch on the raw ``stream`` of the tensors' device, which must be current. Strides are the tensors'.

        Tensors are [M, K], [N, K] and [M, N] whatever their layout, or have a batch dimension before these (a batch of
        one operand or input may be an expanded one); ``epilogue_inputs`` come in the epilogue's order: [M, N], [N] or
        [1, N], [M, 1], [] or [1], each with the batch dimension before it or not.
        """
        shapes = tuple([(x.shape, x.stride(), x.dtype, x.device) for x in (a, b_nk, out, *epilogue_inputs)])
        self.launch(self._local, shapes, a, b_nk, out, stream, epilogue_inputs)

    def launch(
        self,
        ready: ReadyLaunches,
        key: Hashable,
        a: torch.Tensor,
        b_nk: torch.Tensor,
        out: torch.Tensor,
        stream: int,
        epilogue_inputs: tuple[torch.Tensor, ...],
    ) -> None:
        """The same for a caller that knows when tensors have the sizes, strides, types and device of an earlier call:
        what has been made for a ``key`` in ``ready`` is used again."""
        addresses = [x.data_ptr() for x in (a, b_nk, out, out, out, *epilogue_inputs)]
        if self._splits > 1:
            # Given back when this returns, and handed out again on this stream only: behind the kernel that uses it.
            parts, counts = self._shared(out, stream)
            addresses[3:5] = parts.data_ptr(), counts.data_ptr()
        every_bit = 0
        for address in addresses:
            every_bit |= address
        if every_bit & (_ALIGNMENT - 1):
            self._check_alignment(addresses)
        bound = ready.launches.get(key)
        if bound is None:
            self._first(ready, key, a, b_nk, out, epilogue_inputs, addresses, stream)
        else:
            bound(*addresses, stream)
            self.kernel.launches += 1

    def _shared(self, out: torch.Tensor, stream: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Where workgroups that share a tile of ``out`` leave their parts, and the tiles' counters."""
        config = self.spec.config
        tiles = -(-out.shape[-2] // config.tile_m) * -(-out.shape[-1] // config.tile_n)
        tiles *= out.shape[0] if out.dim() == 3 else 1
        parts = torch.empty(
            self._splits * tiles * config.tile_m * config.tile_n, dtype=torch.float32, device=out.device
        )
        return parts, counters(tiles, out.device, stream)

    def _check_alignment(self, addresses: list[int]) -> None:
        for address, alignment in zip(addresses, self._alignments, strict=False):
            if address % alignment:
                raise ValueError(f"{self.spec.name}: address {address:#x} is not a multiple of {alignment} bytes")

    def _first(
        self,
        ready: ReadyLaunches,
        key: Hashable,
        a: torch.Tensor,
        b_nk: torch.Tensor,
        out: torch.Tensor,
        epilogue_inputs: tuple[torch.Tensor, ...],
        addresses: list[int],
        stream: int,
    ) -> None:
        """Check the tensors, launch, and keep a launch of all that shapes decide for the calls that follow."""
        numbers = Numbers(*self._check(a, b_nk, out, epilogue_inputs))
        args = (*addresses, *(addresses[2],) * self._unused, numbers, self._key, stream)
        device = out.get_device()
        self.kernel.launch(device, *args)
        bound = self.kernel.bound(device, args, self._changing)
        if bound is not None:
            if len(ready.launches) >= _READY_LIMIT:
                ready.launches.clear()
            ready.launches[key] = bound

    def _pointers(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of a launch as FlyDSL wants them where it compiles: addresses know what they point to."""
        pointers = [
            flyc.from_c_void_p(element, address, assumed_align=alignment)
            for element, alignment, address in zip(self._elements, self._alignments, args, strict=False)
        ]
        return (*pointers, *args[len(pointers) :])

    def _check(
        self, a: torch.Tensor, b_nk: torch.Tensor, out: torch.Tensor, inputs: tuple[torch.Tensor, ...]
    ) -> tuple[int, ...]:
        """The kernel's numbers for these tensors. Raises ValueError if it cannot compute them."""
        spec = self.spec
        try:
            p = problem_of(a, b_nk, out, spec.a_layout, spec.b_layout, spec.epilogue, inputs)
        except ValueError as error:
            raise ValueError(f"{spec.name}: {error}") from error
        if (p.dtype, p.stored_dtype) != (spec.dtype, spec.stored_dtype):
            raise ValueError(
                f"{spec.name}: {p.dtype} operands and {p.stored_dtype} output, compiled for {spec.dtype} and "
                f"{spec.stored_dtype}"
            )
        reason = config_unsupported_reason(p, spec.config)
        if reason is None and k_tail(p, spec.config) and not spec.k_tail:
            reason = f"K={p.k} is not a multiple of tile_k={spec.config.tile_k}; compiled without a K tail"
        if reason is not None:
            raise ValueError(f"{spec.name} cannot compute {p}: {reason}")
        read = [*p.epilogue_strides, *[InputStrides()] * self._unused]
        sizes = (p.m, p.n, p.k, p.lda, p.ldb, p.ldc, p.stride_a, p.stride_b, p.stride_c)
        return (*sizes, *(strides.row for strides in read), *(strides.batch for strides in read), p.batch)


_compiled: KernelCache[CompiledGemm] = KernelCache()


def compile_gemm(spec: GemmSpec) -> CompiledGemm:
    """Compile a spec, once a process. Needs flydsl and its linker, no device: works in a compile worker.

    The artifact lands in FlyDSL's disk cache under Inductor's cache directory (or FLYDSL_RUNTIME_CACHE_DIR where set).
    """
    return _compiled.get_or_build(compile_key(spec), lambda: CompiledGemm(spec))


def launch_count() -> int:
    """Launches that returned, of all GEMMs compiled in this process: tells whether a product came from here."""
    return sum(compiled.launches for compiled in _compiled.values())
