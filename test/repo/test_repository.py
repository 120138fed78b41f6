"""Facts with one home, paths that exist, and nothing of one machine or one registry in the repository."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from build_scripts.errors import BuildError
from build_scripts.layout import REPO
from build_scripts.pins import read_pins

PINS = read_pins()


def tracked(*patterns: str) -> list[Path]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *patterns]
    names = subprocess.run(command, cwd=REPO, check=True, capture_output=True, text=True).stdout.split("\0")
    return [REPO / name for name in names if name and (REPO / name).is_file()]


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def shown(path: Path) -> str:
    return path.relative_to(REPO).as_posix()


def requirement_lines() -> dict[str, dict[str, str]]:
    """Package to version, by requirements file."""
    files = {}
    for path in REPO.glob("requirements*.txt"):
        lines = [line for line in read(path).splitlines() if line and not line.startswith("#")]
        assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9.a-z]+", line) for line in lines), (
            f"{path.name}: pin every package"
        )
        files[path.name] = dict(line.split("==") for line in lines)
    return files


def test_every_tool_is_pinned_once() -> None:
    packages = [name for lines in requirement_lines().values() for name in lines]
    assert len(packages) == len(set(packages))
    assert not set(packages) & set(PINS.runtime), "the runtime packages are pinned in pins.toml alone"


@pytest.mark.parametrize("path", ["pyproject.toml", "test/emulator/pyproject.toml"])
def test_build_systems_require_what_the_requirements_pin(path: str) -> None:
    """A PEP 517 build cannot read requirements files, so these versions are written twice."""
    pinned = {name: version for lines in requirement_lines().values() for name, version in lines.items()}
    requires = tomllib.loads(read(REPO / path))["build-system"]["requires"]
    for requirement in requires:
        name, separator, version = requirement.partition("==")
        if separator:
            assert pinned[name] == version, f"{path} requires {requirement}"


def test_pins_have_one_home() -> None:
    """No other file that a program reads names a pinned package with its version, or the base's version as a value."""
    pinned = {**PINS.runtime, "torch": PINS.base}
    requirement = re.compile(
        "|".join(rf"{re.escape(name)}\s*(==|~=|>=)\s*{re.escape(pinned[name])}" for name in pinned)
    )
    value = re.compile(
        "|".join(rf"""["']{re.escape(version)}(\+cpu)?["']""" for version in (PINS.base, *PINS.also_checked))
    )
    found = []
    for path in tracked("*.py", "*.toml", "*.txt", "*.sh", "*.cfg", "*.yaml", "*.cmake", "*.in"):
        if shown(path) == "build_scripts/pins.toml" or "fixtures" in path.parts:
            continue
        for number, line in enumerate(read(path).splitlines(), start=1):
            if requirement.search(line) or value.search(line):
                found.append(f"{shown(path)}:{number}: {line.strip()}")
    assert found == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ('version = "0.1.0"|version = "soon"', "project.version is 'soon'"),
        ("series = 1|series = 0", "project.series is 0"),
        ('python_tag = "cp311"|python_tag = "cp312"', "base.python_tag is 'cp312'"),
        ('default_build = "cpu"|default_build = ""', "base.default_build is ''"),
        ('default_build = "cpu"|other = 1', "[base] has the keys"),
        ("[runtime]|[other]", "unknown tables ['other']"),
        ("[runtime]|[runtime", "is not valid TOML"),
    ],
)
def test_bad_pins(change: str, message: str, tmp_path: Path) -> None:
    old, new = change.split("|")
    text = read(REPO / "build_scripts" / "pins.toml")
    assert old in text
    (tmp_path / "pins.toml").write_text(text.replace(old, new))
    with pytest.raises(BuildError) as error:
        read_pins(tmp_path / "pins.toml")
    assert message in str(error.value)


