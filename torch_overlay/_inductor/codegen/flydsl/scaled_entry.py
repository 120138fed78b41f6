"""A compiled scaled GEMM as generated code calls every kernel of the family: operands, output, then all else."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import torch
from torch._native.flydsl.launch import ReadyLaunches

if TYPE_CHECKING:
    from torch._inductor.kernel.flydsl.scaled_gemm import CompiledScaledGemm


class ScaledEntry:
    def __init__(self, compiled: CompiledScaledGemm) -> None:
        self.compiled = compiled

    def __call__(
        self,
        a: torch.Tensor,
        b_nk: torch.Tensor,
        out: torch.Tensor,
        stream: int,
        scale_a: torch.Tensor,
        scale_b: torch.Tensor,
        *epilogue_inputs: torch.Tensor,
    ) -> None:
        self.compiled(a, b_nk, scale_a, scale_b, out, stream, *epilogue_inputs)

    def launch(
        self,
        ready: ReadyLaunches,
        key: Hashable,
        a: torch.Tensor,
        b_nk: torch.Tensor,
        out: torch.Tensor,
        stream: int,
        others: tuple[torch.Tensor, ...],
    ) -> None:
        """What a generated wrapper calls, see ``FlyDSLKernelWrapper``; ``others`` are the scales and the epilogue's
        inputs."""
        self.compiled.launch(ready, key, a, b_nk, others[0], others[1], out, stream, others[2:])
