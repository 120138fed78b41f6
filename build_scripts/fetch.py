"""Find the base wheel: a path, or a version that pip finds.

    python -m build_scripts.fetch [--base WHEEL_OR_VERSION] [--index URL]

Without --base, the environment variable TORCH_BASE_WHEEL, then the CPU build of the pinned version. PyTorch's CPU and
ROCm wheels come from indices of their own: pass the address as --index, or as TORCH_BASE_INDEX. Downloads are kept
under build/cache/ and used again. A wheel that is not of the pinned base is refused.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

if not __package__:  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from build_scripts.base_choice import BASE_VARIABLE, INDEX_VARIABLE, named_file, require_pinned_version
from build_scripts.command import echo
from build_scripts.errors import BuildError, run_main
from build_scripts.layout import CACHE
from build_scripts.pins import Pins, read_pins
from build_scripts.wheels import inspect, require_pinned_base


def pip_download(requirement: str, pins: Pins, index: str | None, folder: Path) -> Path:
    """Have pip put the one wheel of `requirement` into `folder`."""
    # -E: in an isolated build pip points PYTHONPATH at an environment that has no pip in it.
    command = [
        sys.executable,
        "-E",
        "-m",
        "pip",
        "--disable-pip-version-check",
        "download",
        "--no-deps",
        "--no-cache-dir",
    ]
    command += ["--only-binary=:all:", "--python-version", pins.python, "--dest", str(folder)]
    command += ["-i", index] if index else []
    command.append(requirement)
    echo(command)
    result = subprocess.run(command, stdout=sys.stderr, stderr=subprocess.PIPE, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if result.returncode != 0 or len(wheels) != 1:
        reason = "\n  ".join(result.stderr.strip().splitlines()[-4:])
        raise BuildError(f"pip could not download {requirement}:\n  {reason}")
    return wheels[0]


def _download(version: str, pins: Pins, index: str | None, cache: Path) -> Path:
    key = version if index is None else f"{version}-{hashlib.sha256(index.encode()).hexdigest()[:12]}"
    folder = cache / "base" / key
    kept = list(folder.glob("*.whl"))
    if len(kept) == 1:
        return kept[0]
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            wheel = pip_download(f"torch=={version}", pins, index, Path(temporary))
            folder.mkdir(exist_ok=True)
            return Path(shutil.move(wheel, folder / wheel.name))
    except BuildError as error:
        for made in (folder.parent, cache):
            if not any(made.iterdir()):
                made.rmdir()
        raise BuildError(
            f"{error}\nPyTorch's CPU wheels, like its ROCm wheels, come from PyTorch's own wheel index, not from pip's "
            f"default one: give its address with --index URL or {INDEX_VARIABLE}=URL, or a wheel from there with "
            f"--base FILE or {BASE_VARIABLE}=FILE"
        ) from error


def fetch(base: str | None, index: str | None, pins: Pins, cache: Path = CACHE) -> Path:
    """The path of a base wheel that the series may be applied to."""
    asked = base or os.environ.get(BASE_VARIABLE) or pins.default_base
    path = named_file(asked, index)
    if path is None:
        require_pinned_version(asked, pins)
        path = _download(asked, pins, index or os.environ.get(INDEX_VARIABLE), cache)
    require_pinned_base(inspect(path), pins)
    return path.resolve()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--base", help=f"a wheel's path or a version (default: ${BASE_VARIABLE}, then the CPU build)")
    parser.add_argument("--index", metavar="URL", help=f"where pip looks for a version (default: ${INDEX_VARIABLE})")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Find or download the base wheel and print its path.")
    add_arguments(parser)
    args = parser.parse_args(argv)

    def body() -> int:
        print(fetch(args.base, args.index, read_pins()))
        return 0

    return run_main(body)


if __name__ == "__main__":
    sys.exit(main())
