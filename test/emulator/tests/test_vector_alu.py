"""Vector ALU instructions, every lane compared with numpy's evaluation of what AMD's ISA document says they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from core_library import Program
from lane_math import (
    bitop3,
    clamp01,
    floats,
    fma16,
    fma32,
    halves,
    join_floats,
    join_halves,
    nan_max,
    nan_min,
    number_max,
    number_min,
)
from vector_case import VectorCase as Case

U8, U32, U64, I32, I64 = np.uint8, np.uint32, np.uint64, np.int32, np.int64
F32, F16, F64 = np.float32, np.float16, np.float64
CASES: list[Case] = []


def add(text: str, sources: str, result: str, reference: Callable[..., Any], **options: Any) -> None:
    CASES.append(Case(text, tuple(sources.split()), result, reference, **options))


# ---- 32-bit integers -------------------------------------------------------------------------------------


def shift_left(amount: np.ndarray, value: np.ndarray) -> np.ndarray:
    return value << (amount & U32(31))


def shift_right(amount: np.ndarray, value: np.ndarray) -> np.ndarray:
    return value >> (amount & U32(31))


def arithmetic_right(amount: np.ndarray, value: np.ndarray) -> np.ndarray:
    return value >> (amount & U32(31)).astype(I32)


def low24(value: np.ndarray) -> np.ndarray:
    return (value & U32(0xFFFFFF)).astype(U64)


def reverse_bits(value: np.ndarray) -> np.ndarray:
    bits = np.unpackbits(value.view(np.uint8).reshape(-1, 4), axis=1, bitorder="little")
    return np.packbits(bits[:, ::-1], axis=1, bitorder="little").reshape(-1).view(U32)


def leading_zeros(value: np.ndarray) -> np.ndarray:
    return np.where(value == 0, -1, 31 - np.floor(np.log2(np.maximum(value, 1).astype(F64)))).astype(I64).astype(I32)


def extract_unsigned(value: np.ndarray, offset: np.ndarray, width: np.ndarray) -> np.ndarray:
    mask = (U64(1) << (width & U32(31)).astype(U64)) - U64(1)
    return ((value.astype(U64) >> (offset & U32(31)).astype(U64)) & mask).astype(U32)


def extract_signed(value: np.ndarray, offset: np.ndarray, width: np.ndarray) -> np.ndarray:
    count = (width & U32(31)).astype(I64)
    field = (value.astype(I64) >> (offset & U32(31)).astype(I64)) & ((1 << count) - 1)
    sign = np.where(count > 0, I64(1) << np.maximum(count - 1, 0), 0)
    return ((field ^ sign) - sign).astype(I32)


def permute_bytes(high: np.ndarray, low: np.ndarray, selector: np.ndarray) -> np.ndarray:
    data = np.concatenate([low.view(np.uint8).reshape(-1, 4), high.view(np.uint8).reshape(-1, 4)], axis=1)
    sign = (data[:, [1, 3, 5, 7]] >> 7) * np.uint8(0xFF)
    table = np.concatenate(
        [data, sign, np.zeros((len(data), 1), np.uint8), np.full((len(data), 1), 0xFF, np.uint8)], axis=1
    )
    index = selector.view(np.uint8).reshape(-1, 4)
    return np.take_along_axis(table, np.minimum(index, 13).astype(np.intp), axis=1).reshape(-1).view(U32)


def align_bits(high: np.ndarray, low: np.ndarray, amount: np.ndarray) -> np.ndarray:
    return ((high.astype(U64) << U64(32) | low) >> (amount & U32(31)).astype(U64)).astype(U32)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(U64) * b.astype(U64)


for form in ("e32", "e64"):
    add(f"v_mov_b32_{form} {{d}}, {{0}}", "b32", "b32", lambda a: a)
    add(f"v_not_b32_{form} {{d}}, {{0}}", "b32", "b32", lambda a: ~a)
    add(f"v_bfrev_b32_{form} {{d}}, {{0}}", "b32", "b32", reverse_bits)
    add(f"v_ffbh_u32_{form} {{d}}, {{0}}", "b32", "i32", leading_zeros)
    for name, reference in {
        "add_u32": lambda a, b: a + b,
        "sub_u32": lambda a, b: a - b,
        "subrev_u32": lambda a, b: b - a,
        "and_b32": lambda a, b: a & b,
        "or_b32": lambda a, b: a | b,
        "xor_b32": lambda a, b: a ^ b,
        "lshlrev_b32": shift_left,
        "lshrrev_b32": shift_right,
        "min_u32": np.minimum,
        "max_u32": np.maximum,
        "mul_u32_u24": lambda a, b: (low24(a) * low24(b)).astype(U32),
        "mul_hi_u32_u24": lambda a, b: (low24(a) * low24(b) >> U64(32)).astype(U32),
    }.items():
        add(f"v_{name}_{form} {{d}}, {{0}}, {{1}}", "u32 u32", "u32", reference)
    add(f"v_ashrrev_i32_{form} {{d}}, {{0}}, {{1}}", "u32 i32", "i32", arithmetic_right)
    add(f"v_min_i32_{form} {{d}}, {{0}}, {{1}}", "i32 i32", "i32", np.minimum)
    add(f"v_max_i32_{form} {{d}}, {{0}}, {{1}}", "i32 i32", "i32", np.maximum)

for name, reference in {
    "mul_lo_u32": lambda a, b: a * b,
    "mul_hi_u32": lambda a, b: (product(a, b) >> U64(32)).astype(U32),
}.items():
    add(f"v_{name} {{d}}, {{0}}, {{1}}", "u32 u32", "u32", reference)
for name, reference in {
    "mad_u32_u24": lambda a, b, c: ((low24(a) * low24(b)) + c).astype(U32),
    "lshl_add_u32": lambda a, b, c: shift_left(b, a) + c,
    "add_lshl_u32": lambda a, b, c: shift_left(c, a + b),
    "lshl_or_b32": lambda a, b, c: shift_left(b, a) | c,
    "and_or_b32": lambda a, b, c: (a & b) | c,
    "or3_b32": lambda a, b, c: a | b | c,
    "add3_u32": lambda a, b, c: a + b + c,
    "xad_u32": lambda a, b, c: (a ^ b) + c,
    "bfe_u32": extract_unsigned,
    "alignbit_b32": align_bits,
}.items():
    add(f"v_{name} {{d}}, {{0}}, {{1}}, {{2}}", "u32 u32 u32", "u32", reference)
add("v_bfe_i32 {d}, {0}, {1}, {2}", "i32 u32 u32", "i32", extract_signed)
add("v_max3_i32 {d}, {0}, {1}, {2}", "i32 i32 i32", "i32", lambda a, b, c: np.maximum(np.maximum(a, b), c))
add("v_med3_i32 {d}, {0}, {1}, {2}", "i32 i32 i32", "i32", lambda a, b, c: np.sort(np.stack([a, b, c]), axis=0)[1])
_SELECTORS = [0x03020100, 0x07060504, 0x0C0D0809, 0x0A0B0C0D, 0x05040100, 0xFF800D0C, 0x06020400, 0x0C0C0703]
add("v_perm_b32 {d}, {0}, {1}, {2}", "b32 b32 b32", "b32", permute_bytes, values={2: _SELECTORS})
for table in (0x00, 0xFF, 0xF0, 0xCC, 0xAA, 0x96, 0xE8, 0xCA, 0x6C, 0x40, 0x1B):
    add(
        f"v_bitop3_b32 {{d}}, {{0}}, {{1}}, {{2}} bitop3:{table:#x}",
        "b32 b32 b32",
        "b32",
        lambda a, b, c, table=table: bitop3(table, a, b, c),
    )
    add(
        f"v_bitop3_b16 {{d}}, {{0}}, {{1}}, {{2}} bitop3:{table:#x}",
        "u16 u16 u16",
        "u16",
        lambda a, b, c, table=table: bitop3(table, a, b, c),
        high_half="any",
    )


def signed24(value: np.ndarray) -> np.ndarray:
    return ((value << 8) >> 8).astype(I64)


def trailing_zeros(value: np.ndarray) -> np.ndarray:
    lowest = (value & (~value + U32(1))).astype(F64)
    return np.where(value == 0, -1, np.log2(np.maximum(lowest, 1))).astype(I64).astype(I32)


def leading_signs(value: np.ndarray) -> np.ndarray:
    """Bits from the top that equal the sign; -1 when all do."""
    flipped = (value ^ (value >> 31)).view(U32)
    return np.where(flipped == 0, -1, leading_zeros(flipped)).astype(I32)


def wide_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(I64) * b.astype(I64)


for name, reference in {
    "bfi_b32": lambda a, b, c: (a & b) | (~a & c),
    "min3_u32": lambda a, b, c: np.minimum(np.minimum(a, b), c),
    "max3_u32": lambda a, b, c: np.maximum(np.maximum(a, b), c),
    "med3_u32": lambda a, b, c: np.sort(np.stack([a, b, c]), axis=0)[1],
    "alignbyte_b32": lambda a, b, c: align_bits(a, b, (c & U32(3)) * U32(8)),
    "sad_u32": lambda a, b, c: np.maximum(a, b) - np.minimum(a, b) + c,
}.items():
    add(f"v_{name} {{d}}, {{0}}, {{1}}, {{2}}", "u32 u32 u32", "u32", reference)
add("v_min3_i32 {d}, {0}, {1}, {2}", "i32 i32 i32", "i32", lambda a, b, c: np.minimum(np.minimum(a, b), c))
add(
    "v_mad_i32_i24 {d}, {0}, {1}, {2}",
    "i32 i32 i32",
    "i32",
    lambda a, b, c: (signed24(a) * signed24(b) + c).astype(I32),
)
add("v_mul_hi_i32 {d}, {0}, {1}", "i32 i32", "i32", lambda a, b: (wide_product(a, b) >> 32).astype(I32))
add(
    "v_bfm_b32 {d}, {0}, {1}",
    "u32 u32",
    "u32",
    lambda a, b: (((U64(1) << (a & U32(31)).astype(U64)) - U64(1)) << (b & U32(31)).astype(U64)).astype(U32),
)


def bytes_of(values: np.ndarray, size: int = 1) -> np.ndarray:
    return np.ascontiguousarray(values).view(U8 if size == 1 else np.uint16).reshape(values.size, -1).astype(I64)


def differences(size: int, masked: bool = False, shift: int = 0) -> Callable[..., np.ndarray]:
    def reference(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        x, y = bytes_of(a, size), bytes_of(b, size)
        total = np.where((y != 0) | (not masked), np.abs(x - y), 0).sum(1)
        return ((total << shift) + c.astype(I64)).astype(U32)

    return reference


def lerp(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return ((bytes_of(a) + bytes_of(b) + (bytes_of(c) & 1)) >> 1).astype(U8).view(U32).reshape(-1)


add("v_sad_u8 {d}, {0}, {1}, {2}", "u32 u32 u32", "u32", differences(1))
add("v_sad_hi_u8 {d}, {0}, {1}, {2}", "u32 u32 u32", "u32", differences(1, shift=16))
add("v_sad_u16 {d}, {0}, {1}, {2}", "u32 u32 u32", "u32", differences(2))
add("v_msad_u8 {d}, {0}, {1}, {2}", "u32 u32 u32", "u32", differences(1, masked=True))
add("v_lerp_u8 {d}, {0}, {1}, {2}", "u32 u32 u32", "u32", lerp)
add("v_bcnt_u32_b32 {d}, {0}, {1}", "u32 u32", "u32", lambda a, b: np.bitwise_count(a).astype(U32) + b)
for form in ("e32", "e64"):
    add(
        f"v_mul_i32_i24_{form} {{d}}, {{0}}, {{1}}",
        "i32 i32",
        "i32",
        lambda a, b: (signed24(a) * signed24(b)).astype(I32),
    )
    add(
        f"v_mul_hi_i32_i24_{form} {{d}}, {{0}}, {{1}}",
        "i32 i32",
        "i32",
        lambda a, b: (signed24(a) * signed24(b) >> 32).astype(I32),
    )
    add(f"v_xnor_b32_{form} {{d}}, {{0}}, {{1}}", "b32 b32", "b32", lambda a, b: ~(a ^ b))
    add(f"v_ffbl_b32_{form} {{d}}, {{0}}", "b32", "i32", trailing_zeros)
    add(f"v_ffbh_i32_{form} {{d}}, {{0}}", "i32", "i32", leading_signs)
add("v_swap_b32 {d}, {0}\nv_mov_b32_e32 {d}, {0}", "b32", "b32", lambda a, old: old, needs=("old",))

# Scalar registers and constants as sources.
add("v_add_u32_e32 {d}, {s0}, {1}", "u32 u32", "u32", lambda a, b: a + b)
add("v_lshl_add_u32 {d}, {0}, {s1}, {2}", "u32 u32 u32", "u32", lambda a, b, c: shift_left(b, a) + c)
add("v_add_u32_e32 {d}, -16, {0}", "u32", "u32", lambda a: a - U32(16))
add("v_and_b32_e32 {d}, 0xfedcba98, {0}", "b32", "b32", lambda a: a & U32(0xFEDCBA98))
add("v_xor_b32_e32 {d}, 64, {0}", "b32", "b32", lambda a: a ^ U32(64))
add("v_mov_b32_e32 {d}, 0.15915494", "", "b32", lambda: np.full(256, 0x3E22F983, U32))
add("v_add_u32_e64 {d}, {0}, {1} clamp", "u32 u32", "u32", lambda a, b: np.where(a > ~b, U32(0xFFFFFFFF), a + b))
add("v_sub_u32_e64 {d}, {0}, {1} clamp", "u32 u32", "u32", lambda a, b: np.where(b > a, U32(0), a - b))

# ---- 64-bit integers, carries ----------------------------------------------------------------------------

add("v_mov_b64_e32 {d}, {0}", "b64", "b64", lambda a: a)
add("v_mov_b64_e32 {d}, -3", "", "b64", lambda: np.full(256, 0xFFFFFFFFFFFFFFFD, U64))
add(
    "v_lshl_add_u64 {d}, {0}, {1}, {2}",
    "u64 u32 u64",
    "u64",
    lambda a, b, c: (a << (b & U32(7)).astype(U64)) + c,
    values={1: [0, 1, 2, 3, 4]},
)
add("v_lshlrev_b64 {d}, {0}, {1}", "u32 u64", "u64", lambda a, b: b << (a & U32(63)).astype(U64))
add("v_lshrrev_b64 {d}, {0}, {1}", "u32 u64", "u64", lambda a, b: b >> (a & U32(63)).astype(U64))
add("v_ashrrev_i64 {d}, {0}, {1}", "u32 i64", "i64", lambda a, b: b >> (a & U32(63)).astype(I64))


def multiply_add_64(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    total = product(a, b) + c
    return total, total < c


add("v_mad_u64_u32 {d}, {m}, {0}, {1}, {2}", "u32 u32 u64", "u64", multiply_add_64, mask="m")


def multiply_add_signed(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mask is bit 64 of the exact sum, which is its sign."""
    exact = [int(x) * int(y) + int(z) for x, y, z in zip(a, b, c, strict=True)]
    wrapped = np.array([value & 0xFFFFFFFFFFFFFFFF for value in exact], U64).view(I64)
    return wrapped, np.array([value < 0 for value in exact])