# A path in backticks has a folder or a suffix that files here have; `torch/...` names a file of the base.
_BACKTICKS = re.compile(r"`(?:\./)?([\w.-]+(?:/[\w.<>-]+)*/?)`")
_LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#]+)(?:#[^)]*)?\)")
_MADE = ("dist", "build", ".venv")
_SUFFIXES = (".py", ".sh", ".md", ".toml", ".txt", ".cpp", ".h", ".cmake", ".yaml")


def missing_paths(document: Path) -> list[str]:
    """Paths in the text that lead nowhere, from the document's folder or one above it, or from the overlay."""
    file_names = {path.name for path in tracked()}
    text = re.sub(r"^```.*?^```", "", read(document), flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"`[^`\n]*`", "", text)  # code may hold brackets that look like a link
    found = [link for link in _LINK.findall(prose) if not (document.parent / link).exists()]
    for name in _BACKTICKS.findall(text):
        first = name.split("/")[0]
        top_level = (REPO / first).exists()
        if first in _MADE or "<" in name or not (("/" in name and top_level) or name.endswith(_SUFFIXES)):
            continue
        roots = [document.parent, *(folder for folder in document.parents if folder.is_relative_to(REPO)), REPO]
        roots.append(REPO / "torch_overlay")
        if first == "torch":
            roots = [REPO / "torch_overlay"]
            name = name.partition("/")[2]
            if not (roots[0] / name).exists() and name.split("/")[-1] in base_file_names():
                continue
        if "/" not in name and name in file_names:
            continue
        if not any((root / name).exists() for root in roots):
            found.append(name)
    return found


def base_file_names() -> set[str]:
    """The names of the files that the series touches: a document about patches may name them."""
    return {
        line.rsplit("/", 1)[-1]
        for path in tracked("patches/*.patch")
        for line in read(path).splitlines()
        if line[:4] == "--- "
    }


def test_every_path_in_a_readme_exists() -> None:
    documents = [path for path in tracked("*.md") if "fixtures" not in path.parts]
    assert len(documents) > 3
    missing = {shown(path): names for path in documents if (names := missing_paths(path))}
    assert missing == {}


def test_a_missing_path_is_found(tmp_path: Path) -> None:
    document = tmp_path / "README.md"
    document.write_text(
        "See `build_scripts/gone.py`, [that](gone.md), `dist/`, `2.13.0+cpu` and `build_scripts/check.py`.\n"
    )
    assert missing_paths(document) == ["gone.md", "build_scripts/gone.py"]


def test_no_registry_and_no_path_of_a_machine() -> None:
    hosts = r"pypi\.org|pythonhosted\.org|download\.pytorch\.org|npmjs\.(org|com)|deb\.debian\.org|conda\.anaconda\.org"
    option = r"--(extra-)?index-url"
    homes = "|".join(re.escape(f"{folder}/") for folder in (str(REPO.parent), str(Path.home())) if len(folder) > 3)
    machine = r"(?<![\w.])/(tmp/w|root|home/\w+|opt/(wheels|pypi))(?![\w])"
    wrong = re.compile("|".join(filter(None, [hosts, option, homes, machine])))
    this = Path(__file__).resolve()
    found = []
    for path in tracked():
        if path.resolve() == this:
            continue
        for number, line in enumerate(read(path).splitlines(), start=1):
            if wrong.search(line):
                found.append(f"{shown(path)}:{number}: {line.strip()[:160]}")
    assert found == []


def test_top_level_is_the_agreed_one() -> None:
    agreed = {"patches", "torch_overlay", "build_scripts", "test", "docs", "CMakeLists.txt", "setup.py", "README.md"}
    agreed |= {"pyproject.toml", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"}
    names = {shown(path).split("/")[0] for path in tracked()}
    others = {name for name in names - agreed if not re.fullmatch(r"\..*|requirements[a-z-]*\.(txt|in)", name)}
    assert others == set()


def test_ci_calls_the_documented_test_command() -> None:
    assert "./test/run.sh" in read(REPO / ".ci" / "run")
    assert "./test/run.sh" in read(REPO / "README.md")
