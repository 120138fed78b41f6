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
