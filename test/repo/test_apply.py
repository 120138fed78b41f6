"""Applying hunks: positions, fuzz, what a failure shows, and that a failure writes nothing."""

from __future__ import annotations

import difflib
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from unidiff.patch import PatchSet

from build_scripts import apply
from build_scripts.errors import BuildError
from build_scripts.series import read_series, read_unchecked
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


def tool_result(diff: str, base: str, fuzz: int, folder: Path) -> str | None:
    """What `git apply` makes of it where no fuzz is allowed, and patch(1) where it is; None where it refuses."""
    target = folder / CONFIG
    target.parent.mkdir(parents=True)
    target.write_text(base)
    (folder / "change.diff").write_text(diff)
    command = ["git", "apply", "change.diff"]
    if fuzz:
        if shutil.which("patch") is None:
            pytest.skip("patch(1) is not installed; install it to compare fuzz with it")
        command = ["patch", "--batch", "--forward", "-p1", "-F", str(fuzz), "-i", "change.diff"]
    result = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    return target.read_text() if result.returncode == 0 else None


@pytest.mark.parametrize("name", OK + BAD)
def test_same_verdict_and_bytes_as_the_tools(name: str, tmp_path: Path) -> None:
    folder = FIXTURES / name
    fuzz = int((folder / "fuzz").read_text())
    theirs = tool_result((folder / "change.diff").read_text(), (folder / "base.txt").read_text(), fuzz, tmp_path)
    assert theirs == (apply_fixture(name)[0] if name.startswith("ok_") else None)


def random_edit(generator: random.Random, lines: list[str], edits: int) -> list[str]:
    lines = list(lines)
    for _ in range(edits):
        place, kind = generator.randrange(len(lines)), generator.random()
        if kind < 0.5:
            lines.insert(place, f"new {generator.randint(0, 99)}\n")
        elif kind < 0.75 or len(lines) < 4:
            lines[place] = f"changed {generator.randint(0, 99)}\n"
        else:
            del lines[place]
    return lines


@pytest.mark.parametrize("fuzz", [0, 2])
@pytest.mark.parametrize("seed", range(40))
def test_same_as_the_tools_on_random_changes(seed: int, fuzz: int, tmp_path: Path) -> None:
    generator = random.Random(seed)
    # Lines that repeat make a hunk fit in more than one place.
    base = [f"line {generator.randint(0, 12)}\n" if index % 2 else f"line of its own {index}\n" for index in range(20)]
    change = random_edit(generator, base, generator.randint(1, 4))
    target = "".join(random_edit(generator, base, generator.randint(0, 3)))
    diff = f"diff --git a/{CONFIG} b/{CONFIG}\n"
    diff += "".join(difflib.unified_diff(base, change, f"a/{CONFIG}", f"b/{CONFIG}"))
    try:
        ours, _ = apply.apply_hunks("change.diff", CONFIG, target, list(PatchSet.from_string(diff)[0]), fuzz)
    except BuildError:
        ours = None
    assert ours == tool_result(diff, target, fuzz, tmp_path)


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


@pytest.mark.parametrize("name", ["bad_path_leads_out", "bad_path_absolute", "bad_not_under_torch"])
def test_a_patch_of_a_path_elsewhere_is_not_applied_however_it_was_read(name: str) -> None:
    folder = PATCHES.parent / name
    with pytest.raises(BuildError, match="the series cannot be used"):
        apply.apply_series(read_unchecked(folder), lambda _: FILES[CONFIG].encode())


@pytest.mark.parametrize("below", ["torch/../../victim.py", "../victim.py", "{outside}/victim.py"])
def test_no_file_outside_the_folder_is_written(below: str, tmp_path: Path) -> None:
    victim = tmp_path / "victim.py"
    victim.write_text("theirs = 1\n")
    target = tmp_path / "target"
    (target / "torch").mkdir(parents=True)
    files = {"torch/fine.py": b"x = 1\n", below.format(outside=tmp_path): b"evil = 1\n"}
    with pytest.raises(BuildError, match="nothing was written"):
        apply.write_files(target, files)
    assert contents(tmp_path) == {"victim.py": "theirs = 1\n"}


def test_taking_the_series_back() -> None:
    base = {name: text.encode() for name, text in FILES.items()}
    patches = read_series(PATCHES)
    changed, _ = apply.apply_series(patches, base.get)
    assert apply.unapplied_problems(patches, (base | changed).get) == []
    assert len(apply.unapplied_problems(patches, base.get)) == 2
    native = {"torch/_native/__init__.py": base["torch/_native/__init__.py"]}
    assert apply.unapplied_problems(patches, (base | changed | native).get) == [
        "torch/_native/__init__.py does not hold what patches/native-load-the-flydsl-operators.patch puts there"
    ]


def test_a_form_feed_does_not_end_a_line() -> None:
    base = {CONFIG: ("before = '\f\u2028\x85'\n" + FILES[CONFIG]).encode()}
    changed, reports = apply.apply_series(read_series(PATCHES)[:1], base.get)
    assert changed[CONFIG] == base[CONFIG].replace(b"option_10 = 10\n", b"option_10 = 10\nflydsl_option = True\n")
    assert reports[0].offset == 1
