"""Triton kernels, compiled for gfx950 without a device, on the core against numpy, under both wave schedules."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import triton_kernels as kernels
from core_library import CoreError
from triton_kernels import Compiled, compile_kernel

BF16 = ml_dtypes.bfloat16
TRITON_NAMES = {np.float32: "fp32", np.float16: "fp16", BF16: "bf16"}


@pytest.fixture(params=["run_to_barrier", "round_robin"], autouse=True)
def schedule(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("GFX950_SCHEDULE", request.param)
    return request.param


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


def compiled(function: Any, signature: dict[str, str], aligned: tuple[str, ...] = (), **constants: Any) -> Compiled:
    return _compiled(function, tuple(signature.items()), aligned, tuple(constants.items()))


@cache
def _compiled(function: Any, signature: tuple, aligned: tuple, constants: tuple) -> Compiled:
    options = {name: value for name, value in constants if name in ("num_warps", "num_stages")}
    values = {name: value for name, value in constants if name not in options}
    return compile_kernel(function, dict(signature), values, aligned, **options)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BF16])
@pytest.mark.parametrize("aligned", [(), ("a", "b", "c", "n")], ids=["any", "aligned"])
def test_add(rng: np.random.Generator, dtype: Any, aligned: tuple[str, ...]) -> None:
    n = 3008 if aligned else 3001
    name = "*" + TRITON_NAMES[dtype]
    kernel = compiled(kernels.add, {"a": name, "b": name, "c": name, "n": "i32"}, aligned, block=512)
    a, b = (rng.standard_normal(n).astype(dtype) for _ in range(2))
    c = np.full(n + 64, -7, dtype)
    kernel.launch(((n + 511) // 512,), a, b, c, n)
    np.testing.assert_array_equal(c[:n], a + b)
    np.testing.assert_array_equal(c[n:], np.full(64, -7, dtype))  # masked lanes store nothing


@pytest.mark.parametrize(("columns", "warps"), [(1, 1), (77, 1), (1000, 4), (2048, 8)])
def test_softmax(rng: np.random.Generator, columns: int, warps: int) -> None:
    block = 1 << max(6, (columns - 1).bit_length())
    signature = {"x": "*fp32", "y": "*fp32", "columns": "i32", "stride": "i32"}
    kernel = compiled(kernels.softmax, signature, ("x", "y"), block=block, num_warps=warps)
    x = (4 * rng.standard_normal((9, columns))).astype(np.float32)
    y = np.empty_like(x)
    kernel.launch((9,), x, y, columns, columns)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=4e-6, atol=1e-9)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float64])
def test_cumulative_sum_from_behind(rng: np.random.Generator, dtype: Any, axis: int) -> None:
    """LLVM gives these LDS addresses below zero, which their offsets bring back."""
    name = "*" + {np.int32: "i32", np.int64: "i64", np.float64: "fp64"}[dtype]
    kernel = compiled(kernels.sums_from_behind, {"x": name, "y": name}, rows=64, columns=128, axis=axis)
    x = rng.integers(-9, 9, (64, 128)).astype(dtype)
    y = np.empty_like(x)
    kernel.launch((1,), x, y)
    np.testing.assert_array_equal(y, np.flip(np.flip(x, axis).cumsum(axis), axis))


MATMUL_CONFIGS = [
    # bm, bn, bk, warps, stages
    (16, 16, 32, 1, 1),
    (32, 64, 32, 2, 2),
    (64, 64, 64, 4, 2),
    (128, 128, 32, 4, 2),
    (128, 64, 64, 8, 3),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BF16])
@pytest.mark.parametrize("config", MATMUL_CONFIGS, ids=lambda config: "x".join(map(str, config)))
@pytest.mark.parametrize("transposed", [False, True], ids=["nn", "nt"])
def test_matmul(rng: np.random.Generator, dtype: Any, config: tuple[int, ...], transposed: bool) -> None:
    bm, bn, bk, warps, stages = config
    m, n, k = 144, 130, 136
    name = "*" + TRITON_NAMES[dtype]
    signature = {"a": name, "b": name, "c": name} | dict.fromkeys(
        ["m", "n", "k", "sam", "sak", "sbk", "sbn", "scm"], "i32"
    )
    kernel = compiled(
        kernels.matmul, signature, ("a", "b", "c", "sam"), bm=bm, bn=bn, bk=bk, num_warps=warps, num_stages=stages
    )
    # Rows padded to a multiple of 16 elements, as `sam` promises.
    a = rng.standard_normal((m, 144)).astype(dtype)
    b = rng.standard_normal((n, k) if transposed else (k, n)).astype(dtype)
    c = np.zeros((m, n), dtype)
    strides = (1, k) if transposed else (n, 1)
    grid = ((m + bm - 1) // bm, (n + bn - 1) // bn)
    counts = kernel.launch(grid, a, b, c, m, n, k, 144, 1, *strides, n)
    left, right = a[:, :k].astype(np.float64), b.astype(np.float64)
    expected = left @ (right.T if transposed else right)
    # fp32 sums of k products, and one rounding to the result's type.
    terms = np.abs(left) @ np.abs(right.T if transposed else right)
    bound = terms * k * 2.0**-24 + np.abs(expected) * float(ml_dtypes.finfo(dtype).eps)
    assert np.all(np.abs(c.astype(np.float64) - expected) <= bound + 1e-30)
    assert counts["mfma"] > 0


@pytest.mark.parametrize("columns", [64, 256, 1024])
def test_reductions_and_scan(rng: np.random.Generator, columns: int) -> None:
    signature = {"x": "*fp32", "total": "*fp32", "largest": "*fp32", "where": "*i32", "product": "*fp32"}
    kernel = compiled(kernels.statistics, signature, ("x", "product"), columns=columns)
    x = rng.integers(-40, 40, (5, columns)).astype(np.float32)  # small integers: every order of addition is exact
    total, largest = np.empty(5, np.float32), np.empty(5, np.float32)
    where, scan = np.empty(5, np.int32), np.empty_like(x)
    kernel.launch((5,), x, total, largest, where, scan)
    np.testing.assert_array_equal(total, x.sum(1))
    np.testing.assert_array_equal(largest, x.max(1))
    np.testing.assert_array_equal(where, x.argmin(1))
    np.testing.assert_array_equal(scan, np.cumsum(x, 1))


@pytest.mark.parametrize("columns", [32, 128, 512])
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_sort(rng: np.random.Generator, columns: int, dtype: Any) -> None:
    name = "*i32" if dtype is np.int32 else "*fp32"
    kernel = compiled(kernels.sort_rows, {"x": name, "y": name}, ("x", "y"), columns=columns)
    x = rng.integers(-1000, 1000, (4, columns)).astype(dtype)
    y = np.empty_like(x)
    kernel.launch((4,), x, y)
    np.testing.assert_array_equal(y, np.sort(x, 1))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
@pytest.mark.parametrize("shape", [(32, 32), (64, 16), (16, 128)])
def test_transpose(rng: np.random.Generator, dtype: Any, shape: tuple[int, int]) -> None:
    name = "*i8" if dtype is np.int8 else "*" + TRITON_NAMES[dtype]
    kernel = compiled(kernels.transpose, {"x": name, "y": name}, ("x", "y"), rows=shape[0], columns=shape[1])
    x = rng.integers(-100, 100, shape).astype(dtype)
    y = np.empty(shape[::-1], dtype)
    kernel.launch((1,), x, y)
    np.testing.assert_array_equal(y, x.T)


def philox_words(seed: int, offsets: np.ndarray) -> np.ndarray:
    """First word of Philox 4x32-10 (Salmon et al., 2011) with the counter in its low word, as unsigned."""
    c = [offsets.astype(np.uint64), *(np.zeros_like(offsets, dtype=np.uint64) for _ in range(3))]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        first, second = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [
            (second >> np.uint64(32)) ^ c[1] ^ np.uint64(key[0]),
            second & low,
            (first >> np.uint64(32)) ^ c[3] ^ np.uint64(key[1]),
            first & low,
        ]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c[0].astype(np.uint32)


def test_philox() -> None:
    kernel = compiled(kernels.philox, {"y": "*i32", "seed": "i32"}, block=256)
    y = np.empty(1024, np.int32)
    kernel.launch((4,), y, 12345)
    np.testing.assert_array_equal(y.view(np.uint32), philox_words(12345, np.arange(1024)))


def test_atomics(rng: np.random.Generator) -> None:
    kernel = compiled(kernels.histogram, {"x": "*i32", "bins": "*i32", "total": "*fp32", "n": "i32"}, block=256)
    x = rng.integers(0, 16, 2000).astype(np.int32)
    bins, total = np.zeros(16, np.int32), np.zeros(1, np.float32)
    kernel.launch((8,), x, bins, total, 2000)
    np.testing.assert_array_equal(bins, np.bincount(x, minlength=16))
    assert total[0] == x.sum()


def test_elementary_functions(rng: np.random.Generator) -> None:
    n = 700
    kernel = compiled(kernels.elementwise, {"x": "*fp32", "y": "*fp32", "n": "i32"}, block=256)
    x = (3 * rng.standard_normal(n)).astype(np.float32)
    y = np.zeros((6, n), np.float32)
    kernel.launch((3,), x, y, n)
    v = x.astype(np.float64)
    expected = [
        np.exp(v),
        np.log(np.abs(v)),
        np.sqrt(np.abs(v)),
        v / (1 + np.exp(-v)),
        np.sin(v),
        np.floor(v) + 1 / np.sqrt(np.abs(v)),
    ]
    # A few units in the last place: Triton scales the argument of exp2 in single precision.
    for ours, reference in zip(y, expected, strict=True):
        np.testing.assert_allclose(ours, reference, rtol=2e-6, atol=3e-7)


def test_integer_arithmetic(rng: np.random.Generator) -> None:
    n = 500
    kernel = compiled(kernels.integers, {"x": "*i64", "y": "*i64", "n": "i32"}, block=256)
    x = rng.integers(1, 2**40, n)
    y = np.zeros((4, n), np.int64)
    kernel.launch((2,), x, y, n)
    with np.errstate(over="ignore"):
        expected = np.stack([x // 7, x % 13, x * 123456789123, (x >> 3) ^ (x << 5)])
    np.testing.assert_array_equal(y, expected)


def decode_fp4(packed: np.ndarray) -> np.ndarray:
    return packed.view(np.uint8)[..., None] >> np.array([0, 4], np.uint8) & 15


FP4_VALUES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


MX_TYPES = {"e4m3": "*fp8e4nv", "e5m2": "*fp8e5", "e2m1": "*u8"}


def mx_operand(rng: np.random.Generator, kind: str, rows: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Codes as [rows, k or k / 2], and their values."""
    if kind == "e2m1":
        codes = rng.integers(0, 256, (rows, k // 2)).astype(np.uint8)
        return codes, FP4_VALUES[decode_fp4(codes)].reshape(rows, k)
    dtype = ml_dtypes.float8_e4m3fn if kind == "e4m3" else ml_dtypes.float8_e5m2
    values = rng.standard_normal((rows, k)).astype(dtype)
    return values.view(np.uint8), values.astype(np.float64)


@pytest.mark.parametrize(("m", "n", "k"), [(32, 32, 128), (64, 32, 256)])
@pytest.mark.parametrize("kind_b", MX_TYPES)
@pytest.mark.parametrize("kind_a", MX_TYPES)
def test_scaled_dot(rng: np.random.Generator, kind_a: str, kind_b: str, m: int, n: int, k: int) -> None:
    """Every pair of formats that Triton's dot_scaled takes, with random block scales."""
    signature = {"a": MX_TYPES[kind_a], "b": MX_TYPES[kind_b], "a_scale": "*u8", "b_scale": "*u8", "c": "*fp32"}
    kernel = compiled(kernels.mx_matmul, signature, ("a", "b"), m=m, n=n, k=k, kind_a=kind_a, kind_b=kind_b)
    a_scale = rng.integers(120, 134, (m, k // 32)).astype(np.uint8)
    b_scale = rng.integers(120, 134, (n, k // 32)).astype(np.uint8)
    a, left = mx_operand(rng, kind_a, m, k)
    b, right = mx_operand(rng, kind_b, n, k)
    c = np.zeros((m, n), np.float32)
    counts = kernel.launch((1,), a, a_scale, np.ascontiguousarray(b.T), b_scale, c)
    left = left * np.repeat(2.0 ** (a_scale.astype(int) - 127), 32, 1)
    right = right * np.repeat(2.0 ** (b_scale.astype(int) - 127), 32, 1)
    bound = np.abs(left) @ np.abs(right).T * k * 2.0**-24
    assert np.all(np.abs(c - left @ right.T) <= bound)
    assert counts["mfma"] > 0


@pytest.mark.parametrize("dtype", [np.float16, BF16])
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize(("bm", "bn", "d", "warps"), [(32, 32, 64, 1), (64, 32, 128, 4), (128, 64, 64, 4)])
def test_attention(rng: np.random.Generator, dtype: Any, causal: bool, bm: int, bn: int, d: int, warps: int) -> None:
    length, name = 150, "*" + TRITON_NAMES[dtype]
    signature = dict.fromkeys(["q", "k", "v", "o"], name) | {"length": "i32", "scale": "fp32"}
    kernel = compiled(
        kernels.attention, signature, ("q", "k", "v", "o"), bm=bm, bn=bn, d=d, causal=causal, num_warps=warps
    )
    q, k, v = (rng.standard_normal((length, d)).astype(dtype) for _ in range(3))
    o = np.zeros((length, d), dtype)
    kernel.launch(((length + bm - 1) // bm,), q, k, v, o, length, float(d**-0.5))
    score = q.astype(np.float64) @ k.astype(np.float64).T * d**-0.5
    if causal:
        score = np.where(np.tril(np.ones_like(score)) > 0, score, -np.inf)
    weight = np.exp(score - score.max(1, keepdims=True))
    weight /= weight.sum(1, keepdims=True)
    expected = weight @ v.astype(np.float64)
    # The weights and the result are rounded to the type once each.
    eps = float(ml_dtypes.finfo(dtype).eps)
    bound = eps * (weight @ np.abs(v.astype(np.float64)) + np.abs(expected))
    assert np.all(np.abs(o.astype(np.float64) - expected) <= bound)


@pytest.mark.parametrize("small", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2], ids=["e4m3", "e5m2"])
@pytest.mark.parametrize("wide", [np.float32, np.float16, BF16])
def test_fp8_conversions(rng: np.random.Generator, small: Any, wide: Any) -> None:
    fp8 = {ml_dtypes.float8_e4m3fn: "*fp8e4nv", ml_dtypes.float8_e5m2: "*fp8e5"}[small]
    codes = np.arange(256, dtype=np.uint8)
    up = compiled(kernels.convert, {"x": fp8, "y": "*" + TRITON_NAMES[wide], "n": "i32"}, ("x", "y", "n"), block=256)
    values = np.zeros(256, wide)
    up.launch((1,), codes, values, 256)
    np.testing.assert_array_equal(values.astype(np.float32), codes.view(small).astype(np.float32))
    down = compiled(kernels.convert, {"x": "*" + TRITON_NAMES[wide], "y": fp8, "n": "i32"}, ("x", "y", "n"), block=256)
    x = (rng.standard_normal(1024) * np.exp2(rng.integers(-12, 6, 1024))).astype(wide)
    packed = np.zeros(1024, np.uint8)
    down.launch((4,), x, packed, 1024)
    np.testing.assert_array_equal(packed, x.astype(small).view(np.uint8))


def test_calls_of_functions(rng: np.random.Generator) -> None:
    """Functions that are not inlined lie beside the kernel; one calls another."""
    kernel = compiled(kernels.calling, {"x": "*fp32", "y": "*fp32"}, num_warps=1)
    assert kernel.assembly.count("s_swappc_b64") >= 3
    x = rng.standard_normal(64).astype(np.float32)
    y = np.zeros_like(x)
    kernel.launch((64,), x, y)
    np.testing.assert_allclose(y, 2 * (x * x + 1) ** 2 + 2, rtol=1e-6)


def test_out_of_bounds_is_reported(schedule: str) -> None:
    kernel = compiled(kernels.copy_unmasked, {"x": "*fp32", "y": "*fp32"}, block=256)
    # Inside a larger array, so that the bytes behind exist but are not registered.
    space = np.zeros(1024, np.float32)
    with pytest.raises(CoreError) as caught:
        kernel.launch((2,), space[:300], np.zeros(512, np.float32))
    # Triton's line table leads to the source.
    place = r"pc 0x[0-9a-f]+ at (\S+triton_kernels\.py):(\d+), workgroup \(1, 0, 0\)"
    found = re.search(rf"memory_fault: kernel 'copy_unmasked', {place}", str(caught.value))
    assert found is not None, caught.value
    assert "tl.load(x + i)" in Path(found[1]).read_text().splitlines()[int(found[2]) - 1]


def test_endless_wait_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GFX950_TIMEOUT", "0.3")
    kernel = compiled(kernels.spin, {"flag": "*i32"})
    with pytest.raises(CoreError, match=r"timeout: kernel 'spin'.*waves at 0: 0x"):
        kernel.launch((1,), np.zeros(1, np.int32))


@pytest.mark.parametrize("threads", ["1", "3"])
def test_model_does_not_depend_on_host_threads(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, threads: str
) -> None:
    kernel = compiled(kernels.add, {"a": "*fp32", "b": "*fp32", "c": "*fp32", "n": "i32"}, block=512)
    a, b, c = (np.zeros(5000, np.float32) for _ in range(3))
    run: Callable[[], dict[str, int]] = lambda: kernel.launch((10,), a, b, c, 5000)  # noqa: E731
    monkeypatch.setenv("GFX950_THREADS", "2")
    expected = run()
    monkeypatch.setenv("GFX950_THREADS", threads)
    assert run() == expected
