"""Lint, types, checks of the series and the wheel, and the tests, with a summary.

    test/run.sh [--only STAGES] [--fix] [PYTEST_ARGUMENTS...]

STAGES is a comma-separated list of lint, types, checks, tests. Arguments for pytest (paths, -k NAME) run the tests
alone, unless --only says otherwise. --fix has the linters and formatters edit the files. test/run.sh sets up .venv.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
STAGES = ("lint", "types", "checks", "tests")
PYTHON_ROOTS = ("build_scripts", "setup.py", "test", "torch_overlay")
# Strictly typed: our tools. Test modules follow PyTorch's untyped TestCase style and are linted only.
TYPED = (
    "build_scripts",
    "setup.py",
    "test/run.py",
    "test/demo.py",
    "test/bench",
    "test/reference",
    "test/emulator/gfx950_emulator",
    "test/emulator/suites/run.py",
    "test/emulator/suites/opinfo.py",
    "test/emulator/suites/opinfo_entry.py",
)


@dataclass(frozen=True)
class Result:
    name: str
    ok: bool
    seconds: float


def run(name: str, command: Sequence[str | Path], env: dict[str, str] | None = None) -> Result:
    print(f"\n=== {name}\n+ {' '.join(map(str, command))}", flush=True)
    start = time.monotonic()
    status = subprocess.run([str(part) for part in command], cwd=REPO, env={**os.environ, **(env or {})}, check=False)
    return Result(name, status.returncode == 0, time.monotonic() - start)


def tracked(suffixes: tuple[str, ...]) -> list[str]:
    """Files of the repository with these suffixes: those that git knows or would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=REPO, check=True, capture_output=True, text=True).stdout.split("\0")
    return sorted({name for name in names if name.endswith(suffixes) and (REPO / name).is_file()})


def lint(fix: bool) -> list[Result]:
    roots = [root for root in PYTHON_ROOTS if (REPO / root).exists()]
    return [
        run("ruff check", [BIN / "ruff", "check", *(["--fix"] if fix else []), *roots]),
        run("ruff format", [BIN / "ruff", "format", *([] if fix else ["--check"]), *roots]),
        run(
            "clang-format",
            [BIN / "clang-format", *(["-i"] if fix else ["--dry-run", "--Werror"]), *tracked((".cpp", ".h"))],
        ),
    ]


def types() -> list[Result]:
    roots = [root for root in TYPED if (REPO / root).exists()]
    return [run("mypy", [BIN / "mypy", *roots]), overlay_types()]


def overlay_types() -> Result:
    """Types of the overlay under the names it has in torch.

    A staged copy takes the place of `torch` itself, so that the sources here are checked and not an installed copy. The
    packages' own names (torch.Tensor) are Any there; modules that the overlay imports are those of the installed torch.
    """
    stage = REPO / "build" / "overlay-types"
    shutil.rmtree(stage, ignore_errors=True)
    shutil.copytree(
        REPO / "torch_overlay", stage / "torch", ignore=shutil.ignore_patterns("__pycache__", "*.md", "*.jinja")
    )
    for folder in [path for path in stage.rglob("*") if path.is_dir()]:
        if not (folder / "__init__.py").exists():
            (folder / "__init__.pyi").write_text("from typing import Any\n\ndef __getattr__(name: str) -> Any: ...\n")
    # What the base leaves untyped, or re-exports without saying so, is no fault of the overlay.
    lenient = "--ignore-missing-imports --allow-subclassing-any --allow-untyped-decorators --allow-untyped-calls "
    lenient += "--implicit-reexport --no-warn-return-any"
    command: list[str | Path] = [
        BIN / "mypy",
        "--config-file",
        REPO / "pyproject.toml",
        *lenient.split(),
        "-p",
        "torch",
    ]
    return run("mypy of the overlay", command, {"MYPYPATH": str(stage)})


def checks() -> list[Result]:
    return [run("series, bases and wheel", [sys.executable, "-m", "build_scripts.check"])]


def tests(arguments: Sequence[str]) -> list[Result]:
    # One process per core; the tests of a file stay together, since they share what its fixtures compile.
    parallel = ["-n", "2", "--dist", "loadfile"]
    # On the emulated gfx950, unless the caller says otherwise: GFX950_EMULATOR=0 on a machine that has one.
    emulator = {"GFX950_EMULATOR": os.environ.get("GFX950_EMULATOR", "1")}
    return [run("pytest", [sys.executable, "-m", "pytest", *parallel, *arguments], emulator)]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="run.sh", description="Lint, types, checks and tests.")
    parser.add_argument("--only", help=f"a comma-separated list of {', '.join(STAGES)}")
    parser.add_argument("--fix", action="store_true", help="let the linters and formatters edit the files")
    args, pytest_arguments = parser.parse_known_args(argv)
    stages = args.only.split(",") if args.only else ["tests"] if pytest_arguments else list(STAGES)
    unknown = [stage for stage in stages if stage not in STAGES]
    if unknown:
        parser.error(f"--only {unknown[0]!r}: expected any of {', '.join(STAGES)}")

    bodies: dict[str, Callable[[], list[Result]]] = {
        "lint": lambda: lint(args.fix),
        "types": types,
        "checks": checks,
        "tests": lambda: tests(pytest_arguments),
    }
    results = [result for stage in STAGES if stage in stages for result in bodies[stage]()]
    print("\n=== summary")
    for result in results:
        print(f"  {result.name:<26} {'ok' if result.ok else 'FAILED':<8} {result.seconds:7.1f} s")
    return 0 if all(result.ok for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
