"""Inputs that decide: for each type the values at which instructions differ, their combinations, and noise."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

_F32 = [
    0x00000000,  # 0
    0x80000000,  # -0
    0x3F800000,  # 1
    0xBF800000,  # -1
    0x3F000000,  # 0.5
    0xC0200000,  # -2.5
    0x3FC00000,  # 1.5
    0x40490FDB,  # pi
    0x7F800000,  # infinity
    0xFF800000,
    0x7FC00001,  # quiet NaN
    0x7F800001,  # signalling NaN
    0x00000001,  # smallest denormal
    0x807FFFFF,  # largest denormal
    0x00800000,  # smallest normal
    0x7F7FFFFF,  # largest
    0xFF7FFFFF,
    0x4B000001,  # 2^23 + 1
    0x4EFFFFFF,  # largest below 2^31
    0x4F000000,  # 2^31
    0xCF000000,  # -2^31
    0x4F7FFFFF,  # largest below 2^32
    0x4F800000,  # 2^32
    0x3DCCCCCD,  # 0.1
    0x34000000,  # 2^-23
    0xB3800000,  # -2^-24
]
_F16 = [
    0x0000, 0x8000, 0x3C00, 0xBC00, 0x3800, 0x4100, 0xC248, 0x7C00, 0xFC00, 0x7E01, 0x7C01, 0x0001, 0x83FF, 0x0400,
    0x7BFF, 0xFBFF, 0x6400, 0x2E66,
]  # fmt: skip
_U32 = [
    0, 1, 2, 3, 7, 8, 15, 16, 24, 31, 32, 33, 63, 64, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x10000,
    0x7FFFFF, 0xFFFFFF, 0x1000000, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF, 0x12345678,
    0xFEDCBA98,
]  # fmt: skip
_U64 = [
    0, 1, 2, 31, 32, 33, 63, 64, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x100000000, 0x7FFFFFFFFFFFFFFF,
    0x8000000000000000, 0x8000000000000001, 0xFFFFFFFFFFFFFFFF, 0xFFFFFFFF00000000, 0x123456789ABCDEF0,
]  # fmt: skip
_F64 = [
    0, 0x8000000000000000, 0x3FF0000000000000, 0xBFF0000000000000, 0x7FF0000000000000, 0x7FF8000000000001, 1,
    0x000FFFFFFFFFFFFF, 0x7FEFFFFFFFFFFFFF, 0x400921FB54442D18, 0x3FB999999999999A,
]  # fmt: skip

# Type -> (bits, decisive patterns). b32 and b64 are plain bits, f16x2 two halves in a dword, f32x2 two f32 in a pair.
TYPES: dict[str, tuple[int, list[int]]] = {
    "f32": (32, _F32),
    "u32": (32, _U32),
    "i32": (32, _U32),
    "b32": (32, _U32),
    "f16": (16, _F16),
    "u16": (16, [value & 0xFFFF for value in _U32 if value <= 0xFFFF or value >= 0xFFFF0000]),
    "u64": (64, _U64),
    "i64": (64, _U64),
    "b64": (64, _U64),
    "f64": (64, _F64),
    "f16x2": (32, [low | high << 16 for low, high in zip(_F16, reversed(_F16), strict=True)]),
    "f32x2": (64, [low | high << 32 for low, high in zip(_F32, reversed(_F32), strict=True)]),
    "class": (32, [1 << bit for bit in range(10)] + [0x3FF, 0x3, 0x60, 0x1F8]),
}
VIEW = {
    "f32": np.float32,
    "u32": np.uint32,
    "i32": np.int32,
    "b32": np.uint32,
    "f16": np.float16,
    "u16": np.uint16,
    "u64": np.uint64,
    "i64": np.int64,
    "b64": np.uint64,
    "f64": np.float64,
    "f16x2": np.uint32,
    "f32x2": np.uint64,
    "class": np.uint32,
}


def words(kind: str) -> int:
    return 2 if TYPES[kind][0] == 64 else 1


def noise(kind: str, count: int, generator: np.random.Generator) -> np.ndarray:
    """Random patterns; half of the floats are near 1 so that they interact."""
    bits = TYPES[kind][0]
    patterns = generator.integers(0, 1 << 63, count, dtype=np.uint64) << np.uint64(1)
    patterns ^= generator.integers(0, 1 << 63, count, dtype=np.uint64)
    patterns &= np.uint64((1 << bits) - 1)
    near = (generator.standard_normal(count) * np.exp2(generator.integers(-8, 9, count))).astype(np.float64)
    half = generator.random(count) < 0.5
    if kind == "f32":
        patterns[half] = near[half].astype(np.float32).view(np.uint32)
    elif kind == "f16":
        patterns[half] = near[half].astype(np.float16).view(np.uint16)
    elif kind == "f64":
        patterns[half] = near[half].view(np.uint64)
    elif kind == "f32x2":
        pair = np.stack([near, near[::-1]], axis=1).astype(np.float32)
        patterns[half] = pair.view(np.uint64)[half, 0]
    elif kind == "f16x2":
        pair = np.stack([near, near[::-1]], axis=1).astype(np.float16)
        patterns[half] = pair.view(np.uint32)[half, 0]
    elif kind in ("u32", "i32", "b32"):  # small ones too
        patterns[half] >>= generator.integers(0, 32, int(half.sum()), dtype=np.uint64)
    return patterns


def combinations(kinds: Sequence[str], limit: int = 1536, seed: int = 1) -> list[np.ndarray]:
    """One uint64 array of patterns per operand: the product of the decisive values (a sample of it when it exceeds
    `limit`), then noise, to a multiple of 64."""
    generator = np.random.default_rng(seed)
    pools = [TYPES[kind][1] for kind in kinds]
    total = int(np.prod([len(pool) for pool in pools]))
    if total <= limit:
        rows = np.array(list(itertools.product(*pools)), dtype=np.uint64).reshape(total, len(kinds))
    else:
        rows = np.stack([generator.choice(np.array(pool, np.uint64), limit) for pool in pools], axis=1)
    count = -(-(len(rows) + 192) // 64) * 64 - len(rows)
    padding = np.stack([noise(kind, count, generator) for kind in kinds], axis=1)
    result = np.concatenate([rows, padding])
    return [np.ascontiguousarray(result[:, operand]) for operand in range(len(kinds))]


def typed(kind: str, patterns: np.ndarray) -> np.ndarray:
    bits = TYPES[kind][0]
    storage = {16: np.uint16, 32: np.uint32, 64: np.uint64}[bits]
    return patterns.astype(storage).view(VIEW[kind])
