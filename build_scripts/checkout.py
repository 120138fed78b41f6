"""Make a git repository of the base's Python files with the series as commits, to develop patches in.

    python -m build_scripts.checkout DIR [--base WHEEL_OR_VERSION] [--index URL]

The first commit, tagged `base`, is the base as published; each patch of patches/series is a commit on top. Commit,
amend or rebase there, then run `python -m build_scripts.export DIR`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

if not __package__:  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from build_scripts.errors import BuildError, run_main
from build_scripts.fetch import add_arguments, fetch
from build_scripts.gitrepo import BASE_TAG, git
from build_scripts.layout import PATCHES
from build_scripts.pins import read_pins
from build_scripts.series import Patch, read_unchecked

_SUFFIXES = (".py", ".pyi", ".jinja")


def make_repository(
    folder: Path, files: dict[str, bytes], patches: Sequence[Patch], source: Path, subject: str
) -> None:
    """A repository in the empty `folder`: one commit of `files`, tagged `base`, then `git am` of each patch."""
    for path, content in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    git(folder, "init", "--quiet", "--initial-branch=series")
    git(folder, "add", "--all", "--force")
    git(folder, "commit", "--quiet", "--allow-empty", "-m", subject)
    git(folder, "tag", BASE_TAG)
    for patch in patches:
        try:
            git(folder, "am", "--quiet", "--keep-cr", "--no-3way", str((source / patch.name).resolve()))
        except subprocess.CalledProcessError as error:
            text = (error.stdout + error.stderr).decode(errors="replace").strip()
            raise BuildError(f"git am of patches/{patch.name} failed in {folder}:\n{text}") from error


def python_files(wheel: Path, wanted: Callable[[str], bool]) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if wanted(name)}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Make a git repository of the base with the series as commits.")
    parser.add_argument("folder", type=Path, help="where to make it; must not exist or be empty")
    add_arguments(parser)
    args = parser.parse_args(argv)

    def body() -> int:
        folder: Path = args.folder
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise BuildError(f"{folder} exists and is not empty; remove it or name another folder")
        wheel = fetch(args.base, args.index, read_pins())
        patches = read_unchecked(PATCHES)  # a patch that breaks a rule is put right in a checkout
        files = python_files(wheel, lambda name: name.endswith(_SUFFIXES) and ".dist-info/" not in name)
        folder.mkdir(parents=True, exist_ok=True)
        make_repository(folder, files, patches, PATCHES, f"torch {wheel.name.split('-')[1]} as published")
        print(f"{folder}: {len(files)} files of {wheel.name}, {len(patches)} patches on top of the tag `{BASE_TAG}`")
        return 0

    return run_main(body)


if __name__ == "__main__":
    sys.exit(main())
