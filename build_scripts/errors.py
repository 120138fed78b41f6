"""The one error type of the build scripts, and how a script ends on it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

# What to do about a damaged wheel: a base is fetched again, a finished one built again.
WHEEL_AGAIN = (
    "delete it, then fetch it again (`.venv/bin/python -m build_scripts.fetch`), or build it again where it is a "
    "patched one (`.venv/bin/python -m build_scripts.build_wheel`)"
)


class BuildError(Exception):
    """Something a user can act on: the text says what was asked, the value, the limit and what to do next."""


def run_main(body: Callable[[], int]) -> int:
    """Run a script's body; a BuildError or a failing command becomes one message on stderr and exit status 1."""
    try:
        return body()
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
    except subprocess.CalledProcessError as error:
        print(f"error: exit status {error.returncode} from: {' '.join(map(str, error.cmd))}", file=sys.stderr)
        if error.stderr:
            text = error.stderr if isinstance(error.stderr, str) else error.stderr.decode(errors="replace")
            print(text.rstrip(), file=sys.stderr)
    return 1
