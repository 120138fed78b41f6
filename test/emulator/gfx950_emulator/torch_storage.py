"""torch.UntypedStorage of the device: what libtorch_python knows only in a GPU build."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from gfx950_emulator import hip


def install(module: ModuleType | None) -> None:
    assert module is not None
    storage_class = module.UntypedStorage
    make_plain = storage_class.__new__

    def make(cls: type, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        import torch

        if device is None or torch.device(device).type != "cuda":
            return make_plain(cls, *args, device=device, **kwargs) if device else make_plain(cls, *args, **kwargs)
        content = args[0] if args else kwargs.pop("size", 0)
        if isinstance(content, int):
            tensor = torch.empty(content, dtype=torch.uint8, device=device)
        else:
            tensor = torch.tensor(list(content), dtype=torch.uint8, device=device)
        return tensor.untyped_storage()

    storage_class.__new__ = make
    resize_plain = storage_class.resize_

    def resize(self: Any, size: int) -> Any:
        if self.device.type != "cuda":
            return resize_plain(self, size)
        hip.checked(hip.device().gfx950_torch_resize_storage(self._cdata, size))
        return self

    storage_class.resize_ = resize

    def refuse(*_: Any, **__: Any) -> Any:
        raise NotImplementedError(
            "the emulated gfx950 has no device memory that processes share (CUDA IPC): send the tensor's .cpu()"
        )

    storage_class._share_cuda_ = storage_class._new_shared_cuda = refuse