add("v_mad_i64_i32 {d}, {m}, {0}, {1}, {2}", "i32 i32 i64", "i64", multiply_add_signed, mask="m")


def add_carry(a: np.ndarray, b: np.ndarray, carry: Any = 0) -> tuple[np.ndarray, np.ndarray]:
    total = a.astype(U64) + b.astype(U64) + np.asarray(carry).astype(U64)
    return total.astype(U32), total >> U64(32) != 0


def subtract_borrow(a: np.ndarray, b: np.ndarray, borrow: Any = 0) -> tuple[np.ndarray, np.ndarray]:
    total = a.astype(I64) - b.astype(I64) - np.asarray(borrow).astype(I64)
    return total.astype(U64).astype(U32), total < 0


for name, reference in {
    "add_co_u32": add_carry,
    "sub_co_u32": subtract_borrow,
    "subrev_co_u32": lambda a, b: subtract_borrow(b, a),
}.items():
    add(f"v_{name}_e32 {{d}}, vcc, {{0}}, {{1}}", "u32 u32", "u32", reference, mask="vcc")
    add(f"v_{name}_e64 {{d}}, {{m}}, {{0}}, {{1}}", "u32 u32", "u32", reference, mask="m")
for name, with_carry in {
    "addc_co_u32": lambda a, b, vcc: add_carry(a, b, vcc),
    "subb_co_u32": lambda a, b, vcc: subtract_borrow(a, b, vcc),
    "subbrev_co_u32": lambda a, b, vcc: subtract_borrow(b, a, vcc),
}.items():
    add(f"v_{name}_e32 {{d}}, vcc, {{0}}, {{1}}, vcc", "u32 u32", "u32", with_carry, needs=("vcc",), mask="vcc")
    add(f"v_{name}_e64 {{d}}, {{m}}, {{0}}, {{1}}, {{c}}", "u32 u32", "u32", with_carry, needs=("vcc",), mask="m")

