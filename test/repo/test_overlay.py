"""The checker of the overlay, laying it, and the repository's own overlay."""

from __future__ import annotations

from pathlib import Path

import pytest

from build_scripts import lay
from build_scripts.errors import BuildError
from repo.fake_wheel import FILES

FIXTURES = Path(__file__).parent / "fixtures" / "overlay"
OK = sorted(path.name for path in FIXTURES.glob("ok_*"))
BAD = sorted(path.name for path in FIXTURES.glob("bad_*"))


@pytest.mark.parametrize("name", OK)
def test_ok_overlay_has_no_problem(name: str) -> None:
    files = lay.read_overlay(FIXTURES / name)
    assert lay.overlay_problems(files, FILES) == []
    assert files
    assert not any(path.endswith("README.md") for path in files)


@pytest.mark.parametrize("name", BAD)
def test_bad_overlay_says_what_is_wrong(name: str) -> None:
    wanted = (FIXTURES / name / "README.md").read_text().strip()
    problems = lay.overlay_problems(lay.read_overlay(FIXTURES / name), FILES)
    assert len(problems) == 1
    assert wanted in problems[0]


def test_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real.py").write_text("")
    (tmp_path / "link.py").symlink_to("real.py")
    with pytest.raises(BuildError, match=r"link\.py is a symbolic link"):
        lay.read_overlay(tmp_path)


def test_caches_are_not_overlay_files(tmp_path: Path) -> None:
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "x.pyc").write_bytes(b"")
    (tmp_path / "x.py").write_text("")
    assert list(lay.read_overlay(tmp_path)) == ["torch/x.py"]


def test_nothing_is_laid_over_a_path_of_the_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "torch" / "_inductor").mkdir(parents=True)
    config = tmp_path / "torch" / "_inductor" / "config.py"
    config.write_text("theirs = 1\n")
    files = {"torch/_inductor/config.py": b"ours = 1\n", "torch/ours.py": b""}
    monkeypatch.setattr(lay, "read_overlay", lambda: files)
    assert lay.main(["--target", str(tmp_path)]) == 1
    assert "the base has torch/_inductor/config.py too" in capsys.readouterr().err
    assert config.read_text() == "theirs = 1\n"
    assert not (tmp_path / "torch" / "ours.py").exists()


def test_laying_adds_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch").mkdir()
    monkeypatch.setattr(lay, "read_overlay", lambda: {"torch/ours.py": b"x = 1\n"})
    assert lay.main(["--target", str(tmp_path)]) == 0
    assert (tmp_path / "torch" / "ours.py").read_bytes() == b"x = 1\n"


def test_the_repositorys_overlay_is_well_formed() -> None:
    problems = lay.overlay_problems(lay.read_overlay(), ())
    # Whether a folder of the base is a package is checked against the base.
    assert [text for text in problems if "cannot be imported" not in text] == []
