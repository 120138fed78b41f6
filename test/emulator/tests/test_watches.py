"""GFX950_TRACE and GFX950_BREAK that no launched kernel has in its name."""

from __future__ import annotations

from pathlib import Path

from device_process import run_python

from gfx950_emulator.watches import unmatched

TESTS = Path(__file__).parent


def test_lines() -> None:
    names = {f"kernel{i}" for i in range(10)}
    assert unmatched({"GFX950_TRACE": "nel3:1", "GFX950_BREAK": "kernel:0"}, names) == []
    assert unmatched({"GFX950_TRACE": "gemm"}, set()) == []  # a child that launched nothing
    (line,) = unmatched({"GFX950_TRACE": "kernel0", "GFX950_BREAK": "gemm:1a4:2"}, names)
    assert "GFX950_BREAK: no kernel with 'gemm' in its name was launched, but kernel0, kernel1" in line
    assert line.endswith("kernel7 and 2 more")


CODE = """
import numpy as np, torch, triton
import triton_kernels as kernels
import gfx950_emulator
x = torch.ones(256, device="cuda")
kernels.copy_unmasked[(1,)](x, torch.empty_like(x), block=256)
gfx950_emulator.reset_launches()
"""


def test_said_at_the_end_of_the_process() -> None:
    for name, said in (("copy_unmasked", False), ("copied", True)):
        done = run_python("-c", CODE, env={"GFX950_EMULATOR": "1", "GFX950_TRACE": name}, cwd=TESTS)
        assert done.returncode == 0, done.stderr
        assert ("no kernel with 'copied' in its name was launched, but copy_unmasked" in done.stderr) == said
        assert ("gfx950 trace: kernel 'copy_unmasked'" in done.stderr) != said