for text in ("v_cndmask_b32_e32 {d}, {0}, {1}, vcc", "v_cndmask_b32_e64 {d}, {0}, {1}, {c}"):
    add(text, "b32 b32", "b32", lambda a, b, vcc: np.where(vcc, b, a), needs=("vcc",))
add("v_cndmask_b32_e64 {d}, 0, 1, {c}", "", "b32", lambda vcc: vcc.astype(U32), needs=("vcc",))

# ---- 16-bit integers -------------------------------------------------------------------------------------

for name, reference in {
    "add_u16": lambda a, b: a + b,
    "sub_u16": lambda a, b: a - b,
    "mul_lo_u16": lambda a, b: a * b,
    "lshrrev_b16": lambda a, b: b >> (a & np.uint16(15)),
    "lshlrev_b16": lambda a, b: b << (a & np.uint16(15)),
}.items():
    for form in ("e32", "e64"):
        add(f"v_{name}_{form} {{d}}, {{0}}, {{1}}", "u16 u16", "u16", reference)

# ---- comparisons -----------------------------------------------------------------------------------------

ORDERINGS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "lt": np.less,
    "eq": np.equal,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
FLOAT_ORDERINGS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    **ORDERINGS,
    "lg": lambda a, b: (a < b) | (a > b),
    "o": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "u": lambda a, b: np.isnan(a) | np.isnan(b),
    "nge": lambda a, b: ~(a >= b),
    "nlg": lambda a, b: ~((a < b) | (a > b)),
    "ngt": lambda a, b: ~(a > b),
    "nle": lambda a, b: ~(a <= b),
    "neq": lambda a, b: ~(a == b),
    "nlt": lambda a, b: ~(a < b),
}
for kind in ("i32", "u32", "i64", "u64", "u16"):
    for name, compare in {**ORDERINGS, "ne": np.not_equal}.items():
        add(f"v_cmp_{name}_{kind}_e32 vcc, {{0}}, {{1}}", f"{kind} {kind}", "", compare, mask="vcc")
        add(f"v_cmp_{name}_{kind}_e64 {{m}}, {{0}}, {{1}}", f"{kind} {kind}", "", compare, mask="m")
