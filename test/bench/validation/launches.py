"""The kernels that stand for a published row, compiled for gfx950 and ready to launch.

A row's modelled time is that of its fastest candidate, as its source took the fastest of an autotuner's. Which
candidates there are:

own GEMM     the repository's FlyDSL GEMM with every configuration of its default list that fits the shape
FP8, MX      the repository's FlyDSL scaled GEMM likewise: fp32 scales of rows for FP8, block scales in E8M0 for MX
Triton GEMM  Inductor's Triton template for `a @ b.T`, compiled by Inductor, with the `TRITON_CANDIDATES` configurations
             of its exhaustive list that `_likely` prefers, one of equal tiles, stages and waves (the source
             searched all)
Triton FP8   a Triton kernel of triton_kernels.py with block scales, a few tile sizes, against Triton figures of an
             MI350 whose configurations are not stated
attention    the same, against published Triton figures (another Triton kernel)
norm         the same, against published FlyDSL figures
stream       a copy and an addition
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch._inductor.kernel.flydsl import gemm, gemm_config, scaled_gemm, scaled_gemm_arguments, scaled_gemm_config

from bench.validation import triton_kernels
from bench.validation.rows import Row

TRITON_CANDIDATES = 20
COMPUTE_UNITS = 256
LDS_BYTES = 160 << 10
ARCH = "gfx950"
_TORCH = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
# Block of M and N, and waves.
_BLOCK_TILES = ((32, 64, 4), (64, 64, 4), (64, 128, 4), (128, 128, 4), (128, 128, 8), (256, 128, 8))
# Queries, keys, waves, stages, rows of an MFMA.
_ATTENTION_TILES = (
    (128, 64, 4, 1, 16),
    (128, 64, 4, 2, 16),
    (128, 64, 4, 2, 32),
    (128, 32, 4, 2, 16),
    (256, 64, 8, 2, 16),
    (256, 64, 8, 2, 32),
)


@dataclass(frozen=True)
class Candidate:
    name: str
    launch: Callable[[], Any]


def _empty(*sizes: int, dtype: torch.dtype) -> torch.Tensor:
    """Device memory that nobody writes: a timing-only launch neither reads nor writes it."""
    return torch.empty(sizes, dtype=dtype, device="cuda")


def _own_gemm(row: Row) -> Iterator[Candidate]:
    m, n, k = (row.sizes[name] for name in "MNK")
    a, b, c = (_empty(*size, dtype=torch.bfloat16) for size in ((m, k), (n, k), (m, n)))
    problem = gemm_config.GemmProblem(m=m, n=n, k=k, dtype="bf16", lda=k, ldb=k, ldc=n)
    stream = torch.cuda.current_stream().cuda_stream
    for config in gemm_config.configs(problem):
        compiled = gemm.compile_gemm(gemm_config.spec_for(problem, config, ARCH))
        yield Candidate(config.name, functools.partial(compiled, a, b, c, stream))


def _likely(m: int, n: int, k: int, block_m: int, block_n: int, block_k: int, stages: int) -> float:
    """Clocks of the busiest compute unit by MFMA and L2 throughput, and a memory latency for the K tiles that load at
    once in the workgroups that LDS holds together: enough to leave out what cannot be best."""
    tiles = math.ceil(m / block_m) * math.ceil(n / block_n)
    on_unit = math.ceil(tiles / COMPUTE_UNITS)
    ahead = max(1, stages - 1)
    resident = min(8, LDS_BYTES // ((block_m + block_n) * block_k * 2 * ahead))
    if resident == 0:
        return math.inf
    mfma = on_unit * block_m * block_n * k / 2048
    loads = on_unit * (block_m + block_n) * k * 2 / 64
    return max(mfma, loads, math.ceil(on_unit / resident) * math.ceil(k / block_k) * 600.0 / ahead)


def _triton_gemm(row: Row) -> Iterator[Candidate]:
    from torch._inductor import config as inductor_config
    from torch._inductor.select_algorithm import (
        TritonTemplateCaller,
        add_preprocessing_fn,
        clear_preprocessing_fns,
    )

    m, n, k = (row.sizes[name] for name in "MNK")
    found: list[TritonTemplateCaller] = []

    def keep(choices: list[Any]) -> list[Any]:
        """Takes the templates away before Inductor compiles all of them; ATen is left, and needs no search."""
        found.extend(choice for choice in choices if isinstance(choice, TritonTemplateCaller))
        return [choice for choice in choices if not isinstance(choice, TritonTemplateCaller)]

    def tiles(choice: Any) -> tuple[int, int, int]:
        block_m, block_k, block_n = (
            int(part) for part in str(choice.info_dict()["tile_shape"]).strip("()").split(", ")
        )
        return block_m, block_n, block_k

    a, b, c = (_empty(*size, dtype=torch.bfloat16) for size in ((m, k), (n, k), (m, n)))
    torch._dynamo.reset()
    add_preprocessing_fn(keep)
    try:
        with inductor_config.patch(
            max_autotune=True,
            max_autotune_gemm_backends="ATEN,TRITON",
            max_autotune_gemm_search_space="EXHAUSTIVE",
            fx_graph_cache=False,
            compile_threads=1,
        ):
            torch.compile(lambda x, y: x @ y.T)(a, b)
    finally:
        clear_preprocessing_fns(clear_defaults=False)
    # Of those that differ in nothing which `_likely` sees but the waves, the first.
    chosen: dict[tuple[int, ...], TritonTemplateCaller] = {}
    for choice in found:
        chosen.setdefault((*tiles(choice), choice.bmreq.num_stages, choice.bmreq.num_warps), choice)
    ranked = sorted(chosen, key=lambda key: _likely(m, n, k, *key[:4]))
    for key in ranked[:TRITON_CANDIDATES]:
        block_m, block_n, block_k, stages, warps = key
        name = f"{block_m}x{block_n}x{block_k} stages={stages} warps={warps}"
        yield Candidate(name, chosen[key].bmreq.make_run_fn(a, b.T, out=c))


def _fits(row: Row, block_m: int, block_n: int, block_k: int = 1) -> bool:
    """No tile more than twice the problem, and whole K tiles where the kernel has no K tail."""
    m, n, k = (row.sizes[name] for name in "MNK")
    return (block_m <= 32 or block_m < 2 * m) and block_n <= n and k % block_k == 0


def _own_scaled(
    row: Row, operand: Callable[[int, int], torch.Tensor], recipe: scaled_gemm_config.Recipe
) -> Iterator[Candidate]:
    """The repository's scaled GEMM; `operand` makes those of one side, [rows, K]."""
    m, n, k = (row.sizes[name] for name in "MNK")
    a, b = operand(m, k), operand(n, k)
    c = _empty(m, n, dtype=torch.bfloat16)
    if recipe == "block32":
        a_scale, b_scale = (_empty(rows, k // 32, dtype=torch.float8_e8m0fnu) for rows in (m, n))
    else:
        a_scale, b_scale = _empty(m, 1, dtype=torch.float32), _empty(1, n, dtype=torch.float32)
    problem = scaled_gemm_arguments.scaled_problem_of(a, b, a_scale, b_scale, c, recipe)
    stream = torch.cuda.current_stream().cuda_stream
    for config in scaled_gemm_config.configs(problem):
        compiled = scaled_gemm.compile_scaled_gemm(scaled_gemm_config.spec_for(problem, config, ARCH))
        yield Candidate(config.name, functools.partial(compiled, a, b, a_scale, b_scale, c, stream))


def _fp8_gemm(row: Row) -> Iterator[Candidate]:
    return _own_scaled(row, lambda rows, k: _empty(rows, k, dtype=torch.float8_e4m3fn), "row")


def _fp8_block_gemm(row: Row) -> Iterator[Candidate]:
    m, n, k = (row.sizes[name] for name in "MNK")
    blocks = math.ceil(k / 128)
    a, b = (_empty(*size, dtype=torch.float8_e4m3fn) for size in ((m, k), (n, k)))
    a_scale = _empty(m, blocks, dtype=torch.float32)
    b_scale = _empty(math.ceil(n / 128), blocks, dtype=torch.float32)
    c = _empty(m, n, dtype=torch.bfloat16)
    for block_m, block_n, warps in _BLOCK_TILES:
        if not _fits(row, block_m, block_n):
            continue
        grid = (math.ceil(m / block_m) * math.ceil(n / block_n),)

        def launch(grid: Any = grid, tile: tuple[int, int] = (block_m, block_n), warps: int = warps) -> None:
            triton_kernels.fp8_block_gemm[grid](
                a, b, a_scale, b_scale, c, m, n, k, blocks, *tile,
                GROUP_M=4, EVEN_K=k % 128 == 0, num_warps=warps, num_stages=2, matrix_instr_nonkdim=16,
            )  # fmt: skip

        yield Candidate(f"{block_m}x{block_n}x128 warps={warps}", launch)


def _mx_gemm(row: Row) -> Iterator[Candidate]:
    def operand(rows: int, k: int) -> torch.Tensor:
        if row.dtype == "mxfp4":
            return _empty(rows, k // 2, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
        return _empty(rows, k, dtype=torch.float8_e4m3fn)

    return _own_scaled(row, operand, "block32")


def _attention(row: Row) -> Iterator[Candidate]:
    s = row.sizes
    q, o = (_empty(s["B"], s["Sq"], s["H"], s["D"], dtype=torch.bfloat16) for _ in range(2))
    k, v = (_empty(s["B"], s["Skv"], s["Hkv"], s["D"], dtype=torch.bfloat16) for _ in range(2))
    for block_m, block_n, warps, stages, mfma in _ATTENTION_TILES:
        grid = (s["Sq"] // block_m, s["H"], s["B"])

        def launch(
            grid: Any = grid,
            tile: tuple[int, int] = (block_m, block_n),
            warps: int = warps,
            stages: int = stages,
            mfma: int = mfma,
        ) -> None:
            triton_kernels.attention[grid](
                q, k, v, o, s["D"] ** -0.5, s["Sq"], s["H"], s["Hkv"], s["D"], *tile,
                CAUSAL=bool(s["causal"]), num_warps=warps, num_stages=stages, matrix_instr_nonkdim=mfma,
            )  # fmt: skip

        yield Candidate(f"{block_m}x{block_n} warps={warps} stages={stages} mfma={mfma}", launch)


def _norm(row: Row) -> Iterator[Candidate]:
    m, n = row.sizes["M"], row.sizes["N"]
    x, y = (_empty(m, n, dtype=_TORCH[row.dtype]) for _ in range(2))
    w = _empty(n, dtype=_TORCH[row.dtype])
    whole = 1 << (n - 1).bit_length()
    ways = [(whole, 8, True), (whole, 16, True)] if whole <= 32768 else [(8192, 8, False), (8192, 16, False)]
    if n != whole:  # a row held in registers would be padding for up to a half
        ways += [(1024, 4, False), (2048, 8, False), (4096, 8, False)]
    for block, warps, one_pass in ways:

        def launch(block: int = block, warps: int = warps, one_pass: bool = one_pass) -> None:
            triton_kernels.rms_norm[(m,)](x, w, y, n, 1e-6, block, one_pass, num_warps=warps)

        yield Candidate(f"{block} {'in registers' if one_pass else 'twice'} warps={warps}", launch)


def _stream(row: Row) -> Iterator[Candidate]:
    n = row.sizes["elements"]
    operands = [_empty(n, dtype=_TORCH[row.dtype]) for _ in range(3 if row.op == "add" else 2)]
    kernel = triton_kernels.add if row.op == "add" else triton_kernels.copy
    for block in (2048, 8192):

        def launch(block: int = block) -> None:
            kernel[(math.ceil(n / block),)](*operands, n, block, num_warps=4)

        yield Candidate(f"{block} warps=4", launch)


def candidates(row: Row) -> Iterator[Candidate]:
    """What may be launched for a row. The tensors live as long as the candidates do."""
    makers = {
        "own GEMM": _own_gemm,
        "Triton GEMM": _triton_gemm,
        "FP8 GEMM": _fp8_gemm,
        "Triton FP8 GEMM": _fp8_block_gemm,
        "MX GEMM": _mx_gemm,
        "attention": _attention,
        "norm": _norm,
        "stream": _stream,
    }
    return makers[row.family](row)
