"""The set-up: what it refuses before making anything, and which steps it runs again."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from build_scripts import bootstrap
from build_scripts.errors import BuildError
from build_scripts.layout import REPO
from build_scripts.pins import read_pins
from repo.fake_wheel import BASE, make_wheel

PINS = read_pins()
OTHER = PINS.also_checked[0]
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


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a .venv that pip installs into."""
    monkeypatch.setattr(bootstrap, "VENV", tmp_path / "venv")
    folder = tmp_path / "venv" / "lib" / "python3.11" / "site-packages"
    folder.mkdir(parents=True)
    return folder


def install(folder: Path) -> list[list[str | Path]]:
    return [[sys.executable, "-c", f"import os; os.mkdir({str(folder)!r})"]]


def test_a_step_runs_when_what_it_installed_is_gone(
    steps: bootstrap.Steps, packages: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = {"rocm-bindings-compiler": "10.0.1"}
    folder = packages / "rocm_bindings_compiler-10.0.1.dist-info"
    assert steps.run("one", "step", "a", install(folder), wanted) is True
    assert steps.run("one", "step", "a", install(folder), wanted) is False
    folder.rename(packages / "rocm_bindings_compiler-10.0.2.dist-info")  # another version was installed by hand
    assert steps.run("one", "step", "a", install(folder), wanted) is True
    folder.rmdir()
    assert steps.run("one", "step", "a", install(folder), wanted) is True
    assert "no longer in .venv: rocm-bindings-compiler 10.0.1" in capsys.readouterr().err


def test_a_step_that_does_not_install_what_it_should(steps: bootstrap.Steps, packages: Path) -> None:
    with pytest.raises(BuildError, match=r"step ended well, but .*venv lacks flydsl 1\.0; the log is "):
        steps.run("one", "step", "a", install(packages / "flydsl-1.1.dist-info"), {"flydsl": "1.0"})
    assert steps.run("one", "step", "a", install(packages / "flydsl-1.0.dist-info"), {"flydsl": "1.0"}) is True


def test_pinned_lines(tmp_path: Path) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text("# why==not\nnumpy==2.4.6\nJinja2==3.1.6  # a template\n\nloose\n")
    assert bootstrap.pinned_lines(path) == {"numpy": "2.4.6", "Jinja2": "3.1.6"}


@pytest.fixture
def _no_base_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCH_BASE_WHEEL", raising=False)


@pytest.mark.usefixtures("_no_base_in_the_environment")
@pytest.mark.parametrize(
    ("base", "message"),
    [
        (f"{BASE}+rocm7.1", "the build 'rocm7.1', but the emulated gfx950 that is set up beside it needs a CPU build"),
        (BASE, "whatever build pip prefers, but the emulated gfx950"),
        (f"{OTHER}+cpu", f"the series is pinned to {BASE}"),
        ("latest", "neither a wheel's path nor a version"),
        ("/nope.whl", "there is no wheel /nope.whl"),
        ("/", "the base / is a directory"),
    ],
)
def test_a_base_that_cannot_be_set_up(base: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_set_up(*args: object) -> list[str]:
        raise AssertionError("a step ran before the base was looked at")

    monkeypatch.setattr(bootstrap, "set_up", no_set_up)
    with pytest.raises(BuildError, match=re.escape(message)):
        bootstrap.chosen_base(base, None, PINS)
    assert bootstrap.main(["--no-demo", "--base", base]) == 1
    monkeypatch.setenv("TORCH_BASE_WHEEL", base)
    assert bootstrap.main(["--no-demo"]) == 1


CPU_MODULE = "cuda: Optional[str] = None\nhip: Optional[str] = None\n"


@pytest.mark.parametrize(
    ("version", "module", "message"),
    [
        (f"{BASE}+cu130", CPU_MODULE.replace("None", "'13.0'", 1), "a build for cuda 13.0, but the emulated gfx950"),
        (f"{BASE}+rocm7.1", CPU_MODULE.replace("hip: Optional[str] = None", "hip = '7.1'"), "a build for hip 7.1"),
        (f"{OTHER}+cu130", CPU_MODULE, f"is torch {OTHER}, but the series is pinned to {BASE}"),
        (f"{BASE}+cpu", CPU_MODULE, None),
        (BASE, CPU_MODULE, None),  # built by hand, without a local version
    ],
)
def test_the_build_of_a_wheel_that_is_passed(version: str, module: str, message: str | None, tmp_path: Path) -> None:
    wheel = tmp_path / f"torch-{version.partition('+')[0]}-cp311-cp311-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("torch/version.py", f"from typing import Optional\n\n__version__ = '{version}'\n{module}")
    if message is None:
        assert bootstrap.chosen_base(str(wheel), None, PINS) == str(wheel)
    else:
        with pytest.raises(BuildError, match=re.escape(message)):
            bootstrap.chosen_base(str(wheel), None, PINS)


@pytest.mark.usefixtures("_no_base_in_the_environment")
def test_a_base_is_passed_on_by_its_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = make_wheel(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert bootstrap.chosen_base(wheel.name, None, PINS) == str(wheel)
    with pytest.raises(BuildError, match="--index here goes with a version"):
        bootstrap.chosen_base(wheel.name, "here", PINS)
    monkeypatch.setenv("TORCH_BASE_WHEEL", wheel.name)
    assert bootstrap.chosen_base(None, None, PINS) == str(wheel)


def test_no_base_is_named() -> None:
    bootstrap.require_cpu_build(PINS.default_base, None, PINS)


def test_a_base_that_is_no_wheel_of_torch(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path)
    wheel.write_bytes(wheel.read_bytes()[:-40])
    with pytest.raises(BuildError, match=r"is damaged \(.*\): delete it, then fetch it again"):
        bootstrap.chosen_base(str(wheel), None, PINS)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("a", "")
    with pytest.raises(BuildError, match="is no wheel of torch"):
        bootstrap.chosen_base(str(wheel), None, PINS)


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
