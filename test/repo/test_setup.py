"""setup.py and pip make the same wheel as build_scripts."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from build_scripts import finished
from build_scripts.layout import REPO
from build_scripts.pins import read_pins
from build_scripts.repack import repack

PARTS = ("build_scripts", "patches", "torch_overlay", "setup.py", "pyproject.toml")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """What a build reads, in a folder of its own: setuptools leaves folders beside setup.py."""
    root = tmp_path / "copy"
    root.mkdir()
    for part in PARTS:
        source = REPO / part
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, root / part, ignore=ignore) if source.is_dir() else shutil.copy(source, root / part)
    return root


def left_in(copy: Path) -> set[str]:
    """What a build added: torch.egg-info there would pass for an installed torch to all that is run from there."""
    return {path.name for path in copy.iterdir()} - set(PARTS)


@pytest.mark.parametrize("hook", ["get_requires_for_build_wheel", "get_requires_for_build_sdist"])
def test_asking_for_requirements_leaves_the_root_clean(hook: str, copy: Path) -> None:
    """The first thing that pip does in an isolated build."""
    code = f"import setuptools.build_meta as backend; backend.{hook}()"
    subprocess.run([sys.executable, "-c", code], cwd=copy, check=True, env={**os.environ, "GFX950_EMULATOR": "0"})
    assert left_in(copy) == {"build"}


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    "command",
    [
        ["setup.py", "-q", "bdist_wheel", "--dist-dir"],
        ["-m", "pip", "-q", "wheel", ".", "--no-deps", "--no-build-isolation", "--wheel-dir"],
    ],
    ids=["setup.py", "pip"],
)
def test_the_wheel_is_the_same(command: list[str], copy: Path, base_wheel: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "TORCH_BASE_WHEEL": str(base_wheel), "GFX950_EMULATOR": "0"}
    subprocess.run([sys.executable, *command, str(tmp_path / "out")], cwd=copy, env=environment, check=True)
    assert left_in(copy) == {"build"}
    made = list((tmp_path / "out").glob("*.whl"))
    pins = read_pins()
    parts = {"patches": copy / "patches", "overlay": copy / "torch_overlay"}
    wanted = repack(base_wheel, tmp_path / "wanted", pins, **parts).path
    assert [path.name for path in made] == [wanted.name]
    assert digest(made[0]) == digest(wanted)
    assert finished.wheel_problems(made[0], pins, **parts) == []


def test_pip_sees_the_wheels_metadata_before_it_builds(copy: Path, base_wheel: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "TORCH_BASE_WHEEL": str(base_wheel), "GFX950_EMULATOR": "0"}
    code = "import sys, setuptools.build_meta as b; print(b.prepare_metadata_for_build_wheel(sys.argv[1]))"
    command = [sys.executable, "-c", code, str(tmp_path)]
    output = subprocess.run(command, cwd=copy, env=environment, check=True, capture_output=True, text=True).stdout
    told = (tmp_path / output.splitlines()[-1] / "METADATA").read_bytes()
    wheel = repack(base_wheel, tmp_path, read_pins(), patches=copy / "patches", overlay=copy / "torch_overlay")
    with zipfile.ZipFile(wheel.path) as archive:
        assert archive.read(f"torch-{wheel.version}.dist-info/METADATA") == told


def test_a_base_that_is_refused_is_one_line(copy: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "TORCH_BASE_WHEEL": str(tmp_path / "missing.whl"), "GFX950_EMULATOR": "0"}
    command = [sys.executable, "setup.py", "-q", "bdist_wheel"]
    result = subprocess.run(command, cwd=copy, env=environment, check=False, capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr.strip().splitlines()[-1] == f"error: there is no wheel {tmp_path / 'missing.whl'}"
    assert not list(copy.rglob("*.whl"))
