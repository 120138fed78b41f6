"""v_smfmac_*: lane layouts, index sets and values against float64.

The layouts are those that AMD's fpsan library (fpsan/amdgcn_smfmac.hpp) reports as observed on MI350 for each shape,
written here place by place; the core has them as runs of a register.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from assemble import KernelText
from core_library import CoreError, Program
from hip_device import core_only
from mfma_reference import BITS, Shape, decode, encode, pack, place_outputs, random_codes, read_outputs

A, B, C, INDEX = 8, 16, 32, 4  # first registers


@dataclass(frozen=True)
class Sparse:
    m: int
    k: int
    a: str
    b: str

    @property
    def mnemonic(self) -> str:
        kinds = self.a if BITS[self.a] == 16 else f"{self.a}_{self.b}"
        return f"v_smfmac_f32_{self.m}x{self.m}x{self.k}_{kinds}"

    def __str__(self) -> str:
        return self.mnemonic

    @property
    def per_lane(self) -> int:
        return self.k // 2 * self.m // 64

    @property
    def registers(self) -> tuple[int, int, int]:
        count = self.per_lane * BITS[self.a] // 32
        return count, 2 * count, self.m * self.m // 64

    @property
    def output(self) -> Shape:
        return Shape(self.mnemonic, self.m, self.m, self.k, 1, "f32", "f32")

    def place_a(self, i: int, c: int) -> tuple[int, int]:
        """(lane, place) of the kept element c of row i."""
        m, k = self.m, self.k
        if BITS[self.a] == 16:
            return c // self.per_lane * m + i, c % self.per_lane
        if (m, k) == (16, 64):
            return c % 16 // 4 * 16 + i, 4 * (c // 16) + c % 4
        if (m, k) == (32, 32):
            return c % 8 // 4 * 32 + i, 4 * (c // 8) + c % 4
        if (m, k) == (16, 128):
            group, high = 2 * (c >> 5 & 1) + (c >> 3 & 1), 2 * (c >> 2 & 1) + (c >> 4 & 1)
            return group * 16 + i, 4 * high + c % 4
        assert (m, k) == (32, 64)
        return (c >> 4 & 1) * 32 + i, 4 * (2 * (c >> 2 & 1) + (c >> 3 & 1)) + c % 4

    def place_b(self, k: int, j: int) -> tuple[int, int]:
        """(lane, place): 8 consecutive k in a lane, then as many in the next group of lanes."""
        groups = 64 // self.m
        return k // 8 % groups * self.m + j, k // (8 * groups) * 8 + k % 8


SHAPES = [Sparse(m, k, kind, kind) for kind in ("f16", "bf16") for m, k in ((16, 32), (16, 64), (32, 16), (32, 32))]
SHAPES += [
    Sparse(m, k, a, b)
    for m, k in ((16, 64), (16, 128), (32, 32), (32, 64))
    for a in ("fp8", "bf8")
    for b in ("fp8", "bf8")
]


@dataclass(frozen=True)
class Form:
    shape: Sparse
    modifiers: str = ""
    shift: int = 0  # where the set begins in the index register
    file: str = "v"  # of A, B and D

    def __str__(self) -> str:
        return f"{self.shape} {self.modifiers} {self.file}"

    def kernel(self, name: str, between: str = "s_nop 7\ns_nop 7") -> KernelText:
        lines = [
            "s_load_dwordx8 s[4:11], s[0:1], 0x0",
            "v_lshlrev_b32_e32 v1, 2, v0",
            "s_waitcnt lgkmcnt(0)",
        ]

        def load(file: str, first: int, count: int, pointer: int) -> None:
            for r in range(count):
                lines.append(f"v_add_u32_e32 v2, {r * 256:#x}, v1")
                lines.append(f"global_load_dword v3, v2, s[{pointer}:{pointer + 1}]")
                lines.append("s_waitcnt vmcnt(0)")
                lines.append(f"{'v_accvgpr_write_b32 a' if file == 'a' else 'v_mov_b32_e32 v'}{first + r}, v3")

        a, b, d = self.shape.registers
        load(self.file, A, a, 4)
        load(self.file, B, b, 6)
        load(self.file, C, d, 8)
        load("v", INDEX, 1, 10)
        f = self.file
        lines.append("s_nop 4")
        lines.append(
            f"{self.shape.mnemonic} {f}[{C}:{C + d - 1}], {f}[{A}:{A + a - 1}], {f}[{B}:{B + b - 1}], "
            f"v{INDEX} {self.modifiers}"
        )
        lines.append(between)
        for r in range(d):
            lines.append(f"v_add_u32_e32 v2, {r * 256:#x}, v1")
            lines.append(f"{'v_accvgpr_read_b32' if f == 'a' else 'v_mov_b32_e32'} v3, {f}{C + r}")
            lines.append("global_store_dword v2, v3, s[8:9]")
        return KernelText(name, "\n".join(lines), 32, vgprs=64, agprs=64 if f == "a" else 0)


FORMS = [Form(shape) for shape in SHAPES]
FORMS += [Form(shape, file="a") for shape in (SHAPES[0], SHAPES[-1])]
FORMS += [Form(Sparse(16, 32, "f16", "f16"), f"abid:{set_}", 8 * set_) for set_ in (1, 2, 3)]
FORMS += [Form(Sparse(32, 16, "bf16", "bf16"), "abid:3", 24)]
FORMS += [Form(Sparse(16, 64, "fp8", "bf8"), "abid:1", 16), Form(Sparse(32, 32, "bf8", "fp8"), "abid:1", 16)]
FORMS += [Form(Sparse(16, 32, "f16", "f16"), "cbsz:1 abid:2"), Form(Sparse(32, 32, "f16", "f16"), "cbsz:3 abid:1")]


@pytest.fixture(scope="module")
def program() -> Program:
    return Program([form.kernel(f"form{index}") for index, form in enumerate(FORMS)])


class Product:
    """Operands of one form: kept elements of A, the k that each stands for, B and the accumulator."""

    def __init__(self, form: Form, generator: np.random.Generator, integers: bool) -> None:
        self.form, self.shape = form, form.shape
        m, k = self.shape.m, self.shape.k
        self.chosen = generator.integers(0, 4, (m, k // 2))  # both of a pair may be the same
        if integers:
            self.a = encode(self.shape.a, generator.integers(-4, 5, (m, k // 2)).astype(np.float64))
            self.b = encode(self.shape.b, generator.integers(-4, 5, (k, m)).astype(np.float64))
        else:
            self.a = random_codes(self.shape.a, (m, k // 2), generator)
            self.b = random_codes(self.shape.b, (k, m), generator)
        self.c = generator.integers(-64, 65, (1, m, m)).astype(np.float64)
        self.noise = generator.integers(0, 1 << 32, 64, dtype=np.uint64)

    @property
    def at(self) -> np.ndarray:
        """The k of each kept element."""
        return np.asarray(np.arange(self.shape.k // 2) // 2 * 4 + self.chosen)

    def launch(self, program: Program, name: str) -> np.ndarray:
        shape = self.shape
        a = np.zeros((64, shape.per_lane), np.uint64)
        b = np.zeros((64, 2 * shape.per_lane), np.uint64)
        index = self.noise.copy()
        for i in range(shape.m):
            for c in range(shape.k // 2):
                lane, place = shape.place_a(i, c)
                a[lane, place] = self.a[i, c]
                bit = self.form.shift + 2 * place
                index[lane] = int(index[lane]) & ~(3 << bit) | int(self.chosen[i, c]) << bit
        for k in range(shape.k):
            for j in range(shape.m):
                b[shape.place_b(k, j)] = self.b[k, j]
        registers = place_outputs(shape.output, encode("f32", self.c))
        operands = [pack(a, BITS[shape.a]), pack(b, BITS[shape.b]), registers, index.astype(np.uint32)]
        program.launch(name, 1, operands)
        return read_outputs(shape.output, registers)

    def terms(self) -> np.ndarray:
        """[i, c, j]: the products, exact in float64."""
        return np.asarray(decode(self.shape.a, self.a)[:, :, None] * decode(self.shape.b, self.b)[self.at])


@pytest.mark.parametrize("index", range(len(FORMS)), ids=[str(form) for form in FORMS])
def test_exact_integers_show_layout_and_index(program: Program, index: int) -> None:
    product = Product(FORMS[index], np.random.default_rng(index), integers=True)
    result = product.launch(program, f"form{index}")
    np.testing.assert_array_equal(result[0], product.c[0] + product.terms().sum(1))


@pytest.mark.parametrize("index", range(len(SHAPES)), ids=[str(shape) for shape in SHAPES])
def test_random_bit_patterns(program: Program, index: int) -> None:
    product = Product(FORMS[index], np.random.default_rng(1000 + index), integers=False)
    result = product.launch(program, f"form{index}")[0]
    terms = product.terms()
    expected = product.c[0] + terms.sum(1)
    bound = (product.shape.k // 2 + 2) * 2.0**-24 * (np.abs(product.c[0]) + np.abs(terms).sum(1))
    inside = bound < 2.0**100
    assert inside.mean() > 0.2 or product.shape.a == "bf16"
    assert (np.abs(result - expected) <= bound)[inside & np.isfinite(result)].all()


def test_what_is_not_kept_does_not_count(program: Program) -> None:
    product = Product(FORMS[0], np.random.default_rng(7), integers=True)
    product.chosen[:] = [0, 2] * (product.shape.k // 4)
    product.b[1::4] = encode("f16", np.full(product.b[1::4].shape, np.inf))
    product.b[3::4] = encode("f16", np.full(product.b[3::4].shape, np.nan))
    result = product.launch(program, "form0")
    np.testing.assert_array_equal(result[0], product.c[0] + product.terms().sum(1))


@core_only
@pytest.mark.parametrize(
    "text",
    [
        "v_smfmac_i32_16x16x64_i8 v[0:3], v[4:5], v[6:9], v1",
        "v_smfmac_i32_32x32x64_i8 v[0:15], v[16:19], v[24:31], v1",
        "v_smfmac_f32_16x16x32_f16 v[0:3], v[4:5], v[6:9], v1 abid:4",
        "v_smfmac_f32_16x16x64_f16 v[0:3], v[4:7], v[8:15], v1 abid:1",
        "v_smfmac_f32_16x16x64_fp8_fp8 v[0:3], v[4:5], v[6:9], v1 abid:2",
        "v_smfmac_f32_16x16x128_fp8_fp8 v[0:3], v[4:7], v[8:15], v1 abid:1",
    ],
)
def test_without_a_source_it_is_refused(text: str) -> None:
    with pytest.raises(CoreError, match=r"unsupported_instruction.*v_smfmac"):
        Program([KernelText("kernel", text, 16, vgprs=64)]).launch("kernel", 1, [np.zeros(64, np.uint32)])


@core_only
@pytest.mark.parametrize(("between", "clean"), [("s_nop 7\ns_nop 7", True), ("s_nop 1", False)])
def test_the_result_is_there_late(between: str, clean: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GFX950_CHECK", "1")
    form = Form(Sparse(16, 64, "f16", "f16"))
    product = Product(form, np.random.default_rng(3), integers=True)
    program = Program([form.kernel("kernel", between)])
    if clean:
        np.testing.assert_array_equal(product.launch(program, "kernel")[0], product.c[0] + product.terms().sum(1))
        return
    with pytest.raises(CoreError, match=r"matrix wait state.*v_smfmac"):
        product.launch(program, "kernel")
