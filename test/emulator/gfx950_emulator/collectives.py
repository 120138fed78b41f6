"""torch.distributed's collectives on device tensors: gloo carries them as host tensors.

A CPU build of torch has gloo for host tensors alone; with a device tensor it would use a function that is not there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

_OPERATORS = (
    "send",
    "recv_",
    "recv_any_source_",
    "broadcast_",
    "allreduce_",
    "allreduce_coalesced_",
    "allgather_",
    "_allgather_base_",
    "allgather_coalesced_",
    "allgather_into_tensor_coalesced_",
    "reduce_",
    "reduce_scatter_",
    "_reduce_scatter_base_",
    "reduce_scatter_tensor_coalesced_",
    "gather_",
    "scatter_",
    "alltoall_",
    "alltoall_base_",
    "barrier",
)


def _on_host(operator: Callable[..., Any]) -> Callable[..., Any]:
    import torch
    from torch.utils._pytree import tree_map_only

    def collective(*arguments: Any, **keywords: Any) -> Any:
        copies: list[tuple[Any, Any]] = []  # device tensor, host tensor

        def to_host(tensor: Any) -> Any:
            copies.append((tensor, tensor.detach().cpu()))
            return copies[-1][1]

        def to_device(tensor: Any) -> Any:
            return next((device for device, host in copies if host is tensor), tensor)

        arguments, keywords = tree_map_only(torch.Tensor, to_host, (arguments, keywords))
        result = operator(*arguments, **keywords)
        (result[-1] if isinstance(result, tuple) else result).wait()
        for device, host in copies:
            if device.numel():
                device.detach().copy_(host)
        # Complete, as every operation of the device is; gloo's own handle would wait for a second message.
        work = torch.ops.gfx950_emulator.finished_work([device for device, _ in copies])
        return (*tree_map_only(torch.Tensor, to_device, result[:-1]), work) if isinstance(result, tuple) else work

    return collective


@functools.cache
def _register() -> Any:
    import torch

    library: Any = torch.library.Library("c10d", "IMPL")  # type: ignore[no-untyped-call]
    for name in _OPERATORS:
        library.impl(name, _on_host(getattr(torch.ops.c10d, name).default), "CUDA", allow_override=True)
    return library  # the cache keeps it for the life of the process


def install(module: ModuleType | None) -> None:
    """After torch.distributed.distributed_c10d, which `import torch` brings: a process without groups pays nothing."""
    assert module is not None
    distributed: Any = module
    original = distributed._new_process_group_helper

    @functools.wraps(original)
    def new_group(*arguments: Any, **keywords: Any) -> Any:
        _register()
        return original(*arguments, **keywords)

    distributed._new_process_group_helper = new_group
