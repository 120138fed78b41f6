"""Assembles gfx950 kernels from text, with the LLVM assembler and linker of the package ziglang."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path


class AssemblyError(Exception):
    """The text of the assembler's or the linker's complaint."""


@dataclass(frozen=True)
class KernelText:
    """A kernel without its descriptor: `body` is instructions, one per line; the kernarg pointer is in s[0:1]."""

    name: str
    body: str
    kernarg_size: int
    vgprs: int = 256  # architectural
    agprs: int = 0
    sgprs: int = 96
    lds: int = 0
    scratch: int = 0  # bytes per lane
    block: int = 64


@cache
def _zig() -> Path:
    spec = importlib.util.find_spec("ziglang")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("the package ziglang is needed to assemble kernels: pip install ziglang")
    return Path(spec.origin).parent / "zig"


def _run(arguments: list[str]) -> None:
    command = [str(_zig()), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssemblyError(f"{' '.join(command)}:\n{done.stderr}")


def assemble_source(source: str) -> bytes:
    """Assembler text -> code object."""
    with tempfile.TemporaryDirectory() as folder:
        text, relocatable, result = (Path(folder) / f"kernels.{suffix}" for suffix in ("s", "o", "hsaco"))
        text.write_text(source)
        target = ["-triple", "amdgcn-amd-amdhsa", "-target-cpu", "gfx950"]
        _run(["clang", "-cc1as", *target, "-filetype", "obj", "-o", str(relocatable), str(text)])
        _run(["ld.lld", "-shared", "-o", str(result), str(relocatable)])
        return result.read_bytes()


def source_of(kernel: KernelText) -> str:
    accum_offset = (kernel.vgprs + 3) // 4 * 4
    return f"""
.text
.globl {kernel.name}
.p2align 8
.type {kernel.name},@function
{kernel.name}:
{kernel.body}
s_endpgm
.L{kernel.name}_end:
.size {kernel.name}, .L{kernel.name}_end-{kernel.name}
.rodata
.p2align 6
.amdhsa_kernel {kernel.name}
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_kernarg_size {kernel.kernarg_size}
  .amdhsa_group_segment_fixed_size {kernel.lds}
  .amdhsa_private_segment_fixed_size {kernel.scratch}
  .amdhsa_enable_private_segment {int(kernel.scratch > 0)}
  .amdhsa_accum_offset {accum_offset}
  .amdhsa_next_free_vgpr {accum_offset + kernel.agprs}
  .amdhsa_next_free_sgpr {kernel.sgprs}
  .amdhsa_system_sgpr_workgroup_id_x 1
  .amdhsa_float_denorm_mode_32 3
  .amdhsa_float_denorm_mode_16_64 3
.end_amdhsa_kernel
"""


def metadata_of(kernel: KernelText) -> str:
    pointers = "".join(
        f"      - {{ .offset: {offset}, .size: 8, .value_kind: global_buffer, .address_space: global }}\n"
        for offset in range(0, kernel.kernarg_size, 8)
    )
    return f"""  - .name: {kernel.name}
    .symbol: {kernel.name}.kd
    .kernarg_segment_size: {kernel.kernarg_size}
    .kernarg_segment_align: 8
    .group_segment_fixed_size: {kernel.lds}
    .private_segment_fixed_size: {kernel.scratch}
    .wavefront_size: 64
    .sgpr_count: {kernel.sgprs + 6}
    .vgpr_count: {kernel.vgprs + kernel.agprs}
    .agpr_count: {kernel.agprs}
    .sgpr_spill_count: 0
    .vgpr_spill_count: 0
    .max_flat_workgroup_size: {kernel.block}
    .args:
{pointers}"""


def assemble(kernels: list[KernelText]) -> bytes:
    """One code object with all of them."""
    sources = "".join(source_of(kernel) for kernel in kernels)
    metadata = "".join(metadata_of(kernel) for kernel in kernels)
    text = f"""{sources}
.amdgpu_metadata
---
amdhsa.target: amdgcn-amd-amdhsa--gfx950
amdhsa.version: [ 1, 2 ]
amdhsa.kernels:
{metadata}...
.end_amdgpu_metadata
"""
    return assemble_source(text)


def main(argv: list[str]) -> int:
    """Assembles the instructions of a file as one kernel: assemble.py FILE OUTPUT."""
    if len(argv) != 2:
        print("usage: assemble.py FILE OUTPUT", file=sys.stderr)
        return 2
    Path(argv[1]).write_bytes(assemble([KernelText("kernel", Path(argv[0]).read_text(), 16)]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
