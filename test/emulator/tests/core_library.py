"""Runs assembled kernels on the core, through its C interface. A failure carries the core's own text."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import hip_device
import numpy as np
from assemble import KernelText, assemble
from numeric_library import numeric

COUNTS = (
    "workgroups",
    "waves",
    "wave_instructions",
    "salu",
    "valu",
    "mfma",
    "lds",
    "vmem",
    "smem",
    "branch",
    "other",
    "bytes_loaded",
    "bytes_stored",
    "uninitialised_lds_reads",
)


class CoreError(Exception):
    """What the core said; begins with the class of the error, for example `memory_fault:`."""


def name_decoder() -> None:
    """The activated emulator package sets this; here the core is used without it."""
    if "GFX950_LIBLLVM" in os.environ:
        return
    spec = importlib.util.find_spec("rocm")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / "bindings" / "llvm" / "libLLVM.so"
        if path.exists():
            os.environ["GFX950_LIBLLVM"] = str(path)
            return
    raise FileNotFoundError("AMD's LLVM is needed to decode kernels: pip install rocm-bindings-compiler")


@cache
def _library() -> ctypes.CDLL:
    name_decoder()
    library = numeric()
    for name, result in {
        "gfx950_last_error": ctypes.c_char_p,
        "gfx950_load": ctypes.c_void_p,
        "gfx950_launch": ctypes.c_double,
        "gfx950_image_size": ctypes.c_size_t,
    }.items():
        getattr(library, name).restype = result
    return library


def _fail() -> CoreError:
    text = _library().gfx950_last_error() or b"no text"
    return CoreError(text.decode(errors="replace"))  # names in it may come from a damaged file


@contextmanager
def device_memory(arrays: Sequence[np.ndarray]) -> Iterator[list[int]]:
    """Addresses of the arrays, which kernels may touch inside the block."""
    library, addresses = _library(), []
    for array in arrays:
        if not array.flags["C_CONTIGUOUS"]:
            raise ValueError("device memory is contiguous")
        addresses.append(array.ctypes.data)
    try:
        for address, array in zip(addresses, arrays, strict=True):
            library.gfx950_add_memory(ctypes.c_void_p(address), ctypes.c_size_t(array.nbytes))
        yield addresses
    finally:
        for address in addresses:
            library.gfx950_remove_memory(ctypes.c_void_p(address))


class CodeObject:
    def __init__(self, image: bytes) -> None:
        self._image = image
        self._handle = ctypes.c_void_p(_library().gfx950_load(image, ctypes.c_size_t(len(image))))
        if not self._handle:
            raise _fail()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            _library().gfx950_unload(self._handle)

    def launch(
        self,
        name: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[np.ndarray],
        lds: int = 0,
    ) -> dict[str, int]:
        """Every argument is the address of an array. Returns the counts."""
        packed = b"".join(struct.pack("<Q", array.ctypes.data) for array in arguments)
        return self.launch_packed(name, grid, block, packed, arguments, lds)

    def launch_packed(
        self,
        name: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        kernarg: bytes,
        memory: Sequence[np.ndarray],
        lds: int = 0,
    ) -> dict[str, int]:
        """`kernarg`: the explicit arguments as they lie in memory; `memory`: what the kernel may touch."""
        shape = (ctypes.c_uint32 * 7)(*grid, *block, lds)
        counts = (ctypes.c_uint64 * len(COUNTS))()
        with device_memory(memory):
            status = _library().gfx950_launch(
                self._handle, name.encode(), shape, kernarg, ctypes.c_size_t(len(kernarg)), counts
            )
        if status < 0:
            raise _fail()
        return {**dict(zip(COUNTS, counts, strict=True)), "nanoseconds": round(status)}  # modelled


class Program:
    """Kernels from text, one code object; on a real gfx950 if GFX950_HW=1 asks for it."""

    def __init__(self, kernels: list[KernelText]) -> None:
        image = assemble(kernels)
        self._object = hip_device.HipCodeObject(image) if hip_device.wanted() else CodeObject(image)
        self._blocks = {kernel.name: kernel.block for kernel in kernels}

    def launch(self, name: str, groups: int, buffers: list[np.ndarray], block: int | None = None) -> dict[str, int]:
        return self._object.launch(name, (groups, 1, 1), (block or self._blocks[name], 1, 1), buffers)
