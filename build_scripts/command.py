"""Run a command, echoing it. Standard library only."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


def echo(args: Sequence[str | Path]) -> None:
    print("+ " + shlex.join(str(arg) for arg in args), file=sys.stderr, flush=True)


def run(
    args: Sequence[str | Path], *, cwd: Path | None = None, env: Mapping[str, str] | None = None, quiet: bool = False
) -> None:
    """Run to completion; a non-zero exit raises CalledProcessError. With `quiet`, output is kept for the error only."""
    if not quiet:
        echo(args)
    full_env = None if env is None else {**os.environ, **env}
    subprocess.run([str(arg) for arg in args], check=True, cwd=cwd, env=full_env, capture_output=quiet, text=True)


def capture(args: Sequence[str | Path], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> bytes:
    """Run to completion and return stdout."""
    full_env = None if env is None else {**os.environ, **env}
    return subprocess.run([str(arg) for arg in args], check=True, cwd=cwd, env=full_env, capture_output=True).stdout
