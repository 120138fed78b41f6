"""torch.cuda after its import: what the C++ initialisation of a ROCm build would set."""

from __future__ import annotations

from types import ModuleType


def install(module: ModuleType | None) -> None:
    assert module is not None
    from gfx950_emulator.properties import device_properties

    module._get_device_properties = device_properties  # type: ignore[attr-defined]
