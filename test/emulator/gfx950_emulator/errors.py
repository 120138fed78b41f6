"""The error that says why the emulator cannot be used, and what to do."""

from __future__ import annotations


class EmulatorError(ImportError):
    """The emulated device cannot be set up here. An ImportError, because it stops the import that needed it."""
