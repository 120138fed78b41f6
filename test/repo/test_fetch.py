"""Finding the base wheel, and which wheels are refused."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from build_scripts import build_wheel, fetch
from build_scripts.errors import BuildError
from build_scripts.layout import REPO
from build_scripts.pins import read_pins
from repo.fake_wheel import BASE, make_wheel

PINS = read_pins()
OTHER = PINS.also_checked[0]


@pytest.fixture(autouse=True)
def _no_base_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(fetch.BASE_VARIABLE, raising=False)


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path)
    assert fetch.fetch(str(wheel), None, PINS, tmp_path / "cache") == wheel
    assert not (tmp_path / "cache").exists()


def test_the_environment_names_a_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = make_wheel(tmp_path)
    monkeypatch.setenv(fetch.BASE_VARIABLE, str(wheel))
    assert fetch.fetch(None, None, PINS, tmp_path / "cache") == wheel


@pytest.mark.parametrize(
    ("make", "message"),
    [
        ({"version": "2.12.1+cpu"}, f"is torch 2.12.1, but the series is pinned to {BASE}"),
        ({"version": f"{BASE}+cpu.flydsl1"}, "is already patched; pass the wheel it was made from"),
        (
            {"more": {f"torch-{BASE}+cpu.dist-info/flydsl_provenance.json": "{}"}},
            "is already patched; pass the wheel it was made from",
        ),
        ({"more": {"torch/_inductor/codegen/flydsl/__init__.py": ""}}, "already holds torch/_inductor/codegen/flydsl"),
        ({"tags": "cp312-cp312-manylinux_2_28_x86_64"}, "is for cp312, but this project is pinned to cp311"),
        ({"module_version": BASE}, "versions differ"),
        ({"version": BASE, "module_version": "2.12.1+cu130"}, "versions differ"),
        ({"version": BASE, "module_version": f"{BASE}.post1"}, "versions differ"),
        ({"version": BASE, "module_version": f"{BASE}+cpu.flydsl1"}, "is already patched"),
        ({"version": BASE, "module_version": f"{BASE}+a b"}, "has an impossible version"),
        ({"version": OTHER, "module_version": f"{OTHER}+cu130"}, f"the series is pinned to {BASE}"),
        ({"metadata_version": BASE}, "versions differ"),
    ],
)
def test_refused(make: dict[str, object], message: str, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, **make)  # type: ignore[arg-type]
    with pytest.raises(BuildError) as error:
        fetch.fetch(str(wheel), None, PINS, tmp_path / "cache")
    assert message in str(error.value)


def test_a_wheel_of_something_else(tmp_path: Path) -> None:
    other = tmp_path / "numpy-2.4.6-cp311-cp311-linux_x86_64.whl"
    other.write_bytes(b"")
    with pytest.raises(BuildError, match="is a wheel of numpy, expected one of torch"):
        fetch.fetch(str(other), None, PINS)


def test_a_damaged_wheel(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path)
    wheel.write_bytes(wheel.read_bytes()[:-40])
    with pytest.raises(BuildError, match=r"is damaged .*: delete it, then fetch it again .*-m build_scripts\.fetch"):
        fetch.fetch(str(wheel), None, PINS)


@pytest.mark.parametrize(
    ("base", "index", "message"),
    [
        ("2.12.1", None, f"--base 2.12.1: the series is pinned to {BASE}"),
        ("latest", None, "neither a wheel's path nor a version"),
        (f"{BASE}+", None, "neither a wheel's path nor a version"),
        ("./missing.whl", None, "there is no wheel missing.whl"),
        (".", None, "the base . is a directory; pass the path of a wheel's file"),
        ("./missing.whl", "somewhere", "goes with a version"),
    ],
)
def test_bad_request(base: str, index: str | None, message: str, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=re.escape(message)):
        fetch.fetch(base, index, PINS, tmp_path / "cache")


@pytest.fixture
def an_index(tmp_path: Path) -> Path:
    """A folder that pip reads like a package index, with a ROCm build and a plain one."""
    root = tmp_path / "index"
    (root / "torch").mkdir(parents=True)
    wheels = [make_wheel(root / "torch", version) for version in (f"{BASE}+rocm7.1", BASE)]
    links = "".join(f'<a href="{wheel.name}">{wheel.name}</a>\n' for wheel in wheels)
    (root / "torch" / "index.html").write_text(f"<!DOCTYPE html><html><body>{links}</body></html>")
    return root


def test_pip_finds_a_version_in_an_index_and_it_is_kept(an_index: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    found = fetch.fetch(f"{BASE}+rocm7.1", an_index.as_uri(), PINS, cache)
    assert found.name.startswith(f"torch-{BASE}+rocm7.1-")
    assert found.is_relative_to(cache)
    (an_index / "torch" / "index.html").unlink()  # the second time pip is not asked
    assert fetch.fetch(f"{BASE}+rocm7.1", an_index.as_uri(), PINS, cache) == found
    assert [path.name for path in cache.rglob("*") if path.is_file()] == [found.name]


def test_what_pip_does_not_find(an_index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Only this index: neither the machine's configuration nor its environment adds another.
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "0")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    cache = tmp_path / "cache"
    with pytest.raises(BuildError, match=r"pip could not download torch==[0-9.]+\+cpu:(.|\n)*own wheel index") as error:
        fetch.fetch(None, an_index.as_uri(), PINS, cache)
    for way in ("--index URL", "TORCH_BASE_INDEX=URL", "--base FILE", "TORCH_BASE_WHEEL=FILE"):
        assert way in str(error.value)
    assert f"--base {BASE}" not in str(error.value)
    assert not cache.exists()  # no empty folder, no half a download
    found = fetch.fetch(f"{BASE}+rocm7.1", an_index.as_uri(), PINS, cache)
    with pytest.raises(BuildError):
        fetch.fetch(None, an_index.as_uri(), PINS, cache)
    assert [path for path in cache.rglob("*") if path.is_file()] == [found]
    assert list((cache / "base").iterdir()) == [found.parent]


def test_the_environment_names_an_index(an_index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(fetch.INDEX_VARIABLE, an_index.as_uri())
    found = fetch.fetch(f"{BASE}+rocm7.1", None, PINS, tmp_path / "cache")
    assert found.name.startswith(f"torch-{BASE}+rocm7.1-")
    # A wheel that is named needs no index, so that one in the environment is no contradiction.
    assert fetch.fetch(str(found), None, PINS, tmp_path / "cache") == found


def out_refused(out: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    def no_fetch(*args: object) -> Path:
        raise AssertionError("fetched before the output folder was checked")

    monkeypatch.setattr(build_wheel, "fetch", no_fetch)
    with pytest.raises(BuildError) as error:
        build_wheel.build_wheel(None, None, out)
    return str(error.value)


def test_an_impossible_output_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.touch()
    assert f"--out {file}: {file} is not a folder" in out_refused(file, monkeypatch)
    assert f"--out {file / 'a'}: {file} is not a folder" in out_refused(file / "a", monkeypatch)
    assert "/proc cannot be written to" in out_refused(Path("/proc/a"), monkeypatch)


def test_a_possible_output_folder_is_not_made_early(tmp_path: Path) -> None:
    build_wheel.require_folder(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []


def test_the_command_prints_the_path(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path)
    command = [sys.executable, str(Path(fetch.__file__)), "--base", str(wheel)]
    result = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)
    assert result.stdout.strip() == str(wheel)


@pytest.mark.parametrize("script", ["apply", "build_wheel", "check", "checkout", "export", "fetch", "repack"])
@pytest.mark.parametrize("as_module", [True, False])
def test_a_python_without_the_packages_is_one_line(script: str, as_module: bool) -> None:
    # -S: no site-packages, so that this Python is as bare as a system's.
    what = ["-m", f"build_scripts.{script}"] if as_module else [f"build_scripts/{script}.py"]
    command = [sys.executable, "-S", "-E", *what, "--help"]
    result = subprocess.run(command, check=False, capture_output=True, text=True, cwd=REPO)
    assert (result.returncode, result.stdout) == (1, "")
    assert re.fullmatch(r"error: .* has no module '\w+': run `\S+/quickstart.sh --no-demo` once .*\n", result.stderr)
