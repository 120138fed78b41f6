"""Applying hunks: positions, fuzz, what a failure shows, and that a failure writes nothing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from unidiff.patch import PatchSet

from build_scripts import apply
from build_scripts.errors import BuildError
from build_scripts.series import read_series
from repo.fake_wheel import FILES

FIXTURES = Path(__file__).parent / "fixtures" / "apply"
OK = sorted(path.name for path in FIXTURES.glob("ok_*"))
BAD = sorted(path.name for path in FIXTURES.glob("bad_*"))
CONFIG = "torch/_inductor/config.py"


def apply_fixture(name: str) -> tuple[str, list[apply.HunkReport]]:
    folder = FIXTURES / name
    hunks = list(PatchSet.from_string((folder / "change.diff").read_text())[0])
    fuzz = int((folder / "fuzz").read_text())
    return apply.apply_hunks("change.diff", CONFIG, (folder / "base.txt").read_text(), hunks, fuzz)


@pytest.mark.parametrize("name", OK)
def test_ok_applies(name: str) -> None:
    text, reports = apply_fixture(name)
    assert text == (FIXTURES / name / "expected.txt").read_text()
    fuzz = int((FIXTURES / name / "fuzz").read_text())
    assert max(report.fuzz for report in reports) == fuzz  # the fixtures ask for no more fuzz than they need


@pytest.mark.parametrize("name", BAD)
def test_bad_shows_both_sides(name: str) -> None:
    with pytest.raises(BuildError) as error:
        apply_fixture(name)
    text = str(error.value)
    assert (FIXTURES / name / "error.txt").read_text() in text
    assert "expected" in text
    assert "nothing was written" in text


@pytest.mark.parametrize("name", OK + BAD)
def test_same_verdict_and_bytes_as_the_tools(name: str, tmp_path: Path) -> None:
    """`git apply` where no fuzz is allowed, patch(1) where it is."""
    fuzz = (FIXTURES / name / "fuzz").read_text().strip()
    target = tmp_path / CONFIG
    target.parent.mkdir(parents=True)
    shutil.copy(FIXTURES / name / "base.txt", target)
    diff = str(FIXTURES / name / "change.diff")
    command = ["git", "apply", diff]
    if fuzz != "0":
        if shutil.which("patch") is None:
            pytest.skip("patch(1) is not installed; install it to compare fuzz with it")
        command = ["patch", "--batch", "--forward", "-p1", "-F", fuzz, "-i", diff]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert (result.returncode == 0) == name.startswith("ok_"), result.stdout + result.stderr
    if name.startswith("ok_"):
        assert target.read_text() == apply_fixture(name)[0]


def test_an_offset_is_reported() -> None:
    _, reports = apply_fixture("ok_offset")
    assert [report.offset for report in reports] == [3, 0]  # the second hunk is where the first one says it is
    assert "offset +3" in str(reports[0])


def lay_out(root: Path, *, config: str) -> None:
    for name, text in {**FILES, CONFIG: config}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def contents(root: Path) -> dict[str, str]:
    return {path.relative_to(root).as_posix(): path.read_text() for path in root.rglob("*") if path.is_file()}


PATCHES = Path(__file__).parent / "fixtures" / "series" / "ok_two_patches"


def test_command_applies_the_series(tmp_path: Path) -> None:
    lay_out(tmp_path, config=FILES[CONFIG])
    assert apply.main(["--target", str(tmp_path), "--patches", str(PATCHES)]) == 0
    assert "flydsl_option = True\n" in (tmp_path / CONFIG).read_text()
    assert "flydsl.load()" in (tmp_path / "torch/_native/__init__.py").read_text()
    assert contents(tmp_path).keys() == FILES.keys()


def test_nothing_is_written_when_a_later_patch_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lay_out(tmp_path, config=FILES[CONFIG])
    native = tmp_path / "torch/_native/__init__.py"
    native.write_text("def load():\n    return 2\n")
    before = contents(tmp_path)
    assert apply.main(["--target", str(tmp_path), "--patches", str(PATCHES)]) == 1
    assert contents(tmp_path) == before
    error = capsys.readouterr().err
    assert "hunk 1 of torch/_native/__init__.py does not apply" in error
    assert "2 !     return 1" in error
    assert "|     return 2" in error


def test_a_file_the_base_lacks(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    with pytest.raises(BuildError, match=r"the base has no torch/_inductor/config\.py"):
        apply.apply_series(read_series(PATCHES), apply.directory_reader(tmp_path))
