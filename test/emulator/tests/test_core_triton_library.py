"""The kernels of `triton_library.py` on the core against numpy, under both wave schedules."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import triton
import triton.language as tl
import triton_kernels
import triton_library as library
from test_core_triton import compiled, philox_words, rng, schedule

__all__ = ["rng", "schedule"]  # fixtures

EPSILON = 2.0**-23  # of float32


def run(function: Any, grid: tuple[int, ...], types: str, *arguments: Any, **constants: Any) -> dict[str, int]:
    """Compiles for arguments of Triton's `types` ("*fp32 *i32 i32"), in the order of the kernel's, and launches."""
    signature = dict(zip(function.arg_names, types.split(), strict=False))
    return compiled(function, signature, **constants).launch(grid, *arguments)


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def whole(rng: np.random.Generator, low: int, high: int, *shape: int, dtype: Any = np.float32) -> np.ndarray:
    return rng.integers(low, high, shape).astype(dtype)


@pytest.mark.parametrize("columns", [100, 1024])
def test_layer_norm(rng: np.random.Generator, columns: int) -> None:
    x, weight, bias, y = (
        normal(rng, 6, columns),
        normal(rng, columns),
        normal(rng, columns),
        np.zeros((6, columns), "f"),
    )
    types = "*fp32 *fp32 *fp32 *fp32 i32 fp32"
    run(library.layer_norm, (6,), types, x, weight, bias, y, columns, 1e-5, block=1024)
    wide = x.astype(np.float64)
    scaled = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, scaled * weight + bias, rtol=0, atol=16 * EPSILON * 4)


def test_rms_norm(rng: np.random.Generator) -> None:
    x, y = normal(rng, 6, 256), np.zeros((6, 256), np.float32)
    run(library.rms_norm, (6,), "*fp32 *fp32", x, y, columns=256)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(y, wide / np.sqrt((wide**2).mean(1, keepdims=True)), rtol=8 * EPSILON)


def test_dropout(rng: np.random.Generator) -> None:
    x, y = normal(rng, 1024), np.zeros(1024, np.float32)
    run(library.dropout, (4,), "*fp32 *fp32 i32 fp32", x, y, 77, 0.5, block=256)
    words = philox_words(77, np.arange(1024)).view(np.int32).astype(np.int64)
    uniform = np.where(words < 0, -words - 1, words) * 4.6566127342e-10  # as Triton documents: in [0, 1)
    near = np.abs(uniform - 0.5) < 1e-6
    np.testing.assert_array_equal(y[~near], np.where(uniform < 0.5, 2 * x, 0)[~near])
    assert near.sum() < 8
    assert 400 < np.count_nonzero(y) < 624


def test_histogram_of_block(rng: np.random.Generator) -> None:
    x, y = whole(rng, 0, 32, 1024, dtype=np.int32), np.zeros(32, np.int32)
    run(library.histogram_of_block, (1,), "*i32 *i32", x, y, block=1024, bins=32)
    np.testing.assert_array_equal(y, np.bincount(x, minlength=32))


def test_recurrence(rng: np.random.Generator) -> None:
    a, b, y = whole(rng, -1, 2, 3, 256), whole(rng, -9, 10, 3, 256), np.zeros((3, 256), np.float32)
    run(library.recurrence, (3,), "*fp32 *fp32 *fp32", a, b, y, columns=256)
    value, expected = np.zeros(3), np.zeros((3, 256))
    for i in range(256):
        value = a[:, i] * value + b[:, i]
        expected[:, i] = value
    np.testing.assert_array_equal(y, expected)


def test_scan_backwards(rng: np.random.Generator) -> None:
    x, y = normal(rng, 64, 32), np.zeros((64, 32), np.float32)
    run(library.scan_backwards, (1,), "*fp32 *fp32", x, y, rows=64, columns=32)
    np.testing.assert_array_equal(y, np.maximum.accumulate(x[::-1], 0)[::-1])


@pytest.mark.parametrize("kind", ["fp8e4nv", "fp8e5", "i8", "fp16", "bf16"])
def test_one_tile_product(rng: np.random.Generator, kind: str) -> None:
    dtype = {
        "fp8e4nv": ml_dtypes.float8_e4m3fn,
        "fp8e5": ml_dtypes.float8_e5m2,
        "i8": np.int8,
        "fp16": np.float16,
        "bf16": ml_dtypes.bfloat16,
    }[kind]
    a, b = whole(rng, -4, 5, 64, 64, dtype=dtype), whole(rng, -4, 5, 64, 64, dtype=dtype)
    out, result = (tl.int32, "*i32") if kind == "i8" else (tl.float32, "*fp32")
    c = np.zeros((64, 64), np.int32 if kind == "i8" else np.float32)
    types = f"*{kind} *{kind} {result}"
    counts = run(library.one_tile_product, (1,), types, a, b, c, m=64, n=64, k=64, out=out)
    np.testing.assert_array_equal(c, a.astype(np.float64) @ b.astype(np.float64))
    assert counts["mfma"] > 0


def test_split_k_product(rng: np.random.Generator) -> None:
    a, b = whole(rng, -8, 9, 32, 256, dtype=np.float16), whole(rng, -8, 9, 256, 32, dtype=np.float16)
    c = np.zeros((32, 32), np.float32)
    run(library.split_k_product, (4,), "*fp16 *fp16 *fp32 i32", a, b, c, 256, m=32, n=32, part=64)
    np.testing.assert_array_equal(c, a.astype(np.float64) @ b.astype(np.float64))


def test_batched_product(rng: np.random.Generator) -> None:
    a, b = (whole(rng, -8, 9, 2, 32, 32, dtype=np.float16) for _ in range(2))
    c = np.zeros((2, 32, 32), np.float32)
    run(library.batched_product, (1,), "*fp16 *fp16 *fp32", a, b, c, batch=2, size=32)
    np.testing.assert_array_equal(c, a.astype(np.float64) @ b.astype(np.float64))


def test_gelu(rng: np.random.Generator) -> None:
    x, y = normal(rng, 512), np.zeros(512, np.float32)
    run(library.gelu, (2,), "*fp32 *fp32", x, y, block=256)
    expected = [0.5 * float(v) * (1 + math.erf(float(v) / math.sqrt(2))) for v in x]
    np.testing.assert_allclose(y, expected, rtol=0, atol=4 * EPSILON)


def test_cross_entropy(rng: np.random.Generator) -> None:
    x, labels, loss = normal(rng, 5, 128), whole(rng, 0, 128, 5, dtype=np.int32), np.zeros(5, np.float32)
    run(library.cross_entropy, (5,), "*fp32 *i32 *fp32", x, labels, loss, columns=128)
    wide = x.astype(np.float64)
    expected = np.log(np.exp(wide).sum(1)) - wide[np.arange(5), labels]
    np.testing.assert_allclose(loss, expected, rtol=0, atol=16 * EPSILON)


def test_embedding_and_its_gradient(rng: np.random.Generator) -> None:
    table, index = whole(rng, -99, 99, 20, 64), whole(rng, 0, 20, 9, dtype=np.int32)
    y, gradient = np.zeros((9, 64), np.float32), np.zeros((20, 64), np.float32)
    run(library.embedding, (9,), "*fp32 *i32 *fp32", table, index, y, width=64)
    np.testing.assert_array_equal(y, table[index])
    run(library.scatter_add, (9,), "*fp32 *i32 *fp32", y, index, gradient, width=64)
    np.testing.assert_array_equal(gradient, table * np.bincount(index, minlength=20)[:, None])


def test_stencil(rng: np.random.Generator) -> None:
    x, y = whole(rng, -9, 10, 7, 50), np.zeros((7, 50), np.float32)
    run(library.stencil, (7,), "*fp32 *fp32 i32 i32", x, y, 7, 50, block=64)
    padded = np.pad(x, 1)
    expected = sum((2 * i + j - 3 + 4) * padded[i : i + 7, j : j + 50] for i in range(3) for j in range(3))
    np.testing.assert_array_equal(y, expected)


def test_row_extremes(rng: np.random.Generator) -> None:
    x, where, least = normal(rng, 32, 64), np.zeros(32, np.int32), np.zeros(64, np.float32)
    run(library.row_extremes, (1,), "*fp32 *i32 *fp32", x, where, least, rows=32, columns=64)
    np.testing.assert_array_equal(where, x.argmax(1))
    np.testing.assert_array_equal(least, x.min(0))


def test_max_pool(rng: np.random.Generator) -> None:
    x, y = normal(rng, 32, 64), np.zeros((16, 32), np.float32)
    run(library.max_pool, (1,), "*fp32 *fp32", x, y, rows=32, columns=64)
    np.testing.assert_array_equal(y, x.reshape(16, 2, 32, 2).max((1, 3)))


def test_reverse(rng: np.random.Generator) -> None:
    x, y = normal(rng, 3, 256), np.zeros((3, 256), np.float32)
    run(library.reverse, (3,), "*fp32 *fp32", x, y, columns=256)
    np.testing.assert_array_equal(y, x[:, ::-1])


def test_complex_product(rng: np.random.Generator) -> None:
    a, b, c = whole(rng, -99, 99, 512), whole(rng, -99, 99, 512), np.zeros(512, np.float32)
    run(library.complex_product, (1,), "*fp32 *fp32 *fp32", a, b, c, block=256)
    np.testing.assert_array_equal(c.view(np.complex64), a.view(np.complex64) * b.view(np.complex64))


def test_ticket_lock() -> None:
    lock, cell = np.zeros(1, np.int32), np.ones(1, np.int32)
    run(library.ticket_lock, (8,), "*i32 *i32", lock, cell)
    expected = 1
    for _ in range(8):
        expected = expected * 3 + 1
    assert (lock[0], cell[0]) == (0, expected)


def test_extreme_atomics(rng: np.random.Generator) -> None:
    x = whole(rng, -9999, 9999, 1024, dtype=np.int32)
    highest, lowest, bits = np.full(4, -(2**31), np.int32), np.full(4, 2**31 - 1, np.int32), np.zeros(4, np.int32)
    run(library.extreme_atomics, (4,), "*i32 *i32 *i32 *i32", x, highest, lowest, bits, block=256)
    columns = x.reshape(-1, 4)
    np.testing.assert_array_equal(highest, columns.max(0))
    np.testing.assert_array_equal(lowest, columns.min(0))
    np.testing.assert_array_equal(bits, np.bitwise_or.reduce(columns, 0))


def test_checksum(rng: np.random.Generator) -> None:
    x, y = whole(rng, -(2**31), 2**31, 3, 512, dtype=np.int32), np.zeros(3, np.int32)
    run(library.checksum, (3,), "*i32 *i32", x, y, columns=512)
    np.testing.assert_array_equal(y, np.bitwise_xor.reduce(x, 1))


def test_permute(rng: np.random.Generator) -> None:
    x, y = normal(rng, 8, 16, 32), np.zeros((32, 8, 16), np.float32)
    run(library.permute, (1,), "*fp32 *fp32", x, y, a=8, b=16, c=32)
    np.testing.assert_array_equal(y, x.transpose(2, 0, 1))


def test_outer_f64(rng: np.random.Generator) -> None:
    a, b, c = rng.standard_normal(16), rng.standard_normal(64), np.zeros((16, 64))
    run(library.outer_f64, (1,), "*fp64 *fp64 *fp64", a, b, c, m=16, n=64)
    np.testing.assert_array_equal(c, np.outer(a, b))


def test_quantized_rows_and_product(rng: np.random.Generator) -> None:
    x = whole(rng, -126, 127, 4, 128)
    x[:, 5] = 127  # a scale of 1, a power of two: exact
    x *= np.array([[1], [2], [4], [0.5]], np.float32)
    y, scales = np.zeros((4, 128), np.int8), np.zeros(4, np.float32)
    run(library.quantize_rows, (4,), "*fp32 *i8 *fp32", x, y, scales, columns=128)
    np.testing.assert_array_equal(scales, [1, 2, 4, 0.5])
    np.testing.assert_array_equal(y, x / scales[:, None])
    a, b = whole(rng, -8, 9, 32, 64, dtype=np.float16), whole(rng, -128, 128, 64, 32, dtype=np.int8)
    c, factors = np.zeros((32, 32), np.float32), np.exp2(whole(rng, -3, 4, 32))
    run(library.dequantized_product, (1,), "*fp16 *i8 *fp32 *fp32", a, b, factors, c, m=32, n=32, k=64)
    np.testing.assert_array_equal(c, a.astype(np.float64) @ b.astype(np.float64) * factors)


def test_rotary(rng: np.random.Generator) -> None:
    x, cosine, sine = whole(rng, -99, 99, 5, 128), whole(rng, -9, 9, 5, 64), whole(rng, -9, 9, 5, 64)
    y = np.zeros_like(x)
    run(library.rotary, (5,), "*fp32 *fp32 *fp32 *fp32", x, cosine, sine, y, half=64)
    first, second = x[:, :64], x[:, 64:]
    np.testing.assert_array_equal(y, np.hstack([first * cosine - second * sine, second * cosine + first * sine]))


def test_greatest_common_divisor(rng: np.random.Generator) -> None:
    a, b = (whole(rng, 1, 10**6, 256, dtype=np.int32) for _ in range(2))
    y = np.zeros(256, np.int32)
    run(library.greatest_common_divisor, (1,), "*i32 *i32 *i32", a, b, y, block=256)
    np.testing.assert_array_equal(y, np.gcd(a, b))


def test_adam(rng: np.random.Generator) -> None:
    parameter, gradient, mean, square = (normal(rng, 512) for _ in range(4))
    square = np.abs(square)
    before = [v.astype(np.float64) for v in (parameter, gradient, mean, square)]
    run(library.adam, (2,), "*fp32 *fp32 *fp32 *fp32 fp32", parameter, gradient, mean, square, 0.125, block=256)
    m = 0.5 * before[2] + 0.5 * before[1]
    v = 0.75 * before[3] + 0.25 * before[1] ** 2
    np.testing.assert_allclose(mean, m, rtol=0, atol=4 * EPSILON)
    np.testing.assert_allclose(square, v, rtol=4 * EPSILON)
    np.testing.assert_allclose(parameter, before[0] - 0.125 * m / (np.sqrt(v) + 1), rtol=0, atol=4 * EPSILON)


def test_grouped_ids() -> None:
    y = np.full((6, 5), -1, np.int32)
    run(library.grouped_ids, (6, 5), "*i32 i32 i32 i32", y, 6, 5, 2)
    # Groups of two rows, walked column by column.
    order = [(g + r) * 5 + c for g in (0, 2, 4) for c in range(5) for r in range(2)]
    np.testing.assert_array_equal(y.reshape(-1), order)


def test_wide_products(rng: np.random.Generator) -> None:
    a, b = (whole(rng, 0, 2**32, 256, dtype=np.uint32) for _ in range(2))
    high, low = np.zeros(256, np.uint32), np.zeros(256, np.uint32)
    run(library.wide_products, (1,), "*u32 *u32 *u32 *u32", a, b, high, low, block=256)
    product = a.astype(np.uint64) * b
    np.testing.assert_array_equal(high, product >> np.uint64(32))
    np.testing.assert_array_equal(low, product & np.uint64(0xFFFFFFFF))


def test_magnitude_bits(rng: np.random.Generator) -> None:
    x, y = normal(rng, 256) * 1000, np.zeros(256, np.int32)
    run(library.magnitude_bits, (1,), "*fp32 *i32", x, y, block=256)
    np.testing.assert_array_equal(y, np.frexp(x)[1] - 1)


def test_wide_integers(rng: np.random.Generator) -> None:
    a = rng.integers(-(2**62), 2**62, 256)
    b = rng.integers(1, 2**40, 256) >> rng.integers(0, 39, 256) | 1
    b *= rng.choice([-1, 1], 256)
    y = np.zeros((6, 256), np.int64)
    run(library.wide_integers, (1,), "*i64 *i64 *i64", a, b, y, block=256)
    quotient = np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))  # towards zero
    expected = [a * b, quotient, a - b * quotient, a << (b & 63), a >> (b & 63), np.cumsum(a)]
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("backwards", [False, True])
def test_segmented_sums(rng: np.random.Generator, backwards: bool) -> None:
    flags, x = (rng.random((3, 512)) < 0.1).astype(np.int8), whole(rng, -9, 10, 3, 512, dtype=np.int64)
    y = np.zeros_like(x)
    run(library.segmented_sums, (3,), "*i8 *i64 *i64", flags, x, y, columns=512, backwards=backwards)
    order = slice(None, None, -1 if backwards else 1)
    expected, total = np.zeros_like(x), np.zeros(3, np.int64)
    for at in range(512)[order]:
        total = x[:, at] + np.where(flags[:, at], 0, total)
        expected[:, at] = total
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("axis", [0, 1])
def test_gather_along(rng: np.random.Generator, axis: int) -> None:
    x, y = normal(rng, 32, 64), np.zeros((32, 64), np.float32)
    index = whole(rng, 0, x.shape[axis], 32, 64, dtype=np.int32)
    run(library.gather_along, (1,), "*fp32 *i32 *fp32", x, index, y, rows=32, columns=64, axis=axis)
    np.testing.assert_array_equal(y, np.take_along_axis(x, index, axis))


def test_at_least_forty_kernels_are_launched() -> None:
    """Kernels of both modules, without the functions that only other kernels call."""
    folder = Path(__file__).parent
    sources = {
        triton_kernels: (folder / "test_core_triton.py").read_text(),
        library: Path(__file__).read_text(),
    }
    helpers = {"compose", "running_max", "restart", "exclusive_or", "square_plus_one", "twice_square_plus_one"}
    launched = 0
    for module, text in sources.items():
        prefix = "library." if module is library else "kernels."
        functions = {name for name, value in vars(module).items() if isinstance(value, triton.JITFunction)} - helpers
        unused = {name for name in functions if f"{prefix}{name}," not in text and f"{prefix}{name})" not in text}
        assert not unused, f"no test launches {sorted(unused)}"
        launched += len(functions)
    assert launched >= 40
