"""torch.cuda.memory of the emulated device: pools, snapshots, history, allocation by address, pinned memory."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

from gfx950_emulator import hip
from gfx950_emulator.graphs import new_pool


class MemPool:
    """torch._C._MemPool, of the current device."""

    def __init__(
        self, allocator: Any = None, is_user_created: bool = True, use_on_oom: bool = False, no_split: bool = False
    ) -> None:
        if allocator is not None:
            raise NotImplementedError("the emulated gfx950 takes no allocator from outside (torch.cuda.MemPool)")
        if use_on_oom:
            raise NotImplementedError("the emulated gfx950 has no pools that help others out (use_on_oom)")
        self._device: int = hip.device().gfx950_torch_current_device()
        self._id = new_pool(is_user_created)
        hip.checked(hip.device().gfx950_torch_hold_pool(self._device, *self._id))

    def __del__(self) -> None:
        if hasattr(self, "_id") and hip is not None:  # None: the interpreter ends
            hip.device().gfx950_torch_release_pool(self._device, *self._id)

    @property
    def id(self) -> tuple[int, int]:
        return self._id

    @property
    def allocator(self) -> None:
        return None

    def use_count(self) -> int:
        return int(hip.device().gfx950_torch_pool_holders(self._device, *self._id))


def snapshot(selection: tuple[Any, ...] | None = None) -> dict[str, Any]:
    """torch._C._cuda_memorySnapshot: segments and history, without the Python frames that torch can add."""
    import torch

    first, second = (selection or (0, 0))[:2]
    size = 1 << 16
    while True:
        buffer = ctypes.create_string_buffer(size)
        needed = hip.device().gfx950_torch_memory_snapshot(first, second, buffer, size)
        if needed <= size:
            break
        size = needed + 4096
    parsed: dict[str, Any] = json.loads(buffer.value)
    for segment in parsed["segments"]:
        segment["segment_pool_id"] = tuple(segment["segment_pool_id"])
        segment["is_expandable"] = False
        segment["frames"] = []
        for block in segment["blocks"]:
            block["frames"] = []
    traces: list[list[dict[str, Any]]] = [[] for _ in range(torch.cuda.device_count())]
    for entry in parsed.pop("history"):
        traces[entry.pop("device")].append(entry | {"frames": []})
    return parsed | {"device_traces": traces, "allocator_settings": {}, "external_annotations": []}


def _record_history(enabled: str | None = "all", *arguments: Any, **keywords: Any) -> None:
    """torch._C._cuda_record_memory_history(enabled, context, stacks, max_entries, ...)."""
    limit = keywords.get("max_entries", arguments[2] if len(arguments) > 2 else (1 << 63) - 1)
    hip.device().gfx950_torch_record_history(int(enabled is not None), limit)


def _record_history_legacy(
    enabled: bool, record_context: bool = True, trace_alloc_max_entries: int = 1, *_: Any, **__: Any
) -> None:
    hip.device().gfx950_torch_record_history(int(enabled), trace_alloc_max_entries)


def _raw_allocate(size: int, stream: int) -> int:
    address = ctypes.c_uint64()
    device = hip.device().gfx950_torch_current_device()
    hip.checked(hip.device().gfx950_torch_raw_allocate(size, device, ctypes.byref(address)))
    return address.value


def _raw_delete(address: int) -> None:
    hip.checked(hip.device().gfx950_torch_raw_free(address))


def _set_fraction(fraction: float, device: int) -> None:
    hip.checked(hip.device().gfx950_torch_set_memory_fraction(fraction, device))


def _pinned_statistics() -> dict[str, Any]:
    """torch._C._cuda_hostMemoryStats, nested by the dots of the names."""
    buffer = ctypes.create_string_buffer(1 << 12)
    hip.device().gfx950_torch_pinned_stats(buffer, len(buffer))
    nested: dict[str, Any] = {}
    for name, value in json.loads(buffer.value).items():
        *groups, field = name.split(".")
        target = nested
        for group in groups:
            target = target.setdefault(group, {})
        target[field] = value
    return nested


_out_of_memory_observers: list[Callable[[int, int, int, int], None]] = []


def _out_of_memory(device: int, size: int, total: int, free: int) -> None:
    for observer in _out_of_memory_observers:
        observer(device, size, total, free)


_OUT_OF_MEMORY = hip.OutOfMemoryObserver(_out_of_memory)  # C++ holds it for good


def _attach_out_of_memory_observer(observer: Callable[[int, int, int, int], None]) -> None:
    _out_of_memory_observers.append(observer)
    hip.device().gfx950_torch_observe_out_of_memory(_OUT_OF_MEMORY)


def install(torch_c: ModuleType) -> None:
    """Called by torch_c.install()."""
    device = hip.device()
    metadata = [""]
    functions: dict[str, Any] = {
        "_MemPool": MemPool,
        "_host_emptyCache": lambda: None,  # pinned memory goes back as soon as it is free
        "_cuda_hostMemoryStats": _pinned_statistics,
        "_cuda_resetPeakHostMemoryStats": lambda: device.gfx950_torch_pinned_reset(1),
        "_cuda_resetAccumulatedHostMemoryStats": lambda: device.gfx950_torch_pinned_reset(0),
        "_cuda_memorySnapshot": snapshot,
        "_cuda_record_memory_history": _record_history,
        "_cuda_record_memory_history_legacy": _record_history_legacy,
        "_cuda_isHistoryEnabled": lambda: bool(device.gfx950_torch_history_is_recorded()),
        "_cuda_setMemoryMetadata": lambda text: metadata.__setitem__(0, text),
        "_cuda_getMemoryMetadata": lambda: metadata[0],
        "_cuda_cudaCachingAllocator_raw_alloc": _raw_allocate,
        "_cuda_cudaCachingAllocator_raw_delete": _raw_delete,
        "_cuda_getMemoryFraction": lambda index: float(device.gfx950_torch_memory_fraction(index)),
        "_cuda_setMemoryFraction": _set_fraction,
        "_cuda_attach_out_of_memory_observer": _attach_out_of_memory_observer,
    }
    for name, function in functions.items():
        setattr(torch_c, name, function)
