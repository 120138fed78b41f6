"""What the build scripts use that Python does not bring; taken from here, so that its absence is one line."""

from __future__ import annotations

import sys

try:
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename
    from packaging.version import InvalidVersion, Version
    from unidiff.errors import UnidiffParseError
    from unidiff.patch import Hunk, Line, PatchedFile, PatchSet
except ModuleNotFoundError as error:
    sys.exit(
        f"error: {sys.executable} has no module {error.name!r}: run `./build_scripts/quickstart.sh --no-demo` once and "
        "use `.venv/bin/python`, or install requirements-build.txt"
    )

__all__ = [
    "Hunk",
    "InvalidVersion",
    "InvalidWheelFilename",
    "Line",
    "PatchSet",
    "PatchedFile",
    "UnidiffParseError",
    "Version",
    "parse_wheel_filename",
]
