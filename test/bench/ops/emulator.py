# mypy: disable-error-code="no-untyped-def, untyped-decorator, import-not-found, import-untyped"
"""How fast the emulator is on this host, and what its checks and its memory cost.

Every time here is the host's. The ratio to numpy's float32 matmul of the same size, in the same process and on the same
cores, is the figure to compare between machines; a machine that does other work meanwhile makes the absolute ones long.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.report import Goal, Report

# Before torch: it is what makes a CPU-only torch see a gfx950.
import gfx950_emulator  # isort: skip

import torch
import triton
import triton.language as tl
from torch._inductor.kernel.flydsl import gemm, gemm_config

from reference import mm as reference

# How the core's tests assemble a kernel and run it without a device.
sys.path.append(str(Path(__file__).resolve().parents[2] / "emulator" / "tests"))
from assemble import KernelText, assemble
from core_library import CodeObject

SIZE = 4096
CHECKED_ROWS = 32  # of the product, in float64
CHECK_SIZE = 1024  # of the product that is run with and without the hazard checker
NORM_ROWS, NORM_COLUMNS = 8192, 4096
PREDICTED_SIZE = 8192
MFMA_LOOPS, MFMA_IN_LOOP = 2000, 32
RUNS = 3  # other load only ever adds time: the least counts
GIB = float(1 << 30)


@triton.jit
def layer_norm(x, weight, bias, out, epsilon, columns: tl.constexpr):
    """One row per program; columns is a power of two."""
    i = tl.arange(0, columns)
    start = tl.program_id(0) * columns
    value = tl.load(x + start + i).to(tl.float32)
    centred = value - tl.sum(value, 0) / columns
    scale = tl.rsqrt(tl.sum(centred * centred, 0) / columns + epsilon)
    normal = centred * scale * tl.load(weight + i).to(tl.float32) + tl.load(bias + i).to(tl.float32)
    tl.store(out + start + i, normal.to(out.dtype.element_ty))


@contextmanager
def environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@dataclass(frozen=True)
class Cost:
    """The least of several runs."""

    seconds: float  # by the clock on the wall
    processor: float  # summed over threads: what other load on the machine stretches least


def least(function: Callable[[], object], runs: int = RUNS) -> Cost:
    walls, processors = [], []
    for _ in range(runs):
        start, start_processor = time.perf_counter(), time.process_time()
        function()
        torch.cuda.synchronize()  # raises what a launch left pending
        processors.append(time.process_time() - start_processor)
        walls.append(time.perf_counter() - start)
    return Cost(min(walls), min(processors))


def wave_instructions(function: Callable[[], object]) -> int:
    """Of the kernels that `function` launches, as the emulator counts them."""
    before = sum(entry["wave_instructions"] for entry in gfx950_emulator.launches().values())
    function()
    torch.cuda.synchronize()
    return sum(entry["wave_instructions"] for entry in gfx950_emulator.launches().values()) - before


def memory(field: str) -> int:
    """Bytes of this process: VmRSS now, VmHWM at its highest since reset_peak()."""
    match = re.search(rf"^{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    if match is None:
        raise RuntimeError(f"/proc/self/status has no {field}")
    return int(match[1]) << 10


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


class Product:
    """A bf16 NT GEMM of one size by the FlyDSL kernel, in the configuration that its rule chooses."""

    def __init__(self, size: int, computed: bool = True) -> None:
        if computed:
            self.a, self.b_nk = (tensor.cuda() for tensor in reference.normal_inputs(size, size, size, torch.bfloat16))
            self.out = torch.zeros(size, size, dtype=torch.bfloat16, device="cuda")
        else:  # only timed: nobody reads them
            self.a, self.b_nk, self.out = (
                torch.empty(size, size, dtype=torch.bfloat16, device="cuda") for _ in range(3)
            )
        problem = gemm_config.GemmProblem(m=size, n=size, k=size, dtype="bf16", lda=size, ldb=size, ldc=size)
        config = gemm_config.default_config(problem)
        if config is None:
            raise RuntimeError(f"the GEMM kernel has no configuration for {problem}")
        self.config = config.name
        self._kernel = gemm.compile_gemm(gemm_config.spec_for(problem, config, "gfx950"))

    def __call__(self) -> None:
        self._kernel(self.a, self.b_nk, self.out, torch.cuda.current_stream().cuda_stream)

    def bytes(self) -> int:
        return sum(tensor.numel() * tensor.element_size() for tensor in (self.a, self.b_nk, self.out))

    def error_over_bound(self) -> float:
        return reference.excess(self.out[:CHECKED_ROWS], self.a[:CHECKED_ROWS], self.b_nk)


def numpy_cost(size: int) -> Cost:
    generator = np.random.default_rng(0)
    a, b = (generator.standard_normal((size, size), np.float32) for _ in range(2))
    out = np.empty_like(a)
    np.matmul(a[:256], b, out[:256])  # starts its threads
    return least(lambda: np.matmul(a, b, out))


def norm_rate() -> tuple[Cost, int, float]:
    """Cost, wave instructions, and the largest error against float64."""
    x = torch.randn(NORM_ROWS, NORM_COLUMNS, generator=torch.Generator().manual_seed(0)).bfloat16().cuda()
    weight, bias = (torch.linspace(-1, 1, NORM_COLUMNS).bfloat16().cuda() for _ in range(2))
    out = torch.empty_like(x)

    def run() -> None:
        layer_norm[(NORM_ROWS,)](x, weight, bias, out, 1e-5, NORM_COLUMNS, num_warps=4)

    instructions = wave_instructions(run)  # also compiles it
    cost = least(run)
    rows = slice(0, 64)
    shape = (NORM_COLUMNS,)
    expected = torch.nn.functional.layer_norm(
        x[rows].cpu().double(), shape, weight.cpu().double(), bias.cpu().double(), 1e-5
    )
    return cost, instructions, float((out[rows].cpu().double() - expected).abs().max())


def mfma_nanoseconds() -> float:
    """Of one MXFP4 16x16x128 matrix instruction with block scales, on one host thread, its loop included."""
    mfma = "v_mfma_scale_f32_16x16x128_f8f6f4 v[{0}:{1}], v[4:7], v[8:11], v[{0}:{1}], v2, v3 cbsz:4 blgp:4"
    accumulators = [mfma.format(first, first + 3) for first in range(16, 48, 4)]
    fill = [f"v_mul_u32_u24_e32 v{register}, {register + 3}, v0" for register in range(4, 48)]
    lines = [
        "v_mov_b32_e32 v2, 0x7f7e807f",
        "v_mov_b32_e32 v3, 0x7f7f7f80",
        *fill,
        f"s_movk_i32 s20, {MFMA_LOOPS}",
        ".Lagain:",
        *(accumulators[k % len(accumulators)] for k in range(MFMA_IN_LOOP)),
        "s_sub_u32 s20, s20, 1",
        "s_cmp_lg_u32 s20, 0",
        "s_cbranch_scc1 .Lagain",
    ]
    code = CodeObject(assemble([KernelText("mxfp4", "\n".join(lines), 8, vgprs=48)]))
    buffer = np.zeros(64, np.uint32)
    counts = code.launch("mxfp4", (1, 1, 1), (64, 1, 1), [buffer])
    seconds = least(lambda: code.launch("mxfp4", (1, 1, 1), (64, 1, 1), [buffer]), 5).processor
    if counts["mfma"] != MFMA_LOOPS * MFMA_IN_LOOP:
        raise RuntimeError(f"{counts['mfma']} matrix instructions ran, expected {MFMA_LOOPS * MFMA_IN_LOOP}")
    return seconds / counts["mfma"] * 1e9


def check_seconds() -> tuple[float, float, str]:
    """Without and with the hazard checker, alternating. Processor time: a ratio of short runs needs it."""
    product = Product(CHECK_SIZE)
    product()
    seconds: dict[str, list[float]] = {"0": [], "1": []}
    for _ in range(2 * RUNS):
        for check, values in seconds.items():
            with environment(GFX950_CHECK=check):
                values.append(least(product, 1).processor)
    return min(seconds["0"]), min(seconds["1"]), product.config


def prediction() -> tuple[Cost, float, str]:
    """Cost of a modelled time that is not remembered, the modelled microseconds, and the configuration."""
    product = Product(PREDICTED_SIZE, computed=False)
    with gfx950_emulator.timing_only():
        product()  # compiles and decodes
        seconds = []
        for run in range(RUNS):
            with environment(GFX950_TIMING_PARAMS=f"launch_ns={7001 + run}"):  # another answer each time
                seconds.append(least(product, 1))
        begin = gfx950_emulator.clock_ns()
        product()
        modelled = (gfx950_emulator.clock_ns() - begin) / 1e3
    best = Cost(min(cost.seconds for cost in seconds), min(cost.processor for cost in seconds))
    return best, modelled, product.config


def run() -> Report:
    cores = len(os.sched_getaffinity(0))
    with environment(GFX950_CHECK="0", GFX950_SCHEDULE="run_to_barrier"):
        load_before = os.getloadavg()[0]
        product = Product(SIZE)
        tensors = product.bytes()
        reset_peak()
        before = memory("VmRSS")
        instructions = wave_instructions(product)
        growth, above = memory("VmHWM") - before, memory("VmHWM") - tensors
        print(f"{SIZE}^3 compiled and run once", file=sys.stderr)
        emulated, matmul = least(product), numpy_cost(SIZE)
        error = product.error_over_bound()
        gemm_config_name = product.config
        del product
        norm, norm_instructions, norm_error = norm_rate()
        mfma = mfma_nanoseconds()
        predicted, modelled, predicted_config = prediction()
        off, on, checked_config = check_seconds()

    gemm_rate, rate = instructions / emulated.seconds / 1e6, norm_instructions / norm.seconds / 1e6
    tflops = 2 * SIZE**3 / 1e9
    rows = [
        [f"FlyDSL GEMM {SIZE}^3 bf16, {gemm_config_name}", f"{emulated.seconds:.3f} s", f"{instructions:,}"],
        ["", f"{tflops / emulated.seconds:.0f} GFLOP/s", f"{gemm_rate:.1f} M/s"],
        [
            f"numpy float32 matmul {SIZE}^3",
            f"{matmul.seconds:.3f} s",
            f"emulated / numpy {emulated.seconds / matmul.seconds:.2f}",
        ],
        [
            "processor time of both GEMMs, over the cores",
            f"{emulated.processor / cores:.3f} s, {matmul.processor / cores:.3f} s",
            f"emulated / numpy {emulated.processor / matmul.processor:.2f}",
        ],
        [
            f"Triton LayerNorm {NORM_ROWS} x {NORM_COLUMNS} bf16",
            f"{norm.seconds:.3f} s",
            f"{norm_instructions:,}; {rate:.1f} M/s",
        ],
        [
            "processor time of GEMM and norm, over the cores",
            f"{emulated.processor / cores:.3f} s, {norm.processor / cores:.3f} s",
            ", ".join(
                f"{count / cost.processor * cores / 1e6:.1f} M/s"
                for count, cost in ((instructions, emulated), (norm_instructions, norm))
            ),
        ],
        ["v_mfma_scale_f32_16x16x128_f8f6f4, fp4 x fp4", f"{mfma:.0f} ns", "one thread"],
        [
            f"FlyDSL GEMM {CHECK_SIZE}^3, {checked_config}, checker off, on (processor)",
            f"{off:.3f} s",
            f"{on:.3f} s, {on / off:.2f} times",
        ],
        [
            f"modelled time of a GEMM {PREDICTED_SIZE}^3, {predicted_config}",
            f"{predicted.seconds:.3f} s, {predicted.processor:.3f} s of processors",
            f"says {modelled:.0f} us (modelled)",
        ],
        [
            f"memory of GEMM {SIZE}^3: tensors {tensors / GIB:.2f} GiB",
            f"{growth / GIB:.3f} GiB",
            f"with Python, torch: {above / GIB:.2f} GiB above the tensors",
        ],
    ]
    limits = [
        (f"bf16 GEMM {SIZE}^3", emulated.seconds, "<=", 1.5, "s", "measured"),
        ("GEMM, wave instructions a second", gemm_rate, ">=", 15, "M/s", "measured"),
        ("norm, wave instructions a second", rate, ">=", 60, "M/s", "measured"),
        ("MXFP4 16x16x128 MFMA", mfma, "<=", 600, "ns", "measured"),
        (f"modelled time of a GEMM {PREDICTED_SIZE}^3, once compiled", predicted.seconds, "<=", 1, "s", "measured"),
        ("checker on / off", on / off, "<=", 3, "", "measured"),
        ("peak memory above the tensors, whole process", above / GIB, "<=", 1, "GiB", "measured"),
        (f"GEMM, error / bound, {CHECKED_ROWS} rows", error, "<=", 1, "", "emulated"),
        ("norm, largest error (bf16 results below 8)", norm_error, "<=", 2**-6, "", "emulated"),
    ]
    return Report(
        op="emulator",
        columns=["what", "host", "wave instructions, ratios"],
        rows=rows,
        goals=[
            Goal(name=name, value=value, relation=relation, limit=limit, unit=unit, source=source)  # type: ignore[arg-type]
            for name, value, relation, limit, unit, source in limits
        ],
        notes=[
            f"{cores} cores, load {load_before:.1f} before and {os.getloadavg()[0]:.1f} after; least of {RUNS} runs.",
            "Other load on the host makes times long; ratios of processor time suffer least. The MFMA has it.",
        ],
    )
