"""The C functions of the emulated HIP runtime and of the torch device library, with their types."""

from __future__ import annotations

import ctypes
import functools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gfx950_emulator import machine

_POINTER, _INT, _U64 = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64
_U64_OUT = ctypes.POINTER(ctypes.c_uint64)
_POOL = [_INT, _U64, _U64]  # device and the two numbers of a pool's id
OutOfMemoryObserver = ctypes.CFUNCTYPE(None, _INT, _U64, _U64, _U64)

# Of the functions of device/graph_capi.cpp and device/storage_resize.cpp.
_ARGUMENTS: dict[str, list[Any]] = {
    "graph_new": [_INT],
    "graph_delete": [_POINTER],
    "graph_begin": [_POINTER, _U64, _U64, _INT],
    "graph_end": [_POINTER, _U64_OUT],
    "graph_instantiate": [_POINTER],
    "graph_replay": [_POINTER],
    "graph_reset": [_POINTER],
    "graph_pool": [_POINTER, _U64_OUT],
    "graph_register_generator": [_POINTER, _POINTER],
    "graph_enable_debug": [_POINTER],
    "graph_debug_dump": [_POINTER, ctypes.c_char_p],
    "graph_raw": [_POINTER, _INT, _U64_OUT],
    "new_pool": [_INT, _U64_OUT],
    "begin_pool": [*_POOL, _INT],
    "end_pool": _POOL,
    "hold_pool": _POOL,
    "release_pool": _POOL,
    "pool_holders": _POOL,
    "pool_state": [*_POOL, ctypes.POINTER(_POINTER)],
    "delete_pool_state": [_POINTER],
    "restore_pool_state": [_INT, _POINTER, _U64_OUT, ctypes.c_size_t, _U64_OUT, ctypes.c_size_t],
    "pool_holds_exactly": [*_POOL, _U64_OUT, ctypes.c_size_t],
    "raw_allocate": [_U64, _INT, _U64_OUT],
    "raw_free": [_U64],
    "owns_block": [_U64],
    "free_and_disown": [_U64],
    "poison_tensor": [_U64, ctypes.c_char_p],
    "poison_storage": [_U64, ctypes.c_char_p],
    "pinned_stats": [ctypes.c_char_p, ctypes.c_size_t],
    "pinned_reset": [_INT],
    "resize_storage": [_U64, _U64],
    "memory_snapshot": [_U64, _U64, ctypes.c_char_p, ctypes.c_size_t],
    "record_history": [_INT, _U64],
    "set_memory_fraction": [ctypes.c_double, _INT],
    "memory_fraction": [_INT],
    "observe_out_of_memory": [OutOfMemoryObserver],
}


def addresses(values: Any) -> Any:
    """A C array of addresses."""
    numbers = list(values)
    return (ctypes.c_uint64 * len(numbers))(*numbers)


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
    library.gfx950_timing_report.restype = ctypes.c_size_t
    library.gfx950_timing_report.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
    library.gfx950_timing_parameters.restype = ctypes.c_size_t
    library.gfx950_timing_parameters.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    library.gfx950_set_timing.restype = ctypes.c_int
    library.gfx950_set_timing.argtypes = [ctypes.c_int]
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
    library.gfx950_torch_graph_new.restype = ctypes.c_void_p
    library.gfx950_torch_memory_snapshot.restype = ctypes.c_size_t
    library.gfx950_torch_pinned_stats.restype = ctypes.c_size_t
    library.gfx950_torch_memory_fraction.restype = ctypes.c_double
    for name, arguments in _ARGUMENTS.items():
        getattr(library, f"gfx950_torch_{name}").argtypes = arguments
    return library


def checked(status: int) -> int:
    """The status of a gfx950_torch_* call; raises what it says, as torch's own type, when it is negative."""
    if status < 0:
        raise last_error()
    return status


def last_error() -> Exception:
    """The exception that this thread's last failed gfx950_torch_* call met in C++."""
    import torch

    text, kind = device().gfx950_torch_error().decode(), device().gfx950_torch_error_kind()
    types: list[Any] = [
        RuntimeError,
        torch.AcceleratorError,
        torch.OutOfMemoryError,
        IndexError,
        ValueError,
        NotImplementedError,
    ]
    error: Exception = types[kind](text)
    if kind == 1:
        error.error_code = device().gfx950_torch_error_code()  # type: ignore[attr-defined]
    return error


def _json(call: Callable[[ctypes.Array[ctypes.c_char], int], int]) -> Any:
    """What a function writes that returns how much room it needs."""
    size = 1 << 16
    while True:
        buffer = ctypes.create_string_buffer(size)
        needed = call(buffer, size)
        if needed == 0:
            raise RuntimeError(runtime().gfx950_last_error().decode())
        if needed <= size:
            return json.loads(buffer.value)
        size = needed + 4096


def launch_statistics() -> dict[str, dict[str, Any]]:
    parsed: dict[str, dict[str, Any]] = _json(runtime().gfx950_launch_statistics)
    return parsed


def timing_report(kernel: str) -> dict[str, Any] | None:
    parsed: dict[str, Any] | None = _json(
        lambda buffer, size: runtime().gfx950_timing_report(kernel.encode(), buffer, size)
    )
    return parsed


TIMING_ALSO, TIMING_PREFERRED, TIMING_ONLY = range(3)  # of gfx950_set_timing


@contextmanager
def timing(mode: int) -> Iterator[None]:
    """Within the block, launches skip as much as `mode` says, or more if they did before."""
    before = runtime().gfx950_set_timing(mode)
    if before > mode:
        runtime().gfx950_set_timing(before)
    try:
        yield
    finally:
        runtime().gfx950_set_timing(before)


def timing_parameters() -> dict[str, dict[str, Any]]:
    parsed: dict[str, dict[str, Any]] = _json(runtime().gfx950_timing_parameters)
    return parsed


def memory_statistics(device_index: int) -> dict[str, int]:
    size = 1 << 14
    buffer = ctypes.create_string_buffer(size)
    needed = device().gfx950_torch_memory_stats(device_index, buffer, size)
    if needed == 0:
        raise last_error()
    parsed: dict[str, int] = json.loads(buffer.value)
    return parsed
