"""Number formats against ml_dtypes and numpy: every code, and f32 inputs where rounding, overflow and NaN decide."""

from __future__ import annotations

import ctypes

import ml_dtypes
import numpy as np
import pytest
from numeric_library import (
    FORMATS,
    NEAREST,
    SATURATE,
    SATURATE_FINITE,
    STOCHASTIC,
    TO_INFINITY,
    TOWARD_ZERO,
    from_f32,
    numeric,
    pointer,
    to_f32,
)

REFERENCE = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "fp8": np.dtype(ml_dtypes.float8_e4m3fn),
    "bf8": np.dtype(ml_dtypes.float8_e5m2),
    "fp6": np.dtype(ml_dtypes.float6_e2m3fn),
    "bf6": np.dtype(ml_dtypes.float6_e3m2fn),
    "fp4": np.dtype(ml_dtypes.float4_e2m1fn),
}
BITS = {"f16": 16, "bf16": 16, "fp8": 8, "bf8": 8, "fp6": 6, "bf6": 6, "fp4": 4}
HAS_NAN = {"f16", "bf16", "fp8", "bf8"}


def codes_of(name: str) -> np.ndarray:
    return np.arange(1 << BITS[name], dtype=np.uint32)


def reference_to_f32(name: str, codes: np.ndarray) -> np.ndarray:
    storage = np.uint16 if BITS[name] == 16 else np.uint8
    return np.asarray(codes.astype(storage).view(REFERENCE[name]).astype(np.float32))


def reference_from_f32(name: str, values: np.ndarray) -> np.ndarray:
    storage = np.uint16 if BITS[name] == 16 else np.uint8
    with np.errstate(over="ignore"):
        return np.asarray(values.astype(REFERENCE[name]).view(storage).astype(np.uint32))


def finite_values(name: str) -> np.ndarray:
    values = reference_to_f32(name, codes_of(name)[: 1 << (BITS[name] - 1)])
    return np.asarray(values[np.isfinite(values)])


def boundary_inputs(name: str) -> np.ndarray:
    """Every finite value, every midpoint between neighbours and past the largest, and one f32 step to either side."""
    values = finite_values(name).astype(np.float64)
    step_past_largest = values[-1] - values[-2]
    midpoints = np.append((values[1:] + values[:-1]) / 2, values[-1] + step_past_largest / 2)
    with np.errstate(over="ignore"):
        exact = np.concatenate([values, midpoints, [values[-1] + step_past_largest]]).astype(np.float32)
    around = np.concatenate([exact, np.nextafter(exact, np.float32(np.inf)), np.nextafter(exact, np.float32(-np.inf))])
    special = np.array([0, np.inf, 1e-45, 3e-39, 1.1754944e-38, 3.4028235e38, 65504, 65519.996, 65520], np.float32)
    both = np.concatenate([around, special])
    return np.concatenate([both, -both])


def random_inputs(count: int) -> np.ndarray:
    generator = np.random.default_rng(20)
    wide = generator.integers(0, 1 << 32, count, dtype=np.uint32).view(np.float32)
    near_one = (generator.standard_normal(count) * np.exp2(generator.integers(-20, 12, count))).astype(np.float32)
    return np.concatenate([wide[~np.isnan(wide)], near_one])


def inputs(name: str) -> np.ndarray:
    return np.concatenate([boundary_inputs(name), random_inputs(200_000)])


@pytest.mark.parametrize("name", FORMATS)
def test_every_code_to_f32(name: str) -> None:
    ours, theirs = to_f32(name, codes_of(name)), reference_to_f32(name, codes_of(name))
    nan = np.isnan(theirs)
    np.testing.assert_array_equal(np.isnan(ours), nan)
    np.testing.assert_array_equal(ours[~nan].view(np.uint32), theirs[~nan].view(np.uint32))
    np.testing.assert_array_equal(np.signbit(ours[nan]), codes_of(name)[nan] >> (BITS[name] - 1) == 1)


@pytest.mark.parametrize("name", FORMATS)
def test_nearest_even(name: str) -> None:
    values = inputs(name)
    ours, theirs = from_f32(name, values), reference_from_f32(name, values)
    different = np.flatnonzero(ours != theirs)
    assert different.size == 0, [(values[i].item().hex(), hex(ours[i]), hex(theirs[i])) for i in different[:5]]


@pytest.mark.parametrize("name", FORMATS)
def test_every_code_survives(name: str) -> None:
    codes = codes_of(name)
    values = to_f32(name, codes)
    keep = ~np.isnan(values)
    for rounding in (NEAREST, TOWARD_ZERO):
        np.testing.assert_array_equal(from_f32(name, values[keep], rounding), codes[keep])


@pytest.mark.parametrize("name", FORMATS)
def test_toward_zero(name: str) -> None:
    values = inputs(name)
    values = values[np.isfinite(values)]
    ladder = finite_values(name)
    expected = np.searchsorted(ladder, np.abs(values), side="right") - 1
    expected = expected.astype(np.uint32) | np.signbit(values).astype(np.uint32) << np.uint32(BITS[name] - 1)
    np.testing.assert_array_equal(from_f32(name, values, TOWARD_ZERO), expected)


