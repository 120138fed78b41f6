"""The C functions of the emulated HIP runtime and of the torch device library, with their types."""

from __future__ import annotations

import ctypes
import functools
import json
from typing import Any

from gfx950_emulator import machine


@functools.cache
def runtime() -> ctypes.CDLL:
    library = machine.hip_library()
    library.gfx950_clock_now_ns.restype = ctypes.c_double
    library.gfx950_clock_now_ns.argtypes = []
    library.gfx950_clock_now_ps.restype = ctypes.c_uint64
    library.gfx950_clock_now_ps.argtypes = []
    library.gfx950_clock_advance_ns.restype = None
    library.gfx950_clock_advance_ns.argtypes = [ctypes.c_double]
    library.gfx950_launch_count.restype = ctypes.c_uint64
    library.gfx950_launch_count.argtypes = [ctypes.c_char_p]
    library.gfx950_launch_statistics.restype = ctypes.c_size_t
    library.gfx950_launch_statistics.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    library.gfx950_reset_launch_statistics.restype = None
    library.gfx950_last_error.restype = ctypes.c_char_p
    library.gfx950_memory_limit.restype = ctypes.c_uint64
    library.gfx950_device_count.restype = ctypes.c_int
    return library


@functools.cache
def device() -> ctypes.CDLL:
    library = machine.device_library()
    library.gfx950_torch_error.restype = ctypes.c_char_p
    library.gfx950_torch_current_stream.restype = ctypes.c_int64
    library.gfx950_torch_current_stream.argtypes = [ctypes.c_int]
    library.gfx950_torch_set_stream.argtypes = [ctypes.c_int, ctypes.c_int64]
    library.gfx950_torch_new_stream.restype = ctypes.c_int64
    library.gfx950_torch_memory_stats.restype = ctypes.c_size_t
    library.gfx950_torch_memory_stats.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t]
    return library


def checked(status: int) -> int:
    """The status of a gfx950_torch_* call; raises what it says when it is negative."""
    if status < 0:
        raise RuntimeError(device().gfx950_torch_error().decode())
    return status


def launch_statistics() -> dict[str, dict[str, Any]]:
    size = 1 << 16
    while True:
        buffer = ctypes.create_string_buffer(size)
        needed = runtime().gfx950_launch_statistics(buffer, size)
        if needed <= size:
            parsed: dict[str, dict[str, Any]] = json.loads(buffer.value)
            return parsed
        size = needed + 4096


def memory_statistics(device_index: int) -> dict[str, int]:
    size = 1 << 14
    buffer = ctypes.create_string_buffer(size)
    needed = device().gfx950_torch_memory_stats(device_index, buffer, size)
    if needed == 0:
        raise RuntimeError(device().gfx950_torch_error().decode())
    parsed: dict[str, int] = json.loads(buffer.value)
    return parsed
