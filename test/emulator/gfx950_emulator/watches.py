"""GFX950_TRACE and GFX950_BREAK that name no launched kernel: said when the process ends."""

from __future__ import annotations

import atexit
import os
import sys

WATCHES = ("GFX950_TRACE", "GFX950_BREAK")
_SHOWN = 8

_before_resets: set[str] = set()


def remember(kernels: set[str]) -> None:
    """Kernels whose launches are about to be forgotten."""
    _before_resets.update(kernels)


def unmatched(environment: dict[str, str], kernels: set[str]) -> list[str]:
    """A line for each variable that is part of the name of none of these kernels."""
    lines = []
    for variable in WATCHES:
        text = environment.get(variable, "").split(":")[0]
        if text and kernels and not any(text in kernel for kernel in kernels):
            names = sorted(kernels)
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            lines.append(
                f"gfx950 emulator: {variable}: no kernel with '{text}' in its name was launched, but "
                f"{', '.join(names[:_SHOWN])}{more}"
            )
    return lines


def _report() -> None:
    from gfx950_emulator import hip

    for line in unmatched(dict(os.environ), _before_resets | set(hip.launch_statistics())):
        print(line, file=sys.stderr)


def report_at_exit() -> None:
    if any(os.environ.get(variable) for variable in WATCHES):
        atexit.register(_report)