for kind in ("f32", "f16", "f64"):
    for name, compare in FLOAT_ORDERINGS.items():
        if kind != "f32" and name not in ("lt", "gt", "eq", "neq", "u"):
            continue
        add(f"v_cmp_{name}_{kind}_e32 vcc, {{0}}, {{1}}", f"{kind} {kind}", "", compare, mask="vcc")
        add(f"v_cmp_{name}_{kind}_e64 {{m}}, {{0}}, {{1}}", f"{kind} {kind}", "", compare, mask="m")
add("v_cmp_gt_f32_e64 {m}, |{0}|, -{1}", "f32 f32", "", lambda a, b: np.abs(a) > -b, mask="m")
add("v_cmp_gt_i32_e32 vcc, {s0}, {1}", "i32 i32", "", np.greater, mask="vcc")
add("v_cmp_eq_u32_e32 vcc, 0, {0}", "u32", "", lambda a: a == 0, mask="vcc")


def classify(value: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    bits = value.view(U32)
    negative, magnitude = bits >> U32(31) != 0, bits & U32(0x7FFFFFFF)
    bit = np.select(
        [
            (magnitude > 0x7F800000) & (magnitude & U32(1 << 22) == 0),
            magnitude > 0x7F800000,
            magnitude == 0x7F800000,
            magnitude >= 0x00800000,
            magnitude > 0,
        ],
        [0, 1, np.where(negative, 2, 9), np.where(negative, 3, 8), np.where(negative, 4, 7)],
        np.where(negative, 5, 6),
    )
    return (wanted >> bit.astype(U32)) & U32(1) != 0


add("v_cmp_class_f32_e32 vcc, {0}, {1}", "f32 class", "", classify, mask="vcc")
add("v_cmp_class_f32_e64 {m}, {0}, {1}", "f32 class", "", classify, mask="m")

# ---- f32 -------------------------------------------------------------------------------------------------


def scaled(value: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    return np.ldexp(value.astype(F64), np.clip(exponent, -400, 400)).astype(F32)


for form in ("e32", "e64"):
    for name, reference in {
        "add_f32": lambda a, b: a + b,
        "sub_f32": lambda a, b: a - b,
        "subrev_f32": lambda a, b: b - a,
        "mul_f32": lambda a, b: a * b,
        "max_f32": number_max,
        "min_f32": number_min,
    }.items():
        add(f"v_{name}_{form} {{d}}, {{0}}, {{1}}", "f32 f32", "f32", reference)
    add(f"v_fmac_f32_{form} {{d}}, {{0}}, {{1}}", "f32 f32", "f32", lambda a, b, old: fma32(a, b, old), needs=("old",))
    add(f"v_trunc_f32_{form} {{d}}, {{0}}", "f32", "f32", np.trunc)
    add(f"v_rndne_f32_{form} {{d}}, {{0}}", "f32", "f32", np.rint)
    add(f"v_floor_f32_{form} {{d}}, {{0}}", "f32", "f32", np.floor)
    add(f"v_ceil_f32_{form} {{d}}, {{0}}", "f32", "f32", np.ceil)
add("v_fma_f32 {d}, {0}, {1}, {2}", "f32 f32 f32", "f32", fma32)
add("v_fma_f32 {d}, -{0}, {1}, |{2}|", "f32 f32 f32", "f32", lambda a, b, c: fma32(-a, b, np.abs(c)))
add("v_fma_f32 {d}, {0}, {1}, {2} clamp", "f32 f32 f32", "f32", lambda a, b, c: clamp01(fma32(a, b, c)))
add("v_fmamk_f32 {d}, {0}, 0x40490fdb, {1}", "f32 f32", "f32", lambda a, b: fma32(a, np.full_like(a, F32(np.pi)), b))
add("v_fmaak_f32 {d}, {0}, {1}, 0x40490fdb", "f32 f32", "f32", lambda a, b: fma32(a, b, np.full_like(a, F32(np.pi))))
add("v_add_f32_e64 {d}, -{0}, |{1}|", "f32 f32", "f32", lambda a, b: -a + np.abs(b))
add("v_add_f32_e64 {d}, -|{0}|, {1}", "f32 f32", "f32", lambda a, b: -np.abs(a) + b)
add("v_mul_f32_e64 {d}, {0}, {1} clamp", "f32 f32", "f32", lambda a, b: clamp01(a * b))
add("v_mul_f32_e32 {d}, 0.5, {0}", "f32", "f32", lambda a: F32(0.5) * a)
add("v_mul_f32_e32 {d}, 0x3fb8aa3b, {0}", "f32", "f32", lambda a: np.array([0x3FB8AA3B], U32).view(F32)[0] * a)
add("v_mul_f32_e64 {d}, {s0}, -{1}", "f32 f32", "f32", lambda a, b: a * -b)
add("v_max3_f32 {d}, {0}, {1}, {2}", "f32 f32 f32", "f32", lambda a, b, c: number_max(number_max(a, b), c))
add("v_maximum3_f32 {d}, {0}, {1}, {2}", "f32 f32 f32", "f32", lambda a, b, c: nan_max(nan_max(a, b), c))
add("v_minimum3_f32 {d}, {0}, {1}, {2}", "f32 f32 f32", "f32", lambda a, b, c: nan_min(nan_min(a, b), c))
add("v_min3_f32 {d}, {0}, {1}, {2}", "f32 f32 f32", "f32", lambda a, b, c: number_min(number_min(a, b), c))


def median(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The middle one; with a NaN among them the smallest of the others."""
    ordered = number_max(number_min(a, b), number_min(number_max(a, b), c))
    return np.where(np.isnan(a) | np.isnan(b) | np.isnan(c), number_min(number_min(a, b), c), ordered)


add("v_med3_f32 {d}, {0}, {1}, {2}", "f32 f32 f32", "f32", median)
add("v_ldexp_f32 {d}, {0}, {1}", "f32 i32", "f32", scaled)

# ---- packed and mixed ------------------------------------------------------------------------------------


def per_float(operation: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    def apply(*pairs: np.ndarray) -> np.ndarray:
        lows, highs = zip(*(floats(pair) for pair in pairs), strict=True)
        return join_floats(operation(*lows), operation(*highs))

    return apply


def per_half(operation: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    def apply(*pairs: np.ndarray) -> np.ndarray:
        lows, highs = zip(*(halves(pair) for pair in pairs), strict=True)
        return join_halves(operation(*lows), operation(*highs))

    return apply


def swapped(pair: np.ndarray) -> np.ndarray:
    return pair >> U64(32) | pair << U64(32)


def low_twice(pair: np.ndarray) -> np.ndarray:
    return (pair & U64(0xFFFFFFFF)) | pair << U64(32)


def flip_low(pair: np.ndarray) -> np.ndarray:
    return pair ^ U64(0x80000000)


PAIR = {"add": lambda a, b: a + b, "mul": lambda a, b: a * b}
for name, operation in PAIR.items():
    pairwise = per_float(operation)
    add(f"v_pk_{name}_f32 {{d}}, {{0}}, {{1}}", "f32x2 f32x2", "f32x2", pairwise)
    add(
        f"v_pk_{name}_f32 {{d}}, {{0}}, {{1}} op_sel_hi:[0,1]",
        "f32x2 f32x2",
        "f32x2",
        lambda a, b, pairwise=pairwise: pairwise(low_twice(a), b),
    )
    add(
        f"v_pk_{name}_f32 {{d}}, {{0}}, {{1}} op_sel:[1,0] op_sel_hi:[0,1] neg_lo:[0,1]",
        "f32x2 f32x2",
        "f32x2",
        lambda a, b, pairwise=pairwise: pairwise(swapped(a), flip_low(b)),
    )
    add(f"v_pk_{name}_f16 {{d}}, {{0}}, {{1}}", "f16x2 f16x2", "f16x2", per_half(operation))
add("v_pk_fma_f32 {d}, {0}, {1}, {2}", "f32x2 f32x2 f32x2", "f32x2", per_float(fma32))
add(
    "v_pk_fma_f32 {d}, {0}, {1}, {2} op_sel_hi:[1,0,1]",
    "f32x2 f32x2 f32x2",
    "f32x2",
    lambda a, b, c: per_float(fma32)(a, low_twice(b), c),
)


def half_of(pair: np.ndarray, high: bool) -> np.ndarray:
    return halves(pair)[high].astype(F32)


add("v_fma_mix_f32 {d}, {0}, {1}, {2}", "f32 f32 f32", "f32", fma32)
add(
    "v_fma_mix_f32 {d}, {0}, {1}, {2} op_sel_hi:[1,1,1]",
    "f16x2 f16x2 f16x2",
    "f32",
    lambda a, b, c: fma32(half_of(a, False), half_of(b, False), half_of(c, False)),
)
add(
    "v_fma_mix_f32 {d}, {0}, -{1}, |{2}| op_sel:[1,0,0] op_sel_hi:[1,0,0]",
    "f16x2 f32 f32",
    "f32",
    lambda a, b, c: fma32(half_of(a, True), -b, np.abs(c)),
)
add(
    "v_fma_mixlo_f16 {d}, {0}, {1}, {2}", "f32 f32 f32", "f16", lambda a, b, c: fma32_to_half(a, b, c), high_half="keep"
)
add(
    "v_fma_mixlo_f16 {d}, {0}, {1}, {2} op_sel_hi:[1,0,0]",
    "f16x2 f32 f32",
    "f16",
    lambda a, b, c: fma32_to_half(half_of(a, False), b, c),
    high_half="keep",
)


def fma32_to_half(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Rounded to f32, then to f16."""
    return fma32(a, b, c).astype(F16)


for form in ("e32", "e64"):
    add(f"v_add_f16_{form} {{d}}, {{0}}, {{1}}", "f16 f16", "f16", lambda a, b: a + b)
    add(f"v_mul_f16_{form} {{d}}, {{0}}, {{1}}", "f16 f16", "f16", lambda a, b: a * b)
    add(f"v_max_f16_{form} {{d}}, {{0}}, {{1}}", "f16 f16", "f16", number_max)
add("v_fma_f16 {d}, {0}, {1}, {2}", "f16 f16 f16", "f16", fma16, high_half="any")


@pytest.fixture(scope="module")
def program() -> Program:
    return Program([case.kernel(f"case{index}") for index, case in enumerate(CASES)])


@pytest.mark.parametrize("index", range(len(CASES)), ids=[str(case) for case in CASES])
def test_instruction(program: Program, index: int) -> None:
    CASES[index].run(lambda groups, buffers: program.launch(f"case{index}", groups, buffers))
