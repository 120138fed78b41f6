"""torch._C after its import: the CUDA functions and classes that libtorch_python has only in a GPU build.

torch.cuda finds them by its own hasattr probes. What is not modelled stays absent, so that a use of it fails with the
name of the missing function.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from types import ModuleType
from typing import Any

from gfx950_emulator import comm, graphs, hip, memory, ranges
from gfx950_emulator.properties import DeviceProperties

_CUDA_DEVICE_TYPE = 1  # c10::DeviceType::CUDA
_CLOCK_GHZ = 2.4


def _stream_class(torch_c: ModuleType) -> type:
    base: Any = torch_c.Stream

    class _CudaStreamBase(base):  # type: ignore[misc]
        """A stream of the emulated device; its id is its hipStream_t."""

        def __new__(
            cls,
            device: Any = None,
            priority: int = 0,
            stream_ptr: int | None = None,
            stream_id: int | None = None,
            device_index: int | None = None,
            device_type: int | None = None,
        ) -> Any:
            if stream_id is None:
                device_index = hip.device().gfx950_torch_current_device()
                if stream_ptr is not None:
                    stream_id = stream_ptr
                else:
                    stream_id = hip.checked(hip.device().gfx950_torch_new_stream(device_index, priority))
            return base.__new__(cls, stream_id=stream_id, device_index=device_index, device_type=_CUDA_DEVICE_TYPE)

        @property
        def cuda_stream(self) -> int:
            return int(self.stream_id)

        @property
        def priority(self) -> int:
            priority = ctypes.c_int()
            hip.runtime().hipStreamGetPriority(ctypes.c_void_p(self.stream_id), ctypes.byref(priority))
            return priority.value

        @staticmethod
        def priority_range() -> tuple[int, int]:
            return (0, -1)

    return _CudaStreamBase


def _event_class(torch_c: ModuleType) -> type:
    base: Any = torch_c.Event

    class _CudaEventBase(base):  # type: ignore[misc]
        """An event on the virtual clock."""

        def __new__(
            cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False
        ) -> Any:
            if interprocess or external:
                raise NotImplementedError("the emulated gfx950 has no interprocess and no external events")
            event = base.__new__(cls, device=torch_c.device("cuda"), enable_timing=enable_timing, blocking=blocking)
            event._timed = enable_timing
            return event

        @property
        def cuda_event(self) -> int:
            return int(self.event_id)

        def elapsed_time(self, end_event: Any) -> float:
            # libtorch_python takes no subclass of torch.Event here. The words are those of a GPU build.
            if not (self._timed and end_event._timed):
                raise ValueError("Both events must be created with argument 'enable_timing=True'.")
            if not (self.event_id and end_event.event_id):
                raise ValueError("Both events must be recorded before calculating elapsed time.")
            milliseconds = ctypes.c_float()
            begin, end = ctypes.c_void_p(self.event_id), ctypes.c_void_p(end_event.event_id)
            if hip.runtime().hipEventElapsedTime(ctypes.byref(milliseconds), begin, end) != 0:
                raise RuntimeError(hip.runtime().gfx950_last_error().decode())
            return milliseconds.value

        def ipc_handle(self) -> bytes:
            raise NotImplementedError("the emulated gfx950 has no events that processes share (CUDA IPC)")

    return _CudaEventBase


class _Cudart(ModuleType):
    """torch._C._cudart."""

    class cudaError:
        success = 0

        def __init__(self, code: int) -> None:
            self.code = code

        def __eq__(self, other: object) -> bool:
            return self.code == (other.code if isinstance(other, _Cudart.cudaError) else other)

        def __hash__(self) -> int:
            return hash(self.code)

        def __int__(self) -> int:
            return self.code

    @staticmethod
    def cudaGetErrorString(error: Any) -> str:
        function = hip.runtime().hipGetErrorString
        function.restype = ctypes.c_char_p
        text: bytes = function(int(error))
        return text.decode()

    @staticmethod
    def cudaMemGetInfo(device: int) -> tuple[int, int]:
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        hip.checked(hip.device().gfx950_torch_memory_info(device, ctypes.byref(free), ctypes.byref(total)))
        return free.value, total.value

    @staticmethod
    def cudaHostRegister(pointer: int, size: int, flags: int) -> int:
        return int(hip.runtime().hipHostRegister(ctypes.c_void_p(pointer), ctypes.c_size_t(size), flags))

    @staticmethod
    def cudaHostUnregister(pointer: int) -> int:
        return int(hip.runtime().hipHostUnregister(ctypes.c_void_p(pointer)))

    @staticmethod
    def cudaProfilerStart() -> int:
        return 0

    @staticmethod
    def cudaProfilerStop() -> int:
        return 0


class _Process:
    """What of the device's state belongs to this process."""

    initialised = False
    in_bad_fork = False

    @classmethod
    def forked(cls) -> None:
        cls.in_bad_fork = cls.initialised
        if cls.in_bad_fork:
            hip.device().gfx950_torch_refuse_memory_after_fork()


def _default_generator(index: int) -> Any:
    """The device's own generator as a Python object; the constructor alone would make a new one."""
    import torch

    hip.device().gfx950_torch_offer_default_generator(index)
    return torch.Generator(device=f"cuda:{index}")


