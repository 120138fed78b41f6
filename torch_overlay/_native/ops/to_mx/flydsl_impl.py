"""The operator ``torch.ops.flydsl.to_mx``: the FlyDSL kernel on gfx950, the reference everywhere else."""

from __future__ import annotations

import torch
from torch._native.flydsl import target

from . import reference
from .formats import BLOCK, FORMAT_OF, INPUT_NAMES

_BLOCKS_LIMIT = 2**31  # the kernel counts blocks in 32 bits


def _empty(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    columns = x.shape[-1] // (2 if FORMAT_OF[dtype].packed else 1)
    data = torch.empty((*x.shape[:-1], columns), dtype=dtype, device=x.device)
    scale = torch.empty((*x.shape[:-1], x.shape[-1] // BLOCK), dtype=torch.float8_e8m0fnu, device=x.device)
    return data, scale


def kernel_unsupported_reason(x: torch.Tensor) -> str | None:
    """Why the reference quantises this tensor and not the kernel; None if the kernel does."""
    if not x.is_cuda:
        return f"the device is {x.device.type}, not a GPU"
    reason = target.unavailable_reason() or target.arch_unsupported_reason(target.device_arch(x.get_device()))
    if reason is not None:
        return reason
    if x.dtype not in INPUT_NAMES:
        return f"dtype {x.dtype} is not one of {', '.join(map(str, INPUT_NAMES))}"
    if not 0 < x.numel() // BLOCK < _BLOCKS_LIMIT:
        return f"{x.numel() // BLOCK} blocks are not at least one and below 2^31, which the kernel counts in 32 bits"
    return None


def _on_gpu(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    if kernel_unsupported_reason(x) is not None:
        return reference.to_mx(x, dtype)
    from .flydsl_kernels import CHUNK_BYTES, compile_quantiser

    x = x.contiguous()
    if x.data_ptr() % CHUNK_BYTES:
        x = x.clone()
    with torch.cuda.device(x.device):
        data, scale = _empty(x, dtype)
        quantise = compile_quantiser(FORMAT_OF[dtype].name, INPUT_NAMES[x.dtype], target.device_arch(x.get_device()))
        stream = torch.cuda.current_stream().cuda_stream
        quantise(x.data_ptr(), data.data_ptr(), scale.data_ptr(), scale.numel(), x.get_device(), stream)
    return data, scale


_library = torch.library.Library("flydsl", "FRAGMENT")
_library.define("to_mx(Tensor x, ScalarType dtype) -> (Tensor, Tensor)")
_library.impl("to_mx", reference.to_mx, "CompositeExplicitAutograd")
_library.impl("to_mx", _on_gpu, "CUDA")
_library.impl("to_mx", _empty, "Meta")

to_mx = torch.ops.flydsl.to_mx.default
