"""What ran on the emulator: for tests that prove a path, and for reports. Every time here is modelled."""

from __future__ import annotations

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
    from gfx950_emulator import hip

    hip.runtime().gfx950_reset_launch_statistics()


def clock_ns() -> float:
    """The virtual clock, in nanoseconds: the sum of everything that was modelled so far."""
    from gfx950_emulator import hip

    return float(hip.runtime().gfx950_clock_now_ns())
