"""torch.backends.cuda's questions about fused attention, by ROCm's rules: a CPU build answers them by the CPU's."""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import Any


def install(module: ModuleType | None) -> None:
    import torch

    torch_c: Any = torch._C

    def ask(operator: str, params: Any, debug: bool) -> bool:
        return bool(
            getattr(torch.ops.gfx950_emulator, operator)(
                params.query,
                params.key,
                params.value,
                params.attn_mask,
                params.dropout,
                params.is_causal,
                params.enable_gqa,
                debug,
            )
        )

    def can_use_flash_attention(params: Any, debug: bool = False) -> bool:
        return ask("can_use_flash_attention", params, debug)

    def can_use_mem_efficient_attention(params: Any, debug: bool = False) -> bool:
        return ask("can_use_efficient_attention", params, debug)

    def can_use_cudnn_attention(params: Any, debug: bool = False) -> bool:
        if debug:
            warnings.warn("Torch was not compiled with cuDNN attention.", stacklevel=3)
        return False

    torch_c._is_flash_attention_available = lambda: True
    torch_c._can_use_flash_attention = can_use_flash_attention
    torch_c._can_use_mem_efficient_attention = can_use_mem_efficient_attention
    torch_c._can_use_cudnn_attention = can_use_cudnn_attention
