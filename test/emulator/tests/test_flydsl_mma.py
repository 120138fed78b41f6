"""MMA atoms of FlyDSL on the emulated device: every shape and format that FlyDSL lowers for gfx950, bit by bit.

Operands are placed by `mfma_reference.py`, from AMD's ISA document; FlyDSL's own layouts are not asked. Values are such
that every product and sum is exact in fp32: results must be equal, not close.
"""

import dataclasses
import functools
import os
from pathlib import Path
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
import mfma_reference as reference
import numpy as np
import pytest
import torch
from device_process import run_emulated
from flydsl._mlir import ir
from mfma_reference import Shape

import gfx950_emulator

ELEMENTS = {
    "f64": fx.Float64,
    "f32": fx.Float32,
    "f16": fx.Float16,
    "bf16": fx.BFloat16,
    "i32": fx.Int32,
    "i8": fx.Int8,
    "fp8": fx.Float8E4M3FN,
    "bf8": fx.Float8E5M2,
    "fp6": fx.Float6E2M3FN,
    "bf6": fx.Float6E3M2FN,
    "fp4": fx.Float4E2M1FN,
}

# Instructions of gfx950 that fx.rocdl.MFMA cannot express: the reason is FlyDSL's, and `test_refusals` checks each.
BLOCKS = "FlyDSL's layouts of C know one block"
NO_RULE = "FlyDSL has no lowering for this shape; its gfx950 shapes for i8 end at K=32 and K=16"
REFUSED = (
    {shape.mnemonic: BLOCKS for shape in reference.DENSE if shape.blocks > 1}
    | {f"v_mfma_i32_{shape}_i8": NO_RULE for shape in ("16x16x64", "32x32x32")}
    | {shape.mnemonic: "MFMA takes no f8E5M2" for shape in reference.DENSE if "bf8" in (shape.a, shape.b)}
    | {shape.mnemonic: "MFMA accumulates in f32 and i32 only" for shape in reference.DENSE if shape.a == "f64"}
)
DENSE = [shape for shape in reference.DENSE if shape.mnemonic not in REFUSED]


def make_atom(key: tuple[Any, ...], scale_a: Any, scale_b: Any) -> Any:
    shape, (scaled, byte_a, byte_b) = Shape(*key[:-3]), key[-3:]
    if not scaled:
        operation = fx.rocdl.MFMA(shape.m, shape.n, shape.k, ELEMENTS[shape.a], ELEMENTS[shape.accumulator])
        return fx.make_mma_atom(operation)
    operation = fx.rocdl.cdna4.MFMA_Scale(
        shape.m, shape.n, shape.k, ELEMENTS[shape.a], ELEMENTS[shape.b], opsel_a=byte_a, opsel_b=byte_b
    )
    return fx.make_mma_atom(operation).set_value("scale_a", scale_a).set_value("scale_b", scale_b)


def words_of(shape: Shape, kind: str, rows: int) -> int:
    return shape.k * rows * shape.blocks * reference.BITS[kind] // (64 * 32)


