"""FlyDSL kernels with control flow, LDS at computed places and odd buffer bounds, against torch on the CPU."""

from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
import pytest
import torch
from flydsl.expr import rocdl

WAVE = 64


def stream() -> Any:
    return torch.cuda.current_stream()


# ---- rows of ragged length: loops with bounds from memory, a branch inside, partial sums in LDS ----------------------


@flyc.kernel(name="ragged_sums")
def ragged_kernel(x: fx.Tensor, ends: fx.Tensor, out: fx.Tensor):
    row, lane = fx.block_idx.x, fx.thread_idx.x
    total = fx.Int32(0)
    for i in range(ends[row] + lane, ends[row + 1], WAVE):
        value = x[i]
        if value > 0:  # noqa: SIM108 (a branch of the kernel)
            total = total + value * 3
        else:
            total = total - value
    shared = fx.SharedAllocator().allocate(fx.Array[fx.Int32, WAVE, 16]).peek().ptr
    fx.ptr_store(total, shared + lane)
    fx.gpu.barrier()
    if lane == 0:
        whole = fx.Int32(0)
        for j in range(fx.Int32(0), fx.Int32(WAVE), 1):
            whole = whole + fx.ptr_load(shared + j)
        out[row] = whole


@flyc.jit
def launch_ragged(x: fx.Tensor, ends: fx.Tensor, out: fx.Tensor, rows: fx.Int32, stream: fx.Stream):
    ragged_kernel(x, ends, out).launch(grid=(rows, 1, 1), block=(WAVE, 1, 1), stream=stream)


def test_ragged_sums() -> None:
    lengths = torch.tensor([0, 1, 63, 64, 65, 130, 7, 300])
    ends = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]).int()
    x = torch.randint(-50, 50, (int(ends[-1]),), generator=torch.Generator().manual_seed(1), dtype=torch.int32)
    out = torch.full((len(lengths),), -1, dtype=torch.int32).cuda()
    launch_ragged(x.cuda(), ends.cuda(), out, len(lengths), stream())
    weighted = torch.where(x > 0, 3 * x, -x)
    assert out.tolist() == [int(part.sum()) for part in weighted.split(lengths.tolist())]


# ---- a histogram in LDS, then in memory ------------------------------------------------------------------------------


@flyc.kernel(name="histogram")
def histogram_kernel(x: fx.Tensor, bins: fx.Tensor, size: fx.Int32):
    thread = fx.thread_idx.x
    shared = fx.SharedAllocator().allocate(fx.Array[fx.Int32, WAVE, 16]).peek().ptr
    if thread < WAVE:
        fx.ptr_store(fx.Int32(0), shared + thread)
    fx.gpu.barrier()
    for i in range(fx.block_idx.x * 256 + thread, size, fx.grid_dim.x * 256):
        fx.atomic_add(shared + (x[i] & 63), fx.Int32(1))
    fx.gpu.barrier()
    if thread < WAVE:
        fx.atomic_add(fx.get_iter(bins) + thread, fx.ptr_load(shared + thread))


@flyc.jit
def launch_histogram(x: fx.Tensor, bins: fx.Tensor, size: fx.Int32, stream: fx.Stream):
    histogram_kernel(x, bins, size).launch(grid=(3, 1, 1), block=(256, 1, 1), stream=stream)


def test_histogram() -> None:
    x = torch.randint(0, WAVE, (5000,), generator=torch.Generator().manual_seed(2), dtype=torch.int32)
    bins = torch.zeros(WAVE, dtype=torch.int32).cuda()
    launch_histogram(x.cuda(), bins, len(x), stream())
    assert torch.equal(bins.cpu().long(), torch.bincount(x, minlength=WAVE))


# ---- four dwords at a time across the end of a buffer ----------------------------------------------------------------


@flyc.kernel(name="straddle")
def straddle_kernel(x: fx.Tensor, y: fx.Tensor, readable: fx.Int32, writable: fx.Int32, shift: fx.Int32):
    at = fx.thread_idx.x * 4 + shift
    source = rocdl.make_buffer_ptr(fx.get_iter(x), num_records_bytes=fx.Int64(readable))
    target = rocdl.make_buffer_ptr(fx.get_iter(y), num_records_bytes=fx.Int64(writable))
    atom, layout = fx.make_copy_atom(rocdl.BufferCopy128b(), fx.Int32), fx.make_layout(4, 1)
    registers = fx.make_rmem_tensor(4, fx.Int32)
    fx.copy_atom_call(atom, fx.make_view(source + at, layout), registers)
    fx.copy_atom_call(atom, registers, fx.make_view(target + at, layout))


@flyc.jit
def launch_straddle(
    x: fx.Tensor, y: fx.Tensor, readable: fx.Int32, writable: fx.Int32, shift: fx.Int32, stream: fx.Stream
):
    straddle_kernel(x, y, readable, writable, shift).launch(grid=(1, 1, 1), block=(WAVE, 1, 1), stream=stream)


