"""Conversions with a block scale (v_cvt_scalef32_*) and with random bits (v_cvt_sr_*), against ml_dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from core_library import Program
from lane_math import join_floats
from scaled_formats import decoded, encoded, next_random, wide_values
from vector_case import VectorCase as Case

U16, U32, U64, F16, F32, F64 = np.uint16, np.uint32, np.uint64, np.float16, np.float32, np.float64
FP8, BF8, FP4 = (np.dtype(kind) for kind in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn))
BF16 = np.dtype(ml_dtypes.bfloat16)
CASES: list[Case] = []


def add(text: str, sources: str, result: str, reference: Callable[..., Any], **options: Any) -> None:
    CASES.append(Case(text, tuple(sources.split()), result, reference, **options))


def scale_of(value: np.ndarray) -> np.ndarray:
    """The exponent field alone counts: 2^(field - 127), NaN for 255."""
    field = (value.view(U32) >> U32(23) & U32(255)).astype(F64)
    return np.where(field == 255, np.nan, np.exp2(field - 127))


def elements(kind: np.dtype, bits: int, word: np.ndarray, first_bit: int, count: int) -> list[np.ndarray]:
    codes = [word >> U32(first_bit + bits * index) & U32((1 << bits) - 1) for index in range(count)]
    return [code.astype(np.uint8).view(kind).astype(F64) for code in codes]


def level_nan(width: int, infinity: int, nan: int) -> Callable[[np.ndarray], np.ndarray]:
    """Every NaN of `width` bits becomes the same code."""
    unsigned = {8: np.uint8, 16: U16, 32: U32}[width]

    def apply(values: np.ndarray) -> np.ndarray:
        codes = values.view(unsigned)
        return np.where((codes & unsigned((1 << width - 1) - 1)) > infinity, unsigned(nan), codes).view(values.dtype)

    return apply


LEVEL = {"f32": level_nan(32, 0x7F800000, 0x7FC00000), "f16": level_nan(16, 0x7C00, 0x7E00)}
LEVEL["bf16"] = level_nan(16, 0x7F80, 0x7FC0)


def joined(kind: str, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    if kind == "f32":
        return join_floats(low.astype(F32), high.astype(F32))
    storage = F16 if kind == "f16" else BF16
    first, second = (part.astype(F32).astype(storage).view(U16).astype(U32) for part in (low, high))
    return first | second << U32(16)


_SCALES = [code << 23 for code in (127, 128, 126, 100, 150, 1, 0, 254, 255)] + [0x3FC00000, 0xBF800000, 0x40490FDB]

for name, kind, bits in (("fp4", FP4, 4), ("fp8", FP8, 8), ("bf8", BF8, 8)):
    choices = [(16 * word, f" op_sel:[{word},0,0]") for word in (0, 1)]
    if name == "fp4":
        choices = [(8 * byte, f" op_sel:[{byte & 1},{byte >> 1},0]") for byte in range(4)]
    for wide in ("f32", "f16", "bf16"):
        for first_bit, op_sel in choices:

            def unpack(word: np.ndarray, scale: np.ndarray, call: Any = (kind, bits, first_bit, wide)) -> np.ndarray:
                element, width, place, result = call
                low, high = (part * scale_of(scale) for part in elements(element, width, word, place, 2))
                return joined(result, low, high)

            add(
                f"v_cvt_scalef32_pk_{wide}_{name} {{d}}, {{0}}, {{1}}" + op_sel * (first_bit > 0),
                "b32 f32",
                "b64" if wide == "f32" else "b32",
                unpack,
                values={1: _SCALES},
                canonical=LEVEL[wide],
            )
for name, kind in (("fp8", FP8), ("bf8", BF8)):
    for byte in range(4):
        op_sel = f" op_sel:[{byte & 1},{byte >> 1},0]" if byte else ""
        add(
            f"v_cvt_scalef32_f32_{name} {{d}}, {{0}}, {{1}}{op_sel}",
            "b32 f32",
            "f32",
            lambda word, scale, kind=kind, byte=byte: (
                elements(kind, 8, word, 8 * byte, 1)[0] * scale_of(scale)
            ).astype(F32),
            values={1: _SCALES},
        )

# ---- to fp4: saturates, ties to even ---------------------------------------------------------------------

# Finite only: no source says what fp4, which has no NaN, gets for one.
_TO_FP4 = [
    0x00000000, 0x80000000, 0x3E800000, 0x3E800001, 0x3E7FFFFF, 0x3F400000, 0x3F3FFFFF, 0x3FA00000, 0x3FE00000,
    0x40200000, 0x40600000, 0x40A00000, 0x40A00001, 0x40C00000, 0x40E00000, 0x7F7FFFFF, 0xC0A00000, 0xFF800000,
]  # fmt: skip
_FINITE_SCALES = [code << 23 for code in (127, 128, 126, 125, 130)] + [0x3FC00000]


def fp4_codes(value: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return (value.astype(F64) / scale_of(scale)).astype(FP4).view(np.uint8).astype(U32) & U32(15)


def placed(codes: np.ndarray, old: np.ndarray, byte: int) -> np.ndarray:
    return (old & ~U32(0xFF << 8 * byte)) | codes << U32(8 * byte)


for byte in range(4):
    op_sel = f" op_sel:[0,0,{byte & 1},{byte >> 1}]" if byte else ""
    add(
        f"v_cvt_scalef32_pk_fp4_f32 {{d}}, {{0}}, {{1}}, {{2}}{op_sel}",
        "f32 f32 f32",
        "b32",
        lambda a, b, scale, old, byte=byte: placed(fp4_codes(a, scale) | fp4_codes(b, scale) << U32(4), old, byte),
        needs=("old",),
        values={0: _TO_FP4, 1: _TO_FP4[::-1], 2: _FINITE_SCALES},
    )
for name, half in (("f16", np.dtype(F16)), ("bf16", BF16)):

    def pack_halves(pair: np.ndarray, scale: np.ndarray, old: np.ndarray, half: np.dtype = half) -> np.ndarray:
        low, high = (fp4_codes((pair >> U32(16 * place)).astype(U16).view(half).astype(F32), scale) for place in (0, 1))
        return placed(low | high << U32(4), old, 0)

    finite = (
        np.array([0, 0.25, 0.3, 0.75, 1.25, 2.5, 3.5, 5, 7, 40, -0.25, -0.75, -5, -100], F32).astype(half).view(U16)
    )
    pairs = [int(low) | int(high) << 16 for low in finite for high in finite[::-1]]
    add(
        f"v_cvt_scalef32_pk_fp4_{name} {{d}}, {{0}}, {{1}}",
        "b32 f32",
        "b32",
        pack_halves,
        needs=("old",),
        values={0: pairs, 1: _FINITE_SCALES},
    )

# ---- one byte to f16, into either half -------------------------------------------------------------------

for name, kind in (("fp8", FP8), ("bf8", BF8)):
    for byte, half in ((0, 0), (1, 1), (2, 1), (3, 0)):
        op_sel = f" op_sel:[{byte & 1},{byte >> 1},{half}]" if byte or half else ""

        def into_half(
            word: np.ndarray, scale: np.ndarray, old: np.ndarray, call: tuple[Any, int, int] = (kind, byte, half)
        ) -> np.ndarray:
            value = elements(call[0], 8, word, 8 * call[1], 1)[0] * scale_of(scale)
            code = LEVEL["f16"](value.astype(F32).astype(F16)).view(U16).astype(U32)
            return (old & ~U32(0xFFFF << 16 * call[2])) | code << U32(16 * call[2])

        def level_half(word: np.ndarray, half: int = half) -> np.ndarray:
            code = LEVEL["f16"]((word >> U32(16 * half)).astype(U16)).astype(U32)
            return (word & ~U32(0xFFFF << 16 * half)) | code << U32(16 * half)

        add(
            f"v_cvt_scalef32_f16_{name} {{d}}, {{0}}, {{1}}{op_sel}",
            "b32 f32",
            "b32",
            into_half,
            needs=("old",),
            values={1: _SCALES},
            canonical=level_half,
        )

# ---- stochastic with a scale: the CDNA4 pseudocode's order of elements and random words ------------------

_SPREAD = [int(code) for code in np.random.default_rng(14).integers(0x2F800000, 0x47C00000, 400)]
_SPREAD += [code | 0x80000000 for code in _SPREAD[:200]]
_SPREAD += [0, 0x80000000, 0x7F800000, 0xFF800000, 0x00800000, 0x0D800000]
_RANDOM = [0, 1, 0x80000000, 0x7FFFFFFF, 0xFFFFFFFF, 0x00000FFF, 0x40000000]
_RANDOM += [int(word) for word in np.random.default_rng(15).integers(0, 1 << 32, 300)]


def halves(name: str) -> list[int]:
    """Halves near the numbers of _SPREAD."""
    return [int(code) for code in wide_values(name, np.array(_SPREAD, U32).view(F32).astype(F64))]


for name in ("fp8", "bf8"):
    for wide in ("f32", "f16", "bf16"):
        for byte in range(4):
            op_sel = f" op_sel:[0,0,{byte & 1},{byte >> 1}]" if byte else ""

            def sr_one(
                bits: np.ndarray,
                random: np.ndarray,
                scale: np.ndarray,
                old: np.ndarray,
                call: tuple[str, str, int] = (name, wide, byte),
            ) -> np.ndarray:
                value = decoded(call[1], bits.view(U32) if call[1] == "f32" else bits) / scale_of(scale)
                return placed(encoded(call[0], value, random), old, call[2])

            add(
                f"v_cvt_scalef32_sr_{name}_{wide} {{d}}, {{0}}, {{1}}, {{2}}{op_sel}",
                "b32 u32 f32",
                "b32",
                sr_one,
                needs=("old",),
                values={0: _SPREAD if wide == "f32" else halves(wide), 1: _RANDOM, 2: _FINITE_SCALES},
            )
_PAIRS = {
    "f32": [low | _SPREAD[-1 - index] << 32 for index, low in enumerate(_SPREAD)],
    **{
        wide: [low | halves(wide)[-1 - index] << 16 for index, low in enumerate(halves(wide))]
        for wide in ("f16", "bf16")
    },
}
# Two values to fp8 or bf8: nearest even, into either half of the result. Beyond the largest: NaN or infinity.
for name in ("fp8", "bf8"):
    for wide, width in (("f32", 32), ("f16", 16), ("bf16", 16)):
        for word in (0, 1):
            op_sel = f" op_sel:[0,0,{'0,' * (wide == 'f32')}{word}]" if word else ""
            first = "f32 f32" if wide == "f32" else "b32"

            def pack_pair(
                *given: np.ndarray, call: tuple[str, str, int, int] = (name, wide, width, word)
            ) -> np.ndarray:
                *packed, scale, old = given
                form, kind, _, half = call
                parts = [part.view(U32) for part in packed]
                if kind != "f32":
                    parts = [parts[0] & U32(0xFFFF), parts[0] >> U32(16)]
                low, high = (encoded(form, decoded(kind, part) / scale_of(scale)) for part in parts)
                return (old & ~U32(0xFFFF << 16 * half)) | (low | high << U32(8)) << U32(16 * half)

            values = {0: _SPREAD, 1: _SPREAD[::-1], 2: _FINITE_SCALES} if wide == "f32" else {1: _FINITE_SCALES}
            if wide != "f32":
                values[0] = _PAIRS[wide]
            add(
                f"v_cvt_scalef32_pk_{name}_{wide} {{d}}, {'{0}, {1}, {2}' if wide == 'f32' else '{0}, {1}'}{op_sel}",
                f"{first} f32",
                "b32",
                lambda *given, old, pack_pair=pack_pair: pack_pair(*given, old),
                needs=("old",),
                values=values,
            )
for wide, width in (("f32", 32), ("f16", 16), ("bf16", 16)):
    for byte in range(4):
        op_sel = f" op_sel:[0,0,{byte & 1},{byte >> 1}]" if byte else ""

        def sr_pair(
            pair: np.ndarray,
            random: np.ndarray,
            scale: np.ndarray,
            old: np.ndarray,
            call: tuple[str, int, int] = (wide, width, byte),
        ) -> np.ndarray:
            mask = (1 << call[1]) - 1
            low, high = (pair.astype(U64) >> U64(call[1] * place) & U64(mask) for place in (0, 1))
            first = encoded("fp4", decoded(call[0], low.astype(U32)) / scale_of(scale), random)
            second = encoded("fp4", decoded(call[0], high.astype(U32)) / scale_of(scale), next_random(random))
            return placed(first | second << U32(4), old, call[2])

        add(
            f"v_cvt_scalef32_sr_pk_fp4_{wide} {{d}}, {{0}}, {{1}}, {{2}}{op_sel}",
            "b64 u32 f32" if wide == "f32" else "b32 u32 f32",
            "b32",
            sr_pair,
            needs=("old",),
            values={0: _PAIRS[wide], 1: _RANDOM, 2: _FINITE_SCALES},
        )

# ---- stochastic rounding: the random bits are added below the last kept place, the rest is cut off --------


def stochastic(kind: np.dtype, fraction_bits: int, value: np.ndarray, random: np.ndarray) -> np.ndarray:
    bits = value.view(U32)
    cut = 23 - fraction_bits
    moved = (bits & U32(0x7FFFFFFF)) + (random >> U32(32 - cut))
    kept = (moved >> U32(cut) << U32(cut) | (bits & U32(0x80000000))).view(F32)
    return kept.astype(kind).view(np.uint8).astype(U32)


_NORMAL = [int(code) for code in np.random.default_rng(13).integers(0x3C800000, 0x43400000, 300)]
_NORMAL += [code | 0x80000000 for code in _NORMAL[:150]]
for name, kind, fraction_bits in (("fp8", FP8, 3), ("bf8", BF8, 2)):
    for byte in range(4):
        op_sel = f" op_sel:[0,0,{byte & 1},{byte >> 1}]" if byte else ""
        add(
            f"v_cvt_sr_{name}_f32 {{d}}, {{0}}, {{1}}{op_sel}",
            "f32 u32",
            "b32",
            lambda a, b, old, call=(kind, fraction_bits, byte): placed(stochastic(*call[:2], a, b), old, call[2]),
            needs=("old",),
            values={0: _NORMAL},
        )


for name in ("f16", "bf16"):
    for half in (0, 1):

        def sr_half(
            value: np.ndarray, random: np.ndarray, old: np.ndarray, call: tuple[str, int] = (name, half)
        ) -> np.ndarray:
            code = encoded(call[0], value.astype(F64), random)
            return (old & ~U32(0xFFFF << 16 * call[1])) | code << U32(16 * call[1])

        add(
            f"v_cvt_sr_{name}_f32 {{d}}, {{0}}, {{1}}" + " op_sel:[0,0,1]" * half,
            "f32 u32",
            "b32",
            sr_half,
            needs=("old",),
            values={0: [*_SPREAD, 0x7F7FFFFF, 0x47800000, 0x33000000, 0x3A000000], 1: _RANDOM},
        )


@pytest.fixture(scope="module")
def program() -> Program:
    return Program([case.kernel(f"case{index}") for index, case in enumerate(CASES)])


@pytest.mark.parametrize("index", range(len(CASES)), ids=[str(case) for case in CASES])
def test_instruction(program: Program, index: int) -> None:
    CASES[index].run(lambda groups, buffers: program.launch(f"case{index}", groups, buffers))
