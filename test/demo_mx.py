"""MXFP8 and MXFP4 linear layers, and a transformer block with MXFP4 weights, compiled on gfx950 and compared with bf16.

Run it with ``python -m gfx950_emulator test/demo_mx.py`` where there is no gfx950, with ``python test/demo_mx.py``
where there is one. A linear layer's weight is quantised once, its input at every call, both by
``torch.nn.microscaling``; the product is ``F.scaled_mm``. Printed are the relative errors against the same in bf16 and
what ran.

Exit status 1 if an error is beyond what the formats explain, or a product was not FlyDSL's.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import torch
import torch._inductor.config as inductor
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.nn import functional as F
from torch.nn.functional import ScalingType, SwizzleType
from torch.nn.microscaling import to_mxfp4, to_mxfp8

Quantise = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]

BLOCK, PLAIN = ScalingType.BlockWise1x32, SwizzleType.NO_SWIZZLE
# Root mean square errors over that of the values. An element of e4m3 is off by 2^-5 of itself at most, of e2m1 by 1/4.
LIMITS = {"mxfp8 x mxfp8": 0.08, "mxfp8 x mxfp4": 0.2, "mxfp4 x mxfp4": 0.3, "block, mxfp8 x mxfp4": 0.2}


class MXLinear(nn.Module):
    """``nn.Linear`` with its weight in an MX format; inputs are quantised at every call."""

    def __init__(self, linear: nn.Linear, quantise_input: Quantise, quantise_weight: Quantise) -> None:
        super().__init__()
        weight, scale = quantise_weight(linear.weight.detach())
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale)
        self.bias = linear.bias
        self.quantise_input = quantise_input

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, x.shape[-1])
        data, scale = self.quantise_input(rows)
        scales = (scale, BLOCK, self.scale, BLOCK, PLAIN, PLAIN)
        y = F.scaled_mm(data, self.weight.t(), *scales, bias=self.bias, output_dtype=x.dtype)  # type: ignore[operator]
        return y.view(*x.shape[:-1], -1)


class Block(nn.Module):
    """A transformer block in front of a head that gives logits."""

    def __init__(self, width: int, heads: int, words: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp, self.last = (nn.RMSNorm(width) for _ in range(3))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.before_attention(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        x = x + self.down(F.gelu(self.up(self.before_mlp(x))))
        return self.head(self.last(x))  # type: ignore[no-any-return]


def quantised(block: Block) -> Block:
    """The same block with its linear layers' weights in MXFP4 and their inputs in MXFP8."""
    copy = Block(block.qkv.in_features, block.heads, block.head.out_features).to(block.qkv.weight)
    copy.load_state_dict(block.state_dict())
    for name, module in block.named_children():
        if isinstance(module, nn.Linear):
            setattr(copy, name, MXLinear(module, to_mxfp8, to_mxfp4))
    return copy


def error(result: torch.Tensor, wanted: torch.Tensor) -> float:
    """Root mean square of the difference over that of the wanted values."""
    result, wanted = result.detach().double().cpu(), wanted.detach().double().cpu()
    return float((result - wanted).square().mean().sqrt() / wanted.square().mean().sqrt())


def flydsl_launches() -> int:
    from torch._inductor.kernel.flydsl import scaled_gemm

    return scaled_gemm.launch_count()


def compare(
    name: str, model: nn.Module, wanted: torch.Tensor, x: torch.Tensor, products: int
) -> tuple[list[str], bool]:
    """A row of the table, and whether error and launches are as they should be."""
    compiled = torch.compile(model, fullgraph=True)
    compiled(x)
    before = flydsl_launches()
    result = compiled(x)
    launches = flydsl_launches() - before
    off = error(result, wanted)
    good = off <= LIMITS[name] and launches == products
    return [name, f"{off:.4f}", f"{LIMITS[name]:g}", f"{launches} of {products}", "ok" if good else "FAILED"], good


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--width", type=int, default=256)
    arguments = parser.parse_args(argv)
    inductor.max_autotune = True
    inductor.max_autotune_gemm_backends = "ATEN,FLYDSL"
    torch.manual_seed(0)
    width, device, dtype = arguments.width, torch.device("cuda"), torch.bfloat16

    rows, all_good = [], True
    with torch.no_grad():
        linear = nn.Linear(width, 2 * width, device=device, dtype=dtype)
        x = torch.randn(arguments.rows, width, device=device, dtype=dtype)
        wanted = linear(x)
        formats: tuple[tuple[str, Quantise, Quantise], ...] = (
            ("mxfp8 x mxfp8", to_mxfp8, to_mxfp8),
            ("mxfp8 x mxfp4", to_mxfp8, to_mxfp4),
            ("mxfp4 x mxfp4", to_mxfp4, to_mxfp4),
        )
        for name, of_input, of_weight in formats:
            row, good = compare(name, MXLinear(linear, of_input, of_weight), wanted, x, 1)
            rows.append(row)
            all_good &= good
        block = Block(width, 4, 2 * width).to(device, dtype)
        tokens = torch.randn(2, arguments.rows // 2, width, device=device, dtype=dtype)
        wanted = block(tokens)
        row, good = compare("block, mxfp8 x mxfp4", quantised(block), wanted, tokens, 5)
        rows.append(row)
        all_good &= good

    table = Table(title="compiled MX layers against bf16", title_justify="left")
    for column in ("input x weight", "relative error", "limit", "FlyDSL products a call", ""):
        table.add_column(column)
    for row in rows:
        table.add_row(*row)
    Console().print(table)
    return 0 if all_good else 1


if __name__ == "__main__":
    sys.exit(main())
