"""An emulated AMD Instinct MI355X (gfx950) for a CPU-only PyTorch.

Importing this package before torch gives torch a ROCm device: ``device="cuda"``, ``torch.version.hip`` and
``gcnArchName == "gfx950:sramecc+:xnack-"``. ATen operators run on the CPU; Triton's and FlyDSL's code objects run on
the emulator core. ``python -m gfx950_emulator script.py`` does it for a script, ``GFX950_EMULATOR=1`` for a process and
its children.
"""

from __future__ import annotations

from gfx950_emulator.activation import activate_on_import
from gfx950_emulator.statistics import (
    clock_ns,
    launch_counts,
    launches,
    report,
    reset_launches,
    timing_only,
    timing_parameters,
)

__version__ = "0.1.0"

__all__ = [
    "clock_ns",
    "launch_counts",
    "launches",
    "report",
    "reset_launches",
    "timing_only",
    "timing_parameters",
]

activate_on_import()
