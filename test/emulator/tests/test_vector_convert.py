"""Conversions, transcendental functions and division on vector registers, against numpy, ml_dtypes and float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from core_library import Program
from lane_math import halves, join_floats, join_halves, to_integer
from vector_case import VectorCase as Case

U32, U64, I32 = np.uint32, np.uint64, np.int32
F32, F16, F64 = np.float32, np.float16, np.float64
CASES: list[Case] = []


def add(text: str, sources: str, result: str, reference: Callable[..., Any], **options: Any) -> None:
    CASES.append(Case(text, tuple(sources.split()), result, reference, **options))


# ---- integers and f32 ------------------------------------------------------------------------------------

for form in ("e32", "e64"):
    add(f"v_cvt_f32_i32_{form} {{d}}, {{0}}", "i32", "f32", lambda a: a.astype(F32))
    add(f"v_cvt_f32_u32_{form} {{d}}, {{0}}", "u32", "f32", lambda a: a.astype(F32))
    add(
        f"v_cvt_i32_f32_{form} {{d}}, {{0}}",
        "f32",
        "i32",
        lambda a: to_integer(a, -(1 << 31), (1 << 31) - 1).astype(I32),
    )
    add(f"v_cvt_u32_f32_{form} {{d}}, {{0}}", "f32", "u32", lambda a: to_integer(a, 0, (1 << 32) - 1).astype(U32))
    for byte in range(4):
        add(
            f"v_cvt_f32_ubyte{byte}_{form} {{d}}, {{0}}",
            "u32",
            "f32",
            lambda a, byte=byte: (a >> U32(8 * byte) & U32(255)).astype(F32),
        )
add("v_cvt_i32_f32_e64 {d}, -{0}", "f32", "i32", lambda a: to_integer(-a, -(1 << 31), (1 << 31) - 1).astype(I32))

# ---- f16 and bf16 ----------------------------------------------------------------------------------------

_NEAR_F16 = [
    0x477FDFFF, 0x477FE000, 0x477FEFFF, 0x477FF000, 0x33000000, 0x33000001, 0x33800000, 0x387FC000, 0x387FE000,
    0x38800000, 0x3F801000, 0x3F801001, 0x3F803000, 0xC77FF000, 0xB3000001, 0x7F800000, 0x7FC00000, 0xFF800001,
    0x80000000, 0x387FDFFF,
]  # fmt: skip
_NEAR_BF16 = [
    0x3F808000, 0x3F808001, 0x3F818000, 0x3F807FFF, 0x7F7F7FFF, 0x7F7F8000, 0xFF7F8000, 0x00008000, 0x00008001,
    0x00018000, 0x7F800000, 0xFF800000, 0x7F800001, 0x7FFFFFFF, 0x80000000, 0x807F8000,
]  # fmt: skip


def to_bf16(value: np.ndarray) -> np.ndarray:
    return value.astype(ml_dtypes.bfloat16).view(np.uint16).astype(U32)


def pack_bf16(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return to_bf16(low) | to_bf16(high) << U32(16)


def toward_zero_f16(value: np.ndarray) -> np.ndarray:
    nearest = value.astype(F16)
    too_far = np.abs(nearest.astype(F64)) > np.abs(value.astype(F64))
    return np.where(too_far, np.nextafter(nearest, F16(0)), nearest)


def quiet_pairs(kind: str) -> Callable[[np.ndarray], np.ndarray]:
    """A packed pair with every NaN made the same one, so that payloads do not count."""
    infinity, nan = {"f16": (0x7C00, 0x7E00), "bf16": (0x7F80, 0x7FC0)}[kind]

    def apply(pair: np.ndarray) -> np.ndarray:
        words = pair.astype(U32).view(np.uint16)
        return np.where((words & 0x7FFF) > infinity, np.uint16(nan), words).view(U32)

    return apply


for form in ("e32", "e64"):
    add(f"v_cvt_f16_f32_{form} {{d}}, {{0}}", "f32", "f16", lambda a: a.astype(F16))
    add(f"v_cvt_f16_f32_{form} {{d}}, {{0}} ", "f32", "f16", lambda a: a.astype(F16), values={0: _NEAR_F16})
    add(f"v_cvt_f32_f16_{form} {{d}}, {{0}}", "f16", "f32", lambda a: a.astype(F32))
add("v_cvt_f32_f16_e64 {d}, -|{0}|", "f16", "f32", lambda a: -np.abs(a.astype(F32)))
for values in ({}, {0: _NEAR_F16, 1: list(reversed(_NEAR_F16))}):
    add(
        "v_cvt_pk_f16_f32 {d}, {0}, {1}" + " " * len(values),
        "f32 f32",
        "f16x2",
        join_halves,
        values=values,
        canonical=quiet_pairs("f16"),
    )
    add(
        "v_cvt_pkrtz_f16_f32 {d}, {0}, {1}" + " " * len(values),
        "f32 f32",
        "f16x2",
        lambda a, b: join_halves(toward_zero_f16(a), toward_zero_f16(b)),
        values=values,
        canonical=quiet_pairs("f16"),
    )
for values in ({}, {0: _NEAR_BF16, 1: list(reversed(_NEAR_BF16))}):
    add(
        "v_cvt_pk_bf16_f32 {d}, {0}, {1}" + " " * len(values),
        "f32 f32",
        "b32",
        pack_bf16,
        values=values,
        canonical=quiet_pairs("bf16"),
    )
add(
    "v_cvt_pk_bf16_f32 {d}, -{0}, |{1}|",
    "f32 f32",
    "b32",
    lambda a, b: pack_bf16(-a, np.abs(b)),
    canonical=quiet_pairs("bf16"),
)

# ---- 8 bits and fewer ------------------------------------------------------------------------------------

FP8, BF8, FP4 = (np.dtype(kind) for kind in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn))
_NEAR_FP8 = [
    0x43E00000, 0x43E7FFFF, 0x43E80000, 0x43E80001, 0x43F00000, 0x3B000000, 0x3A800000, 0x3A800001, 0x3C7FFFFF,
    0x3F880000, 0x3F880001, 0x3F980000, 0xC3E80001, 0x7F800000, 0xFF800000, 0x7FC00000, 0x80000000, 0x47600000,
    0x4767FFFF, 0x476FFFFF, 0x47700000, 0x37800000, 0x37000000, 0x37000001,
]  # fmt: skip


def quiet_floats(pair: np.ndarray) -> np.ndarray:
    words = pair.astype(U64).view(U32)
    return np.where((words & U32(0x7FFFFFFF)) > 0x7F800000, U32(0x7FC00000), words).view(U64)


def pack_8bit(kind: np.dtype, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    first, second = (value.astype(kind).view(np.uint8).astype(U32) for value in (low, high))
    return first | second << U32(8)


def same_nan(infinity: int) -> Callable[[np.ndarray], np.ndarray]:
    def apply(word: np.ndarray) -> np.ndarray:
        codes = word.astype(U32).view(np.uint8)
        return np.where((codes & 0x7F) > infinity, np.uint8(0x7F), codes).view(U32)

    return apply


for name, kind, infinity in (("fp8", FP8, 0x7E), ("bf8", BF8, 0x7C)):
    for values in ({}, {0: _NEAR_FP8, 1: list(reversed(_NEAR_FP8))}):
        blank = " " * len(values)
        add(
            f"v_cvt_pk_{name}_f32 {{d}}, {{0}}, {{1}}{blank}",
            "f32 f32",
            "b32",
            lambda a, b, old, kind=kind: pack_8bit(kind, a, b) | (old & U32(0xFFFF0000)),
            needs=("old",),
            values=values,
            canonical=same_nan(infinity),
        )
        add(
            f"v_cvt_pk_{name}_f32 {{d}}, {{0}}, {{1}} op_sel:[0,0,1]{blank}",
            "f32 f32",
            "b32",
            lambda a, b, old, kind=kind: pack_8bit(kind, a, b) << U32(16) | (old & U32(0xFFFF)),
            needs=("old",),
            values=values,
            canonical=same_nan(infinity),
        )


def codes_to_f32(kind: np.dtype, codes: np.ndarray) -> np.ndarray:
    return (codes & U32(0xFF)).astype(np.uint8).view(kind).astype(F32)


for name, kind in (("fp8", FP8), ("bf8", BF8)):
    for byte in range(4):
        select = f"src0_sel:BYTE_{byte}"
        add(
            f"v_cvt_f32_{name}_sdwa {{d}}, {{0}} {select}",
            "b32",
            "f32",
            lambda a, kind=kind, byte=byte: codes_to_f32(kind, a >> U32(8 * byte)),
        )
    add(f"v_cvt_f32_{name}_e32 {{d}}, {{0}}", "b32", "f32", lambda a, kind=kind: codes_to_f32(kind, a))
    add(
        f"v_cvt_pk_f32_{name}_e32 {{d}}, {{0}}",
        "b32",
        "f32x2",
        lambda a, kind=kind: join_floats(codes_to_f32(kind, a), codes_to_f32(kind, a >> U32(8))),
        canonical=quiet_floats,
    )


def fp4_pair(byte: int, word: np.ndarray, scale: np.ndarray) -> np.ndarray:
    codes = word >> U32(8 * byte)
    exponent = (scale.view(U32) >> U32(23) & U32(0xFF)).astype(F64)
    factor = np.where(exponent == 255, np.nan, np.exp2(exponent - 127))
    values = [(codes >> U32(4 * place) & U32(15)).astype(np.uint8).view(FP4).astype(F64) * factor for place in (0, 1)]
    return pack_bf16(*values)


for byte, op_sel in enumerate(("", " op_sel:[1,0,0]", " op_sel:[0,1,0]", " op_sel:[1,1,0]")):
    add(
        f"v_cvt_scalef32_pk_bf16_fp4 {{d}}, {{0}}, {{1}}{op_sel}",
        "b32 f32",
        "b32",
        lambda a, b, byte=byte: fp4_pair(byte, a, b),
        canonical=quiet_pairs("bf16"),
    )

# ---- transcendental: one unit in the last place, normal results ------------------------------------------

_NORMAL = [
    0x3F800000, 0xBF800000, 0x40490FDB, 0x3F000000, 0x42C80000, 0x00800000, 0x7E7FFFFF, 0xC2C80000, 0x3F7FFFFF,
    0x3F800001, 0x3F3504F3, 0x3F3504F4, 0x40000000, 0x501502F9, 0x2EDBE6FF, 0x41200000, 0x00000000, 0x80000000,
    0x7F800000, 0xFF800000, 0x7FC00000,
]  # fmt: skip
_spread = np.random.default_rng(11)
_RECIPROCAL = _NORMAL + [
    int(code) for code in (_spread.integers(0x00800000, 0x7E800000, 600) | _spread.integers(0, 2, 600) << 31)
]
_POSITIVE = [code for code in _NORMAL if code < 0x80000000] + [
    int(code) for code in _spread.integers(0x00800000, 0x7F800000, 600)
]
_NEAR_ONE = [int(code) for code in _spread.integers(0x3F700000, 0x3F900000, 200)]
_EXPONENT = [code for code in _NORMAL if code not in (0x7E7FFFFF, 0x501502F9)] + [
    int(code) for code in (_spread.uniform(-125.9, 127.9, 600).astype(F32).view(U32))
]


def wide(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda a: function(a.astype(F64))


for form in ("e32", "e64"):
    add(f"v_rcp_f32_{form} {{d}}, {{0}}", "f32", "f32", wide(lambda a: 1 / a), values={0: _RECIPROCAL}, ulps=1)
    add(f"v_rcp_iflag_f32_{form} {{d}}, {{0}}", "f32", "f32", wide(lambda a: 1 / a), values={0: _RECIPROCAL}, ulps=1)
    add(f"v_rsq_f32_{form} {{d}}, {{0}}", "f32", "f32", wide(lambda a: 1 / np.sqrt(a)), values={0: _POSITIVE}, ulps=1)
    add(f"v_sqrt_f32_{form} {{d}}, {{0}}", "f32", "f32", wide(np.sqrt), values={0: _POSITIVE}, ulps=1)
    add(f"v_exp_f32_{form} {{d}}, {{0}}", "f32", "f32", wide(np.exp2), values={0: _EXPONENT}, ulps=1)
    add(f"v_log_f32_{form} {{d}}, {{0}}", "f32", "f32", wide(np.log2), values={0: _POSITIVE}, ulps=1)
add("v_exp_f32_e64 {d}, -|{0}|", "f32", "f32", wide(lambda a: np.exp2(-np.abs(a))), values={0: _EXPONENT[::3]}, ulps=1)
add("v_rcp_f32_e64 {d}, {0} mul:2", "f32", "f32", wide(lambda a: 2 / a), values={0: _RECIPROCAL[21::3]}, ulps=1)

# ---- division, as LLVM expands it: right to the last bit -------------------------------------------------

DIVISION = """v_div_scale_f32 v20, s[24:25], {1}, {1}, {0}
v_div_scale_f32 v21, vcc, {0}, {1}, {0}
v_rcp_f32_e32 v22, v20
v_fma_f32 v23, -v20, v22, 1.0
v_fma_f32 v22, v23, v22, v22
v_mul_f32_e32 v24, v21, v22
v_fma_f32 v25, -v20, v24, v21
v_fma_f32 v24, v25, v22, v24
v_fma_f32 v26, -v20, v24, v21
v_div_fmas_f32 v24, v26, v22, v24
v_div_fixup_f32 {d}, v24, {1}, {0}"""
add(DIVISION, "f32 f32", "f32", lambda a, b: a / b)
_CLOSE = [int(code) for code in _spread.integers(0x3F000000, 0x40800000, 300)]
_TINY = [int(code) for code in _spread.integers(1, 0x01000000, 200)] + [0x7F7FFFFF, 0x7F000000, 0x3F800000, 0x00800000]
add(DIVISION + " ", "f32 f32", "f32", lambda a, b: a / b, values={0: _CLOSE, 1: _CLOSE[::-1]})
add(DIVISION + "  ", "f32 f32", "f32", lambda a, b: a / b, values={0: _TINY, 1: _CLOSE})
add(DIVISION + "   ", "f32 f32", "f32", lambda a, b: a / b, values={0: _CLOSE, 1: _TINY})
add(DIVISION + "    ", "f32 f32", "f32", lambda a, b: a / b, values={0: _TINY, 1: _TINY[::-1]})

# ---- SDWA ------------------------------------------------------------------------------------------------


def part(word: np.ndarray, select: str, signed: bool = False) -> np.ndarray:
    width = {"BYTE": 8, "WORD": 16, "DWORD": 32}[select.split("_")[0]]
    if width == 32:
        return word
    bits = word >> U32(width * int(select[-1])) & U32((1 << width) - 1)
    return ((bits.astype(np.int64) ^ (1 << width - 1)) - (1 << width - 1)).astype(U64).astype(U32) if signed else bits


def place(old: np.ndarray, value: np.ndarray, select: str, unused: str) -> np.ndarray:
    if select == "DWORD":
        return value
    width = {"BYTE": 8, "WORD": 16}[select.split("_")[0]]
    shift = width * int(select[-1])
    field = U32((1 << width) - 1 << shift)
    moved = value << U32(shift) & field
    if unused == "UNUSED_PRESERVE":
        return (old & ~field) | moved
    if unused == "UNUSED_SEXT":  # bits above take the sign, bits below are 0
        negative = value >> U32(width - 1) & U32(1) != 0
        return moved | np.where(negative, ~U32((1 << width + shift) - 1), U32(0))
    return moved


def f16_bits(word: np.ndarray) -> np.ndarray:
    return (word & U32(0xFFFF)).astype(np.uint16).view(F16)


SDWA = "dst_sel:{dst} dst_unused:{unused} src0_sel:{src0} src1_sel:{src1}"
_WORDS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "v_and_b32_sdwa": lambda a, b: a & b,
    "v_or_b32_sdwa": lambda a, b: a | b,
    "v_add_u32_sdwa": lambda a, b: a + b,
    "v_lshlrev_b32_sdwa": lambda a, b: b << (a & U32(31)),
    "v_mul_u32_u24_sdwa": lambda a, b: ((a & U32(0xFFFFFF)).astype(U64) * (b & U32(0xFFFFFF))).astype(U32),
    "v_add_u16_sdwa": lambda a, b: (a + b) & U32(0xFFFF),
    "v_sub_u16_sdwa": lambda a, b: (a - b) & U32(0xFFFF),
    "v_mul_lo_u16_sdwa": lambda a, b: (a & U32(0xFFFF)) * (b & U32(0xFFFF)) & U32(0xFFFF),
}
_SELECTIONS = [
    ("DWORD", "UNUSED_PAD", "DWORD", "BYTE_0"),
    ("DWORD", "UNUSED_PAD", "WORD_1", "WORD_0"),
    ("WORD_1", "UNUSED_PRESERVE", "BYTE_3", "WORD_1"),
    ("BYTE_2", "UNUSED_PAD", "BYTE_1", "BYTE_2"),
    ("BYTE_1", "UNUSED_SEXT", "WORD_0", "DWORD"),
]
for name, operation in _WORDS.items():
    for dst, unused, src0, src1 in _SELECTIONS:
        add(
            f"{name} {{d}}, {{0}}, {{1}} " + SDWA.format(dst=dst, unused=unused, src0=src0, src1=src1),
            "b32 b32",
            "b32",
            lambda a, b, old, operation=operation, dst=dst, unused=unused, src0=src0, src1=src1: place(
                old, operation(part(a, src0), part(b, src1)), dst, unused
            ),
            needs=("old",),
        )
add(
    "v_add_u32_sdwa {d}, sext({0}), sext({1}) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1 src1_sel:WORD_1",
    "b32 b32",
    "b32",
    lambda a, b: part(a, "BYTE_1", True) + part(b, "WORD_1", True),
)
add(
    "v_cndmask_b32_sdwa {d}, {0}, {1}, vcc dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1 src1_sel:BYTE_3",
    "b32 b32",
    "b32",
    lambda a, b, vcc: np.where(vcc, part(b, "BYTE_3"), part(a, "WORD_1")),
    needs=("vcc",),
)
add(
    "v_cmp_ne_u32_sdwa vcc, {0}, {1} src0_sel:BYTE_0 src1_sel:BYTE_2",
    "b32 b32",
    "",
    lambda a, b: part(a, "BYTE_0") != part(b, "BYTE_2"),
    mask="vcc",
)
add(
    "v_cmp_ne_u32_sdwa {m}, {0}, {1} src0_sel:WORD_1 src1_sel:DWORD",
    "b32 b32",
    "",
    lambda a, b: part(a, "WORD_1") != b,
    mask="m",
)
add(
    "v_cvt_f32_f16_sdwa {d}, {0} dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1",
    "f16x2",
    "f32",
    lambda a: halves(a)[1].astype(F32),
)
add(
    "v_cvt_f32_f16_sdwa {d}, -{0} dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1",
    "f16x2",
    "f32",
    lambda a: -halves(a)[1].astype(F32),
)
add(
    "v_cvt_i32_f32_sdwa {d}, {0} dst_sel:BYTE_0 dst_unused:UNUSED_PRESERVE src0_sel:DWORD",
    "f32",
    "b32",
    lambda a, old: place(
        old, to_integer(a, -(1 << 31), (1 << 31) - 1).astype(U64).astype(U32), "BYTE_0", "UNUSED_PRESERVE"
    ),
    needs=("old",),
)
add(
    "v_cvt_i32_f32_sdwa {d}, {0} dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:DWORD",
    "f32",
    "b32",
    lambda a, old: place(old, to_integer(a, -(1 << 31), (1 << 31) - 1).astype(U64).astype(U32), "WORD_1", "UNUSED_PAD"),
    needs=("old",),
)


@pytest.fixture(scope="module")
def program() -> Program:
    return Program([case.kernel(f"case{index}") for index, case in enumerate(CASES)])


@pytest.mark.parametrize("index", range(len(CASES)), ids=[str(case) for case in CASES])
def test_instruction(program: Program, index: int) -> None:
    CASES[index].run(lambda groups, buffers: program.launch(f"case{index}", groups, buffers))
