"""Faults, hazards, time-outs and `disasm` name the source line, by DWARF 5 here (Triton's, in its own tests, are 4)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from assemble import KernelText, assemble, assemble_source, metadata_of, source_of
from core_library import CodeObject, CoreError
from device_process import run_python


def image(lines: list[str]) -> bytes:
    """One source line for each instruction, counted from 1."""
    body = "".join(f".loc 0 {number}\n{line}\n" for number, line in enumerate(lines, 1))
    kernel = KernelText("kernel", body, 8)
    metadata = "amdhsa.target: amdgcn-amd-amdhsa--gfx950\namdhsa.version: [ 1, 2 ]\namdhsa.kernels:\n"
    head = '.file 0 "/folder" "kernel.s"\n' + source_of(kernel)
    return assemble_source(f"{head}\n.amdgpu_metadata\n---\n{metadata}{metadata_of(kernel)}...\n.end_amdgpu_metadata\n")


def line_unit(version: int, file: str, folder: int, first_line: int, offset: int, set_file: str = "") -> str:
    """A unit of .debug_line by hand: one row for the instruction at an offset of the kernel, 4 bytes to its end."""
    operations = ".byte 1" if version >= 4 else ""
    return f"""
.section .debug_line,"",@progbits
.long 9{version}{offset}f-8{version}{offset}f
8{version}{offset}:
.short {version}
.long 7{version}{offset}f-6{version}{offset}f
6{version}{offset}:
.byte 4
{operations}
.byte 1, -5, 14, 13
.byte 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1
.asciz "/folder"
.byte 0
.asciz "{file}"
.uleb128 {folder}, 0, 0
.byte 0
7{version}{offset}:
.byte 0, 9, 2
.quad kernel+{offset}
{set_file}
.byte 3
.sleb128 {first_line - 1}
.byte 1
.byte 2, 1
.byte 0, 1, 1
9{version}{offset}:
"""


def lines_of(tmp_path: Path, tables: str, body: list[str]) -> list[str]:
    """What `disasm` prints of a kernel with these line tables, without its head."""
    kernel = KernelText("kernel", "\n".join(body), 8)
    metadata = "amdhsa.target: amdgcn-amd-amdhsa--gfx950\namdhsa.version: [ 1, 2 ]\namdhsa.kernels:\n"
    metadata = f".amdgpu_metadata\n---\n{metadata}{metadata_of(kernel)}...\n.end_amdgpu_metadata\n"
    path = tmp_path / "kernel.hsaco"
    path.write_bytes(assemble_source(f"{source_of(kernel)}\n{tables}\n{metadata}"))
    done = run_python("-m", "gfx950_emulator", "disasm", str(path), env={"GFX950_EMULATOR": "0"})
    assert done.returncode == 0, done.stderr
    return [line.strip() for line in done.stdout.splitlines()[3:]]


LOAD = ["s_load_dwordx2 s[4:5], s[0:1], 0x0", "v_mov_b32_e32 v1, 0", "s_waitcnt lgkmcnt(0)"]


def run(lines: list[str]) -> None:
    CodeObject(image(lines)).launch("kernel", (1, 1, 1), (64, 1, 1), [np.zeros(64, np.uint32)])


def test_fault() -> None:
    with pytest.raises(CoreError, match=r"pc 0x[0-9a-f]+ at /folder/kernel\.s:4, workgroup .*outside every allocation"):
        run([*LOAD, "global_load_dword v2, v1, s[4:5] offset:1024"])


def test_hazard_names_both_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GFX950_CHECK", "1")
    with pytest.raises(CoreError, match=r"at /folder/kernel\.s:5\): \[missing wait\] .*at /folder/kernel\.s:4\)"):
        run([*LOAD, "global_load_dword v2, v1, s[4:5]", "v_add_u32_e32 v3, v2, v2"])


def test_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GFX950_TIMEOUT", "0.2")
    with pytest.raises(CoreError, match=r"timeout: .*waves at 0: 0x[0-9a-f]+ at /folder/kernel\.s:1"):
        run(["s_branch -1"])


def test_disasm(tmp_path: Path) -> None:
    path = tmp_path / "kernel.hsaco"
    path.write_bytes(image([*LOAD, "s_nop 0"]))
    done = run_python("-m", "gfx950_emulator", "disasm", str(path), env={"GFX950_EMULATOR": "0"})
    assert done.returncode == 0, done.stderr
    lines = [line.strip() for line in done.stdout.splitlines()]
    at = lines.index("/folder/kernel.s:2")
    assert "v_mov_b32_e32 v1, 0" in lines[at + 1]


def test_without_a_table_there_is_none() -> None:
    body = "\n".join([*LOAD, "global_load_dword v2, v1, s[0:1] offset:4095"])
    plain = CodeObject(assemble([KernelText("kernel", body, 8)]))
    with pytest.raises(CoreError, match=r"memory_fault: kernel 'kernel', pc 0x[0-9a-f]+, workgroup"):
        plain.launch("kernel", (1, 1, 1), (64, 1, 1), [np.zeros(64, np.uint32)])


def test_several_units_of_version_4(tmp_path: Path) -> None:
    """What lies between their rows has no line; folder 0 is the compiler's, which the table does not hold."""
    tables = line_unit(4, "a.c", 1, 10, 0) + line_unit(4, "b.c", 0, 20, 8)
    lines = lines_of(tmp_path, tables, ["s_nop 0", "s_nop 1", "s_nop 2", "s_nop 3"])
    assert lines[lines.index("/folder/a.c:10") + 1].endswith("s_nop 0")
    assert lines[lines.index("b.c:20") + 1].endswith("s_nop 2")
    assert sum(".c:" in line for line in lines) == 2


@pytest.mark.parametrize(
    "odd",
    [
        line_unit(4, "a.c", 1, 10, 4, set_file=".byte 4, 7"),
        line_unit(4, "a.c", 9, 10, 4, set_file=".byte 4, 0"),
        line_unit(3, "a.c", 1, 10, 4),
        line_unit(4, "a.c", 1, -5, 4),
        '.section .debug_line,"",@progbits\n.long 0\n',
        '.section .debug_line,"",@progbits\n.long 3\n.byte 4, 0, 1\n',
    ],
    ids=["no such file", "file 0", "version 3", "line below zero", "empty unit", "short unit"],
)
def test_odd_units_have_no_lines_and_leave_the_others(tmp_path: Path, odd: str) -> None:
    lines = lines_of(tmp_path, odd + line_unit(4, "whole.c", 1, 30, 8), ["s_nop 0", "s_nop 1", "s_nop 2"])
    assert [line for line in lines if ".c:" in line] == ["/folder/whole.c:30"]


def test_a_unit_longer_than_its_section_ends_the_table(tmp_path: Path) -> None:
    tables = line_unit(4, "whole.c", 1, 30, 0) + ".long 0xfffffff0\n.short 4\n"
    lines = lines_of(tmp_path, tables, ["s_nop 0", "s_nop 1"])
    assert [line for line in lines if ".c:" in line] == ["/folder/whole.c:30"]
