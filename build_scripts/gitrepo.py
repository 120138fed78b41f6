"""Git run so that its output depends on the repository alone, not on anybody's configuration."""

from __future__ import annotations

import os
from pathlib import Path

from build_scripts.command import capture

BASE_TAG = "base"
_TOOL = {"NAME": "FlyDSL series", "EMAIL": "series@localhost", "DATE": "2000-01-01T00:00:00+0000"}
# No user or system configuration, no prompt, no hook, and fixed identities for the commits that these scripts make.
_ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
    "TZ": "UTC",
    **{f"GIT_{role}_{field}": value for role in ("AUTHOR", "COMMITTER") for field, value in _TOOL.items()},
}


def git(folder: Path, *args: str | Path) -> bytes:
    fixed = [
        "-c",
        "core.autocrlf=false",
        "-c",
        "core.hooksPath=" + os.devnull,
        "-c",
        "commit.gpgSign=false",
        "-c",
        "gc.auto=0",
    ]
    return capture(["git", "-C", folder, *fixed, *args], env=_ENVIRONMENT)
