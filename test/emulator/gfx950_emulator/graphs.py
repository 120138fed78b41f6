"""torch._C._CUDAGraph and what Inductor's graph trees ask of torch._C, on the device library's graphs and pools."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from gfx950_emulator import hip

_MODES = {"global": 0, "thread_local": 1, "relaxed": 2}


class _Owner:
    """Deletes a graph at its end. An object of its own: torch's class has a __del__ that does not call its base's."""

    handle: int | None = None

    def __del__(self) -> None:
        if self.handle is not None and hip is not None:  # None: the interpreter ends
            hip.device().gfx950_torch_graph_delete(self.handle)


class CUDAGraph:
    """torch._C._CUDAGraph."""

    _handle: int
    _owner: _Owner
    _capturing: CUDAGraph | None = None  # the graph that is being captured now

    def __new__(cls, keep_graph: bool = False, *_: Any, **__: Any) -> Any:
        graph = super().__new__(cls)
        graph._owner = _Owner()
        graph._owner.handle = graph._handle = hip.device().gfx950_torch_graph_new(int(keep_graph))
        return graph

    def capture_begin(self, pool: tuple[int, int] | None = None, capture_error_mode: str = "global") -> None:
        if capture_error_mode not in _MODES:
            raise RuntimeError(
                "Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got " + capture_error_mode
            )
        first, second = pool or (0, 0)
        device = hip.device()
        hip.checked(device.gfx950_torch_graph_begin(self._handle, first, second, _MODES[capture_error_mode]))
        CUDAGraph._capturing = self

    def capture_end(self) -> None:
        CUDAGraph._capturing = None
        nodes = ctypes.c_uint64()
        hip.checked(hip.device().gfx950_torch_graph_end(self._handle, ctypes.byref(nodes)))
        if nodes.value == 0:
            warnings.warn(
                "The CUDA Graph is empty. This usually means that the graph was attempted to be captured on wrong "
                "device or stream.",
                stacklevel=3,
            )

    def instantiate(self) -> None:
        hip.checked(hip.device().gfx950_torch_graph_instantiate(self._handle))

    def replay(self) -> None:
        hip.checked(hip.device().gfx950_torch_graph_replay(self._handle))

    def reset(self) -> None:
        hip.checked(hip.device().gfx950_torch_graph_reset(self._handle))

    def pool(self) -> tuple[int, int]:
        pool = (ctypes.c_uint64 * 2)()
        hip.checked(hip.device().gfx950_torch_graph_pool(self._handle, pool))
        return pool[0], pool[1]

    def register_generator_state(self, generator: Any) -> None:
        hip.checked(hip.device().gfx950_torch_graph_register_generator(self._handle, generator._cdata))

    def enable_debug_mode(self) -> None:
        hip.device().gfx950_torch_graph_enable_debug(self._handle)

    def debug_dump(self, debug_path: str) -> None:
        hip.checked(hip.device().gfx950_torch_graph_debug_dump(self._handle, str(debug_path).encode()))

    def _raw(self, executable: bool) -> int:
        handle = ctypes.c_uint64()
        hip.checked(hip.device().gfx950_torch_graph_raw(self._handle, int(executable), ctypes.byref(handle)))
        return handle.value

    def raw_cuda_graph(self) -> int:
        return self._raw(False)

    def raw_cuda_graph_exec(self) -> int:
        return self._raw(True)

    @staticmethod
    def get_currently_capturing_graph() -> CUDAGraph:
        if CUDAGraph._capturing is None:
            raise RuntimeError("no graph is being captured")
        return CUDAGraph._capturing

    def begin_capture_to_if_node(self, _: Any) -> None:
        raise NotImplementedError("the emulated gfx950 has no conditional graph nodes, and ROCm has none either")

    def end_capture_to_conditional_node(self) -> None:
        self.begin_capture_to_if_node(None)


class AllocatorState:
    """torch._C._cuda_CUDAAllocator_AllocatorState: which blocks of a pool are allocated."""

    def __init__(self, device: int, pool: tuple[int, int]) -> None:
        state = ctypes.c_void_p()
        hip.checked(hip.device().gfx950_torch_pool_state(device, *pool, ctypes.byref(state)))
        self.handle = state.value

    def __del__(self) -> None:
        if getattr(self, "handle", None) and hip is not None:  # None: the interpreter ends
            hip.device().gfx950_torch_delete_pool_state(self.handle)


def new_pool(of_user: bool) -> tuple[int, int]:
    pool = (ctypes.c_uint64 * 2)()
    hip.device().gfx950_torch_new_pool(int(of_user), pool)
    return pool[0], pool[1]


def _restore_state(device: int, state: AllocatorState, stale: Iterable[int], owners: Iterable[int]) -> None:
    gone, kept = hip.addresses(stale), hip.addresses(owners)
    hip.checked(hip.device().gfx950_torch_restore_pool_state(device, state.handle, gone, len(gone), kept, len(kept)))


def _holds_exactly(device: int, pool: tuple[int, int], live: Iterable[int]) -> bool:
    pointers = hip.addresses(live)
    return hip.checked(hip.device().gfx950_torch_pool_holds_exactly(device, *pool, pointers, len(pointers))) == 1


def _pointers_equal(tensors: list[Any], pointers: list[int | None], indices: list[int]) -> bool:
    return all(tensors[index].data_ptr() == pointers[index] for index in indices)


def _construct_tensor(metadata: dict[str, Any], storage: Any) -> Any:
    import torch

    tensor = torch.empty(0, dtype=metadata["dtype"], device=metadata["device"])
    return tensor.set_(storage, metadata["storage_offset"], metadata["size"], metadata["stride"])


def _poison_tensor(tensor: Any, message: str) -> None:
    hip.checked(hip.device().gfx950_torch_poison_tensor(tensor._cdata, message.encode()))


def _poison_storage(storage: int, message: str) -> None:
    hip.checked(hip.device().gfx950_torch_poison_storage(storage, message.encode()))


def install(torch_c: ModuleType) -> None:
    """Called by torch_c.install()."""
    device = hip.device()

    def begin(by: int) -> Any:
        def begin_pool(index: int, pool: tuple[int, int]) -> None:
            hip.checked(device.gfx950_torch_begin_pool(index, *pool, by))

        return begin_pool

    def end_pool(index: int, pool: tuple[int, int]) -> None:
        hip.checked(device.gfx950_torch_end_pool(index, *pool))

    def release_pool(index: int, pool: tuple[int, int]) -> None:
        hip.checked(device.gfx950_torch_release_pool(index, *pool))

    def free_and_disown(storage: int) -> None:
        hip.checked(device.gfx950_torch_free_and_disown(storage))

    functions: dict[str, Any] = {
        "_CUDAGraph": CUDAGraph,
        "_graph_pool_handle": lambda: new_pool(True),
        "_cuda_isCurrentStreamCapturing": lambda: bool(device.gfx950_torch_is_capturing()),
        "_cuda_beginAllocateToPool": begin(0),
        "_cuda_beginAllocateCurrentThreadToPool": begin(1),
        "_cuda_beginAllocateCurrentStreamToPool": begin(2),
        "_cuda_endAllocateToPool": end_pool,
        "_cuda_releasePool": release_pool,
        "_cuda_CUDAAllocator_AllocatorState": AllocatorState,
        "_cuda_getCheckpointState": AllocatorState,
        "_cuda_setCheckpointPoolState": _restore_state,
        "_cuda_checkPoolLiveAllocations": _holds_exactly,
        "_tensors_data_ptrs_at_indices_equal": _pointers_equal,
        "_construct_CUDA_Tensor_From_Storage_And_Metadata": _construct_tensor,
        "_set_storage_access_error_msg": _poison_tensor,
        "_set_storage_data_ptr_access_error_msg": _poison_storage,
        "_free_And_Remove_DeleterFn": free_and_disown,
        "_has_Standard_Deleter": lambda storage: bool(device.gfx950_torch_owns_block(storage)),
        "_cudnn_set_conv_benchmark_empty_cache": lambda _: None,
    }
    for name, function in functions.items():
        setattr(torch_c, name, function)
