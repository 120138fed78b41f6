"""Switching the emulated device on: now, or at the first import that needs it."""

from __future__ import annotations

import os
import sys

from gfx950_emulator.errors import EmulatorError

SWITCH = "GFX950_EMULATOR"
_OFF = ("", "0")
_ON = ("1",)

_active = False


def is_active() -> bool:
    return _active


def activate(checked: bool = True) -> None:
    """Makes every later import of torch, Triton and FlyDSL in this process see the emulated device.

    With ``checked`` the host and the installed torch are examined at once; without, at the first such import, so that
    processes that never import torch pay nothing and do not fail.
    """
    global _active
    if not _active:
        if "torch" in sys.modules:
            raise EmulatorError(
                "gfx950_emulator must be imported before torch, which is in this process already: move the import up, "
                "start the script with `python -m gfx950_emulator`, or set GFX950_EMULATOR=1"
            )
        from gfx950_emulator.hooks import install

        install()
        _active = True
        os.environ[SWITCH] = "1"  # compile workers and spawned children inherit it
    if checked:
        from gfx950_emulator.machine import set_up

        set_up()


def activate_on_import() -> None:
    """What ``import gfx950_emulator`` does: nothing under GFX950_EMULATOR=0, else activation."""
    value = os.environ.get(SWITCH)
    if value is not None and value not in _OFF + _ON:
        refusal = f"{SWITCH}={value!r}: expected 1 (on) or 0 (off)"
        if getattr(sys, "_gfx950_emulator_startup", False):
            # Python goes on after an exception in a .pth file, and the process would run without the device.
            print(f"gfx950_emulator: {refusal}", file=sys.stderr, flush=True)
            os._exit(1)
        raise EmulatorError(refusal)
    if value is not None and value in _OFF:
        return
    activate(checked=not getattr(sys, "_gfx950_emulator_startup", False))