@pytest.mark.parametrize("shift", [0, 1, 3])
@pytest.mark.parametrize("readable", [0, 4, 12, 400, 404, 1020, 1033])
def test_buffers_end_inside_an_access(readable: int, shift: int) -> None:
    """Dwords beyond the end load as zero and are not stored; the other dwords of the same access are."""
    for writable in (0, 4, 408, 1024):
        x, expected = torch.arange(1, 300, dtype=torch.int32), torch.full((300,), -7, dtype=torch.int32)
        y = expected.cuda()
        launch_straddle(x.cuda(), y, readable, writable, shift, stream())
        x[readable // 4 :] = 0
        end = max(shift, min(shift + 4 * WAVE, writable // 4))
        expected[shift:end] = x[shift:end]
        assert torch.equal(y.cpu(), expected), writable


# ---- lanes that leave a loop one by one, with a branch inside --------------------------------------------------------


@flyc.kernel(name="collatz")
def collatz_kernel(x: fx.Tensor, y: fx.Tensor):
    i = fx.block_idx.x * WAVE + fx.thread_idx.x
    value, steps = x[i], fx.Int32(0)
    while value > 1:
        if value % 2 == 0:  # noqa: SIM108 (a branch of the kernel)
            value = value // 2
        else:
            value = 3 * value + 1
        steps = steps + 1
    y[i] = steps


@flyc.jit
def launch_collatz(x: fx.Tensor, y: fx.Tensor, stream: fx.Stream):
    collatz_kernel(x, y).launch(grid=(2, 1, 1), block=(WAVE, 1, 1), stream=stream)


def collatz(value: int) -> int:
    steps = 0
    while value > 1:
        value, steps = (value // 2 if value % 2 == 0 else 3 * value + 1), steps + 1
    return steps


def test_divergent_loop() -> None:
    x = torch.randint(1, 3000, (2 * WAVE,), generator=torch.Generator().manual_seed(3), dtype=torch.int32)
    y = torch.zeros_like(x).cuda()
    launch_collatz(x.cuda(), y, stream())
    assert y.tolist() == [collatz(value) for value in x.tolist()]


# ---- the workgroup that finishes last adds what the others left ------------------------------------------------------


@flyc.kernel(name="last_adds")
def last_kernel(x: fx.Tensor, parts: fx.Tensor, count: fx.Tensor, out: fx.Tensor):
    group, lane = fx.block_idx.x, fx.thread_idx.x
    parts[group * WAVE + lane] = x[group * WAVE + lane] * 2
    fx.memory_fence()
    fx.gpu.barrier()
    shared = fx.SharedAllocator().allocate(fx.Array[fx.Int32, 1, 16]).peek().ptr
    if lane == 0:
        fx.ptr_store(fx.atomic_add(fx.get_iter(count), fx.Int32(1)), shared)
    fx.gpu.barrier()
    if fx.ptr_load(shared) == fx.grid_dim.x - 1:
        fx.memory_fence()
        total = fx.Int32(0)
        for k in range(fx.Int32(0), fx.Int32(fx.grid_dim.x), 1):
            total = total + parts[k * WAVE + lane]
        out[lane] = total


@flyc.jit
def launch_last(x: fx.Tensor, parts: fx.Tensor, count: fx.Tensor, out: fx.Tensor, stream: fx.Stream):
    last_kernel(x, parts, count, out).launch(grid=(13, 1, 1), block=(WAVE, 1, 1), stream=stream)


def test_the_last_workgroup_adds() -> None:
    x = torch.randint(-99, 99, (13 * WAVE,), generator=torch.Generator().manual_seed(4), dtype=torch.int32)
    parts, count = torch.zeros_like(x).cuda(), torch.zeros(1, dtype=torch.int32).cuda()
    out = torch.zeros(WAVE, dtype=torch.int32).cuda()
    launch_last(x.cuda(), parts, count, out, stream())
    assert torch.equal(out.cpu().long(), 2 * x.view(13, WAVE).sum(0))
    assert int(count) == 13


# ---- every conversion between numbers --------------------------------------------------------------------------------

NUMBERS = {
    torch.float16: fx.Float16,
    torch.bfloat16: fx.BFloat16,
    torch.float32: fx.Float32,
    torch.float64: fx.Float64,
    torch.int8: fx.Int8,
    torch.int16: fx.Int16,
    torch.int32: fx.Int32,
    torch.int64: fx.Int64,
    torch.uint8: fx.Uint8,
}
ELEMENTS = list(NUMBERS.values())
TWICE = (torch.float64, torch.float16)


@flyc.kernel(name="convert")
def convert_kernel(x: fx.Tensor, y: fx.Tensor, element: fx.Constexpr[int]):
    i = fx.thread_idx.x
    y[i] = x[i].to(ELEMENTS[element])


@flyc.jit
def launch_convert(x: fx.Tensor, y: fx.Tensor, element: fx.Constexpr[int], stream: fx.Stream):
    convert_kernel(x, y, element).launch(grid=(1, 1, 1), block=(256, 1, 1), stream=stream)


@pytest.mark.parametrize("source", NUMBERS, ids=str)
def test_conversions(source: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(5)
    for element, target in enumerate(NUMBERS):
        if target is source:
            continue
        low = 0 if torch.uint8 in (source, target) else -120
        wide = torch.randint(low, 120, (256,), generator=generator).double()
        if source in (torch.float32, torch.float64):
            wide *= 1 + 1e-3 * torch.rand(256, generator=generator)
        x = wide.to(source)
        y = torch.zeros(256, dtype=target).cuda()
        launch_convert(x.cuda(), y, element, stream())
        # torch's double to half rounds twice, by float; numpy's once, as the device.
        expected = torch.from_numpy(x.numpy().astype("f2")) if (source, target) == TWICE else x.to(target)
        assert torch.equal(y.cpu(), expected), target
