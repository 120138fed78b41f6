"""torch.version of a ROCm build."""

from __future__ import annotations

from types import ModuleType

HIP_VERSION = "7.1.25424"
ROCM_VERSION = "7.1.0"


def install(module: ModuleType | None) -> None:
    assert module is not None
    module.hip = HIP_VERSION  # type: ignore[attr-defined]
    module.rocm = ROCM_VERSION  # type: ignore[attr-defined]
