"""The checker of the series on its own, its fixtures, and the repository's own series."""

from __future__ import annotations

from pathlib import Path

import pytest

from build_scripts import check, checkout, export
from build_scripts.errors import BuildError
from build_scripts.gitrepo import git
from build_scripts.series import DropCondition, Patch, read_series, read_unchecked, series_problems, slug_of
from repo.fake_wheel import FILES, make_wheel

FIXTURES = Path(__file__).parent / "fixtures" / "series"
OK = sorted(path.name for path in FIXTURES.glob("ok_*"))
BAD = sorted(path.name for path in FIXTURES.glob("bad_*"))


@pytest.mark.parametrize("name", OK)
def test_ok_series_has_no_problem(name: str) -> None:
    assert series_problems(FIXTURES / name) == []


@pytest.mark.parametrize("name", BAD)
def test_bad_series_says_what_is_wrong(name: str) -> None:
    wanted = (FIXTURES / name / "README.md").read_text().strip()
    problems = series_problems(FIXTURES / name)
    assert any(wanted in problem for problem in problems), problems


@pytest.mark.parametrize("name", BAD)
def test_bad_series_has_one_fault(name: str) -> None:
    # A fixture that trips over several rules would go on failing with its own rule removed.
    assert len(series_problems(FIXTURES / name)) == 1


@pytest.mark.parametrize("name", BAD)
def test_bad_series_is_not_read_for_use(name: str) -> None:
    wanted = (FIXTURES / name / "README.md").read_text().strip()
    with pytest.raises(BuildError) as error:
        read_series(FIXTURES / name)
    assert wanted in str(error.value)


def test_a_checkout_takes_a_patch_that_breaks_a_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is put right there: only what cannot be read, or lies elsewhere, is refused."""
    source = FIXTURES / "bad_why"
    monkeypatch.setattr(checkout, "PATCHES", source)
    assert checkout.main([str(tmp_path / "work"), "--base", str(make_wheel(tmp_path))]) == 0
    assert export.differences(export.export_patches(tmp_path / "work"), source) == []
    with pytest.raises(BuildError, match="expected the plain name"):
        read_unchecked(FIXTURES / "bad_listed_outside")


def test_the_repositorys_series_is_well_formed() -> None:
    assert series_problems() == []


def test_slug() -> None:
    assert slug_of("inductor: add FLYDSL to `mm` (hook)") == "inductor-add-flydsl-to-mm-hook"
    long = slug_of("a " * 60)
    assert len(long) <= 60
    assert not long.endswith("-")


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("base has torch/a/b", DropCondition(path="torch/a/b")),
        ('base has "x y" in torch/a.py', DropCondition(path="torch/a.py", text="x y")),
    ],
)
def test_drop_condition(text: str, condition: DropCondition) -> None:
    assert DropCondition.parse(text) == condition


def fake_repository(folder: Path, patches: list[Patch], source: Path) -> None:
    files = {name: text.encode() for name, text in FILES.items() if name.endswith(".py")}
    checkout.make_repository(folder, files, patches, source, "base")


def test_export_of_a_checkout_gives_the_same_bytes(tmp_path: Path) -> None:
    source = FIXTURES / "ok_two_patches"
    fake_repository(tmp_path, read_series(source), source)
    assert export.differences(export.export_patches(tmp_path), source) == []


CONFIGURATION = """
[diff]
    noprefix = true
    context = 9
    interHunkContext = 5
    algorithm = patience
[format]
    signature = "x"
    numbered = true
    subjectPrefix = "RFC"
[core]
    abbrev = 7
    autocrlf = true
"""


def test_export_does_not_depend_on_the_users_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    more = '[format]\n\theaders = "X-Mine: 1\\n"\n[user]\n\tname = Somebody\n\temail = somebody@localhost\n'
    (home / ".gitconfig").write_text(CONFIGURATION + more)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Somebody Else")
    source = FIXTURES / "ok_two_patches"
    work = tmp_path / "work"
    work.mkdir()
    fake_repository(work, read_series(source), source)
    assert export.differences(export.export_patches(work), source) == []


def test_export_does_not_depend_on_the_checkouts_configuration(tmp_path: Path) -> None:
    source = FIXTURES / "ok_two_patches"
    fake_repository(tmp_path, read_series(source), source)
    with (tmp_path / ".git" / "config").open("a") as config:
        config.write(CONFIGURATION)
    assert export.differences(export.export_patches(tmp_path), source) == []


def test_a_hand_edited_patch_differs_from_its_export(tmp_path: Path) -> None:
    source = FIXTURES / "ok_two_patches"
    edited = tmp_path / "patches"
    edited.mkdir()
    for path in source.iterdir():
        # A shifted hunk still applies, but no commit exports it like that.
        (edited / path.name).write_text(path.read_text().replace("@@ -8,6 +8,7 @@", "@@ -9,6 +9,7 @@"))
    work = tmp_path / "work"
    work.mkdir()
    fake_repository(work, read_series(edited), edited)
    problems = export.differences(export.export_patches(work), edited)
    assert problems == [
        "patches/config-add-flydsl-option.patch is not what the export of its commit gives: it was edited by hand"
    ]


def test_export_refuses_uncommitted_changes_and_merges(tmp_path: Path) -> None:
    source = FIXTURES / "ok_two_patches"
    fake_repository(tmp_path, read_series(source), source)
    (tmp_path / "torch" / "__init__.py").write_text("changed = True\n")
    with pytest.raises(BuildError, match="uncommitted changes"):
        export.export_patches(tmp_path)
    git(tmp_path, "checkout", "--quiet", "-b", "side", "base")
    git(tmp_path, "commit", "--quiet", "-am", "side")
    git(tmp_path, "checkout", "--quiet", "series")
    git(tmp_path, "merge", "--quiet", "--no-edit", "side")
    with pytest.raises(BuildError, match="merge commits"):
        export.export_patches(tmp_path)


def test_a_commit_with_a_fault_is_not_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = tmp_path / "work"
    work.mkdir()
    fake_repository(work, [], FIXTURES / "ok_two_patches")
    (work / "torch" / "_native" / "__init__.py").write_text("changed = True\n")
    git(work, "commit", "--quiet", "-am", "native: no trailers here\n\nWhy not.")
    patches = tmp_path / "patches"
    patches.mkdir()
    (patches / "series").write_text("")
    monkeypatch.setattr(export, "PATCHES", patches)
    assert export.main([str(work)]) == 1
    assert [path.name for path in patches.iterdir()] == ["series"]


def test_git_am_that_fails_says_which_patch(tmp_path: Path) -> None:
    source = FIXTURES / "ok_two_patches"
    with pytest.raises(BuildError, match=r"git am of patches/config-add-flydsl-option\.patch failed"):
        checkout.make_repository(
            tmp_path, {"torch/_inductor/config.py": b"other = 1\n"}, read_series(source), source, "base"
        )


def test_checkout_refuses_a_folder_with_something_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes").write_text("mine")
    assert checkout.main([str(tmp_path)]) == 1
    assert "exists and is not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


def test_checking_the_series_is_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main(["series"]) == 0
    assert "well-formed" in capsys.readouterr().out