def _initialise() -> None:
    import torch

    if hip.runtime().gfx950_device_count() == 0:
        variables = ("GFX950_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
        given = ", ".join(f"{name}={os.environ[name]}" for name in variables if name in os.environ)
        raise RuntimeError(f"No HIP GPUs are available: {given}")
    _Process.initialised = True
    count = hip.runtime().gfx950_device_count()
    torch.cuda.default_generators = tuple(_default_generator(i) for i in range(count))


def _exchange_device(device: int) -> int:
    previous: int = hip.device().gfx950_torch_current_device()
    if device >= 0 and device != previous:
        hip.checked(hip.device().gfx950_torch_set_device(device))
    return previous if device >= 0 else -1


def _maybe_exchange_device(device: int) -> int:
    if device < 0:
        return -1
    return _exchange_device(device)


def _stream_tuple(stream_id: int, device: int) -> tuple[int, int, int]:
    return (stream_id, device, _CUDA_DEVICE_TYPE)


def install(module: ModuleType | None) -> None:
    assert module is not None
    torch_c: Any = module
    os.register_at_fork(after_in_child=_Process.forked)
    device, runtime = hip.device(), hip.runtime()
    current_stream = device.gfx950_torch_current_stream
    current_device = device.gfx950_torch_current_device

    def get_current_stream(index: int) -> tuple[int, int, int]:
        return _stream_tuple(current_stream(index), index if index >= 0 else current_device())

    def set_device(index: int) -> None:
        hip.checked(device.gfx950_torch_set_device(index))

    def set_stream(stream_id: int, device_index: int, device_type: int) -> None:
        hip.checked(device.gfx950_torch_set_stream(device_index, stream_id))
        if device_index != current_device():
            hip.checked(device.gfx950_torch_set_device(device_index))

    def empty_strided_cuda(size: Any, stride: Any, dtype: Any) -> Any:
        import torch

        return torch.empty_strided(size, stride, dtype=dtype, device="cuda")

    def reset_peak(index: int) -> None:
        hip.checked(device.gfx950_torch_reset_peak(index))

    def reset_accumulated(index: int) -> None:
        hip.checked(device.gfx950_torch_reset_accumulated(index))

    def advance_cycles(cycles: int) -> None:
        runtime.gfx950_clock_advance_ns(cycles / _CLOCK_GHZ)

    def set_sync_debug_mode(mode: int) -> None:
        warnings.warn(
            "Synchronization debug mode is a prototype feature and does not yet detect all synchronizing operations",
            stacklevel=3,
        )
        device.gfx950_torch_set_sync_debug_mode(mode)

    torch_c._has_cuda = True
    torch_c._CudaDeviceProperties = DeviceProperties
    torch_c._CudaStreamBase = _stream_class(torch_c)
    torch_c._CudaEventBase = _event_class(torch_c)
    comm.install(torch_c)
    graphs.install(torch_c)
    memory.install(torch_c)
    torch_c._nvtx = ranges.module()
    torch_c._cudart = _Cudart("torch._C._cudart")
    torch_c._dynamo.guards._empty_strided_cuda = empty_strided_cuda

    # Python functions throughout: Dynamo keeps them in sets, and a ctypes function has no hash.
    functions: dict[str, Any] = {
        "init": _initialise,
        "getDeviceCount": lambda: runtime.gfx950_device_count(),
        "getDevice": lambda: current_device(),
        "setDevice": set_device,
        "exchangeDevice": _exchange_device,
        "maybeExchangeDevice": _maybe_exchange_device,
        "canDeviceAccessPeer": lambda _, __: True,
        "hasPrimaryContext": lambda _: _Process.initialised,
        "isInBadFork": lambda: _Process.in_bad_fork,
        "synchronize": lambda: torch_c._accelerator_synchronizeDevice(current_device()),
        "sleep": advance_cycles,
        "ipc_collect": lambda: None,
        "getArchFlags": lambda: "gfx950",
        "getCompiledVersion": lambda: 70125424,
        "getCurrentStream": get_current_stream,
        "getCurrentRawStream": lambda index: current_stream(index),
        "getDefaultStream": lambda index: _stream_tuple(0, index),
        "getStreamFromExternal": lambda pointer, index: _stream_tuple(pointer, index),
        "setStream": set_stream,
        "memoryStats": hip.memory_statistics,
        "resetPeakMemoryStats": reset_peak,
        "resetAccumulatedMemoryStats": reset_accumulated,
        "emptyCache": lambda: None,
        "getAllocatorBackend": lambda: "native",
        "cudaCachingAllocator_is_enabled": lambda: True,
        "get_sync_debug_mode": lambda: device.gfx950_torch_sync_debug_mode(),
        "set_sync_debug_mode": set_sync_debug_mode,
        "clearCublasWorkspaces": lambda: None,
        "get_conv_benchmark_empty_cache": lambda: True,
        "get_cudnn_benchmark_limit": lambda: 10,
        "set_cudnn_benchmark_limit": lambda _: None,
    }
    for name, function in functions.items():
        setattr(torch_c, f"_cuda_{name}", function)
