"""MFMA against mfma_reference.py: layouts exactly, sums within the bound that core/exec/mfma.md states."""

from __future__ import annotations

import ctypes
from fractions import Fraction

import numpy as np
import pytest
from hip_device import core_only
from mfma_reference import (
    DENSE,
    F8F6F4,
    SCALED,
    Shape,
    decode,
    encode,
    exact_product,
    place_inputs,
    place_outputs,
    place_scales,
    random_codes,
    read_outputs,
)
from mfma_run import execute
from numeric_library import numeric, pointer

EVERY = DENSE + F8F6F4
FLOATS = [shape for shape in EVERY if shape.a not in ("i8", "f64")]
BY_NAME = {str(shape): shape for shape in EVERY + SCALED}


def generator_for(shape: Shape) -> np.random.Generator:
    return np.random.default_rng(list(str(shape).encode()))


def bits_of_output(shape: Shape, values: np.ndarray) -> np.ndarray:
    kind = {"f64": "f64", "f32": "f32"}.get(shape.accumulator)
    return values.astype(np.int32).view(np.uint32).astype(np.uint64) if kind is None else encode(kind, values)


def small_integers(shape: Shape, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, B, C such that every format holds the values and every partial sum is exact."""
    top = {"fp4": 4, "fp6": 7, "bf6": 8}
    a = generator.integers(-top.get(shape.a, 8), top.get(shape.a, 8) + 1, (shape.blocks, shape.m, shape.k))
    b = generator.integers(-top.get(shape.b, 8), top.get(shape.b, 8) + 1, (shape.blocks, shape.n, shape.k))
    for kind, array in ((shape.a, a), (shape.b, b)):
        array[...] = decode(kind, encode(kind, array.astype(np.float64)))  # bf6 and fp4 have no 5 or 7
    c = generator.integers(-1000, 1000, (shape.blocks, shape.m, shape.n))
    return a.astype(np.float64), b.astype(np.float64), c.astype(np.float64)


def integer_registers(shape: Shape) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    a, b, c = small_integers(shape, generator_for(shape))
    return (
        place_inputs(shape, shape.a, encode(shape.a, a)),
        place_inputs(shape, shape.b, encode(shape.b, b)),
        place_outputs(shape, bits_of_output(shape, c)),
    )


def error_bound(shape: Shape, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    magnitude = exact_product(np.abs(a), np.abs(b)) + np.abs(c)
    unit = 2.0**-53 if shape.accumulator == "f64" else 2.0**-24
    return np.asarray((shape.k + 2) * unit * magnitude + 2.0**-149)


@pytest.mark.parametrize("shape", EVERY, ids=str)
def test_exact_integers_show_the_layout(shape: Shape) -> None:
    a, b, c = small_integers(shape, generator_for(shape))
    d = execute(
        shape,
        place_inputs(shape, shape.a, encode(shape.a, a)),
        place_inputs(shape, shape.b, encode(shape.b, b)),
        place_outputs(shape, bits_of_output(shape, c)),
    )
    np.testing.assert_array_equal(read_outputs(shape, d), exact_product(a, b) + c)


@pytest.mark.parametrize("shape", EVERY, ids=str)
def test_random_bit_patterns(shape: Shape) -> None:
    """Any finite code, denormals and the largest values too; only formats with wide exponents are narrowed."""
    generator = generator_for(shape)
    a_codes = random_codes(shape.a, (shape.blocks, shape.m, shape.k), generator)
    b_codes = random_codes(shape.b, (shape.blocks, shape.n, shape.k), generator)
    a, b = decode(shape.a, a_codes), decode(shape.b, b_codes)
    if shape.a in ("f32", "bf16", "f64"):  # products of arbitrary exponents would overflow to infinity
        a_codes, b_codes = (
            encode(shape.a, np.ldexp(np.frexp(x)[0], generator.integers(-60, 60, x.shape))) for x in (a, b)
        )
        a, b = decode(shape.a, a_codes), decode(shape.b, b_codes)
    if shape.accumulator == "i32":
        c = generator.integers(-(1 << 31), 1 << 31, (shape.blocks, shape.m, shape.n))
    else:
        c = decode("f32", encode("f32", generator.standard_normal((shape.blocks, shape.m, shape.n))))
    d = execute(
        shape,
        place_inputs(shape, shape.a, a_codes),
        place_inputs(shape, shape.b, b_codes),
        place_outputs(shape, bits_of_output(shape, c)),
    )
    ours = read_outputs(shape, d)
    if shape.accumulator == "i32":
        expected = exact_product(a, b).astype(np.int64) + c
        np.testing.assert_array_equal(ours, expected.astype(np.uint64).astype(np.uint32).view(np.int32))
    else:
        excess = np.abs(ours - (exact_product(a, b) + c)) - error_bound(shape, a, b, c)
        assert excess.max() <= 0, f"{excess.max()} past the bound"


def fma_chain(a: np.ndarray, b: np.ndarray, start: np.float32) -> np.float32:
    total = start
    for x, y in zip(a, b, strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(total))
        total = round_to_f32(exact)
    return total


def round_to_f32(exact: Fraction) -> np.float32:
    """Nearest even, by comparing with the two neighbours of an approximation."""
    guess = np.float32(float(exact))
    candidates = {guess, np.nextafter(guess, np.float32(np.inf)), np.nextafter(guess, np.float32(-np.inf))}
    return min(candidates, key=lambda f: (abs(Fraction(float(f)) - exact), int(f.view(np.uint32)) & 1))


@core_only  # hardware's order is not published
@pytest.mark.parametrize(
    "name",
    [
        "v_mfma_f32_16x16x32_bf16",
        "v_mfma_f32_16x16x16_f16",
        "v_mfma_f32_16x16x4_f32",
        "v_mfma_f32_32x32x16_bf8_fp8",
        "v_mfma_f32_4x4x4_16b_f16",
    ],
)
def test_order_and_rounding_are_the_documented_ones(name: str) -> None:
    shape, generator = BY_NAME[name], np.random.default_rng(3)
    a_codes = random_codes(shape.a, (shape.blocks, shape.m, shape.k), generator)
    b_codes = random_codes(shape.b, (shape.blocks, shape.n, shape.k), generator)
    if shape.a in ("f32", "bf16"):
        a_codes, b_codes = (
            encode(shape.a, generator.standard_normal(x.shape) * np.exp2(generator.integers(-9, 9, x.shape)))
            for x in (a_codes, b_codes)
        )
    a, b = decode(shape.a, a_codes), decode(shape.b, b_codes)
    c = generator.standard_normal((shape.blocks, shape.m, shape.n)).astype(np.float32)
    d = execute(
        shape,
        place_inputs(shape, shape.a, a_codes),
        place_inputs(shape, shape.b, b_codes),
        place_outputs(shape, bits_of_output(shape, c)),
    )
    ours = read_outputs(shape, d)
    for block, i, j in generator.integers(0, [shape.blocks, shape.m, shape.n], (40, 3)):
        assert ours[block, i, j] == fma_chain(a[block, i], b[block, j], c[block, i, j])


@pytest.mark.parametrize("shape", FLOATS, ids=str)
def test_nan_and_infinity_stay_in_their_row_and_column(shape: Shape) -> None:
    generator = generator_for(shape)
    a, b, c = small_integers(shape, generator)
    b[b == 0] = 1
    a_codes, b_codes = encode(shape.a, a), encode(shape.b, b)
    nan_code = {"f32": 0x7FC00001, "f16": 0x7E01, "bf16": 0xFFC1, "fp8": 0xFF, "bf8": 0x7D}.get(shape.a)
    infinity_code = {"f32": 0x7F800000, "f16": 0x7C00, "bf16": 0x7F80, "bf8": 0x7C}.get(shape.a)
    last = shape.blocks - 1
    if nan_code is not None:
        a_codes[last, 1, shape.k - 1] = nan_code
    if infinity_code is not None:
        a_codes[last, 2, 0] = infinity_code
    c[last, 3, 0] = np.nan
    d = execute(
        shape,
        place_inputs(shape, shape.a, a_codes),
        place_inputs(shape, shape.b, b_codes),
        place_outputs(shape, bits_of_output(shape, c)),
    )
    with np.errstate(invalid="ignore"):
        expected = exact_product(decode(shape.a, a_codes), decode(shape.b, b_codes)) + c
    np.testing.assert_array_equal(read_outputs(shape, d), expected)
    assert np.isnan(expected[last, 3, 0])
    assert nan_code is None or np.isnan(expected[last, 1]).all()
    assert infinity_code is None or np.isinf(expected[last, 2]).all()


@pytest.mark.parametrize("name", ["v_mfma_f32_16x16x32_f16", "v_mfma_f32_32x32x16_bf16", "v_mfma_f32_16x16x4_f32"])
def test_denormals_are_read_and_written(name: str) -> None:
    shape = BY_NAME[name]
    smallest = {"f16": 2.0**-24, "bf16": 2.0**-133, "f32": 2.0**-149}[shape.a]
    a, b = np.full((1, shape.m, shape.k), smallest), np.full((1, shape.n, shape.k), 1.0)
    c = np.full((1, shape.m, shape.n), 2.0**-149)
    d = execute(
        shape,
        place_inputs(shape, shape.a, encode(shape.a, a)),
        place_inputs(shape, shape.b, encode(shape.b, b)),
        place_outputs(shape, bits_of_output(shape, c)),
    )
    expected = np.float32(shape.k * smallest + 2.0**-149)
    assert (read_outputs(shape, d) == expected).all()


@core_only  # as above: the large products may be added last
def test_cancellation_loses_no_more_than_the_bound() -> None:
    shape = BY_NAME["v_mfma_f32_32x32x16_bf16"]
    generator = np.random.default_rng(9)
    a = np.concatenate([np.full((1, 32, 8), 2.0**60), generator.standard_normal((1, 32, 8))], axis=2)
    b = np.concatenate([np.tile([2.0**40, -(2.0**40)], (1, 32, 4)), generator.standard_normal((1, 32, 8))], axis=2)
    a, b = decode("bf16", encode("bf16", a)), decode("bf16", encode("bf16", b))
    c = np.zeros((1, 32, 32))
    d = execute(
        shape, place_inputs(shape, "bf16", encode("bf16", a)), place_inputs(shape, "bf16", encode("bf16", b)), None, 0
    )
    exact = exact_product(a[:, :, 8:], b[:, :, 8:])  # the large ones cancel in pairs, without a trace in this order
    assert (np.abs(read_outputs(shape, d) - exact) <= error_bound(shape, a[:, :, 8:], b[:, :, 8:], c)).all()


@pytest.mark.parametrize("shape", EVERY, ids=str)
def test_constant_addend_and_addend_in_place(shape: Shape) -> None:
    a_regs, b_regs, c_regs = integer_registers(shape)
    expected = execute(shape, a_regs, b_regs, c_regs)
    in_place = c_regs.copy()
    np.testing.assert_array_equal(execute(shape, a_regs, b_regs, in_place, d=in_place), expected)
    one = int(bits_of_output(shape, np.ones(1))[0])
    ones = place_outputs(shape, np.full((shape.blocks, shape.m, shape.n), one, np.uint64))
    np.testing.assert_array_equal(
        execute(shape, a_regs, b_regs, None, c_const=one), execute(shape, a_regs, b_regs, ones)
    )


@core_only  # the addresses of registers
@pytest.mark.parametrize("shape", EVERY, ids=str)
def test_aliases(shape: Shape) -> None:
    """Registers in one file: D three below C, over the end of A."""
    a_regs, b_regs, c_regs = integer_registers(shape)
    expected = execute(shape, a_regs, b_regs, c_regs)
    count = c_regs.shape[0]
    file = np.concatenate([a_regs, np.zeros((3, 64), np.uint32), c_regs, np.zeros((3, 64), np.uint32)])
    above = file[a_regs.shape[0] + 3 :]
    execute(shape, file, b_regs, above, d=file[a_regs.shape[0] :])
    np.testing.assert_array_equal(file[a_regs.shape[0] : a_regs.shape[0] + count], expected)


@pytest.mark.parametrize("shape", [shape for shape in DENSE if shape.blocks > 1 and shape.a != "f64"], ids=str)
def test_one_block_of_a_serves_all(shape: Shape) -> None:
    a, b, c = small_integers(shape, generator_for(shape))
    registers = (
        place_inputs(shape, shape.a, encode(shape.a, a)),
        place_inputs(shape, shape.b, encode(shape.b, b)),
        place_outputs(shape, bits_of_output(shape, c)),
    )
    cbsz = shape.blocks.bit_length() - 1
    for abid in range(shape.blocks):
        served = np.broadcast_to(a[abid], a.shape)
        d = execute(shape, *registers, cbsz=cbsz, abid=abid)
        np.testing.assert_array_equal(read_outputs(shape, d), exact_product(served, b) + c)


@pytest.mark.parametrize("shape", [shape for shape in DENSE if shape.a != "f64"], ids=str)
def test_lane_permutation_of_b(shape: Shape) -> None:
    """ISA document, table 29."""
    lanes = np.arange(64)
    table = [lanes, lanes % 32, lanes % 32 + 32, (lanes + 16) % 64, *(lanes % 16 + 16 * q for q in range(4))]
    a_regs, b_regs, c_regs = integer_registers(shape)
    for blgp, source in enumerate(table):
        moved = np.ascontiguousarray(b_regs[:, source])
        np.testing.assert_array_equal(
            execute(shape, a_regs, b_regs, c_regs, blgp=blgp), execute(shape, a_regs, moved, c_regs)
        )


@pytest.mark.parametrize("name", ["v_mfma_f64_16x16x4_f64", "v_mfma_f64_4x4x4_4b_f64"])
def test_f64_negations(name: str) -> None:
    shape = BY_NAME[name]
    a, b, c = small_integers(shape, generator_for(shape))
    registers = (
        place_inputs(shape, shape.a, encode(shape.a, a)),
        place_inputs(shape, shape.b, encode(shape.b, b)),
        place_outputs(shape, bits_of_output(shape, c)),
    )
    for blgp in range(8):
        signs = [-1 if blgp >> bit & 1 else 1 for bit in range(3)]
        d = execute(shape, *registers, blgp=blgp)
        np.testing.assert_array_equal(read_outputs(shape, d), signs[0] * signs[1] * exact_product(a, b) + signs[2] * c)


# ---- block scales --------------------------------------------------------------------------------


def scaled_product(a: np.ndarray, b: np.ndarray, scale_a: np.ndarray, scale_b: np.ndarray) -> np.ndarray:
    """float64, scales as e8m0 codes [row, k // 32]."""
    factor_a, factor_b = (
        np.where(codes == 255, np.nan, np.exp2(codes.astype(np.float64) - 127)) for codes in (scale_a, scale_b)
    )
    return exact_product(a * np.repeat(factor_a, 32, axis=1), b * np.repeat(factor_b, 32, axis=1))


@pytest.mark.parametrize("shape", SCALED, ids=str)
@pytest.mark.parametrize("spread", [3, 40, 120, 127])
def test_block_scales(shape: Shape, spread: int) -> None:
    generator = generator_for(shape)
    a_codes = random_codes(shape.a, (1, shape.m, shape.k), generator)
    b_codes = random_codes(shape.b, (1, shape.n, shape.k), generator)
    a, b = decode(shape.a, a_codes), decode(shape.b, b_codes)
    scale_a = generator.integers(127 - spread, min(255, 128 + spread), (shape.m, shape.k // 32))
    scale_b = generator.integers(127 - spread, min(255, 128 + spread), (shape.n, shape.k // 32))
    if spread > 40:  # far from 1, but together they cancel
        scale_a[:, 0], scale_b[:, 0] = 127 + spread, 127 - spread
        scale_a[1, :], scale_b[:, 1] = 127 - spread, 127 + spread
    c = decode("f32", encode("f32", generator.standard_normal((1, shape.m, shape.n))))
    byte_a, byte_b = generator.integers(0, 4, 2)
    d = execute(
        shape,
        place_inputs(shape, shape.a, a_codes),
        place_inputs(shape, shape.b, b_codes),
        place_outputs(shape, bits_of_output(shape, c)),
        scales=(
            place_scales(shape.m, scale_a, byte_a, generator),
            int(byte_a),
            place_scales(shape.n, scale_b, byte_b, generator),
            int(byte_b),
        ),
    )
    ours = read_outputs(shape, d)
    exact = scaled_product(a, b, scale_a, scale_b) + c
    bound = (shape.k + 2) * 2.0**-24 * (scaled_product(np.abs(a), np.abs(b), scale_a, scale_b) + np.abs(c)) + 2.0**-149
    limit = 2.0**128
    inside = bound / ((shape.k + 2) * 2.0**-24) < limit / 2  # not even a partial sum can leave f32
    assert (np.abs(ours - exact)[inside] <= bound[inside]).all()
    far = np.abs(exact) - bound > limit
    if far.any():
        assert not np.isfinite(ours[far]).any()
    assert spread > 40 or inside.all()
    assert inside.any()


@pytest.mark.parametrize("shape", SCALED[::3], ids=str)
def test_a_scale_of_255_makes_its_row_or_column_nan(shape: Shape) -> None:
    generator = generator_for(shape)
    a, b, _ = small_integers(shape, generator)
    a[a == 0], b[b == 0] = 1, 1
    scale_a = generator.integers(100, 150, (shape.m, shape.k // 32))
    scale_b = generator.integers(100, 150, (shape.n, shape.k // 32))
    for extreme in (False, True):
        scale_a[2, 1], scale_b[5, 0] = 255, 255
        if extreme:
            scale_a[0, 0] = 1  # another route through the code
        d = execute(
            shape,
            place_inputs(shape, shape.a, encode(shape.a, a)),
            place_inputs(shape, shape.b, encode(shape.b, b)),
            None,
            scales=(place_scales(shape.m, scale_a, 3, generator), 3, place_scales(shape.n, scale_b, 2, generator), 2),
        )
        nan = np.isnan(read_outputs(shape, d))[0]
        expected = np.zeros_like(nan)
        expected[2, :], expected[:, 5] = True, True
        np.testing.assert_array_equal(nan, expected)


@pytest.mark.parametrize(("plain", "scaled"), list(zip(F8F6F4, SCALED, strict=True)), ids=str)
def test_scales_of_one_change_nothing(plain: Shape, scaled: Shape) -> None:
    generator = generator_for(plain)
    a = place_inputs(plain, plain.a, random_codes(plain.a, (1, plain.m, plain.k), generator))
    b = place_inputs(plain, plain.b, random_codes(plain.b, (1, plain.n, plain.k), generator))
    c = place_outputs(plain, bits_of_output(plain, generator.standard_normal((1, plain.m, plain.n))))
    ones = np.full(64, 0x7F7F7F7F, np.uint32)
    np.testing.assert_array_equal(execute(plain, a, b, c), execute(scaled, a, b, c, scales=(ones, 0, ones, 3)))


# ---- description ---------------------------------------------------------------------------------


def describe(mnemonic: str, cbsz: int = 0, abid: int = 0, blgp: int = 0) -> list[int] | None:
    out = np.zeros(11, np.int32)
    found = numeric().gfx950_mfma_describe(mnemonic.encode(), cbsz, abid, blgp, pointer(out))
    return out.tolist() if found else None


@core_only
@pytest.mark.parametrize("shape", EVERY + SCALED, ids=str)
def test_description(shape: Shape) -> None:
    description = describe(shape.mnemonic, shape.cbsz, 0, shape.blgp)
    assert description is not None
    assert description[:4] == [shape.m, shape.n, shape.k, shape.blocks]
    assert description[7:10] == [*shape.registers]


@core_only
@pytest.mark.parametrize(
    ("mnemonic", "cycles"),
    [  # CDNA4 ISA document, table 28
        ("v_mfma_f32_32x32x1_2b_f32", 64),
        ("v_mfma_f32_16x16x1_4b_f32", 32),
        ("v_mfma_f32_4x4x1_16b_f32", 8),
        ("v_mfma_f32_32x32x8_f16", 32),
        ("v_mfma_f32_16x16x16_bf16", 16),
        ("v_mfma_f32_16x16x32_bf16", 16),
        ("v_mfma_f32_32x32x16_bf16", 32),
        ("v_mfma_f64_16x16x4_f64", 64),
        ("v_mfma_f64_4x4x4_4b_f64", 32),
        ("v_mfma_i32_32x32x32_i8", 32),
        ("v_mfma_f32_16x16x32_fp8_bf8", 16),
    ],
)
def test_passes(mnemonic: str, cycles: int) -> None:
    description = describe(mnemonic)
    assert description is not None
    assert description[10] * 4 == cycles


@core_only
def test_passes_of_f8f6f4_depend_on_the_formats() -> None:
    for prefix in ("v_mfma", "v_mfma_scale"):
        for shape, fast in (("16x16x128", 4), ("32x32x64", 8)):
            passes = [
                [describe(f"{prefix}_f32_{shape}_f8f6f4", a, 0, b)[10] for b in range(5)]  # type: ignore[index]
                for a in range(5)
            ]
            assert passes == [[fast if a >= 2 and b >= 2 else 2 * fast for b in range(5)] for a in range(5)]


@core_only
@pytest.mark.parametrize(
    ("mnemonic", "cbsz", "abid", "blgp"),
    [
        ("v_smfmac_f32_16x16x32_f16", 0, 0, 0),
        ("v_mfma_f32_16x16x8_xf32", 0, 0, 0),  # gfx942 only
        ("v_mfma_f32_16x16x32", 0, 0, 0),
        ("", 0, 0, 0),
        ("v_mfma_f32_16x16x128_f8f6f4", 5, 0, 0),
        ("v_mfma_f32_16x16x128_f8f6f4", 0, 0, 5),
        ("v_mfma_f32_16x16x32_bf16", 1, 0, 0),  # one block
        ("v_mfma_f32_16x16x32_bf16", 0, 1, 0),
        ("v_mfma_f32_16x16x4_4b_f16", 1, 0, 0),  # contradictory documents
        ("v_mfma_f32_16x16x4_4b_f16", 3, 0, 0),
        ("v_mfma_f32_16x16x4_4b_f16", 2, 4, 0),
        ("v_mfma_f32_16x16x32_bf16", 0, 0, 8),
    ],
)
def test_refused(mnemonic: str, cbsz: int, abid: int, blgp: int) -> None:
    assert describe(mnemonic, cbsz, abid, blgp) is None
    nothing = np.zeros((32, 64), np.uint32)
    status = numeric().gfx950_mfma_execute(
        mnemonic.encode(),
        cbsz,
        abid,
        blgp,
        pointer(nothing),
        pointer(nothing),
        None,
        ctypes.c_uint64(0),
        pointer(nothing),
        None,
        0,
        None,
        0,
        1,
    )
    assert status < 0
