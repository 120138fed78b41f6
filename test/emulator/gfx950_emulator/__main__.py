"""``python -m gfx950_emulator script.py [arguments]``, ``-m module`` or ``-c code``: run it on the emulated gfx950.

``coverage`` and ``disasm`` in place of a script are tools that look at instructions without running them; ``profile``
before one runs it and says where the modelled time of its kernels goes.
"""

from __future__ import annotations

import importlib
import os
import sys

from gfx950_emulator.errors import EmulatorError

USAGE = """usage: python -m gfx950_emulator script.py [arguments]
       python -m gfx950_emulator -m module [arguments]
       python -m gfx950_emulator -c code [arguments]
       python -m gfx950_emulator coverage [--json]
       python -m gfx950_emulator disasm FILE.hsaco [--kernel NAME] [--counts]
       python -m gfx950_emulator profile [options] script.py [arguments]
Runs Python code with an emulated AMD Instinct MI355X (gfx950) as torch's device "cuda"; coverage lists every gfx950
instruction and whether it is modelled, disasm a code object's instructions. profile runs code as well, and says where
the modelled time of each kernel goes."""

TOOLS = ("coverage", "disasm", "profile")


def main(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if argv else 2
    if argv[0] in TOOLS:
        try:
            status: int = importlib.import_module(f"gfx950_emulator.{argv[0]}").main(argv[1:])
            sys.stdout.flush()
        except EmulatorError as error:
            print(f"gfx950 emulator: {error}", file=sys.stderr)
            return 1
        except BrokenPipeError:  # the reader, `head` for example, has enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        return status
    from gfx950_emulator import target
    from gfx950_emulator.activation import activate

    try:
        target.check(argv)
        activate()
    except target.NothingToRun as error:
        print(f"gfx950 emulator: {error}\n{USAGE}", file=sys.stderr)
        return 2
    except EmulatorError as error:
        print(f"gfx950 emulator: {error}", file=sys.stderr)
        return 1
    target.run(argv)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
