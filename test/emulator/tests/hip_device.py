"""Runs assembled kernels through a HIP runtime: GFX950_HW=1 sends the instruction vectors to a real gfx950.

The library is `GFX950_HIP_LIBRARY`, else libamdhip64 where ROCm puts it (ROCM_PATH, /opt/rocm), where a ROCm build of
torch has it, or where the linker finds it. `preflight` says what is missing; nothing is skipped.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

NAMES = ("libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so")
ARCH = "gfx950"
ARCH_OFFSET, PROPERTIES_SIZE = 1160, 1472  # of hipDeviceProp_tR0600, ROCm 6 and 7
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
BUFFER_POINTER, BUFFER_SIZE, END = 1, 2, 3  # keys of hipModuleLaunchKernel's extra


class HardwareError(RuntimeError):
    """Why the vectors cannot run on hardware, or what a HIP call answered."""


def wanted() -> bool:
    value = os.environ.get("GFX950_HW", "0")
    if value not in ("", "0", "1"):
        raise HardwareError(f"GFX950_HW='{value}': expected 0 or 1")
    return value == "1"


# A test of what the documents leave open, or of the core's own interface, in a file whose other tests run on hardware.
core_only = pytest.mark.skipif(os.environ.get("GFX950_HW") == "1", reason="GFX950_HW=1: looks into the emulator itself")


def _candidates() -> Iterator[str]:
    if named := os.environ.get("GFX950_HIP_LIBRARY"):
        yield named
        return
    folders = [Path(os.environ["ROCM_PATH"]) / "lib"] if os.environ.get("ROCM_PATH") else []
    folders.append(Path("/opt/rocm/lib"))
    spec = importlib.util.find_spec("torch")
    if spec is not None and spec.origin is not None:
        folders.append(Path(spec.origin).parent / "lib")
    for folder in folders:
        yield from (str(folder / name) for name in NAMES if (folder / name).exists())
    yield from NAMES


@cache
def _library() -> ctypes.CDLL:
    tried = []
    for path in _candidates():
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            tried.append(f"{path}: {error}")
            continue
        library.hipGetErrorString.restype = ctypes.c_char_p
        return library
    raise HardwareError(
        "no HIP runtime: install ROCm, or name libamdhip64.so by GFX950_HIP_LIBRARY. Tried:\n  " + "\n  ".join(tried)
    )


def _call(name: str, *arguments: object) -> None:
    status = getattr(_library(), name)(*arguments)
    if status != 0:
        text = (_library().hipGetErrorString(status) or b"").decode(errors="replace")
        raise HardwareError(f"{name} returned {status}: {text}")


def emulated() -> bool:
    """Whether the runtime is the emulator's own: what it passes is no evidence from hardware, and is labelled."""
    return hasattr(_library(), "gfx950_check_environment")


def preflight() -> str:
    """The device's architecture, or HardwareError."""
    _call("hipInit", 0)
    count = ctypes.c_int(0)
    _call("hipGetDeviceCount", ctypes.byref(count))
    if count.value == 0:
        raise HardwareError("HIP sees no device; look at rocminfo, /dev/kfd and HIP_VISIBLE_DEVICES")
    properties = ctypes.create_string_buffer(2 * PROPERTIES_SIZE)
    _call("hipGetDevicePropertiesR0600", properties, 0)
    arch = properties.raw[ARCH_OFFSET : ARCH_OFFSET + 256].split(b"\0")[0].decode(errors="replace")
    if arch.split(":")[0] != ARCH:
        raise HardwareError(f"device 0 is {arch or 'of an unknown architecture'}; the vectors are for {ARCH}")
    _call("hipSetDevice", 0)
    return f"{arch}, emulated: {_library()._name} is the emulator's" if emulated() else arch


class _Memory:
    """Device memory with the bytes of an array, copied back at the end."""

    def __init__(self, array: np.ndarray) -> None:
        self._array, self.address = array, ctypes.c_void_p()
        self._size = ctypes.c_size_t(max(array.nbytes, 1))
        _call("hipMalloc", ctypes.byref(self.address), self._size)
        _call(
            "hipMemcpy", self.address, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes), HOST_TO_DEVICE
        )

    def fetch(self) -> None:
        size = ctypes.c_size_t(self._array.nbytes)
        _call("hipMemcpy", ctypes.c_void_p(self._array.ctypes.data), self.address, size, DEVICE_TO_HOST)

    def free(self) -> None:
        _call("hipFree", self.address)


class HipCodeObject:
    """As core_library.CodeObject. Nothing is counted: launches return an empty dictionary."""

    launches = 0  # of all code objects: proof that the device ran

    def __init__(self, image: bytes) -> None:
        self._image, self._module = image, ctypes.c_void_p()
        _call("hipModuleLoadData", ctypes.byref(self._module), image)

    def __del__(self) -> None:
        if self._module:
            _library().hipModuleUnload(self._module)

    def launch(
        self,
        name: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[np.ndarray],
        lds: int = 0,
    ) -> dict[str, int]:
        function = ctypes.c_void_p()
        _call("hipModuleGetFunction", ctypes.byref(function), self._module, name.encode())
        memory = [_Memory(array) for array in arguments]
        try:
            packed = (ctypes.c_uint64 * max(len(memory), 1))(*(piece.address.value for piece in memory))
            size = ctypes.c_size_t(8 * len(memory))
            extra = (ctypes.c_void_p * 5)(
                BUFFER_POINTER, ctypes.addressof(packed), BUFFER_SIZE, ctypes.addressof(size), END
            )
            _call("hipModuleLaunchKernel", function, *grid, *block, lds, None, None, extra)
            _call("hipDeviceSynchronize")
            HipCodeObject.launches += 1
            for piece in memory:
                piece.fetch()
        finally:
            for piece in memory:
                piece.free()
        return {}