def load_registers(tensor: Any, lane: Any, words: int, kind: str) -> tuple[Any, Any]:
    """A lane's words of `tensor` in registers, and a view of them as elements of `kind`."""
    registers = fx.make_rmem_tensor(words, fx.Int32)
    for i in range(words):
        registers[i] = tensor[lane * words + i]
    element = ELEMENTS[kind]
    items = fx.make_layout(words * 32 // element.width, 1)
    return registers, fx.make_view(fx.recast_iter(element, fx.get_iter(registers)), items)


@flyc.kernel(name="mma_atom")
def mma_kernel(
    a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, scale_a: fx.Tensor, scale_b: fx.Tensor, key: fx.Constexpr[tuple]
):
    shape = Shape(*key[:-3])
    lane = fx.thread_idx.x
    atom = make_atom(key, scale_a[lane], scale_b[lane])
    words = shape.m * shape.n * shape.blocks // 64
    _, left = load_registers(a, lane, words_of(shape, shape.a, shape.m), shape.a)
    _, right = load_registers(b, lane, words_of(shape, shape.b, shape.n), shape.b)
    registers, accumulator = load_registers(c, lane, words, shape.accumulator)
    fx.mma_atom_call(atom, accumulator, left, right, accumulator)
    for i in fx.range_constexpr(words):
        c[lane * words + i] = registers[i]


@flyc.jit
def launch_mma(
    a: fx.Tensor,
    b: fx.Tensor,
    c: fx.Tensor,
    scale_a: fx.Tensor,
    scale_b: fx.Tensor,
    key: fx.Constexpr[tuple],
    stream: fx.Stream,
):
    mma_kernel(a, b, c, scale_a, scale_b, key).launch(grid=(1, 1, 1), block=(64, 1, 1), stream=stream)


def to_device(registers: np.ndarray) -> torch.Tensor:
    """registers[r, lane] or [lane] -> words on the device, a lane's together."""
    return torch.from_numpy(np.ascontiguousarray(registers.T).reshape(-1).view(np.int32)).cuda()


def launch(
    shape: Shape,
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray,
    scales: tuple[np.ndarray, int, np.ndarray, int] | None = None,
) -> np.ndarray:
    """The atom's result [block, i, j] for codes a[block, i, k], b[block, j, k] and c[block, i, j]."""
    scale_a, byte_a, scale_b, byte_b = scales or (np.zeros(64, np.uint32), 0, np.zeros(64, np.uint32), 0)
    left, right = reference.place_inputs(shape, shape.a, a), reference.place_inputs(shape, shape.b, b)
    total = to_device(reference.place_outputs(shape, c))
    key = (*dataclasses.astuple(shape), scales is not None, byte_a, byte_b)
    gfx950_emulator.reset_launches()
    launch_mma(
        to_device(left),
        to_device(right),
        total,
        to_device(scale_a),
        to_device(scale_b),
        key,
        torch.cuda.current_stream(),
    )
    (name,) = gfx950_emulator.launch_counts()
    assert name.startswith("mma_atom")
    assert gfx950_emulator.launches()[name]["mfma"] == 1
    return reference.read_outputs(shape, np.ascontiguousarray(total.cpu().numpy().view(np.uint32).reshape(64, -1).T))


def small_codes(kind: str, shape: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    """Multiples of 1/2 up to 3/2, exact in every format; any i8."""
    if kind == "i8":
        return reference.random_codes(kind, shape, generator)
    return reference.encode(kind, generator.integers(-3, 4, shape) * 0.5)


@pytest.mark.parametrize("shape", DENSE, ids=str)
def test_mfma(shape: Shape) -> None:
    generator = np.random.default_rng(31)
    a = small_codes(shape.a, (shape.blocks, shape.m, shape.k), generator)
    b = small_codes(shape.b, (shape.blocks, shape.n, shape.k), generator)
    c = generator.integers(-50, 50, (shape.blocks, shape.m, shape.n))
    codes = c.astype(np.int32).view(np.uint32).astype(np.uint64)
    if shape.accumulator == "f32":
        codes = reference.encode("f32", c)
    expected = reference.exact_product(reference.decode(shape.a, a), reference.decode(shape.b, b)) + c
    np.testing.assert_array_equal(launch(shape, a, b, codes), expected)


@pytest.mark.parametrize("shape", reference.SCALED, ids=str)
def test_scaled_mfma(shape: Shape) -> None:
    """A row's or column's scales differ by little, so that sums are exact, around a far scale of its own."""
    index = reference.SCALED.index(shape)
    generator = np.random.default_rng(index)
    a = small_codes(shape.a, (1, shape.m, shape.k), generator)
    b = small_codes(shape.b, (1, shape.n, shape.k), generator)
    blocks = shape.k // 32
    far_a, far_b = generator.integers(-25, 25, (shape.m, 1)), generator.integers(-25, 25, (shape.n, 1))
    near_a, near_b = generator.integers(0, 3, (shape.m, blocks)), generator.integers(0, 3, (shape.n, blocks))
    exponent_a, exponent_b = far_a + near_a, far_b + near_b
    c = generator.integers(-50, 50, (1, shape.m, shape.n)) * np.exp2(far_a + far_b.T)
    byte_a, byte_b = index % 4, index // 4 % 4
    scale_a = reference.place_scales(shape.m, exponent_a + 127, byte_a, generator)
    scale_b = reference.place_scales(shape.n, exponent_b + 127, byte_b, generator)
    left = reference.decode(shape.a, a) * np.repeat(np.exp2(exponent_a), 32, 1)
    right = reference.decode(shape.b, b) * np.repeat(np.exp2(exponent_b), 32, 1)
    result = launch(shape, a, b, reference.encode("f32", c), (scale_a, byte_a, scale_b, byte_b))
    np.testing.assert_array_equal(result, reference.exact_product(left, right) + c)


@functools.cache
def accepts(text: str) -> bool:
    """Whether FlyDSL knows this MLIR type; its Python constructors abort the process where it does not."""
    with ir.Context(), ir.Location.unknown():
        try:
            ir.Type.parse(text)
        except ir.MLIRError:
            return False
        return True


def float_types() -> dict[str, str]:
    """Names of fx's number formats -> MLIR's."""
    with ir.Context(), ir.Location.unknown():
        found = {name: getattr(fx, name) for name in dir(fx)}
        return {
            name: str(value.ir_type)
            for name, value in found.items()
            if isinstance(value, type) and issubclass(value, fx.Numeric) and getattr(value, "ir_type", None) is not None
        }


# Formats that the type of the atom accepts beyond those tested above.
OTHER_FORMATS = {
    "Float": "the base class, with f32's type",
    "Float8E4M3FNUZ": "gfx942's fp8; the same instruction reads OCP fp8 on gfx950",
    "Uint8": "the same MLIR type as Int8",
}


def test_every_format_that_mfma_accepts_is_tested() -> None:
    accepted = {
        name
        for name, text in float_types().items()
        if any(accepts(f"!fly_rocdl.cdna3.mfma<16x16x32, ({text}, {text}) -> {c}>") for c in ("f32", "f64", "i32"))
    }
    tested = {ELEMENTS[shape.a].__name__ for shape in DENSE}
    assert accepted == tested | set(OTHER_FORMATS)


def test_every_pair_that_scaled_mfma_accepts_is_tested() -> None:
    types = float_types()
    accepted = {
        (m, k, a, b)
        for a in types
        for b in types
        for m, k in ((4, 64), (16, 32), (16, 64), (16, 128), (32, 32), (32, 64), (32, 128))
        if accepts(f"!fly_rocdl.cdna4.mfma_scale<{m}x{m}x{k}, ({types[a]}, {types[b]}) -> f32, opselA = 0, opselB = 0>")
    }
    tested = {(s.m, s.k, ELEMENTS[s.a].__name__, ELEMENTS[s.b].__name__) for s in reference.SCALED}
    assert accepted == tested


def report_refusals() -> None:
    """Prints REFUSED's instructions that FlyDSL compiles all the same. Some abort: each has its own process."""
    devices = [torch.zeros(64 * 64, dtype=torch.int32, device="cuda") for _ in range(5)]
    for shape in reference.DENSE:
        if shape.mnemonic not in REFUSED or shape.a != shape.b:  # MFMA has one format for both operands
            continue
        child = os.fork()
        if child == 0:
            try:
                launch_mma(*devices, (*dataclasses.astuple(shape), False, 0, 0), torch.cuda.current_stream())
            except Exception:  # noqa: BLE001 - whatever FlyDSL raises, and a crash below, is a refusal
                os._exit(1)
            os._exit(0)
        if os.waitpid(child, 0)[1] == 0:
            print("compiles", shape.mnemonic)
    print("done")


def test_refusals() -> None:
    """An instruction that a FlyDSL release begins to lower must move from REFUSED to the tests."""
    folder = str(Path(__file__).parent)
    code = f"import sys; sys.path.insert(0, {folder!r}); import test_flydsl_mma as t; t.report_refusals()"
    result = run_emulated(code)
    assert result.stdout.split("\n") == ["done", ""], result.stdout + result.stderr[-2000:]
