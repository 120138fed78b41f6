"""Lay the overlay over a base's torch/ folder.

    python -m build_scripts.lay --target DIR

DIR holds `torch/`. The overlay only adds files: a path that the base has is an error, and nothing is written.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Collection
from pathlib import Path, PurePosixPath

if not __package__:  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from build_scripts.apply import write_files
from build_scripts.digest import named_sha256
from build_scripts.errors import BuildError, run_main
from build_scripts.layout import OVERLAY

# What may lie in torch/: modules, type stubs, and the templates and data that modules read.
SUFFIXES = (".py", ".pyi", ".jinja", ".json")


def _is_ours(path: Path) -> bool:
    """Caches are not overlay files, and a README explains the folder to those who edit it; neither is laid."""
    return "__pycache__" not in path.parts and path.name != "README.md"


def read_overlay(folder: Path = OVERLAY) -> dict[str, bytes]:
    """The overlay's files by the path that they get in the wheel, sorted."""
    if not folder.is_dir():
        raise BuildError(f"the overlay folder {folder} does not exist")
    files = {}
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if path.is_symlink():
            raise BuildError(f"torch_overlay/{relative} is a symbolic link; a wheel cannot hold one")
        if path.is_file() and _is_ours(relative):
            files["torch/" + relative.as_posix()] = path.read_bytes()
    return files


def overlay_sha256(files: dict[str, bytes]) -> str:
    return named_sha256(files.items())


def overlay_problems(files: dict[str, bytes], base_names: Collection[str]) -> list[str]:
    """Everything wrong with laying these files over a base that has `base_names`."""
    problems = []
    names = set(base_names)
    for path, content in files.items():
        shown = "torch_overlay/" + path.removeprefix("torch/")
        if path in names:
            problems.append(f"{shown}: the base has {path} too; the overlay only adds files, a change is a patch")
        if not path.endswith(SUFFIXES):
            problems.append(f"{shown}: expected a file name that ends in one of {', '.join(SUFFIXES)}")
        if path.endswith(".py"):
            try:
                ast.parse(content, filename=shown)
            except (SyntaxError, ValueError) as error:
                problems.append(f"{shown}: not valid Python: {error}")
            for parent in PurePosixPath(path).parents:
                package = f"{parent}/__init__.py"
                if str(parent) not in (".", "torch") and package not in names and package not in files:
                    problems.append(
                        f"{shown}: neither the base nor the overlay has {package}, so it cannot be imported"
                    )
    return problems


def check_overlay(files: dict[str, bytes], base_names: Collection[str]) -> None:
    problems = overlay_problems(files, base_names)
    if problems:
        raise BuildError("the overlay cannot be laid over this base:\n  " + "\n  ".join(problems))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Lay the overlay over a directory that holds torch/.")
    parser.add_argument("--target", type=Path, required=True, help="the directory that holds torch/")
    args = parser.parse_args(argv)

    def body() -> int:
        root: Path = args.target / "torch"
        if not root.is_dir():
            raise BuildError(f"{args.target} holds no torch/ folder")
        files = read_overlay()
        check_overlay(files, {path.relative_to(args.target).as_posix() for path in root.rglob("*") if path.is_file()})
        write_files(args.target, files)
        print(f"{len(files)} overlay files laid over {root}")
        return 0

    return run_main(body)


if __name__ == "__main__":
    sys.exit(main())
