"""The GPU and the FlyDSL release that our kernels are written for: the only place for either.

A leaf: importing it imports no flydsl and touches no GPU.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
from pathlib import Path

import torch
from torch._vendor.packaging.version import InvalidVersion, Version

SUPPORTED_ARCHS = ("gfx950",)

FLYDSL_AT_LEAST = "0.3.0"
FLYDSL_BELOW = "0.4"
FLYDSL_RELEASES = f">={FLYDSL_AT_LEAST},<{FLYDSL_BELOW}"

# gfx950 (AMD Instinct MI350 series). Sources: AMD's CDNA 4 ISA document and white paper, LLVM's AMDGPU target.
WAVE_SIZE = 64
SIMDS_PER_CU = 4
COMPUTE_UNITS = 256  # 8 XCDs of 32
XCDS = 8
MAX_WORKGROUP_SIZE = 1024
MAX_WAVES_PER_SIMD = 8
VGPRS_PER_LANE = 512  # arch and accumulation registers together, shared by the waves of a SIMD
LDS_BYTES = 160 * 1024
LDS_BANKS = 64
LDS_BANK_BYTES = 4
LDS_BYTES_PER_CLOCK = 128  # per CU
L2_BYTES_PER_CLOCK = 64  # per CU; a guess that fitted published GEMM times, see the emulator's timing model
HBM_LATENCY_CLOCKS = 1200  # a guess likewise
LAUNCH_CLOCKS = 16_800  # 7 µs, fitted likewise: what a kernel that runs behind another adds
CLOCK_HZ = 2.4e9
HBM_BYTES_PER_SECOND = 8.0e12
VMCNT_MAX = 63  # six bits in s_waitcnt
# The four groups of 16 lanes in which ds_read_b128 is served (public measurement on MI350); two more are these plus 32.
DS_READ_B128_PHASES = (
    (0, 1, 2, 3, 12, 13, 14, 15, 20, 21, 22, 23, 24, 25, 26, 27),
    (4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 28, 29, 30, 31),
)


def strip_arch(gcn_arch_name: str) -> str:
    """``gfx950:sramecc+:xnack-`` -> ``gfx950``. FlyDSL and LLVM want the processor alone."""
    return gcn_arch_name.split(":", 1)[0].strip().lower()


def device_arch(device_index: int) -> str:
    """The architecture of a device, from the device's own properties.

    FlyDSL must be told: left alone it looks at two environment variables and a ROCm tool, and else compiles for gfx942
    without a word.
    """
    name = getattr(torch.cuda.get_device_properties(device_index), "gcnArchName", "")
    if not name:
        raise RuntimeError(f"device cuda:{device_index} reports no gcnArchName; FlyDSL kernels need a ROCm device")
    return strip_arch(name)


def arch_unsupported_reason(arch: str) -> str | None:
    if arch in SUPPORTED_ARCHS:
        return None
    return f"device architecture {arch} is not one of {', '.join(SUPPORTED_ARCHS)}"


def flydsl_version() -> str | None:
    """The installed FlyDSL's version from its metadata; None if there is none. Never imports flydsl."""
    try:
        return importlib.metadata.version("flydsl")
    except importlib.metadata.PackageNotFoundError:
        return None


def release_unsupported_reason(version: str, at_least: str = FLYDSL_AT_LEAST) -> str | None:
    """Why a FlyDSL version is outside the supported releases. A kernel that needs more passes its own ``at_least``."""
    releases = f">={at_least},<{FLYDSL_BELOW}"
    try:
        parsed = Version(version)
    except InvalidVersion:
        return f"flydsl has version {version!r}, which is no version number; install a release {releases}"
    if parsed.is_prerelease:
        return f"flydsl {version} is a prerelease; install a release {releases}"
    if parsed < Version(at_least):
        return f"flydsl {version} is too old; install a release {releases}"
    if parsed >= Version(FLYDSL_BELOW):
        return f"flydsl {version} is too new; install a release {releases}"
    return None


def package_unsupported_reason() -> str | None:
    """Why the installed flydsl package cannot be used: missing, broken, or another release."""
    spec = importlib.util.find_spec("flydsl")
    version = flydsl_version()
    if spec is None:
        return f"flydsl is not installed; pip install 'flydsl{FLYDSL_RELEASES}'"
    if version is None:
        return f"flydsl at {spec.origin} has no installed metadata, so its release is unknown; install it with pip"
    reason = release_unsupported_reason(version)
    if reason is not None:
        return reason
    locations = [Path(location) for location in spec.submodule_search_locations or ()]
    if not any((location / "_mlir").is_dir() for location in locations):
        return f"flydsl {version} at {spec.origin} lacks its compiled part _mlir; reinstall it from a wheel"
    return None


@functools.lru_cache(maxsize=1)
def unavailable_reason() -> str | None:
    """Why no FlyDSL kernel can run in this process, whatever the device; None if they can. Cached."""
    if torch.version.hip is None:
        return "this PyTorch is not a ROCm build"
    return package_unsupported_reason()
