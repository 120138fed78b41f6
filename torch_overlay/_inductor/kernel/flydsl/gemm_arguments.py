"""From tensors to the GEMM problem that they pose: sizes, layouts and strides. Needs no flydsl."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .epilogue_expr import IDENTITY, Epilogue, EpilogueInput, InputStrides
from .gemm_config import ALayout, BLayout, DType, GemmProblem, OutDType

_DTYPES: dict[torch.dtype, DType] = {torch.bfloat16: "bf16", torch.float16: "fp16"}
OUT_DTYPES: dict[torch.dtype, OutDType] = {**_DTYPES, torch.float32: "fp32"}


def problem_of(
    a: torch.Tensor,
    b_nk: torch.Tensor,
    out: torch.Tensor,
    a_layout: ALayout,
    b_layout: BLayout,
    epilogue: Epilogue = IDENTITY,
    inputs: Sequence[torch.Tensor] = (),
) -> GemmProblem:
    """The problem ``out = epilogue(a @ b_nk^T)``. Raises ValueError where the tensors do not fit together.

    Tensors are [M, K], [N, K] and [M, N] whatever their layout, or have a batch dimension before these.
    """
    if a.dtype not in _DTYPES or b_nk.dtype != a.dtype or out.dtype not in OUT_DTYPES:
        raise ValueError(f"a is {a.dtype}, b_nk {b_nk.dtype}, out {out.dtype}: not two bf16 or fp16 and their product")
    if not a.dim() == b_nk.dim() == out.dim() or out.dim() not in (2, 3):
        raise ValueError(f"{a.dim()}, {b_nk.dim()} and {out.dim()} dimensions are not all 2 or all 3")
    for name, tensor in (("a", a), ("b_nk", b_nk), *((f"epilogue input {i}", x) for i, x in enumerate(inputs))):
        if tensor.device != out.device:
            raise ValueError(f"{name} is on {tensor.device}, out on {out.device}")
    batch = out.shape[0] if out.dim() == 3 else 1
    m, k = a.shape[-2:]
    n = b_nk.shape[-2]
    outer = (batch,) if out.dim() == 3 else ()
    shapes = [tuple(tensor.shape) for tensor in (a, b_nk, out)]
    if shapes != [(*outer, m, k), (*outer, n, k), (*outer, m, n)]:
        raise ValueError(f"a {shapes[0]} x b_nk {shapes[1]}^T is not {shapes[2]}")
    if len(inputs) != len(epilogue.inputs):
        raise ValueError(f"the epilogue takes {len(epilogue.inputs)} inputs, got {len(inputs)}")
    stride_a, stride_b, stride_c = (tensor.stride(0) if batch > 1 else 0 for tensor in (a, b_nk, out))
    return GemmProblem(
        m=m,
        n=n,
        k=k,
        dtype=_DTYPES[a.dtype],
        lda=leading_stride("a", a, a_layout == "k"),
        ldb=leading_stride("b_nk", b_nk, b_layout == "k"),
        ldc=leading_stride("out", out, True),
        batch=batch,
        out_dtype=OUT_DTYPES[out.dtype],
        a_layout=a_layout,
        b_layout=b_layout,
        stride_a=stride_a,
        stride_b=stride_b,
        stride_c=stride_c,
        epilogue=epilogue,
        epilogue_strides=tuple(
            input_strides(f"epilogue input {i}", tensor, operand, batch, m, n)
            for i, (tensor, operand) in enumerate(zip(inputs, epilogue.inputs, strict=True))
        ),
    )


def leading_stride(name: str, tensor: torch.Tensor, rows: bool) -> int:
    """The stride from one contiguous run to the next; a single run's means nothing, may be anything, and becomes the
    run's length, which the kernel's bounds want it to cover."""
    contiguous, leading = (-1, -2) if rows else (-2, -1)
    if tensor.shape[contiguous] > 1 and tensor.stride(contiguous) != 1:
        kind = "rows" if rows else "columns"
        raise ValueError(f"{name} has shape {tuple(tensor.shape)} and strides {tensor.stride()}, not contiguous {kind}")
    return tensor.stride(leading) if tensor.shape[leading] > 1 else tensor.shape[contiguous]


def input_strides(name: str, tensor: torch.Tensor, operand: EpilogueInput, batch: int, m: int, n: int) -> InputStrides:
    """Row and batch strides of an epilogue's input, whose shape must broadcast to its kind's."""
    inner = {"full": (m, n), "row": (1, n), "column": (m, 1), "scalar": (1, 1)}[operand.kind]
    wanted = (batch, *inner)
    try:
        view = tensor.expand(wanted) if tensor.dim() < 3 else tensor
    except RuntimeError:
        view = tensor
    if view.dim() != 3 or tuple(view.shape[1:]) != inner or view.shape[0] not in (1, batch):
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}, not {operand.kind} of {wanted}")
    if OUT_DTYPES.get(tensor.dtype) != operand.dtype:
        raise ValueError(f"{name} is {tensor.dtype}, not {operand.dtype}")
    if operand.kind in ("full", "row") and n > 1 and view.stride(2) != 1:
        raise ValueError(f"{name} has strides {tensor.stride()}: its columns are not contiguous")
    row = view.stride(1) if operand.kind in ("full", "column") and m > 1 else 0
    if operand.kind == "full" and m == 1:
        row = n
    return InputStrides(row=row, batch=view.stride(0) if view.shape[0] > 1 else 0)
