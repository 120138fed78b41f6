"""What ran on the emulator: for tests that prove a path, and for reports. Every time here is modelled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def launches() -> dict[str, dict[str, Any]]:
    """By kernel name, all summed: launches, modelled nanoseconds, workgroups, waves, wave instructions, those of each
    class (salu, valu, mfma, lds, vmem, smem, branch, other), bytes loaded and stored, reads of uninitialised LDS."""
    from gfx950_emulator import hip

    return hip.launch_statistics()


def launch_counts() -> dict[str, int]:
    """How often each kernel finished since the process started or since reset_launches()."""
    return {name: entry["launches"] for name, entry in launches().items()}


def reset_launches() -> None:
    from gfx950_emulator import hip, watches

    watches.remember(set(launches()))
    hip.runtime().gfx950_reset_launch_statistics()


def report(kernel: str) -> dict[str, Any] | None:
    """What the timing model says of the kernel's last launch: core/timing/README.md documents it. None: no launch."""
    from gfx950_emulator import hip

    return hip.timing_report(kernel)


def timing_parameters() -> dict[str, dict[str, Any]]:
    """The model's numbers: value, default and source of each. GFX950_TIMING_PARAMS overrides them."""
    from gfx950_emulator import hip

    return hip.timing_parameters()


@contextmanager
def timing_only() -> Iterator[None]:
    """Kernels launched inside advance the virtual clock and get a report, but execute no more than that asks for:
    a few of their workgroups, whose stores go nowhere. Memory stays as it is, and the launches are not counted.

    A kernel in which an atomic's result decides, or that prints, is refused."""
    from gfx950_emulator import hip

    with hip.timing(hip.TIMING_ONLY):
        yield


def clock_ns() -> float:
    """The virtual clock, in nanoseconds: the sum of everything that was modelled so far."""
    from gfx950_emulator import hip

    return float(hip.runtime().gfx950_clock_now_ns())
