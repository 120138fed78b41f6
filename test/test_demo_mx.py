"""The MX demo, as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

DEMO = Path(__file__).resolve().parent / "demo_mx.py"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU; with the emulator installed set GFX950_EMULATOR=1")
def test_layers_and_block_agree_with_bf16(tmp_path: Path) -> None:
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    module = [] if environment.get("GFX950_EMULATOR") == "0" else ["-m", "gfx950_emulator"]
    command = [sys.executable, *module, str(DEMO), "--rows", "32", "--width", "128"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line for line in done.stdout.splitlines() if " of " in line]
    assert sum(line.count(" ok ") for line in rows) == 4, done.stdout
    assert any("block" in line and "5 of 5" in line for line in rows), done.stdout
