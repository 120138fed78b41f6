"""Matrix instructions from text: AGPRs, constants, modifiers, scales. Their arithmetic is checked by test_mfma.py."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from assemble import KernelText
from core_library import CoreError, Program
from mfma_reference import DENSE, F8F6F4, SCALED, Shape, encode, execute, place_inputs, place_scales, random_codes

A, B, C, D, SCALES = 8, 16, 24, 64, 4  # first registers; D is C for some


@dataclass(frozen=True)
class Form:
    """How the operands are given."""

    shape: Shape
    files: str = "vvv"  # register file of A, B and of C and D
    c: str = "registers"  # or an inline constant
    c_bits: int = 0
    in_place: bool = False  # D is C
    modifiers: str = ""
    cbsz: int = 0
    abid: int = 0
    blgp: int = 0
    scale_bytes: tuple[int, int] = (0, 0)
    exec_mask: int = 0xFFFFFFFFFFFFFFFF

    def __str__(self) -> str:
        return " ".join(
            part for part in (str(self.shape), self.files, self.c, "in-place" * self.in_place, self.modifiers) if part
        )

    def counts(self) -> tuple[int, int, int]:
        from_shape = [
            self.shape.k * rows * self.shape.blocks // 64 * BITS[kind] // 32
            for rows, kind in ((self.shape.m, self.shape.a), (self.shape.n, self.shape.b))
        ]
        wide = 2 if self.shape.accumulator == "f64" else 1
        return from_shape[0], from_shape[1], self.shape.m * self.shape.n * self.shape.blocks // 64 * wide

    def kernel(self, name: str) -> KernelText:
        count_a, count_b, count_c = self.counts()

        def registers(file: str, first: int, count: int) -> str:
            return f"{file}{first}" if count == 1 else f"{file}[{first}:{first + count - 1}]"

        file_a, file_b, file_c = self.files
        target = C if self.in_place else D
        operands = [
            registers(file_c, target, count_c),
            registers(file_a, A, count_a),
            registers(file_b, B, count_b),
            registers(file_c, C, count_c) if self.c == "registers" else self.c,
        ]
        text = f"{self.shape.mnemonic} {', '.join(operands)}"
        if self.shape.mnemonic.startswith("v_mfma_scale"):
            text += f", v{SCALES}, v{SCALES + 1}"
            low = [byte & 1 for byte in self.scale_bytes]
            high = [byte >> 1 for byte in self.scale_bytes]
            text += f" op_sel:[{low[0]},{low[1]},0] op_sel_hi:[{high[0]},{high[1]},0]"
        if self.shape.f8f6f4:
            text += f" cbsz:{self.shape.cbsz} blgp:{self.shape.blgp}"
        text += " " + self.modifiers

        lines = [
            "s_load_dwordx8 s[4:11], s[0:1], 0x0",
            "s_load_dwordx4 s[12:15], s[0:1], 0x20",
            "v_lshlrev_b32_e32 v1, 2, v0",
        ]
        lines += ["s_waitcnt lgkmcnt(0)", "s_load_dwordx2 s[16:17], s[14:15], 0x0"]

        def load(file: str, first: int, count: int, pointer: str) -> None:
            for r in range(count):
                lines.append(f"v_add_u32_e32 v2, {r * 256:#x}, v1")
                lines.append(f"global_load_dword v3, v2, {pointer}")
                lines.append("s_waitcnt vmcnt(0)")
                move = "v_accvgpr_write_b32 a" if file == "a" else "v_mov_b32_e32 v"
                lines.append(f"{move}{first + r}, v3")

        load(file_a, A, count_a, "s[4:5]")
        load(file_b, B, count_b, "s[6:7]")
        load(file_c, C, count_c, "s[8:9]")
        load("v", SCALES, 2, "s[12:13]")
        lines += [
            "s_waitcnt lgkmcnt(0)",
            "s_mov_b64 exec, s[16:17]",
            text,
            "s_nop 15",
            "s_nop 15",
            "s_mov_b64 exec, -1",
        ]
        for r in range(count_c):
            move = "v_accvgpr_read_b32 v3, a" if file_c == "a" else "v_mov_b32_e32 v3, v"
            lines += [
                f"{move}{target + r}",
                f"v_add_u32_e32 v2, {r * 256:#x}, v1",
                "global_store_dword v2, v3, s[10:11]",
            ]
        return KernelText(name, "\n".join(lines), 48, vgprs=128, agprs=128)

    def run(self, program: Program, name: str) -> None:
        generator = np.random.default_rng(list(str(self).encode()))
        shape = self.shape
        a = place_inputs(shape, shape.a, random_codes(shape.a, (shape.blocks, shape.m, shape.k), generator))
        b = place_inputs(shape, shape.b, random_codes(shape.b, (shape.blocks, shape.n, shape.k), generator))
        count_c = self.counts()[2]
        c = generator.integers(0x3F000000, 0x40000000, (count_c, 64), dtype=np.uint32)
        blocks = max(1, shape.k // 32)
        codes = [generator.integers(120, 134, (rows, blocks)) for rows in (shape.m, shape.n)]
        scales = None
        scale_rows = np.zeros((2, 64), np.uint32)
        if shape.mnemonic.startswith("v_mfma_scale"):
            for index, rows in enumerate((shape.m, shape.n)):
                scale_rows[index] = place_scales(rows, codes[index], self.scale_bytes[index], generator)
            scales = (scale_rows[0].copy(), self.scale_bytes[0], scale_rows[1].copy(), self.scale_bytes[1])
        result = np.zeros((count_c, 64), np.uint32)
        mask = np.array([self.exec_mask], np.uint64)
        program.launch(name, 1, [a, b, c, result, scale_rows, mask])
        given = None if self.c != "registers" else c
        modifiers = {} if shape.f8f6f4 else {"cbsz": self.cbsz, "blgp": self.blgp}
        expected = execute(shape, a, b, given, c_const=self.c_bits, abid=self.abid, scales=scales, **modifiers)
        np.testing.assert_array_equal(result, expected)


BITS = {"f64": 64, "f32": 32, "f16": 16, "bf16": 16, "i8": 8, "fp8": 8, "bf8": 8, "fp6": 6, "bf6": 6, "fp4": 4}
NAMED = {str(shape): shape for shape in DENSE + F8F6F4 + SCALED}
FORMS = [Form(shape) for shape in DENSE + F8F6F4]
FORMS += [Form(shape, scale_bytes=((index * 3) % 4, (index + 1) % 4)) for index, shape in enumerate(SCALED)]
for name in ("v_mfma_f32_16x16x32_bf16", "v_mfma_f32_32x32x16_f16", "v_mfma_i32_16x16x32_i8", "v_mfma_f64_16x16x4_f64"):
    for files in ("aav", "ava", "vaa", "vva"):
        FORMS.append(Form(NAMED[name], files, in_place=files[2] == "a"))
one_f64 = int(encode("f64", np.ones(1))[0])
FORMS += [
    Form(NAMED["v_mfma_f32_16x16x32_bf16"], c="0"),
    Form(NAMED["v_mfma_f32_16x16x32_bf16"], c="1.0", c_bits=0x3F800000),
    Form(NAMED["v_mfma_f32_32x32x16_bf16"], c="-2.0", c_bits=0xC0000000, files="vva"),
    Form(NAMED["v_mfma_i32_16x16x64_i8"], c="-7", c_bits=0xFFFFFFF9),
    Form(NAMED["v_mfma_f64_16x16x4_f64"], c="1.0", c_bits=one_f64),
    Form(NAMED["v_mfma_scale_f32_16x16x128_f8f6f4-fp8-fp4"], c="0"),
    Form(NAMED["v_mfma_f32_16x16x32_bf16"], in_place=True, exec_mask=0x00FF00FF00FF00F1),
    Form(NAMED["v_mfma_scale_f32_32x32x64_f8f6f4-fp4-fp4"], in_place=True, exec_mask=1, scale_bytes=(3, 2)),
    Form(NAMED["v_mfma_f32_16x16x4_4b_f16"], modifiers="cbsz:2 abid:3", cbsz=2, abid=3),
    Form(NAMED["v_mfma_f32_32x32x1_2b_f32"], modifiers="cbsz:1 abid:1 blgp:2", cbsz=1, abid=1, blgp=2),
    Form(NAMED["v_mfma_f32_16x16x16_f16"], modifiers="blgp:5", blgp=5),
]


@pytest.fixture(scope="module")
def program() -> Program:
    return Program([form.kernel(f"form{index}") for index, form in enumerate(FORMS)])


@pytest.mark.parametrize("index", range(len(FORMS)), ids=[str(form) for form in FORMS])
def test_form(program: Program, index: int) -> None:
    FORMS[index].run(program, f"form{index}")


@pytest.mark.parametrize(
    ("shape", "modifiers"),
    [
        ("v_mfma_f32_16x16x4_4b_f16", "cbsz:1"),
        ("v_mfma_f32_16x16x32_bf16", "cbsz:1"),
        ("v_mfma_f32_16x16x32_bf16", "abid:1"),
    ],
)
def test_undefined_modifiers_are_refused(shape: str, modifiers: str) -> None:
    form = Form(NAMED[shape], modifiers=modifiers)
    with pytest.raises(CoreError, match=r"unsupported_instruction.*v_mfma"):
        form.run(Program([form.kernel("kernel")]), "kernel")


def test_a_sparse_product_is_refused() -> None:
    kernel = KernelText("kernel", "v_smfmac_f32_16x16x32_f16 v[0:3], v[4:5], v[6:9], v1", 16)
    with pytest.raises(CoreError, match=r"unsupported_instruction.*v_smfmac"):
        Program([kernel]).launch("kernel", 1, [np.zeros(64, np.uint32)])
