"""torch.cuda.get_device_properties() of the emulated device, read from the HIP runtime so that there is one home."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass

from gfx950_emulator import hip


@dataclass(frozen=True)
class DeviceProperties:
    """Fields of torch's _CudaDeviceProperties in a ROCm build."""

    name: str
    major: int
    minor: int
    gcnArchName: str
    total_memory: int
    multi_processor_count: int
    max_threads_per_multi_processor: int
    max_threads_per_block: int
    regs_per_multiprocessor: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    warp_size: int
    L2_cache_size: int
    clock_rate: int
    memory_clock_rate: int
    memory_bus_width: int
    uuid: str
    is_integrated: int = 0
    is_multi_gpu_board: int = 0
    pci_bus_id: int = 0
    pci_device_id: int = 0
    pci_domain_id: int = 0


# Offsets in hipDeviceProp_tR0600 (hip/hip_abi.h asserts the first and last of them).
_STRUCT_SIZE = 1472
_NAME, _UUID, _ARCH = 0, 256, 1160
_SIZE_T = {"total_memory": 288, "shared_memory_per_block": 296}
_INT = {
    "regs_per_block": 304,
    "warp_size": 308,
    "max_threads_per_block": 320,
    "clock_rate": 348,
    "major": 360,
    "minor": 364,
    "multi_processor_count": 388,
    "pci_bus_id": 584,
    "memory_clock_rate": 608,
    "memory_bus_width": 612,
    "L2_cache_size": 616,
    "max_threads_per_multi_processor": 624,
}


@functools.cache
def device_properties(device: int = 0) -> DeviceProperties:
    buffer = ctypes.create_string_buffer(_STRUCT_SIZE)
    if hip.runtime().hipGetDevicePropertiesR0600(buffer, ctypes.c_int(device)) != 0:
        raise RuntimeError(hip.runtime().gfx950_last_error().decode())

    def text(offset: int) -> str:
        return ctypes.string_at(ctypes.addressof(buffer) + offset).decode()

    numbers = {name: ctypes.c_size_t.from_buffer(buffer, offset).value for name, offset in _SIZE_T.items()}
    numbers |= {name: ctypes.c_int.from_buffer(buffer, offset).value for name, offset in _INT.items()}
    registers = numbers.pop("regs_per_block")
    return DeviceProperties(
        name=text(_NAME),
        gcnArchName=text(_ARCH),
        uuid=text(_UUID),
        regs_per_multiprocessor=registers,
        shared_memory_per_block_optin=numbers["shared_memory_per_block"],
        shared_memory_per_multiprocessor=numbers["shared_memory_per_block"],
        **numbers,
    )
