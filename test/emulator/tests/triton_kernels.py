"""Triton kernels for the core's tests, compiled for gfx950 without a device, and their launch on the core."""

# Triton reads a kernel's annotations at compile time, so this module keeps them evaluated.

import copy
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import triton
import triton.language as tl
from core_library import CodeObject
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

TARGET = GPUTarget("hip", "gfx950", 64)
SCRATCH_POINTERS = 2  # Triton appends a global and a profile scratch pointer to every kernel's arguments


class Compiled:
    def __init__(self, kernel: Any) -> None:
        self.name = kernel.name
        self.lds = kernel.metadata.shared
        self.threads = kernel.metadata.num_warps * 64
        self.assembly = kernel.asm["amdgcn"]
        self.image = kernel.asm["hsaco"]
        self._object = CodeObject(self.image)

    def with_image(self, image: bytes) -> "Compiled":
        other = copy.copy(self)
        other._object = CodeObject(image)
        return other

    def launch(self, grid: Sequence[int], *arguments: np.ndarray | int | float) -> dict[str, int]:
        """Runs on the core. Arrays are passed by address, integers as 32 bits, floats as f32."""
        arrays = [argument for argument in arguments if isinstance(argument, np.ndarray)]
        packed = bytearray()
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                packed += b"\0" * (-len(packed) % 8) + struct.pack("<Q", argument.ctypes.data)
            else:
                packed += struct.pack("<f" if isinstance(argument, float) else "<i", argument)
        packed += b"\0" * (-len(packed) % 8 + 8 * SCRATCH_POINTERS)
        x, y, z = (*grid, 1, 1)[:3]
        return self._object.launch_packed(self.name, (x, y, z), (self.threads, 1, 1), bytes(packed), arrays, self.lds)


def compile_kernel(
    function: Any,
    signature: Mapping[str, str],
    constants: Mapping[str, Any],
    aligned: Sequence[str] = (),
    **options: Any,
) -> Compiled:
    """`aligned`: arguments that are multiples of 16, which makes Triton use wide accesses."""
    names = function.arg_names
    source = ASTSource(
        function,
        {**signature, **dict.fromkeys(constants, "constexpr")},
        {(names.index(name),): value for name, value in constants.items()},
        {(names.index(name),): [["tt.divisibility", 16]] for name in aligned},
    )
    return Compiled(triton.compile(source, target=TARGET, options=options))


