"""The kernels that stand for published rows compute what they say: a wrong one would be timed just as gladly."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import gfx950_emulator  # isort: skip

import pytest
import torch
from torch.nn.functional import rms_norm, scaled_dot_product_attention

from bench.validation import triton_kernels

M, N, K = 64, 128, 512
TILE = {"num_warps": 4, "num_stages": 2, "matrix_instr_nonkdim": 16, "GROUP_M": 4}


def near(value: torch.Tensor, expected: torch.Tensor) -> None:
    """Sums are of few exact products, so that rounding to the result's type is the error that counts."""
    assert torch.isfinite(value).all()
    torch.testing.assert_close(value.cpu().float(), expected, rtol=2**-7, atol=2e-3 * float(expected.abs().max()))


def fp8(rows: int) -> torch.Tensor:
    return torch.randn(rows, K).to(torch.float8_e4m3fn)


def result() -> torch.Tensor:
    return torch.full((M, N), float("nan"), dtype=torch.bfloat16, device="cuda")


def test_fp8_gemm_with_blocks_of_scales() -> None:
    torch.manual_seed(1)
    for k in (K, K - 48):  # the last block is whole, or not
        a, b, c = fp8(M)[:, :k].contiguous(), fp8(N)[:, :k].contiguous(), result()
        a_scale, b_scale = torch.rand(M, 4) + 0.5, torch.rand(1, 4) + 0.5
        operands = (t.cuda() for t in (a, b, a_scale, b_scale))
        triton_kernels.fp8_block_gemm[(4,)](*operands, c, M, N, k, 4, 32, 64, EVEN_K=k % 128 == 0, **TILE)
        expected = (a.float() * a_scale.repeat_interleave(128, 1)[:, :k]) @ (
            b.float() * b_scale.repeat_interleave(128, 1)[:, :k]
        ).T
        near(c, expected)


def test_attention() -> None:
    torch.manual_seed(3)
    batch, s, heads, kv_heads, d = 2, 256, 4, 2, 128
    q = torch.randn(batch, s, heads, d).bfloat16()
    k, v = (torch.randn(batch, s, kv_heads, d).bfloat16() for _ in range(2))
    for causal in (False, True):
        o = torch.full_like(q, float("nan")).cuda()
        triton_kernels.attention[(s // 128, heads, batch)](
            q.cuda(), k.cuda(), v.cuda(), o, d**-0.5, s, heads, kv_heads, d, 128, 64,
            CAUSAL=causal, num_warps=4, num_stages=2, matrix_instr_nonkdim=16,
        )  # fmt: skip
        expected = scaled_dot_product_attention(
            *(t.float().transpose(1, 2) for t in (q, k, v)), is_causal=causal, enable_gqa=True
        )
        torch.testing.assert_close(o.cpu().float(), expected.transpose(1, 2), rtol=2e-2, atol=1e-2)


def test_rms_norm() -> None:
    torch.manual_seed(4)
    for n, block, one_pass in ((1000, 1024, True), (5000, 2048, False)):
        x, w = torch.randn(8, n).half(), torch.randn(n).half()
        y = torch.full_like(x, float("nan")).cuda()
        triton_kernels.rms_norm[(8,)](x.cuda(), w.cuda(), y, n, 1e-6, block, one_pass, num_warps=4)
        near(y, rms_norm(x.float(), (n,), w.float(), 1e-6))


def test_copy_and_add() -> None:
    torch.manual_seed(5)
    x, y = (torch.randn(5000).half() for _ in range(2))
    z = torch.full_like(x, float("nan")).cuda()
    triton_kernels.copy[(3,)](x.cuda(), z, 5000, 2048, num_warps=4)
    assert torch.equal(z.cpu(), x)
    triton_kernels.add[(3,)](x.cuda(), y.cuda(), z, 5000, 2048, num_warps=4)
    assert torch.equal(z.cpu(), x + y)


def times_of(launch: Callable[[], object], kernel: str) -> list[float]:
    """Modelled nanoseconds of a launch, and of one that only asks for them."""
    times = []
    for context in (contextlib.nullcontext(), gfx950_emulator.timing_only()):
        with context:
            launch()
            torch.cuda.synchronize()
        report = gfx950_emulator.report(kernel)
        assert report is not None
        assert report["resources"]["scratch_bytes_per_lane"] > 0
        times.append(report["nanoseconds"])
    return times


def test_addresses_that_were_spilled_are_known_to_a_timing_only_launch() -> None:
    """A tile that is too large for the registers: what comes back from private memory is used as an LDS address."""
    a, b = (torch.zeros(256, 1024, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
    a_scale, b_scale = (torch.zeros(rows, 8, device="cuda") for rows in (256, 2))
    c = torch.empty(256, 256, dtype=torch.bfloat16, device="cuda")

    def launch() -> None:
        options = {**TILE, "num_warps": 8, "EVEN_K": True}
        triton_kernels.fp8_block_gemm[(1,)](a, b, a_scale, b_scale, c, 256, 256, 1024, 8, 256, 256, **options)

    full, only = times_of(launch, "fp8_block_gemm")
    assert full == only


def test_what_fits_in_the_infinity_cache_is_there_already(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    n = 1 << 22
    x, y = (torch.empty(n, dtype=torch.float16, device="cuda") for _ in range(2))
    loaded = {}
    for warm in ("1", "0"):
        monkeypatch.setenv("GFX950_TIMING_PARAMS", f"warm={warm}")
        with gfx950_emulator.timing_only():
            triton_kernels.copy[(n // 2048,)](x, y, n, 2048, num_warps=4)
            torch.cuda.synchronize()
        report = gfx950_emulator.report("copy")
        assert report is not None
        loaded[warm] = report["memory"]["mall_hit"]
    assert loaded["1"] > 0.99
    assert loaded["0"] < 0.01