@pytest.mark.parametrize("name", FORMATS)
def test_overflow_modes(name: str) -> None:
    largest = finite_values(name)[-1]
    top = from_f32(name, np.array([largest]))[0]
    past = np.array([np.float64(largest) * 1.5 if name != "bf16" else 3.4028235e38, np.inf], np.float32)
    sign = np.uint32(1 << (BITS[name] - 1))
    infinity_or_nan = {"f16": 0x7C00, "bf16": 0x7F80, "fp8": 0x7F, "bf8": 0x7C}.get(name, top)
    for values, bit in ((past, np.uint32(0)), (-past, sign)):
        assert list(from_f32(name, values, overflow=TO_INFINITY)) == [infinity_or_nan | bit] * 2
        assert list(from_f32(name, values, overflow=SATURATE)) == [top | bit] * 2
        assert list(from_f32(name, values, overflow=SATURATE_FINITE)) == [top | bit, infinity_or_nan | bit]


@pytest.mark.parametrize("name", FORMATS)
def test_nan(name: str) -> None:
    patterns = np.array([0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0xFF800001, 0xFFC12345], np.uint32).view(np.float32)
    for overflow in (TO_INFINITY, SATURATE):
        codes = from_f32(name, patterns, overflow=overflow)
        np.testing.assert_array_equal(codes >> (BITS[name] - 1), [0, 0, 0, 1, 1])
        if name in HAS_NAN:
            assert np.isnan(to_f32(name, codes)).all()
        else:
            np.testing.assert_array_equal(np.abs(to_f32(name, codes)), finite_values(name)[-1])


@pytest.mark.parametrize("name", FORMATS)
def test_stochastic_rounds_away_as_often_as_the_cut_fraction(name: str) -> None:
    ladder = finite_values(name)[: 1 << 12]
    index = np.arange(0, ladder.size - 1, max(1, ladder.size // 64))
    low, high = ladder[index].astype(np.float64), ladder[index + 1].astype(np.float64)
    draws = 256  # evenly spread random words: the share of draws that round away is exact to one draw
    random = (np.arange(draws, dtype=np.uint64) * (1 << 32) // draws).astype(np.uint32)
    for part in (0.0, 0.25, 0.5, 0.8125):
        values = (low + part * (high - low)).astype(np.float32)
        codes = from_f32(name, np.repeat(values, draws), STOCHASTIC, random=np.tile(random, values.size))
        away = (codes.reshape(-1, draws) - index[:, None].astype(np.uint32)).astype(np.int64)
        assert set(np.unique(away)) <= {0, 1}
        np.testing.assert_allclose(away.mean(axis=1), part, atol=1.01 / draws)


def test_e8m0() -> None:
    codes = np.arange(256, dtype=np.uint32)
    ours = np.empty(256, np.float32)
    numeric().gfx950_e8m0_to_f32(pointer(codes), pointer(ours), ctypes.c_uint64(256))
    theirs = codes.astype(np.uint8).view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("kind", "name", "rounding"), [(0, "bf16", NEAREST), (1, "f16", NEAREST), (2, "f16", TOWARD_ZERO)]
)
def test_packing_registers_agrees_with_the_scalar_form(kind: int, name: str, rounding: int) -> None:
    nan = np.array([0x7F800001, 0x7FC00000, 0xFFFFFFFF, 0xFF812345], np.uint32).view(np.float32)
    values = np.concatenate([inputs(name), nan])
    values = values[: values.size // 128 * 128].reshape(-1, 2, 64)
    low, high = np.ascontiguousarray(values[:, 0]), np.ascontiguousarray(values[:, 1])
    packed = np.empty(low.shape, np.uint32)
    numeric().gfx950_pack_lanes(kind, pointer(low), pointer(high), pointer(packed), ctypes.c_uint64(low.shape[0]))
    np.testing.assert_array_equal(packed & 0xFFFF, from_f32(name, low, rounding))
    np.testing.assert_array_equal(packed >> 16, from_f32(name, high, rounding))


@pytest.mark.parametrize(("kind", "name"), [(0, "bf16"), (1, "f16")])
@pytest.mark.parametrize("shift", [0, 16])
def test_unpacking_registers_agrees_with_the_scalar_form(kind: int, name: str, shift: int) -> None:
    codes = np.arange(1 << 16, dtype=np.uint32)
    registers = codes << np.uint32(shift) | (codes ^ np.uint32(0x5A5A)) << np.uint32(16 - shift)
    ours = np.empty(codes.shape, np.uint32)
    numeric().gfx950_unpack_lanes(kind, pointer(registers), shift, pointer(ours), ctypes.c_uint64(codes.size // 64))
    scalar = to_f32(name, codes)
    keep = ~np.isnan(scalar)
    np.testing.assert_array_equal(ours[keep], scalar[keep].view(np.uint32))
    assert np.isnan(ours[~keep].view(np.float32)).all()
