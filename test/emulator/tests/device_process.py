"""Runs Python code in a fresh process, with or without the emulated device."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EMULATOR_VARIABLES = (
    "GFX950_EMULATOR",
    "GFX950_DEVICES",
    "GFX950_MEMORY_LIMIT",
    "GFX950_CHECK",
    "GFX950_SCHEDULE",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "CUDA_VISIBLE_DEVICES",
)


def run_python(
    *arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if name not in EMULATOR_VARIABLES}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, env=inherited | (env or {}), cwd=cwd, check=False, capture_output=True, text=True, timeout=600
    )


def run_emulated(
    code: str, env: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "gfx950_emulator", "-c", code, env=env, cwd=cwd)
