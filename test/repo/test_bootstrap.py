"""The set-up: what it refuses before making anything, and which steps it runs again."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from build_scripts import bootstrap
from build_scripts.errors import BuildError
from build_scripts.layout import REPO

QUICKSTART = REPO / "build_scripts" / "quickstart.sh"


def test_this_machine_is_fit() -> None:
    bootstrap.refuse_unfit_machine(free_gigabytes=100.0, fresh=True)


def test_too_little_space() -> None:
    with pytest.raises(BuildError, match=r"2\.0 GB are free at .*, 6 GB are needed: make room"):
        bootstrap.refuse_unfit_machine(free_gigabytes=2.0, fresh=True)
    bootstrap.refuse_unfit_machine(free_gigabytes=2.0, fresh=False)  # nothing big is going to be made


def test_no_venv_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BuildError, match="has no venv or ensurepip module: install it"):
        bootstrap.refuse_unfit_machine(free_gigabytes=100.0, fresh=True)


def test_another_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(BuildError, match="Linux on x86-64 is needed, this is Linux on aarch64"):
        bootstrap.refuse_unfit_machine(free_gigabytes=100.0, fresh=True)


def test_an_old_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "_CPU_FLAGS", ("avx2", "avx1024"))
    with pytest.raises(BuildError, match="this processor lacks avx1024"):
        bootstrap.refuse_unfit_machine(free_gigabytes=100.0, fresh=True)


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(BuildError, match=r"no C\+\+ compiler \(looked for c\+\+, g\+\+, clang\+\+\): install g\+\+"):
        bootstrap.refuse_without_compiler()


def test_a_compiler_that_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "false")
    with pytest.raises(BuildError, match=r"cannot build a C\+\+17 program for x86-64-v3"):
        bootstrap.refuse_without_compiler()


@pytest.mark.parametrize(("version", "status"), [("3.12", 1), ("3.11", 7)])
def test_another_python(version: str, status: int, tmp_path: Path) -> None:
    # A stand-in that answers with a version, and ends with 7 when it is given the bootstrap to run.
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\n[ "$1" = -c ] && echo {version} && exit 0\nexit 7\n')
    python.chmod(0o755)
    environment = {**os.environ, "PYTHON": str(python)}
    result = subprocess.run([QUICKSTART], env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == status
    assert ("Python 3.11 is needed" in result.stderr) is (status == 1)


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bootstrap.Steps:
    monkeypatch.setattr(bootstrap, "STAMPS", tmp_path / "stamps")
    monkeypatch.setattr(bootstrap, "LOGS", tmp_path / "logs")
    return bootstrap.Steps(total=9)


def append(path: Path) -> list[list[str | Path]]:
    return [[sys.executable, "-c", f"open({str(path)!r}, 'a').write('x')"]]


def test_a_step_runs_when_its_inputs_change(steps: bootstrap.Steps, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    assert steps.run("one", "step", "a", append(runs)) is True
    assert steps.run("one", "step", "a", append(runs)) is False
    assert steps.run("one", "step", "b", append(runs)) is True
    assert runs.read_text() == "xx"
    assert steps.ran == ["one", "one"]


def test_a_failed_step_is_run_again(steps: bootstrap.Steps, tmp_path: Path) -> None:
    failing = [[sys.executable, "-c", "print('the reason'); raise SystemExit(3)"]]
    with pytest.raises(BuildError, match=r"step failed \(exit status 3\):\n(.|\n)*  the reason\nthe whole log is "):
        steps.run("one", "step", "a", failing)
    assert steps.run("one", "step", "a", append(tmp_path / "runs")) is True


def test_a_step_that_fails_after_it_passed_before(steps: bootstrap.Steps, tmp_path: Path) -> None:
    assert steps.run("one", "step", "a", append(tmp_path / "runs")) is True
    with pytest.raises(BuildError):
        steps.run("one", "step", "b", [[sys.executable, "-c", "raise SystemExit(1)"]])
    # Going back to the old inputs does not bring back what the failed run may have broken.
    assert steps.run("one", "step", "a", append(tmp_path / "runs")) is True


def test_the_hash_follows_names_and_contents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "REPO", tmp_path)
    folder = tmp_path / "folder"
    (folder / "__pycache__").mkdir(parents=True)
    (folder / "a").write_text("1")
    first = bootstrap.hash_of(folder)
    (folder / "__pycache__" / "a.pyc").write_text("ignored")
    assert bootstrap.hash_of(folder) == first
    (folder / "a").rename(folder / "b")
    assert bootstrap.hash_of(folder) != first
    (folder / "b").rename(folder / "a")
    assert bootstrap.hash_of(folder) == first
    assert bootstrap.hash_of(folder, extra=["word"]) != first
    (folder / "a").write_text("2")
    assert bootstrap.hash_of(folder) != first


def test_another_file_of_the_same_name_is_another_base(tmp_path: Path) -> None:
    wheel = tmp_path / "torch.whl"
    wheel.write_text("1")
    first = bootstrap.base_words(str(wheel), None)
    assert bootstrap.base_words(str(wheel), None) == first
    wheel.write_text("22")
    assert bootstrap.base_words(str(wheel), None) != first


def test_only_one_set_up_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "BUILD", tmp_path)
    with bootstrap.only_one():
        code = f"import fcntl; fcntl.flock(open({str(tmp_path / 'set-up.lock')!r}), fcntl.LOCK_EX | fcntl.LOCK_NB)"
        assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode != 0
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
