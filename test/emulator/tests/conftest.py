"""Puts this folder on the path: its tests share the modules beside them. GFX950_HW=1 sends them to a real gfx950."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import hip_device  # isort: skip

# What runs there: vectors whose expected values come from elsewhere. The others look into the emulator itself.
HARDWARE = {
    "test_golden.py",
    "test_scalar_alu.py",
    "test_cross_lane.py",
    "test_matrix_instructions.py",
    "test_mfma.py",
    "test_vector_alu.py",
    "test_vector_16bit.py",
    "test_memory_atomics.py",
    "test_vector_compare.py",
    "test_vector_convert.py",
    "test_vector_dot.py",
    "test_vector_f64.py",
    "test_vector_rare.py",
    "test_vector_scaled.py",
    "test_vector_scaled_block.py",
}


def pytest_sessionstart(session: pytest.Session) -> None:
    try:
        if hip_device.wanted():
            print(f"GFX950_HW=1: the vectors run on {hip_device.preflight()}")
    except hip_device.HardwareError as error:
        pytest.exit(f"GFX950_HW=1: {error}", returncode=3)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    other = collection_path.suffix == ".py" and collection_path.name not in HARDWARE
    return True if hip_device.wanted() and other else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if hip_device.wanted():
        where = "the emulator's runtime, no hardware" if hip_device.emulated() else "HIP"
        terminalreporter.write_line(f"{hip_device.HipCodeObject.launches} kernels were launched through {where}")
