"""From tensors to the scaled GEMM problem that they pose: sizes, formats and strides. Needs no flydsl."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .epilogue_expr import IDENTITY, Epilogue
from .gemm_arguments import OUT_DTYPES, input_strides, leading_stride
from .scaled_gemm_config import Recipe, ScaledGemmProblem
from .scaled_gemm_tile import BLOCK, Format

FORMATS: dict[torch.dtype, Format] = {
    torch.float8_e4m3fn: "e4m3",
    torch.float8_e5m2: "e5m2",
    torch.float4_e2m1fn_x2: "e2m1",
}


def scaled_problem_of(
    a: torch.Tensor,
    b_nk: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    out: torch.Tensor,
    recipe: Recipe,
    epilogue: Epilogue = IDENTITY,
    inputs: Sequence[torch.Tensor] = (),
) -> ScaledGemmProblem:
    """The problem ``out = epilogue((a * scale_a) @ (b_nk * scale_b)^T)``. Raises ValueError where the tensors do
    not fit together.

    ``a`` is [M, K], ``b_nk`` [N, K], with two elements of 4 bits to a stored one ([M, K/2]). Scales are [M, K/32] and
    [N, K/32] of float8_e8m0fnu, [M, 1] and [N, 1] or [1, N] or one element each of float32.
    """
    tensors = (a, b_nk, out)
    if a.dtype not in FORMATS or b_nk.dtype not in FORMATS or out.dtype not in OUT_DTYPES:
        kinds = ", ".join(str(dtype) for dtype in FORMATS)
        raise ValueError(f"a is {a.dtype}, b_nk {b_nk.dtype}, out {out.dtype}: not two of {kinds} and their product")
    if any(tensor.dim() != 2 for tensor in tensors):
        raise ValueError(f"a, b_nk and out have {[tensor.dim() for tensor in tensors]} dimensions, not 2 each")
    named = (("a", a), ("b_nk", b_nk), ("scale_a", scale_a), ("scale_b", scale_b))
    for name, tensor in (*named, *((f"epilogue input {i}", x) for i, x in enumerate(inputs))):
        if tensor.device != out.device:
            raise ValueError(f"{name} is on {tensor.device}, out on {out.device}")
    ks = [x.shape[1] * (2 if x.dtype == torch.float4_e2m1fn_x2 else 1) for x in (a, b_nk)]
    m, n, k = a.shape[0], b_nk.shape[0], ks[0]
    if ks[0] != ks[1] or tuple(out.shape) != (m, n):
        raise ValueError(f"a of {m}x{ks[0]} elements x b_nk of {n}x{ks[1]} is not {tuple(out.shape)}")
    if len(inputs) != len(epilogue.inputs):
        raise ValueError(f"the epilogue takes {len(epilogue.inputs)} inputs, got {len(inputs)}")
    strides = [
        _scale_stride(name, scale, rows, k, recipe)
        for name, scale, rows in (("scale_a", scale_a, m), ("scale_b", scale_b, n))
    ]
    return ScaledGemmProblem(
        m=m,
        n=n,
        k=k,
        a_format=FORMATS[a.dtype],
        b_format=FORMATS[b_nk.dtype],
        out_dtype=OUT_DTYPES[out.dtype],
        recipe=recipe,
        lda=leading_stride("a", a, True),
        ldb=leading_stride("b_nk", b_nk, True),
        ldc=leading_stride("out", out, True),
        scale_a_stride=strides[0],
        scale_b_stride=strides[1],
        epilogue=epilogue,
        epilogue_strides=tuple(
            input_strides(f"epilogue input {i}", tensor, operand, 1, m, n)
            for i, (tensor, operand) in enumerate(zip(inputs, epilogue.inputs, strict=True))
        ),
    )


def _scale_stride(name: str, scale: torch.Tensor, rows: int, k: int, recipe: Recipe) -> int:
    """From row to row, which the kernel takes in whichever dimension the rows are."""
    shape, strides = tuple(scale.shape), scale.stride()
    if recipe == "block32":
        if scale.dtype != torch.float8_e8m0fnu or shape != (rows, k // BLOCK):
            raise ValueError(f"{name} is {scale.dtype} {shape}, not torch.float8_e8m0fnu {(rows, k // BLOCK)}")
        if shape[1] > 1 and strides[1] != 1:
            raise ValueError(f"{name} has strides {strides}: a row's scales are not contiguous")
        return strides[0] if rows > 1 else shape[1]
    if scale.dtype != torch.float32:
        raise ValueError(f"{name} is {scale.dtype}, not torch.float32")
    if recipe == "tensor":
        if scale.numel() != 1:
            raise ValueError(f"{name} has shape {shape}, not one element")
        return 0
    if shape not in ((rows,), (rows, 1), (1, rows)):
        raise ValueError(f"{name} has shape {shape}, not {rows} numbers: one for each row")
    along = 1 if shape == (1, rows) and rows > 1 else 0
    return strides[along] if rows > 1 else 0
