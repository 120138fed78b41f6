"""GFX950_HW=1: the way of the vectors through a HIP runtime, shown on the emulator's own."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from core_library import name_decoder
from device_process import run_python
from numeric_library import library_path

TESTS = Path(__file__).parent
EMULATED = str(library_path("libamdhip64.so.7"))
GOLDEN = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_golden.py")


def run_vectors(library: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    name_decoder()  # the emulator's runtime needs it where the package is not activated
    variables = {"GFX950_HW": "1", "GFX950_HIP_LIBRARY": library, "GFX950_EMULATOR": "0", **env}
    variables["GFX950_LIBLLVM"] = os.environ["GFX950_LIBLLVM"]
    return run_python(*arguments, env=variables, cwd=TESTS)


def test_golden_vectors_through_hip() -> None:
    done = run_vectors(EMULATED, *GOLDEN)
    assert done.returncode == 0, done.stdout
    passed, launched = re.search(r"(\d+) passed", done.stdout), re.search(r"(\d+) kernels were launched", done.stdout)
    assert passed is not None, done.stdout
    assert launched is not None, done.stdout
    assert int(passed[1]) == int(launched[1]) > 400
    assert "the vectors run on gfx950" in done.stdout
    assert ", emulated: " in done.stdout
    assert "the emulator's runtime, no hardware" in done.stdout


def test_matrix_instructions_through_hip() -> None:
    """A form of each kind; what does not run there says so."""
    chosen = (
        "((exact_integers or in_place) and 16x16x32_bf16) or (random_bit and i32_4x4x4) or (negations and 4x4x4) or "
        "(block_scales and 3-v_mfma_scale_f32_16x16x128_f8f6f4-fp8-fp4) or (order and 16x16x4_f32)"
    )
    done = run_vectors(EMULATED, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mfma.py", "-k", chosen)
    assert done.returncode == 0, done.stdout
    assert re.search(r"5 passed, 1 skipped", done.stdout) is not None, done.stdout
    launched = re.search(r"(\d+) kernels were launched", done.stdout)
    assert launched is not None, done.stdout
    assert int(launched[1]) > 10, done.stdout


def test_a_wrong_value_fails() -> None:
    """What the device computed is what is compared: results that never come back are found."""
    code = (
        "import hip_device, pytest; hip_device._Memory.fetch = lambda self: None; "
        "raise SystemExit(pytest.main(['-q', '-x', '-p', 'no:cacheprovider', 'test_golden.py']))"
    )
    done = run_vectors(EMULATED, "-c", code)
    assert done.returncode == 1, done.stdout
    assert "lanes differs" in done.stdout


def test_no_runtime_is_an_error() -> None:
    done = run_vectors("/nonexistent/libamdhip64.so", *GOLDEN)
    assert done.returncode == 3
    assert "no HIP runtime" in done.stdout + done.stderr


def test_no_device_is_an_error() -> None:
    done = run_vectors(EMULATED, *GOLDEN, GFX950_DEVICES="0")
    assert done.returncode == 3
    assert "HIP" in done.stdout + done.stderr
