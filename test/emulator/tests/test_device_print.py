"""printf in kernels of Triton and FlyDSL: what arrives on stdout, in which order, and what is refused.

A message takes the way of AMD's device libraries (`__ockl_printf_*`): packets in memory, an interrupt, and the host.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from device_process import run_python

TRITON = """
import torch, triton, triton.language as tl

@triton.jit
def show(x, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    value = tl.load(x + i)
    tl.device_print("value", value)

@triton.jit
def show_two(x, block: tl.constexpr):
    i = tl.arange(0, block)
    value = tl.load(x + i)
    tl.device_print("half, i64 ", value, i.to(tl.int64) << 33)
"""

FLYDSL = """
import flydsl.compiler as flyc, flydsl.expr as fx, torch

@flyc.kernel(name="shows")
def shows(x: fx.Tensor):
    i = fx.thread_idx.x
    fx.printf("lane {} of block {}: {}", i, fx.block_idx.x, x[i])

@flyc.jit
def launch(x: fx.Tensor, stream: fx.Stream):
    shows(x).launch(grid=(2, 1, 1), block=(64, 1, 1), stream=stream)

launch(torch.arange(64, device="cuda").float() / 4, torch.cuda.current_stream())
torch.cuda.synchronize()
"""


def lines_of(code: str, folder: Path, **env: str) -> list[str]:
    """Triton and FlyDSL read their kernels' source, so it needs a file."""
    path = folder / "kernels.py"
    path.write_text(code)
    done = run_python("-m", "gfx950_emulator", str(path), env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("schedule", ["run_to_barrier", "round_robin", "random:3"])
def test_triton_device_print(schedule: str, tmp_path: Path) -> None:
    """Workgroups in order, waves as the schedule has them, lanes in order; every element once."""
    code = TRITON + "x = torch.arange(512, dtype=torch.int32, device='cuda') * 3\nshow[(2,)](x, 256)\n"
    lines = lines_of(code, tmp_path, GFX950_SCHEDULE=schedule, GFX950_CHECK="1")
    pattern = re.compile(r"pid \((\d+), 0, 0\) idx \( *(\d+)\) value: *(\d+)")
    found = [tuple(int(number) for number in match.groups()) for line in lines if (match := pattern.search(line))]
    assert len(found) == len(lines) == 512
    assert sorted(found) == [(program, i, 3 * (256 * program + i)) for program in range(2) for i in range(256)]
    assert [program for program, _, _ in found] == [0] * 256 + [1] * 256
    if schedule == "run_to_barrier":
        assert found == sorted(found)
    if schedule.startswith("random"):
        assert lines == lines_of(code, tmp_path, GFX950_SCHEDULE=schedule), "the order is the same every time"


def test_triton_floats_and_wide_integers(tmp_path: Path) -> None:
    code = TRITON + "x = torch.linspace(-1, 1, 64, device='cuda').half()\nshow_two[(1,)](x, 64, num_warps=1)\n"
    lines = lines_of(code, tmp_path)
    halves = [float(line.split()[-1]) for line in lines if "(operand 0)" in line]
    wide = [int(line.split()[-1]) for line in lines if "(operand 1)" in line]
    assert np.allclose(halves, np.linspace(-1, 1, 64).astype(np.float16), atol=1e-6)
    assert wide == [i << 33 for i in range(64)]


def test_flydsl_printf(tmp_path: Path) -> None:
    lines = [line for line in lines_of(FLYDSL, tmp_path) if line]
    assert lines == [f"lane {i} of block {block}: {i / 4:.2f}" for block in range(2) for i in range(64)]


def test_printed_before_a_fault(tmp_path: Path) -> None:
    """What a kernel printed is there although it then fails."""
    code = TRITON + (
        "x = torch.zeros(64, dtype=torch.int32, device='cuda')\n"
        "show[(2,)](x, 64, num_warps=1)\n"
        "try:\n    torch.cuda.synchronize()\nexcept torch.AcceleratorError:\n    print('failed')\n"
    )
    lines = lines_of(code, tmp_path)
    assert sum(line.startswith("pid (0, 0, 0)") for line in lines) == 64
    assert lines[-1] == "failed"


def test_assertion_says_what_failed(tmp_path: Path) -> None:
    """The assertion's own function is called, prints for each lane that fails, and the kernel traps."""
    path = tmp_path / "kernels.py"
    path.write_text(
        TRITON
        + """
@triton.jit
def checked(x):
    value = tl.load(x + tl.arange(0, 64))
    tl.device_assert(value < 60, "too large")

checked[(1,)](torch.arange(64, device="cuda"), num_warps=1, debug=True)
try:
    torch.cuda.synchronize()
except torch.AcceleratorError as error:
    print("failed:", "hipErrorLaunchFailure" in str(error))
"""
    )
    done = run_python("-m", "gfx950_emulator", str(path))
    assert done.stdout.splitlines()[-1] == "failed: True", done.stderr
    assert (done.stdout + done.stderr).count("device assertion failed: 'too large'") == 4
    assert "the kernel ended itself (trap 2, an assertion or abort)" in done.stderr
