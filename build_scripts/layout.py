"""Where things are in the repository."""

from __future__ import annotations

from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
PINS = REPO / "build_scripts" / "pins.toml"
PATCHES = REPO / "patches"
OVERLAY = REPO / "torch_overlay"
BUILD = REPO / "build"
DIST = REPO / "dist"
# Downloaded base wheels, and the Python files of bases that are only checked against.
CACHE = BUILD / "cache"
