"""torch.version of a ROCm build."""

from __future__ import annotations

from types import ModuleType

from gfx950_emulator import machine

HIP_VERSION = "7.1.25424"
ROCM_VERSION = "7.1.0"


def hip_version() -> str:
    """HIP's own form, release and build: a rebuilt emulator may model other times, and must not find old choices.

    Inductor's caches hold this string in their keys.
    """
    return f"{HIP_VERSION}-{machine.build_id(machine.HIP_LIBRARY)[:8]}"


def install(module: ModuleType | None) -> None:
    assert module is not None
    module.hip = hip_version()  # type: ignore[attr-defined]
    module.rocm = ROCM_VERSION  # type: ignore[attr-defined]
