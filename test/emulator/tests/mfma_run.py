"""Executes one MFMA on registers: by the core's own function, or as a kernel that holds it (also on a real gfx950)."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache

import hip_device
import numpy as np
from assemble import KernelText
from core_library import Program
from mfma_reference import Shape
from numeric_library import numeric, pointer

A, B, C, D, SCALES = 8, 16, 24, 64, 4  # first registers; D is C for some


@dataclass(frozen=True)
class Form:
    """A matrix instruction in a kernel, and how its operands are given."""

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

    def kernel(self, name: str) -> KernelText:
        count_a, count_b, count_c = self.shape.registers

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

    def launch(
        self,
        program: Program,
        name: str,
        a: np.ndarray,
        b: np.ndarray,
        c: np.ndarray,
        scales: tuple[np.ndarray, np.ndarray] | None,
    ) -> np.ndarray:
        """Registers of D; `program` holds this form's kernel as `name`."""
        result = np.zeros((self.shape.registers[2], 64), np.uint32)
        rows = np.zeros((2, 64), np.uint32) if scales is None else np.stack(scales)
        mask = np.array([self.exec_mask], np.uint64)
        program.launch(name, 1, [a, b, c, result, rows, mask])
        return result


def _modifiers(shape: Shape, cbsz: int, abid: int, blgp: int) -> str:
    if shape.f8f6f4:
        if (cbsz, abid, blgp) != (shape.cbsz, 0, shape.blgp):
            raise ValueError(f"{shape} has its formats in cbsz and blgp")
        return ""
    if shape.accumulator == "f64":
        return f"neg:[{blgp & 1},{blgp >> 1 & 1},{blgp >> 2}]" if blgp else ""
    return " ".join(f"{name}:{value}" for name, value in (("cbsz", cbsz), ("abid", abid), ("blgp", blgp)) if value)


@cache
def _program(form: Form) -> Program:
    return Program([form.kernel("matrix")])


def execute(
    shape: Shape,
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray | None,
    c_const: int = 0,
    d: np.ndarray | None = None,
    cbsz: int | None = None,
    abid: int = 0,
    blgp: int | None = None,
    scales: tuple[np.ndarray, int, np.ndarray, int] | None = None,
) -> np.ndarray:
    """Registers of D. With GFX950_HW=1 a kernel computes them; its D is C where the arrays are the same."""
    cbsz = shape.cbsz if cbsz is None else cbsz
    blgp = shape.blgp if blgp is None else blgp
    scale_a, byte_a, scale_b, byte_b = scales or (None, 0, None, 0)
    if hip_device.wanted():
        if c is None:
            words = np.array([c_const], np.uint64).view(np.uint32)[: 2 if shape.accumulator == "f64" else 1]
            c = np.repeat(np.resize(words, shape.registers[2])[:, None], 64, axis=1)
        form = Form(
            shape,
            in_place=d is not None and d is c,
            modifiers=_modifiers(shape, cbsz, abid, blgp),
            scale_bytes=(byte_a, byte_b),
        )
        rows = None if scale_a is None or scale_b is None else (scale_a, scale_b)
        result = form.launch(_program(form), "matrix", a, b, c, rows)
        if d is not None:
            d[...] = result
        return result
    if d is None:
        d = np.full((shape.registers[2], 64), 0xA5A5A5A5, np.uint32)
    status = numeric().gfx950_mfma_execute(
        shape.mnemonic.encode(),
        cbsz,
        abid,
        blgp,
        pointer(a),
        pointer(b),
        pointer(c),
        ctypes.c_uint64(c_const),
        pointer(d),
        pointer(scale_a),
        byte_a,
        pointer(scale_b),
        byte_b,
        1,
    )
    if status < 0:
        raise ValueError(f"{shape} is not known with these modifiers")
    return d
