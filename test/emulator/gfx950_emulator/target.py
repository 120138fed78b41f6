"""Running what a user names: a script, `-m module` or `-c code`, as Python itself would."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from gfx950_emulator.errors import EmulatorError


class NothingToRun(EmulatorError):
    """The command line does not name Python code that can be run."""


def check(arguments: list[str]) -> None:
    """Raises NothingToRun, before anything is set up."""
    if not arguments:
        raise NothingToRun("nothing to run: name a script, -m module or -c code")
    if arguments[0] in ("-m", "-c"):
        if len(arguments) < 2:
            raise NothingToRun(f"argument expected for the {arguments[0]} option")
    elif not Path(arguments[0]).exists():
        raise NothingToRun(f"no such file: {arguments[0]}")


def run(arguments: list[str]) -> None:
    check(arguments)
    if arguments[0] in ("-m", "-c"):
        sys.path[0] = ""
        sys.argv = [arguments[0], *arguments[2:]]
        if arguments[0] == "-m":
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            exec(compile(arguments[1], "<string>", "exec"), {"__name__": "__main__", "__builtins__": __builtins__})
        return
    sys.argv = list(arguments)
    sys.path[0] = str(Path(arguments[0]).resolve().parent)
    runpy.run_path(arguments[0], run_name="__main__")
