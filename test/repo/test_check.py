"""The checks against bases, and the repository's own series against the two real ones."""

from __future__ import annotations

import ast
import zipfile
from pathlib import Path

import pytest
from packaging.version import Version

from build_scripts import check, finished
from build_scripts.errors import BuildError
from build_scripts.lay import read_overlay
from build_scripts.pins import read_pins
from build_scripts.series import DropCondition, read_series
from repo.fake_wheel import BASE, FILES, make_wheel

PINS = read_pins()
FIXTURES = Path(__file__).parent / "fixtures"
PATCHES = FIXTURES / "series" / "ok_two_patches"
OVERLAY = {"torch/_native/flydsl/__init__.py": b""}


def base_of(files: dict[str, str], version: str = BASE) -> check.Base:
    contents = {name: text.encode() for name, text in files.items()}
    return check.Base(Version(version), frozenset(contents), contents.get)


def problems(base: check.Base, fuzz: int = 0) -> tuple[list[str], list[str]]:
    notes: list[str] = []
    found, _ = check.base_problems(base, read_series(PATCHES), OVERLAY, fuzz, notes.append)
    return found, notes


def test_a_base_that_fits() -> None:
    assert problems(base_of(FILES)) == ([], [])


def test_a_base_with_its_own_integration() -> None:
    found, _ = problems(base_of({**FILES, "torch/_inductor/codegen/flydsl/__init__.py": ""}))
    assert found == [f"torch {BASE} has torch/_inductor/codegen/flydsl: an integration of its own"]


def test_an_overlay_path_that_the_base_has() -> None:
    found, _ = problems(base_of({**FILES, "torch/_native/flydsl/__init__.py": ""}))
    assert ["the base has torch/_native/flydsl/__init__.py too" in text for text in found] == [True]


def test_a_hunk_that_fits_with_fuzz_only() -> None:
    files = {**FILES, "torch/_inductor/config.py": FILES["torch/_inductor/config.py"].replace("option_8 =", "other =")}
    assert "does not apply" in problems(base_of(files))[0][0]
    assert problems(base_of(files), fuzz=2) == ([], [])


def test_a_result_that_is_not_python() -> None:
    files = {**FILES, "torch/_inductor/config.py": "(\n" + FILES["torch/_inductor/config.py"]}
    assert "not valid Python after the series" in problems(base_of(files))[0][0]


def test_a_drop_condition_that_holds() -> None:
    files = {**FILES, "torch/_inductor/config.py": FILES["torch/_inductor/config.py"] + "flydsl_option = 1\n"}
    found, _ = problems(base_of(files))
    assert ["drop the patch" in text for text in found] == [True]
    # In another base it is no fault: the pinned one still needs the patch.
    found, notes = problems(base_of(files, "2.99.0"), fuzz=2)
    assert found == []
    assert ["drop the patch" in text for text in notes] == [True]


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("base has torch/_inductor/config.py", True),
        ("base has torch/_inductor", True),
        ("base has torch/_induct", False),
        ('base has "option_3 = 3" in torch/_inductor/config.py', True),
        ('base has "option_99" in torch/_inductor/config.py', False),
        ('base has "x" in torch/missing.py', False),
        ("base version >= 2.1", True),
        ("base version >= 99.0", False),
    ],
)
def test_conditions(condition: str, holds: bool) -> None:
    assert check.condition_holds(DropCondition.parse(condition), base_of(FILES)) is holds


def test_python_files_are_kept_and_the_wheel_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def download(requirement: str, pins: object, index: str | None, folder: Path) -> Path:
        calls.append(requirement)
        return make_wheel(folder, "2.99.0")

    monkeypatch.setattr(check, "pip_download", download)
    for _ in range(2):
        base = check.open_base(check.python_files_of("2.99.0", PINS, tmp_path))
    assert calls == ["torch==2.99.0"]
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["torch-2.99.0.zip"]
    assert base.version == Version("2.99.0")
    assert "torch/lib/libtorch.so" in base.names  # the names of all files, the contents of the Python files
    assert base.read("torch/lib/libtorch.so") is None
    assert base.read("torch/_inductor/config.py") == FILES["torch/_inductor/config.py"].encode()


@pytest.mark.parametrize("ci", [False, True])
def test_another_base_that_cannot_be_had(
    ci: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def download(*_: object) -> Path:
        raise BuildError("no network")

    monkeypatch.setattr(check, "python_files_of", download)
    monkeypatch.setattr(check, "fetch", lambda *_: make_wheel(tmp_path))
    monkeypatch.setattr(check, "read_series", list)
    monkeypatch.setattr(check, "read_overlay", dict)
    monkeypatch.setattr(check, "reexport_problems", lambda *_: [])
    monkeypatch.setenv("CI", "true" if ci else "")
    status = check.main(["bases"])
    captured = capsys.readouterr()
    assert status == (1 if ci else 0)
    assert "no network" in (captured.err if ci else captured.out)
    assert ("skipped, it cannot be had here" in captured.out) is not ci


def test_no_such_stage() -> None:
    with pytest.raises(SystemExit):
        check.main(["everything"])


def test_the_series_fits_the_pinned_base_exactly(base_wheel: Path) -> None:
    assert check.check_bases(str(base_wheel), None, read_pins()) == []


def test_the_finished_wheel(built_wheel: Path, base_wheel: Path) -> None:
    assert finished.wheel_problems(built_wheel, PINS, base=base_wheel) == []


def test_only_what_it_should_differs_from_the_base(built_wheel: Path, base_wheel: Path) -> None:
    """The members that differ are those that the series touches, and the version; the ones added are the overlay's."""
    patches = read_series()
    touched = {path for patch in patches for path in patch.paths} | {"torch/version.py"}
    with zipfile.ZipFile(base_wheel) as before, zipfile.ZipFile(built_wheel) as after:
        old = {info.filename: info.CRC for info in before.infolist() if info.filename.startswith("torch/")}
        new = {info.filename: info.CRC for info in after.infolist() if info.filename.startswith("torch/")}
        changed = {name for name in old if new.get(name) != old[name]}
        for name in changed:
            ast.parse(after.read(name))
    assert changed == touched
    assert set(new) - set(old) == set(read_overlay())
