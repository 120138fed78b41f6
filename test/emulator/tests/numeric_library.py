"""Loads the C entry points that these tests check: libgfx950_core_capi.so.

Libraries are looked for in the folder that GFX950_TEST_LIBRARIES names, then in the installed gfx950_emulator package.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from functools import cache
from pathlib import Path

import numpy as np

NAME = "libgfx950_core_capi.so"
FORMATS = ("f16", "bf16", "fp8", "bf8", "fp6", "bf6", "fp4")
NEAREST, TOWARD_ZERO, STOCHASTIC = 0, 1, 2
TO_INFINITY, SATURATE_FINITE, SATURATE = 0, 1, 2


def library_path(name: str) -> Path:
    if folder := os.environ.get("GFX950_TEST_LIBRARIES"):
        path = Path(folder) / name
    else:
        spec = importlib.util.find_spec("gfx950_emulator")
        if spec is None or spec.origin is None:
            raise FileNotFoundError(
                f"{name}: gfx950_emulator is not installed: pip install --no-build-isolation test/emulator, "
                "or set GFX950_TEST_LIBRARIES to a folder with its libraries."
            )
        path = Path(spec.origin).parent / "lib" / name
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there: rebuild the emulator.")
    return path


@cache
def numeric() -> ctypes.CDLL:
    library = ctypes.CDLL(str(library_path(NAME)))
    library.gfx950_mfma_execute.restype = ctypes.c_double
    return library


def pointer(array: np.ndarray | None) -> ctypes.c_void_p | None:
    if array is None:
        return None
    if not array.flags["C_CONTIGUOUS"]:
        raise ValueError("only contiguous arrays have a plain address")
    return array.ctypes.data_as(ctypes.c_void_p)


def to_f32(name: str, codes: np.ndarray) -> np.ndarray:
    source = np.ascontiguousarray(codes, dtype=np.uint32)
    result = np.empty(source.shape, np.float32)
    if not numeric().gfx950_to_f32(FORMATS.index(name), pointer(source), pointer(result), ctypes.c_uint64(source.size)):
        raise ValueError(name)
    return result


def from_f32(
    name: str,
    values: np.ndarray,
    rounding: int = NEAREST,
    overflow: int = TO_INFINITY,
    random: np.ndarray | None = None,
) -> np.ndarray:
    source = np.ascontiguousarray(values, dtype=np.float32)
    result = np.empty(source.shape, np.uint32)
    bits = None if random is None else np.ascontiguousarray(np.broadcast_to(random, source.shape), dtype=np.uint32)
    if not numeric().gfx950_from_f32(
        FORMATS.index(name),
        rounding,
        overflow,
        pointer(source),
        pointer(bits),
        pointer(result),
        ctypes.c_uint64(source.size),
    ):
        raise ValueError(name)
    return result