@triton.jit
def add(a, b, c, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    mask = i < n
    tl.store(c + i, tl.load(a + i, mask=mask) + tl.load(b + i, mask=mask), mask=mask)


@triton.jit
def softmax(x, y, columns, stride, block: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, block)
    mask = i < columns
    value = tl.load(x + row * stride + i, mask=mask, other=-float("inf"))
    value = tl.exp(value - tl.max(value, 0))
    tl.store(y + row * stride + i, value / tl.sum(value, 0), mask=mask)


@triton.jit
def matmul(a, b, c, m, n, k, sam, sak, sbk, sbn, scm, bm: tl.constexpr, bn: tl.constexpr, bk: tl.constexpr):
    pm, pn = tl.program_id(0), tl.program_id(1)
    om, on, ok = pm * bm + tl.arange(0, bm), pn * bn + tl.arange(0, bn), tl.arange(0, bk)
    accumulator = tl.zeros((bm, bn), dtype=tl.float32)
    for start in range(0, k, bk):
        kk = start + ok
        left = tl.load(a + om[:, None] * sam + kk[None, :] * sak, mask=(om[:, None] < m) & (kk[None, :] < k), other=0.0)
        right = tl.load(
            b + kk[:, None] * sbk + on[None, :] * sbn, mask=(kk[:, None] < k) & (on[None, :] < n), other=0.0
        )
        accumulator = tl.dot(left, right, accumulator)
    tl.store(
        c + om[:, None] * scm + on[None, :],
        accumulator.to(c.dtype.element_ty),
        mask=(om[:, None] < m) & (on[None, :] < n),
    )


@triton.jit
def statistics(x, total, largest, where, product, columns: tl.constexpr):
    row = tl.program_id(0)
    value = tl.load(x + row * columns + tl.arange(0, columns))
    tl.store(total + row, tl.sum(value, 0))
    tl.store(largest + row, tl.max(value, 0))
    tl.store(where + row, tl.argmin(value, 0))
    tl.store(product + row * columns + tl.arange(0, columns), tl.cumsum(value, 0))


@triton.jit
def sort_rows(x, y, columns: tl.constexpr):
    i = tl.program_id(0) * columns + tl.arange(0, columns)
    tl.store(y + i, tl.sort(tl.load(x + i)))


@triton.jit
def transpose(x, y, rows: tl.constexpr, columns: tl.constexpr):
    i, j = tl.arange(0, rows), tl.arange(0, columns)
    tile = tl.load(x + i[:, None] * columns + j[None, :])
    tl.store(y + j[:, None] * rows + i[None, :], tl.trans(tile))


@triton.jit
def philox(y, seed, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + i, tl.randint(seed, i))


@triton.jit
def histogram(x, bins, total, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    value = tl.load(x + i, mask=i < n, other=0)
    tl.atomic_add(bins + value, 1, mask=i < n)
    tl.atomic_add(total, tl.sum(tl.where(i < n, value.to(tl.float32), 0.0), 0))


@triton.jit
def elementwise(x, y, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    mask = i < n
    value = tl.load(x + i, mask=mask, other=1.0)
    tl.store(y + i, tl.exp(value), mask=mask)
    tl.store(y + n + i, tl.log(tl.abs(value)), mask=mask)
    tl.store(y + 2 * n + i, tl.sqrt(tl.abs(value)), mask=mask)
    tl.store(y + 3 * n + i, value / (1.0 + tl.exp(-value)), mask=mask)
    tl.store(y + 4 * n + i, tl.sin(value), mask=mask)
    tl.store(y + 5 * n + i, tl.floor(value) + tl.rsqrt(tl.abs(value)), mask=mask)


@triton.jit
def integers(x, y, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    mask = i < n
    value = tl.load(x + i, mask=mask, other=1)
    tl.store(y + i, value // 7, mask=mask)
    tl.store(y + n + i, value % 13, mask=mask)
    tl.store(y + 2 * n + i, value * 123456789123, mask=mask)
    tl.store(y + 3 * n + i, (value >> 3) ^ (value << 5), mask=mask)


@triton.jit
def mx_matmul(
    a,
    a_scale,
    b,
    b_scale,
    c,
    m: tl.constexpr,
    n: tl.constexpr,
    k: tl.constexpr,
    kind_a: tl.constexpr,
    kind_b: tl.constexpr,
):
    # One tile. a is [m, k], b [k, n]; scales are [m, k / 32] and [n, k / 32], e8m0.
    pack_a: tl.constexpr = 2 if kind_a == "e2m1" else 1
    pack_b: tl.constexpr = 2 if kind_b == "e2m1" else 1
    im, jn = tl.arange(0, m), tl.arange(0, n)
    ka, kb = tl.arange(0, k // pack_a), tl.arange(0, k // pack_b)
    ks = tl.arange(0, k // 32)
    left = tl.load(a + im[:, None] * (k // pack_a) + ka[None, :])
    right = tl.load(b + kb[:, None] * n + jn[None, :])
    left_scale = tl.load(a_scale + im[:, None] * (k // 32) + ks[None, :])
    right_scale = tl.load(b_scale + jn[:, None] * (k // 32) + ks[None, :])
    result = tl.dot_scaled(left, left_scale, kind_a, right, right_scale, kind_b)
    tl.store(c + im[:, None] * n + jn[None, :], result)


@triton.jit
def sums_from_behind(x, y, rows: tl.constexpr, columns: tl.constexpr, axis: tl.constexpr):
    place = tl.arange(0, rows)[:, None] * columns + tl.arange(0, columns)[None, :]
    tl.store(y + place, tl.cumsum(tl.load(x + place), axis, reverse=True))


@triton.jit
def spin(flag):
    # Waits for a value that nobody writes.
    while tl.atomic_add(flag, 0) == 0:
        pass


@triton.jit
def copy_unmasked(x, y, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + i, tl.load(x + i))


@triton.jit
def attention(q, k, v, o, length, scale, bm: tl.constexpr, bn: tl.constexpr, d: tl.constexpr, causal: tl.constexpr):
    # One head, rows contiguous; online softmax in base 2.
    rows = tl.program_id(0) * bm + tl.arange(0, bm)
    depth = tl.arange(0, d)
    query = tl.load(q + rows[:, None] * d + depth[None, :], mask=rows[:, None] < length, other=0.0)
    peak = tl.full((bm,), -float("inf"), tl.float32)
    total = tl.zeros((bm,), tl.float32)
    accumulator = tl.zeros((bm, d), tl.float32)
    last = tl.minimum(length, (tl.program_id(0) + 1) * bm) if causal else length
    for start in range(0, last, bn):
        columns = start + tl.arange(0, bn)
        key = tl.load(k + columns[None, :] * d + depth[:, None], mask=columns[None, :] < length, other=0.0)
        score = tl.dot(query, key) * (scale * 1.4426950408889634)
        score = tl.where(columns[None, :] < length, score, -float("inf"))
        if causal:
            score = tl.where(rows[:, None] >= columns[None, :], score, -float("inf"))
        higher = tl.maximum(peak, tl.max(score, 1))
        weight = tl.exp2(score - higher[:, None])
        decay = tl.exp2(peak - higher)
        total = total * decay + tl.sum(weight, 1)
        value = tl.load(v + columns[:, None] * d + depth[None, :], mask=columns[:, None] < length, other=0.0)
        accumulator = tl.dot(weight.to(value.dtype), value, accumulator * decay[:, None])
        peak = higher
    result = (accumulator / total[:, None]).to(o.dtype.element_ty)
    tl.store(o + rows[:, None] * d + depth[None, :], result, mask=rows[:, None] < length)


@triton.jit
def convert(x, y, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + i, tl.load(x + i, mask=i < n).to(y.dtype.element_ty), mask=i < n)


@triton.jit(noinline=True)
def square_plus_one(x):
    return x * x + 1


@triton.jit(noinline=True)
def twice_square_plus_one(x):
    return square_plus_one(x) * 2


@triton.jit
def calling(x, y):
    i = tl.program_id(0)
    tl.store(y + i, twice_square_plus_one(square_plus_one(tl.load(x + i))))
