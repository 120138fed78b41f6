"""Triton kernels that stand for published rows whose own sources are not here: written from the algorithm alone.

Each is the plain form of its algorithm, as a user of Triton would write it: no tricks for one shape.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _tile_of(M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr):
    """Workgroups walk down GROUP_M tile rows before they go to the next tile column, for reuse in L2."""
    pid = tl.program_id(0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    band = pid // (GROUP_M * tiles_n)
    first = band * GROUP_M
    rows = min(tiles_m - first, GROUP_M)
    within = pid % (GROUP_M * tiles_n)
    return first + within % rows, within // rows


@triton.jit
def fp8_block_gemm(
    a_ptr,
    b_ptr,
    a_scale_ptr,
    b_scale_ptr,
    c_ptr,
    M,
    N,
    K,
    k_blocks,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    GROUP_M: tl.constexpr,
    EVEN_K: tl.constexpr,
):
    """FP8 with a float32 scale for each 1 x 128 block of A and each 128 x 128 block of B; C in bf16."""
    tile_m, tile_n = _tile_of(M, N, BLOCK_M, BLOCK_N, GROUP_M)
    rm = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = tl.arange(0, 128)
    a_ptrs = a_ptr + (rm % M)[:, None] * K + rk[None, :]
    b_ptrs = b_ptr + (rn % N)[None, :] * K + rk[:, None]
    a_scales = a_scale_ptr + (rm % M) * k_blocks
    b_scales = b_scale_ptr + ((rn % N) // 128) * k_blocks
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(k_blocks):
        if EVEN_K:
            a = tl.load(a_ptrs)
            b = tl.load(b_ptrs)
        else:
            left = K - k * 128
            a = tl.load(a_ptrs, mask=rk[None, :] < left, other=0.0)
            b = tl.load(b_ptrs, mask=rk[:, None] < left, other=0.0)
        acc += tl.dot(a, b) * tl.load(a_scales + k)[:, None] * tl.load(b_scales + k)[None, :]
        a_ptrs += 128
        b_ptrs += 128
    mask = (rm[:, None] < M) & (rn[None, :] < N)
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc.to(tl.bfloat16), mask=mask)


@triton.jit
def _attend(
    q, k_ptrs, v_ptrs, m_i, l_i, acc, rows, cols, begin, end, row_stride, BLOCK_N: tl.constexpr, MASKED: tl.constexpr
):
    """One pass of the online softmax over keys [begin, end); scores are in base 2."""
    for start in range(begin, end, BLOCK_N):
        k = tl.load(k_ptrs + start * row_stride)
        s = tl.dot(q, k)
        if MASKED:
            s = tl.where(rows[:, None] >= start + cols[None, :], s, -1.0e6)
        m_new = tl.maximum(m_i, tl.max(s, 1))
        p = tl.math.exp2(s - m_new[:, None])
        alpha = tl.math.exp2(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = tl.load(v_ptrs + start * row_stride)
        acc = tl.dot(p.to(v.dtype), v, acc)
        m_i = m_new
    return m_i, l_i, acc


@triton.jit
def attention(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    scale,
    S,
    H,
    HKV,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    """Forward attention; q and o are [B, S, H, D], k and v [B, S, HKV, D], S a multiple of both blocks."""
    block = tl.program_id(0)
    head = tl.program_id(1)
    batch = tl.program_id(2).to(tl.int64)
    kv_head = head // (H // HKV)
    rows = block * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.arange(0, BLOCK_N)
    d = tl.arange(0, D)
    q_base = batch * S * H * D + head * D
    kv_base = batch * S * HKV * D + kv_head * D
    q = tl.load(q_ptr + q_base + rows[:, None] * (H * D) + d[None, :])
    q = (q * (scale * 1.44269504)).to(q.dtype)
    k_ptrs = k_ptr + kv_base + cols[None, :] * (HKV * D) + d[:, None]
    v_ptrs = v_ptr + kv_base + cols[:, None] * (HKV * D) + d[None, :]
    m_i = tl.full((BLOCK_M,), -1.0e30, dtype=tl.float32)
    l_i = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    if CAUSAL:
        diagonal = block * BLOCK_M
        m_i, l_i, acc = _attend(q, k_ptrs, v_ptrs, m_i, l_i, acc, rows, cols, 0, diagonal, HKV * D, BLOCK_N, False)
        m_i, l_i, acc = _attend(
            q, k_ptrs, v_ptrs, m_i, l_i, acc, rows, cols, diagonal, diagonal + BLOCK_M, HKV * D, BLOCK_N, True
        )
    else:
        m_i, l_i, acc = _attend(q, k_ptrs, v_ptrs, m_i, l_i, acc, rows, cols, 0, S, HKV * D, BLOCK_N, False)
    o = acc / l_i[:, None]
    tl.store(o_ptr + q_base + rows[:, None] * (H * D) + d[None, :], o.to(o_ptr.dtype.element_ty))


@triton.jit
def rms_norm(x_ptr, w_ptr, y_ptr, N, eps, BLOCK: tl.constexpr, ONE_PASS: tl.constexpr):
    """y = x / sqrt(mean(x^2) + eps) * w, one row to a workgroup: in registers if it fits, else read twice."""
    row = tl.program_id(0).to(tl.int64) * N
    cols = tl.arange(0, BLOCK)
    if ONE_PASS:
        x = tl.load(x_ptr + row + cols, mask=cols < N, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
        r = tl.rsqrt(tl.sum(x * x, 0) / N + eps)
        tl.store(y_ptr + row + cols, (x * r * w).to(y_ptr.dtype.element_ty), mask=cols < N)
    else:
        square = tl.zeros((BLOCK,), dtype=tl.float32)
        for start in range(0, N, BLOCK):
            mask = start + cols < N
            x = tl.load(x_ptr + row + start + cols, mask=mask, other=0.0).to(tl.float32)
            square += x * x
        r = tl.rsqrt(tl.sum(square, 0) / N + eps)
        for start in range(0, N, BLOCK):
            mask = start + cols < N
            x = tl.load(x_ptr + row + start + cols, mask=mask, other=0.0).to(tl.float32)
            w = tl.load(w_ptr + start + cols, mask=mask, other=0.0).to(tl.float32)
            tl.store(y_ptr + row + start + cols, (x * r * w).to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(z_ptr + at, tl.load(x_ptr + at, mask=mask) + tl.load(y_ptr + at, mask=mask), mask=mask)
