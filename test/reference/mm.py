"""Matrix product C = A @ B^T of 16-bit operands: the float64 reference, the error bound, and makers of inputs.

The bound, per element, for a kernel that accumulates in fp32 and rounds once to the output type:

- Products of two bf16 (8 significand bits each) or two fp16 numbers (11 each) are exact in fp32 (24 bits).
- The K products are summed in fp32 in an order that we do not prescribe (MFMA, tiles, split K). With unit roundoff
  u = 2^-24 and rounding errors that are independent with mean zero, the error stays below
  ``LAMBDA * sqrt(K) * u * sum|a*b|`` except with probability ``2 K exp(-LAMBDA^2 / 2)`` (Higham and Mary 2019,
  Theorem 2.4): for LAMBDA = 8 and K = 10^5, 2.5e-9. The worst case, with K in place of LAMBDA * sqrt(K), would hide a
  missing product.
- The final rounding to nearest adds ``v * (|exact| + accumulated error)``, v = 2^-8 for bf16 and 2^-11 for fp16,
  and half the spacing of subnormals where the result is one.

Integer inputs need no bound: while every partial sum stays below 2^24 fp32 is exact, so the result must equal the
float64 product rounded once, bit for bit. That finds what a bound cannot: one product too many or too few.
"""

from __future__ import annotations

import torch

LAMBDA = 8.0
_FP32_UNIT = 2.0**-24
OUTPUT_UNIT = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: 2.0**-24}
HALF_SUBNORMAL = {torch.bfloat16: 2.0**-134, torch.float16: 2.0**-25, torch.float32: 2.0**-150}


def product(a: torch.Tensor, b_nk: torch.Tensor) -> torch.Tensor:
    """A @ B^T in float64 on the CPU; batches before M, N and K broadcast."""
    return a.detach().cpu().double() @ b_nk.detach().cpu().double().mT


def product_and_accumulation_error(a: torch.Tensor, b_nk: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The float64 product, and how far from it an fp32 accumulator may be."""
    k = a.shape[-1]
    magnitude = a.detach().cpu().double().abs() @ b_nk.detach().cpu().double().abs().mT
    # Never more than the worst case, which is the smaller of the two for short sums.
    return product(a, b_nk), min(LAMBDA * k**0.5, float(k)) * _FP32_UNIT * magnitude


def product_and_bound(
    a: torch.Tensor, b_nk: torch.Tensor, out_dtype: torch.dtype | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The float64 product, and how far from it each element of a correct result of ``out_dtype`` may be."""
    out_dtype = out_dtype or a.dtype
    exact, accumulated = product_and_accumulation_error(a, b_nk)
    bound = accumulated + OUTPUT_UNIT[out_dtype] * (exact.abs() + accumulated) + HALF_SUBNORMAL[out_dtype]
    return exact, bound


def excess(result: torch.Tensor, a: torch.Tensor, b_nk: torch.Tensor) -> float:
    """The largest error in units of its bound: at most 1 for a correct result, inf if an element is NaN."""
    exact, bound = product_and_bound(a, b_nk, result.dtype)
    ratio = (result.detach().cpu().double() - exact).abs() / bound
    return float(torch.nan_to_num(ratio, nan=float("inf")).max())


def rounded(a: torch.Tensor, b_nk: torch.Tensor, out_dtype: torch.dtype | None = None) -> torch.Tensor:
    """The float64 product rounded once to C's type: what integer inputs must give exactly.

    Through float32, which holds these integers exactly, so nothing is rounded twice.
    """
    exact = product(a, b_nk)
    if exact.abs().max() >= 2**24 or not torch.equal(exact, exact.round()):
        raise ValueError("rounded() is for integer products below 2^24")
    return exact.float().to(out_dtype or a.dtype)


def strided(values: torch.Tensor, stride: int, device: str = "cpu", poison: float = float("nan")) -> torch.Tensor:
    """The same values with rows ``stride`` elements apart; ``poison`` between and behind them, which nobody may use."""
    rows, cols = values.shape
    if stride < cols:
        raise ValueError(f"stride {stride} is below {cols} columns")
    backing = torch.full((rows, stride), poison, dtype=values.dtype)
    backing[:, :cols] = values
    return backing.to(device)[:, :cols]


def laid_out(values: torch.Tensor, rows: bool, pad: int, device: str) -> torch.Tensor:
    """The same matrix with its rows, or else its columns, contiguous, on ``device``. Runs are a multiple of 8 elements
    apart and ``pad`` more; NaN between and behind them, which nobody may use."""
    stored = values if rows else values.T
    apart = -stored.shape[1] % 8 + stored.shape[1] + pad
    on_device = strided(stored, apart, device)
    return on_device if rows else on_device.T


def integer_inputs(
    m: int, n: int, k: int, dtype: torch.dtype, seed: int = 0, largest: int = 3
) -> tuple[torch.Tensor, torch.Tensor]:
    """A [m, k] and B [n, k] of integers up to ``largest``: all products and their sums (below 2^24) are exact."""
    if k * largest * largest >= 2**24:
        raise ValueError(f"K={k} products of up to {largest * largest} may reach 2^24, where fp32 is no longer exact")
    generator = torch.Generator().manual_seed(seed)
    a = torch.randint(-largest, largest + 1, (m, k), generator=generator).to(dtype)
    b_nk = torch.randint(-largest, largest + 1, (n, k), generator=generator).to(dtype)
    return a, b_nk


def normal_inputs(m: int, n: int, k: int, dtype: torch.dtype, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """A [m, k] and B [n, k] of standard normal numbers rounded to ``dtype``."""
    generator = torch.Generator().manual_seed(seed)
    a = torch.randn((m, k), generator=generator).to(dtype)
    b_nk = torch.randn((n, k), generator=generator).to(dtype)
    return a, b_nk
