"""The demo, as a user runs it: in a process of its own, twice on one cache."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

DEMO = Path(__file__).resolve().parent / "demo.py"
SMALL = ("--m", "64", "--n", "64", "--k", "256")


def demo(*arguments: str, cache: Path, packages: Path | None = None) -> tuple[subprocess.CompletedProcess[str], str]:
    """Run the demo, with `packages` in the place of the installed ones if given."""
    environment = {
        **os.environ,
        "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
        "TRITON_CACHE_DIR": str(cache / "triton"),
    }
    python = [sys.executable]
    if packages is not None:
        python.append("-S")  # without the installed ones
        environment["PYTHONPATH"] = str(packages)
    if environment.get("GFX950_EMULATOR") == "0":
        command = [*python, str(DEMO), *arguments]
    else:
        command = [*python, "-m", "gfx950_emulator", str(DEMO), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    return done, done.stdout + done.stderr


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[dict[str, Any], str]]:
    folder = tmp_path_factory.mktemp("demo")
    runs = []
    for number in range(2):
        found = folder / f"{number}.json"
        done, output = demo(*SMALL, "--json", str(found), cache=folder)
        assert done.returncode == 0, output
        runs.append((json.loads(found.read_text()), output))
    return runs


def test_every_backend_is_a_candidate_and_flydsl_ran(two_runs: list[tuple[dict[str, Any], str]]) -> None:
    told, output = two_runs[0]
    every, alone = told["outcomes"]
    ran = {c["backend"] for c in every["candidates"] if c["microseconds"] is not None}
    assert ran == {"ATEN", "TRITON", "FLYDSL"}
    assert all(c["microseconds"] > 0 for c in every["candidates"]), output
    assert alone["flydsl_launches"] in (1, None)
    assert every["within_bound"]
    assert alone["within_bound"]
    assert "winner:" in output


def test_a_second_process_reuses_the_choice(two_runs: list[tuple[dict[str, Any], str]]) -> None:
    (first, _), (second, output) = two_runs
    assert first["outcomes"][0]["benchmarked"]
    assert not second["outcomes"][0]["benchmarked"]
    assert "reused from Inductor's autotune cache" in output
    assert second["outcomes"][0]["candidates"] == first["outcomes"][0]["candidates"]


def test_a_product_that_flydsl_cannot_take_says_why(tmp_path: Path) -> None:
    done, output = demo("--m", "64", "--n", "63", "--k", "64", cache=tmp_path)
    assert done.returncode == 0, output
    assert "FLYDSL cannot take it: N=63 is not a multiple of 8" in output
    assert "every element is within its bound" in output


def test_a_size_that_is_none(tmp_path: Path) -> None:
    done, output = demo("--m", "0", cache=tmp_path)
    assert done.returncode == 2
    assert "0 is not a size" in output


def test_without_flydsl_another_backend_gives_right_numbers(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    installed = Path(torch.__file__).parents[1]
    for entry in installed.iterdir():
        if not entry.name.startswith("flydsl"):
            (packages / entry.name).symlink_to(entry)
    found = tmp_path / "found.json"
    done, output = demo(*SMALL, "--json", str(found), cache=tmp_path, packages=packages)
    assert done.returncode == 0, output
    assert "FLYDSL cannot take it: flydsl is not installed" in output
    [outcome] = json.loads(found.read_text())["outcomes"]
    assert {c["backend"] for c in outcome["candidates"]} == {"ATEN", "TRITON"}
    assert outcome["within_bound"]
    assert outcome["flydsl_launches"] in (0, None)
