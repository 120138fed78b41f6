"""torch._C._broadcast, _scatter, _gather and their kin: what torch.nn.parallel copies between devices with."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def _broadcast(tensor: Any, devices: list[int]) -> list[Any]:
    return [tensor if tensor.is_cuda and tensor.get_device() == i else tensor.to(f"cuda:{i}") for i in devices]


def _broadcast_out(tensor: Any, outputs: list[Any]) -> list[Any]:
    return [out.copy_(tensor) for out in outputs]


def _broadcast_coalesced(tensors: list[Any], devices: list[int], _: int) -> list[list[Any]]:
    return [list(of_device) for of_device in zip(*(_broadcast(tensor, devices) for tensor in tensors), strict=True)]


def _scatter(tensor: Any, devices: list[int], sizes: list[int] | None, dim: int, _: Any) -> list[Any]:
    parts = tensor.split(sizes, dim) if sizes else tensor.chunk(len(devices), dim)
    return [part.to(f"cuda:{index}") for part, index in zip(parts, devices, strict=False)]


def _scatter_out(tensor: Any, outputs: list[Any], dim: int, _: Any) -> list[Any]:
    parts = tensor.split([out.size(dim) for out in outputs], dim)
    return [out.copy_(part) for out, part in zip(outputs, parts, strict=True)]


def _gather(tensors: list[Any], dim: int, destination: int | None) -> Any:
    import torch

    device = "cpu" if destination == -1 else f"cuda:{0 if destination is None else destination}"
    return torch.cat([tensor.to(device) for tensor in tensors], dim)


def _gather_out(tensors: list[Any], out: Any, dim: int) -> Any:
    return out.copy_(_gather(tensors, dim, out.get_device()))


def install(torch_c: ModuleType) -> None:
    """Called by torch_c.install()."""
    for function in (
        _broadcast,
        _broadcast_out,
        _broadcast_coalesced,
        _scatter,
        _scatter_out,
        _gather,
        _gather_out,
    ):
        setattr(torch_c, function.__name__, function)
