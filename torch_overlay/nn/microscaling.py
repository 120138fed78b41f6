"""OCP Microscaling (MX) formats: quantise for ``torch.nn.functional.scaled_mm``, and back.

An MX tensor is two: elements, and one power of two for every 32 of them along the last dimension. Both lie as
``F.scaled_mm`` takes them with ``ScalingType.BlockWise1x32`` and ``SwizzleType.NO_SWIZZLE``::

    x, x_scale = to_mxfp8(activations)  # [M, K] -> float8_e4m3fn [M, K], float8_e8m0fnu [M, K / 32]
    w, w_scale = to_mxfp4(weight)  # [N, K] -> float4_e2m1fn_x2 [N, K / 2], float8_e8m0fnu [N, K / 32]
    F.scaled_mm(x, w.t(), x_scale, ScalingType.BlockWise1x32, w_scale, ScalingType.BlockWise1x32)

These are functions without state, like those of ``torch.nn.functional``. They are a module of their own beside it, for
nothing in it changes. A gfx950 runs a FlyDSL kernel, every other device the same in PyTorch's operators, with equal
bits. They are not differentiable; under ``torch.compile`` they are operators of the graph.
"""

from __future__ import annotations

import torch
from torch._native.ops.to_mx.flydsl_impl import to_mx as _to_mx
from torch._native.ops.to_mx.formats import BLOCK as _BLOCK
from torch._native.ops.to_mx.formats import FORMAT_OF as _FORMAT_OF
from torch._native.ops.to_mx.formats import INPUT_NAMES as _INPUT_NAMES
from torch._native.ops.to_mx.reference import from_mx as _from_mx

__all__ = ["from_mx", "to_mxfp4", "to_mxfp8"]


def _quantise(name: str, x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    if x.dtype not in _INPUT_NAMES:
        raise TypeError(f"{name} takes {', '.join(map(str, _INPUT_NAMES))}, not {x.dtype}")
    if x.dim() == 0 or x.shape[-1] % _BLOCK:
        raise ValueError(f"{name} takes blocks of {_BLOCK} along the last dimension, which {tuple(x.shape)} has not")
    return _to_mx(x.detach(), dtype)


def to_mxfp8(x: torch.Tensor, dtype: torch.dtype = torch.float8_e4m3fn) -> tuple[torch.Tensor, torch.Tensor]:
    """``x`` as MXFP8: elements of ``dtype`` (``float8_e4m3fn`` or ``float8_e5m2``) and their ``float8_e8m0fnu`` scales.

    A block's scale is 2^(floor(log2(max |x|)) - emax), with emax 8 for e4m3fn and 15 for e5m2 (OCP MX v1.0, 6.3),
    computed from fp32, at least 2^-127. Elements are x / scale rounded to nearest even; beyond the largest they
    saturate. A block of zeros has the scale 2^-127. A block with a NaN or an infinity has the scale NaN, and is all
    NaN: what overflowed before stays visible.
    """
    if dtype not in (torch.float8_e4m3fn, torch.float8_e5m2):
        raise TypeError(f"to_mxfp8 makes float8_e4m3fn or float8_e5m2, not {dtype}")
    return _quantise("to_mxfp8", x, dtype)


def to_mxfp4(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """``x`` as MXFP4: ``float4_e2m1fn_x2`` elements, two a byte (the first in the low four bits), and their scales.

    As :func:`to_mxfp8`, with emax 2; the last dimension of the elements is half of ``x``'s.
    """
    return _quantise("to_mxfp4", x, torch.float4_e2m1fn_x2)


def from_mx(data: torch.Tensor, scale: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """The numbers that elements and scales stand for, rounded once to ``dtype``."""
    if data.dtype not in _FORMAT_OF or scale.dtype != torch.float8_e8m0fnu:
        raise TypeError(f"from_mx takes MX elements and float8_e8m0fnu scales, not {data.dtype} and {scale.dtype}")
    columns = data.shape[-1] * (2 if _FORMAT_OF[data.dtype].packed else 1) if data.dim() else 0
    if data.dim() == 0 or (*data.shape[:-1], columns // _BLOCK) != tuple(scale.shape) or columns % _BLOCK:
        raise ValueError(f"scales {tuple(scale.shape)} are not one for {_BLOCK} elements of {tuple(data.shape)}")
    return _from_mx(data, scale, dtype)
