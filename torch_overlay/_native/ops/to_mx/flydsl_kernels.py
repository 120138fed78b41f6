"""Quantise blocks of 32 to an MX format on gfx950: one lane a block.

Contract
- ``x`` is fp32, bf16 or fp16, contiguous, at a 16-byte boundary; 32 neighbouring elements are a block. ``data`` gets a
  block's 32 (fp8) or 16 (fp4, low nibble first) bytes, ``scale`` one byte. Any number of blocks.
- The values are those of ``torch.nn.microscaling``'s reference bit for bit: exponent from the fp32 amax's own exponent
  field, an exact product by a power of two, saturation, one rounding to nearest even.
- A block is a lane's: no exchange between lanes. Its 64 or 128 bytes come in loads of 16 that hit the line again.

fp32 denormals are kept (gfx950's default for FlyDSL's kernels), or a block of them would become zeros.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from torch._native.flydsl import target
from torch._native.flydsl.cache import KernelCache, source_digest
from torch._native.flydsl.launch import FlyDSLKernel

from .formats import BLOCK, E8M0_NAN, FORMATS, Format

THREADS = 256
CHUNK_BYTES = 16

_INPUTS = {"fp32": fx.Float32, "bf16": fx.BFloat16, "fp16": fx.Float16}


def _item_bytes(dtype: str) -> int:
    return 4 if dtype == "fp32" else 2


def _load(buffer: Any, first: Any, dtype: str) -> list[Any]:
    """A block as 32 fp32 values."""
    element, items = _INPUTS[dtype], CHUNK_BYTES // _item_bytes(dtype)
    atom = fx.make_copy_atom(fx.rocdl.BufferCopy128b(), element)
    chunks = []
    for start in range(0, BLOCK, items):
        registers = fx.make_rmem_tensor(items, element)
        fx.copy_atom_call(atom, fx.make_view(buffer + first + start, fx.make_layout(items, 1)), registers)
        chunks.append(registers)
    return [values[i] for values in (chunk.load().to(fx.Float32) for chunk in chunks) for i in range(items)]


def _store(buffer: Any, first: Any, words: list[Any]) -> None:
    """Words of 32 bits at ``first``, counted in words, 16 bytes at a time."""
    atom = fx.make_copy_atom(fx.rocdl.BufferCopy128b(), fx.Int32)
    for start in range(0, len(words), 4):
        registers = fx.make_rmem_tensor(4, fx.Int32)
        registers.store(fx.Vector.from_elements(words[start : start + 4]))
        fx.copy_atom_call(atom, registers, fx.make_view(buffer + first + start, fx.make_layout(4, 1)))


def _store_byte(buffer: Any, index: Any, value: Any) -> None:
    registers = fx.make_rmem_tensor(1, fx.Int8)
    registers.store(fx.Vector.from_elements([value.to(fx.Int8)]))
    fx.copy_atom_call(
        fx.make_copy_atom(fx.rocdl.BufferCopy8b(), fx.Int8),
        registers,
        fx.make_view(buffer + index, fx.make_layout(1, 1)),
    )


def _largest(values: list[Any]) -> Any:
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=True)
        values = [(a < b).select(b, a) for a, b in pairs]
    return values[0]


def _pack_fp8(name: str, values: list[Any]) -> list[Any]:
    convert = fx.rocdl.cvt_pk_fp8_f32 if name == "e4m3fn" else fx.rocdl.cvt_pk_bf8_f32
    words = []
    for i in range(0, len(values), 4):
        word = fx.Int32(0).ir_value()
        for half in range(2):
            first, second = (values[i + 2 * half + j].ir_value() for j in range(2))
            word = convert(fx.Int32.ir_type, first, second, word, bool(half))
        words.append(fx.Int32(word))
    return words


def _pack_fp4(values: list[Any]) -> list[Any]:
    words, one = [], fx.Float32(1.0).ir_value()
    for i in range(0, len(values), 8):
        word = fx.Int32(0).ir_value()
        for byte in range(4):
            first, second = (values[i + 2 * byte + j].ir_value() for j in range(2))
            word = fx.rocdl.cvt_scalef32_pk_fp4_f32(fx.Int32.ir_type, word, first, second, one, byte)
        words.append(fx.Int32(word))
    return words


def _quantise(values: list[Any], fmt: Format) -> tuple[list[Any], Any]:
    """The block's packed words and its scale's byte."""
    magnitude = _largest([value.bitcast(fx.Int32) & 0x7FFFFFFF for value in values])
    poisoned = magnitude >= 0x7F800000  # an infinity or a NaN
    shared = (magnitude >> 23) - fmt.largest_exponent
    shared = (shared < 0).select(fx.Int32(0), shared)
    # 2^(127 - shared): at most 2^127, and normal, for the byte is at most 254 - 2.
    factor = ((fx.Int32(254) - shared) << 23).bitcast(fx.Float32)
    limit = fx.Float32(fmt.largest)
    # What a NaN gives does not matter: its block is poisoned.
    scaled = [fx.minnumf(fx.maxnumf(value * factor, -limit), limit) for value in values]
    words = _pack_fp4(scaled) if fmt.packed else _pack_fp8(fmt.name, scaled)
    words = [poisoned.select(fx.Int32(0), word) for word in words]
    return words, poisoned.select(fx.Int32(E8M0_NAN), shared)


def make_launcher(name: str) -> Any:
    @flyc.kernel(name=name)
    def quantise_kernel(
        x: fx.Pointer, data: fx.Pointer, scale: fx.Pointer, blocks: fx.Int32, key: fx.Constexpr[tuple]
    ) -> None:
        fmt, item = FORMATS[key[0]], _item_bytes(key[1])
        # Offsets count from this workgroup's first block, so that 32 bits hold them whatever the tensor's size.
        first = fx.Int32(fx.block_idx.x) * THREADS
        here = blocks - first
        here = (here < THREADS).select(here, fx.Int32(THREADS))
        words = BLOCK // (8 if fmt.packed else 4)
        inputs = fx.rocdl.make_buffer_ptr(
            x + fx.Int64(first) * BLOCK, num_records_bytes=fx.Int64(here) * (BLOCK * item)
        )
        output = fx.rocdl.make_buffer_ptr(
            data + fx.Int64(first) * words, num_records_bytes=fx.Int64(here) * (words * 4)
        )
        scales = fx.rocdl.make_buffer_ptr(scale + fx.Int64(first), num_records_bytes=fx.Int64(here))
        lane = fx.Int32(fx.thread_idx.x)
        packed, byte = _quantise(_load(inputs, lane * BLOCK, key[1]), fmt)
        _store(output, lane * words, packed)
        _store_byte(scales, lane, byte)

    @flyc.jit
    def launch_quantise(
        x: fx.Pointer,
        data: fx.Pointer,
        scale: fx.Pointer,
        blocks: fx.Int32,
        key: fx.Constexpr[tuple],
        stream: fx.Stream,
    ) -> None:
        quantise_kernel(x, data, scale, blocks, key).launch(
            grid=((blocks + (THREADS - 1)) // THREADS, 1, 1), block=(THREADS, 1, 1), stream=stream
        )

    return launch_quantise


class CompiledQuantiser:
    """The kernel that quantises ``dtype`` to ``fmt``."""

    def __init__(self, fmt: str, dtype: str, arch: str) -> None:
        # FlyDSL's disk cache sees neither the helpers above nor the formats' numbers: the sources are in the key.
        self._key = (fmt, dtype, source_digest(Path(__file__).parent.glob("*.py")), target.flydsl_version())
        name = f"to_mx_{fmt}_{dtype}"
        self.kernel = FlyDSLKernel(
            name=name,
            make_launcher=functools.partial(make_launcher, name),
            example_args=(0, 0, 0, 1, self._key, None),
            typed_args=functools.partial(_typed, dtype),
            arch=arch,
            cache_dir=None,
        )

    def __call__(self, x: int, data: int, scale: int, blocks: int, device_index: int, stream: int) -> None:
        """Launch on addresses of the current device ``device_index``."""
        self.kernel.launch(device_index, x, data, scale, blocks, self._key, stream)


def _typed(dtype: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    elements = ((_INPUTS[dtype], CHUNK_BYTES), (fx.Int32, CHUNK_BYTES), (fx.Int8, 1))
    pointers = [
        flyc.from_c_void_p(element, address, assumed_align=align)
        for (element, align), address in zip(elements, args, strict=False)
    ]
    return (*pointers, *args[len(pointers) :])


_compiled: KernelCache[CompiledQuantiser] = KernelCache()


def compile_quantiser(fmt: str, dtype: str, arch: str) -> CompiledQuantiser:
    """Compiled at its first use, once a process."""
    return _compiled.get_or_build(("to_mx", fmt, dtype, arch), lambda: CompiledQuantiser(fmt, dtype, arch))
