"""Copy atoms, atomics and wave operations of FlyDSL's public interface on the emulated device, against numpy.

Everything that `fx.rocdl` and its neighbours export is tested here or in `test_flydsl_mma.py`, or is in a table with
the reason: `test_everything_exported_has_a_test` fails when a FlyDSL release exports something else.
"""

from collections.abc import Callable
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
import numpy as np
import pytest
import torch
from flydsl._mlir import ir
from flydsl._mlir.dialects import llvm
from flydsl.expr import primitive, rocdl
from flydsl.expr.rocdl import cdna4

WAVE = 64


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(33)


def device(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(array.copy()).cuda()


# ---- copies through registers ----------------------------------------------------------------------------------------

COPIES: dict[str, tuple[Callable[[], Any], int]] = {
    f"{kind}{bits}b": (getattr(owner, f"{kind}{bits}b"), bits)
    for owner, kind in ((rocdl, "BufferCopy"), (primitive, "UniversalCopy"))
    for bits in (8, 16, 32, 64, 128)
}
COPIES["BufferCopy"] = lambda: rocdl.BufferCopy(32, 2), 32  # non-temporal
COPIES["UniversalCopy"] = lambda: primitive.UniversalCopy(96), 96


@flyc.kernel(name="copy_atom")
def copy_kernel(source: fx.Tensor, target: fx.Tensor, size: fx.Int32, key: fx.Constexpr[str]):
    make, bits = COPIES[key]
    items = bits // 8
    atom, layout = fx.make_copy_atom(make(), fx.Uint8), fx.make_layout(items, 1)
    thread = fx.block_idx.x * WAVE + fx.thread_idx.x
    first, second = fx.get_iter(source), fx.get_iter(target)
    if fx.const_expr(key.startswith("Buffer")):
        first = rocdl.make_buffer_ptr(first, num_records_bytes=fx.Int64(size))
        second = rocdl.make_buffer_ptr(second, num_records_bytes=fx.Int64(size))
    registers = fx.make_rmem_tensor(items, fx.Uint8)
    fx.copy_atom_call(atom, fx.make_view(first + (2 * WAVE - 1 - thread) * items, layout), registers)
    fx.copy_atom_call(atom, registers, fx.make_view(second + thread * items, layout))


@flyc.jit
def launch_copy(source: fx.Tensor, target: fx.Tensor, size: fx.Int32, key: fx.Constexpr[str], stream: fx.Stream):
    copy_kernel(source, target, size, key).launch(grid=(2, 1, 1), block=(WAVE, 1, 1), stream=stream)


@pytest.mark.parametrize("name", COPIES)
def test_copy(rng: np.random.Generator, name: str) -> None:
    """Lanes copy in reverse. A buffer ends three lanes early: what lies beyond loads as zero and is not stored."""
    size = COPIES[name][1] // 8
    source = rng.integers(1, 256, (2 * WAVE, size)).astype(np.uint8)
    target = device(np.full(2 * WAVE * size, 77, np.uint8))
    valid = 2 * WAVE - (3 if name.startswith("Buffer") else 0)
    launch_copy(device(source.reshape(-1)), target, valid * size, name, torch.cuda.current_stream())
    expected = source.copy()
    expected[valid:] = 0
    expected = expected[::-1]
    expected[valid:] = 77
    np.testing.assert_array_equal(target.cpu().numpy().reshape(2 * WAVE, size), expected)


# ---- LDS DMA ---------------------------------------------------------------------------------------------------------

LDS_COPIES: dict[str, tuple[Callable[[], Any], int]] = {
    f"{kind}{bits}b": (getattr(owner, f"{kind}{bits}b"), bits)
    for owner, kind, widths in (
        (rocdl, "BufferCopyLDS", (32, 128)),
        (cdna4, "BufferLoadAsyncLDS", (32, 96, 128)),
        (cdna4, "GlobalLoadAsyncLDS", (32, 96, 128)),
    )
    for bits in widths
}
LDS_COPIES["BufferCopyLDS"] = lambda: rocdl.BufferCopyLDS(32), 32
LDS_COPIES["BufferLoadAsyncLDS"] = lambda: cdna4.BufferLoadAsyncLDS(96), 96
LDS_COPIES["GlobalLoadAsyncLDS"] = lambda: cdna4.GlobalLoadAsyncLDS(128), 128


@flyc.kernel(name="lds_copy_atom")
def lds_copy_kernel(source: fx.Tensor, target: fx.Tensor, size: fx.Int32, key: fx.Constexpr[str]):
    make, bits = LDS_COPIES[key]
    items = bits // 8
    atom, layout = fx.make_copy_atom(make(), fx.Uint8), fx.make_layout(items, 1)
    thread = fx.thread_idx.x
    wave = fx.Int32(rocdl.readfirstlane(fx.Int32.ir_type, thread >> 6))
    first = fx.get_iter(source)
    if fx.const_expr(key.startswith("Buffer")):
        first = rocdl.make_buffer_ptr(first, num_records_bytes=fx.Int64(size))
        atom = atom.set_value("soffset", fx.Int32(items))  # in elements
    else:
        first = first + items
    shared = fx.SharedAllocator().allocate(fx.Array[fx.Uint8, 2 * WAVE * items, 1024]).peek().ptr
    reverse = 2 * WAVE - 1 - thread
    fx.copy_atom_call(
        atom, fx.make_view(first + reverse * items, layout), fx.make_view(shared + wave * (WAVE * items), layout)
    )
    if fx.const_expr("Async" in key):
        rocdl.asyncmark()
        rocdl.wait_asyncmark(0)
    fx.gpu.barrier()
    for i in fx.range_constexpr(items):
        target[thread * items + i] = fx.ptr_load(shared + ((thread ^ WAVE) * items + i))  # the other wave's


@flyc.jit
def launch_lds_copy(source: fx.Tensor, target: fx.Tensor, size: fx.Int32, key: fx.Constexpr[str], stream: fx.Stream):
    lds_copy_kernel(source, target, size, key).launch(grid=(1, 1, 1), block=(2 * WAVE, 1, 1), stream=stream)


@pytest.mark.parametrize("name", LDS_COPIES)
def test_lds_copy(rng: np.random.Generator, name: str) -> None:
    """From global memory behind an offset straight to LDS, read back by the other wave; beyond a buffer lie zeros."""
    size = LDS_COPIES[name][1] // 8
    source = rng.integers(1, 256, (2 * WAVE + 1, size)).astype(np.uint8)
    target = device(np.zeros(2 * WAVE * size, np.uint8))
    valid = 2 * WAVE + 1 - (3 if name.startswith("Buffer") else 0)
    launch_lds_copy(device(source.reshape(-1)), target, valid * size, name, torch.cuda.current_stream())
    source[valid:] = 0
    expected = np.roll(source[1:][::-1], WAVE, axis=0)
    np.testing.assert_array_equal(target.cpu().numpy().reshape(2 * WAVE, size), expected)


# ---- transposing LDS reads -------------------------------------------------------------------------------------------

TRANSPOSES = {"LDSReadTrans4_64b": (4, 64), "LDSReadTrans6_96b": (6, 96), "LDSReadTrans8_64b": (8, 64)} | {
    "LDSReadTrans16_64b": (16, 64),
    "LDSReadTrans": (16, 64),
}
TRANSPOSED_ELEMENTS = {4: fx.Float4E2M1FN, 6: fx.Float6E2M3FN, 8: fx.Uint8, 16: fx.BFloat16}
LDS_WORDS = 1024


def transposing_atom(name: str) -> Any:
    bits, width = TRANSPOSES[name]
    operation = cdna4.LDSReadTrans(bits, width) if name == "LDSReadTrans" else getattr(cdna4, name)()
    return fx.make_copy_atom(operation, TRANSPOSED_ELEMENTS[bits])


@flyc.kernel(name="transposing_atom")
def transpose_kernel(source: fx.Tensor, offsets: fx.Tensor, target: fx.Tensor, key: fx.Constexpr[str]):
    bits, width = TRANSPOSES[key]
    element, words = TRANSPOSED_ELEMENTS[bits], width // 32
    layout = fx.make_layout(width // bits, 1)
    atom = transposing_atom(key)
    lane = fx.thread_idx.x
    shared = fx.SharedAllocator().allocate(fx.Array[fx.Int32, LDS_WORDS, 1024]).peek().ptr
    for i in fx.range_constexpr(LDS_WORDS // WAVE):
        fx.ptr_store(source[i * WAVE + lane], shared + (i * WAVE + lane))
    fx.gpu.barrier()
    registers = fx.make_rmem_tensor(words, fx.Int32)
    result = fx.make_view(fx.recast_iter(element, fx.get_iter(registers)), layout)
    fx.copy_atom_call(atom, fx.make_view(fx.recast_iter(element, shared + offsets[lane]), layout), result)
    for i in fx.range_constexpr(words):
        target[lane * words + i] = registers[i]


@flyc.jit
def launch_transpose(
    source: fx.Tensor, offsets: fx.Tensor, target: fx.Tensor, key: fx.Constexpr[str], stream: fx.Stream
):
    transpose_kernel(source, offsets, target, key).launch(grid=(1, 1, 1), block=(WAVE, 1, 1), stream=stream)


def unpack(words: np.ndarray, bits: int) -> np.ndarray:
    """Elements of `bits` bits in each row of words, lowest first."""
    ones = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
    return ones.reshape(len(words), -1, bits) @ (1 << np.arange(bits))


@pytest.mark.parametrize("name", TRANSPOSES)
def test_transposing_read(rng: np.random.Generator, name: str) -> None:
    """Sixteen lanes point at the rows' pieces of a matrix of 16 columns, in any order; a lane gets a column."""
    bits, width = TRANSPOSES[name]
    words = width // 32
    source = rng.integers(0, 1 << 32, LDS_WORDS, dtype=np.uint64).astype(np.uint32)
    offsets = (4 * rng.permutation(LDS_WORDS // 4)[:WAVE]).astype(np.int32)
    target = device(np.zeros(WAVE * words, np.int32))
    launch_transpose(device(source.view(np.int32)), device(offsets), target, name, torch.cuda.current_stream())
    pieces = unpack(source[offsets[:, None] + np.arange(words)], bits)
    columns = pieces.reshape(4, -1, 16).transpose(0, 2, 1).reshape(WAVE, -1)
    result = target.cpu().numpy().view(np.uint32).reshape(WAVE, words)
    np.testing.assert_array_equal(unpack(result, bits), columns)


# ---- atomics ---------------------------------------------------------------------------------------------------------

BINS = 8
NUMBERS = {
    "i32": (fx.Int32, torch.int32),
    "i64": (fx.Int64, torch.int64),
    "f32": (fx.Float32, torch.float32),
    "f64": (fx.Float64, torch.float64),
    "f16": (fx.Float16, torch.float16),
    "bf16": (fx.BFloat16, torch.bfloat16),
}


def wrap_up(old: int, limit: int) -> int:
    return 0 if old >= limit else old + 1


def wrap_down(old: int, limit: int) -> int:
    return limit if old == 0 or old > limit else old - 1


ATOMICS: dict[tuple[str, str], Callable[[Any, Any], Any]] = {}
for number in ("i32", "i64", "f32", "f64"):
    for operation, function in (("Add", np.add), ("Max", np.maximum), ("Min", np.minimum)):
        ATOMICS["UniversalAtomic" + operation, number] = function
for number in ("i32", "i64"):
    ATOMICS["UniversalAtomicAnd", number] = np.bitwise_and
    ATOMICS["UniversalAtomicOr", number] = np.bitwise_or
    ATOMICS["UniversalAtomicInc", number] = wrap_up
    ATOMICS["UniversalAtomicDec", number] = wrap_down
# FlyDSL 0.3.4 lowers no other numbers here; BufferAtomicAdd of one f16 gives an empty kernel.
for number in ("f32", "f64"):
    ATOMICS["BufferAtomicAdd", number] = np.add
for number in ("i32", "i64", "f64"):
    ATOMICS["BufferAtomicMax", number] = np.maximum
for number in ("i32", "i64"):
    ATOMICS["BufferAtomicMin", number] = np.minimum
for number in ("f16", "bf16"):
    ATOMICS["BufferAtomicPkAdd", number] = np.add
for operation, function in (
    ("add", np.add),
    ("sub", np.subtract),
    ("min", np.minimum),
    ("max", np.maximum),
    ("and", np.bitwise_and),
    ("or", np.bitwise_or),
    ("xor", np.bitwise_xor),
):
    ATOMICS["atomic_" + operation, "i32"] = function
    if operation in ("add", "min", "max"):
        ATOMICS["atomic_" + operation, "f32"] = function
ATOMICS["atomic_fmin", "f32"], ATOMICS["atomic_fmax", "f32"] = np.minimum, np.maximum


def emit_atomic(name: str, number: str, values: Any, target: Any, size: int) -> None:
    element = NUMBERS[number][0]
    lane = fx.block_idx.x * WAVE + fx.thread_idx.x
    base = fx.get_iter(target)
    width = 2 if name == "BufferAtomicPkAdd" else 1
    offset = (lane % (BINS // width)) * width
    if name.startswith("atomic_"):
        getattr(fx, name)(base + offset, values[lane])
        return
    if name.startswith("Buffer"):
        base = rocdl.make_buffer_ptr(base, num_records_bytes=fx.Int64(size))
    owner = primitive if name.startswith("Universal") else rocdl
    registers = fx.make_rmem_tensor(width, element)
    for i in range(width):
        registers[i] = values[lane * width + i]
    atom = fx.make_copy_atom(getattr(owner, name)(element), element)
    fx.copy_atom_call(atom, registers, fx.make_view(base + offset, fx.make_layout(width, 1)))


@flyc.kernel(name="atomic_atom")
def atomic_kernel(values: fx.Tensor, target: fx.Tensor, key: fx.Constexpr[tuple]):
    emit_atomic(key[0], key[1], values, target, key[2])


@flyc.jit
def launch_atomic(values: fx.Tensor, target: fx.Tensor, key: fx.Constexpr[tuple], stream: fx.Stream):
    atomic_kernel(values, target, key).launch(grid=(3, 1, 1), block=(WAVE, 1, 1), stream=stream)


@pytest.mark.parametrize(("name", "number"), ATOMICS, ids=[f"{name}-{number}" for name, number in ATOMICS])
def test_atomic(rng: np.random.Generator, name: str, number: str) -> None:
    """Three workgroups on eight places. Small integers: every order gives the same result, exactly."""
    dtype = NUMBERS[number][1]
    width = 2 if name == "BufferAtomicPkAdd" else 1
    wraps = name.endswith(("Inc", "Dec"))
    values = np.full(3 * WAVE, 13) if wraps else rng.integers(-9, 10, 3 * WAVE * width)
    start = rng.integers(0, 14, BINS) if wraps else rng.integers(-30, 30, BINS)
    if name == "BufferAtomicMin":  # buffer_atomic_umin: FlyDSL takes signed integers and compares them as unsigned
        values, start = np.abs(values), np.abs(start)
    target = torch.tensor(start).to(dtype).cuda()
    launch_atomic(
        torch.tensor(values).to(dtype).cuda(),
        target,
        (name, number, target.nbytes),
        torch.cuda.current_stream(),
    )
    expected = start.copy()
    for index, value in enumerate(values):
        bin_ = index % BINS
        expected[bin_] = ATOMICS[name, number](expected[bin_], value)
    np.testing.assert_array_equal(target.cpu().double().numpy(), expected)


# ---- lanes and scalar operations: two words of each lane in, one word out --------------------------------------------


def dpp(value: Any, control: int) -> Any:
    old = fx.Int32(-1).ir_value()
    return rocdl.update_dpp(fx.Int32.ir_type, old, value.ir_value(), control, 15, 15, False)


def swap(operation: Callable[..., Any], half: int, first: Any, second: Any) -> Any:
    both = ir.Type.parse("!llvm.struct<(i32, i32)>")
    result = operation(both, first.ir_value(), second.ir_value(), False, False)
    return llvm.extractvalue(fx.Int32.ir_type, result, [half])


def ballot(value: Any) -> Any:
    mask = fx.Int64(rocdl.ballot(fx.Int64.ir_type, value > 0))
    return fx.Int32(mask >> 7)


def stochastic(value: Any, random: Any) -> Any:
    return rocdl.cdna4.cvt_sr_f32_to_bf16(value.bitcast(fx.Float32), random).bitcast(fx.Int16).to(fx.Int32)


I32 = fx.Int32
LANES = np.arange(WAVE)
GROUP = LANES // 16 * 16


def within(source: np.ndarray, inside: np.ndarray) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    return lambda a, b: np.where(inside, a[source % WAVE], -1)


def from_lane(source: Any) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    return lambda a, b: np.broadcast_to(a[source], WAVE)


EVERYWHERE = np.ones(WAVE, bool)
STEP32 = np.where(LANES < 32, LANES, LANES - 32)
WORDS: dict[str, tuple[Callable[[Any, Any, Any], Any], Callable[[np.ndarray, np.ndarray], np.ndarray]]] = {
    **{
        f"shuffle_xor {mask}": (lambda a, b, lane, mask=mask: fx.shuffle_xor(a, mask, WAVE), from_lane(LANES ^ mask))
        for mask in (1, 2, 5, 16, 32, 63)
    },
    "shuffle_xor width": (lambda a, b, lane: fx.shuffle_xor(a, 3, 16), from_lane(LANES ^ 3)),
    "shuffle_up": (
        lambda a, b, lane: (lane >= 3).select(fx.shuffle_up(a, 3, WAVE), I32(-1)),
        within(LANES - 3, LANES >= 3),
    ),
    "shuffle_down": (
        lambda a, b, lane: (lane < 61).select(fx.shuffle_down(a, 3, WAVE), I32(-1)),
        within(LANES + 3, LANES < 61),
    ),
    "shuffle_idx": (lambda a, b, lane: fx.shuffle_idx(a, lane * 7 & 63, WAVE), from_lane(LANES * 7 % WAVE)),
    "lane_id": (lambda a, b, lane: fx.gpu.lane_id() + a, lambda a, b: a + LANES.astype(np.int32)),
    "ds_bpermute": (
        lambda a, b, lane: rocdl.ds_bpermute(I32.ir_type, lane * 12 & 255, a),
        from_lane(LANES * 3 % WAVE),
    ),
    "ds_swizzle": (
        lambda a, b, lane: rocdl.ds_swizzle(I32.ir_type, a.ir_value(), I32(0x401F).ir_value()),
        from_lane(LANES ^ 16),
    ),
    "readlane": (lambda a, b, lane: rocdl.readlane(I32.ir_type, a, 17), from_lane(17)),
    "readfirstlane": (lambda a, b, lane: rocdl.readfirstlane(I32.ir_type, a), from_lane(0)),
    "ballot": (
        lambda a, b, lane: ballot(a),
        lambda a, b: np.full(WAVE, sum(1 << i for i in range(32) if a[i + 7] > 0), np.uint32).view(np.int32),
    ),
    "perm_b32": (
        lambda a, b, lane: rocdl.perm_b32(a, b, 0x02060501),
        lambda a, b: (
            np.stack(
                [
                    np.hstack([b.view(np.uint8).reshape(WAVE, 4), a.view(np.uint8).reshape(WAVE, 4)])[:, i]
                    for i in (1, 5, 6, 2)
                ],
                1,
            )
            .copy()
            .view(np.int32)[:, 0]
        ),
    ),
    "permlane32_swap 0": (
        lambda a, b, lane: swap(rocdl.permlane32_swap, 0, a, b),
        lambda a, b: np.where(LANES < 32, a, b[STEP32]),
    ),
    "permlane32_swap 1": (
        lambda a, b, lane: swap(rocdl.permlane32_swap, 1, a, b),
        lambda a, b: np.where(LANES < 32, a[(LANES + 32) % WAVE], b),
    ),
    "permlane16_swap 0": (
        lambda a, b, lane: swap(rocdl.permlane16_swap, 0, a, b),
        lambda a, b: np.where(LANES // 16 % 2 == 0, a, b[LANES ^ 16]),
    ),
    "permlane16_swap 1": (
        lambda a, b, lane: swap(rocdl.permlane16_swap, 1, a, b),
        lambda a, b: np.where(LANES // 16 % 2 == 0, a[LANES ^ 16], b),
    ),
    **{
        f"update_dpp {name}": (lambda a, b, lane, control=control: dpp(a, control), within(source, inside))
        for name, control, source, inside in (
            ("quad_perm", 0x1B, LANES ^ 3, EVERYWHERE),
            ("row_shl", 0x101, LANES + 1, LANES % 16 < 15),
            ("row_shr", 0x113, LANES - 3, LANES % 16 >= 3),
            ("row_ror", 0x124, GROUP + (LANES - 4) % 16, EVERYWHERE),
            ("row_mirror", 0x140, LANES ^ 15, EVERYWHERE),
            ("row_half_mirror", 0x141, LANES ^ 7, EVERYWHERE),
            ("row_bcast15", 0x142, GROUP - 1, LANES >= 16),
            ("row_bcast31", 0x143, np.full(WAVE, 31), LANES >= 32),
            ("row_newbcast", 0x155, GROUP + 5, EVERYWHERE),
            ("wave_shl", 0x130, LANES + 1, LANES < 63),
            ("wave_ror", 0x13C, LANES - 1, EVERYWHERE),
        )
    },
    "cvt_sr_f32_to_bf16 down": (
        lambda a, b, lane: stochastic(a & 0x3FFFFFFF, I32(0)),
        lambda a, b: (a & 0x3FFFFFFF) >> 16,
    ),
    "cvt_sr_f32_to_bf16 up": (
        lambda a, b, lane: stochastic(a & 0x3FFFFFFF, I32(-1)),
        lambda a, b: ((a & 0x3FFFFFFF) + 0xFFFF) >> 16,
    ),
    "max": (lambda a, b, lane: fx.max(a, b), np.maximum),
    "min": (lambda a, b, lane: fx.min(a, b), np.minimum),
    "absi": (lambda a, b, lane: fx.absi(a), lambda a, b: np.abs(a)),
    "ctpop": (lambda a, b, lane: fx.ctpop(a), lambda a, b: np.array([int(x).bit_count() for x in a.view(np.uint32)])),
    "ctlz": (
        lambda a, b, lane: fx.ctlz(a & 0xFFFFF),
        lambda a, b: np.array([32 - int(x & 0xFFFFF).bit_length() for x in a]),
    ),
    "cttz": (
        lambda a, b, lane: fx.cttz(a << 5),
        lambda a, b: np.array([((int(x) << 5) & -(int(x) << 5)).bit_length() - 1 for x in a.view(np.uint32)]),
    ),
}


@flyc.kernel(name="word_operation")
def word_kernel(first: fx.Tensor, second: fx.Tensor, target: fx.Tensor, key: fx.Constexpr[str]):
    lane = fx.thread_idx.x
    target[lane] = fx.Int32(WORDS[key][0](first[lane], second[lane], lane))


@flyc.jit
def launch_word(first: fx.Tensor, second: fx.Tensor, target: fx.Tensor, key: fx.Constexpr[str], stream: fx.Stream):
    word_kernel(first, second, target, key).launch(grid=(1, 1, 1), block=(WAVE, 1, 1), stream=stream)


@pytest.mark.parametrize("name", WORDS)
def test_word_operation(rng: np.random.Generator, name: str) -> None:
    first, second = (rng.integers(-(2**31) + 1, 2**31, WAVE).astype(np.int32) for _ in range(2))
    target = device(np.zeros(WAVE, np.int32))
    launch_word(device(first), device(second), target, name, torch.cuda.current_stream())
    np.testing.assert_array_equal(target.cpu().numpy(), WORDS[name][1](first, second))


# ---- single cells, hints and what is refused -------------------------------------------------------------------------


@flyc.kernel(name="cells")
def cell_kernel(cells: fx.Tensor, values: fx.Tensor, target: fx.Tensor, key: fx.Constexpr[int]):
    lane = fx.thread_idx.x
    cell = fx.get_iter(cells) + lane
    rocdl.sched_mfma(1)
    rocdl.sched_vmem(1)
    rocdl.sched_dsrd(1)
    rocdl.sched_dswr(1)
    rocdl.sched_barrier(0)
    target[lane] = fx.atomic_xchg(cell, values[lane])
    fx.memory_fence(ordering=fx.AtomicOrdering.SeqCst, syncscope=rocdl.SyncScope.Agent)
    old, swapped = fx.atomic_cas(cell, fx.Int32(3), lane + 1000)
    target[WAVE + lane] = old
    target[2 * WAVE + lane] = swapped.select(fx.Int32(1), fx.Int32(0))
    rocdl.s_waitcnt(vmcnt=0, lgkmcnt=0)
    rocdl.s_barrier()
    target[3 * WAVE + lane] = fx.generic_load(cell, volatile=True)
    fx.generic_store(fx.get_iter(values) + lane, lane * 3, nontemporal=True)
    resource = rocdl.get_buffer_rsrc(fx.get_iter(rocdl.make_buffer_tensor(cells, num_records_bytes=4 * key)))
    target[4 * WAVE + lane] = fx.Int32(rocdl.raw_ptr_buffer_load(fx.Int32.ir_type, resource, lane * 4, 4))


@flyc.jit
def launch_cells(cells: fx.Tensor, values: fx.Tensor, target: fx.Tensor, key: fx.Constexpr[int], stream: fx.Stream):
    cell_kernel(cells, values, target, key).launch(grid=(1, 1, 1), block=(WAVE, 1, 1), stream=stream)


def test_cells(rng: np.random.Generator) -> None:
    """Exchange, compare and exchange, fence, wait, barrier, generic accesses and a raw buffer load of 50 cells."""
    cells, values = rng.integers(0, 100, WAVE).astype(np.int32), rng.integers(0, 6, WAVE).astype(np.int32)
    on_device, places, target = device(values), device(cells), device(np.zeros(5 * WAVE, np.int32))
    launch_cells(places, on_device, target, 50, torch.cuda.current_stream())
    old, exchanged, swapped, loaded, raw = target.cpu().numpy().reshape(5, WAVE)
    np.testing.assert_array_equal(old, cells)
    np.testing.assert_array_equal(exchanged, values)
    np.testing.assert_array_equal(swapped, values == 3)
    final = np.where(values == 3, LANES + 1000, values)
    np.testing.assert_array_equal(loaded, final)
    np.testing.assert_array_equal(places.cpu().numpy(), final)
    np.testing.assert_array_equal(on_device.cpu().numpy(), LANES * 3)
    np.testing.assert_array_equal(raw, np.where(LANES < 49, np.roll(final, -1), 0))


@flyc.kernel(name="fma_atom")
def fma_kernel(x: fx.Tensor, y: fx.Tensor, target: fx.Tensor):
    lane = fx.thread_idx.x
    atom = fx.make_mma_atom(fx.UniversalFMA(fx.Float32))
    left, right, total = (fx.make_rmem_tensor(1, fx.Float32) for _ in range(3))
    left[0], right[0], total[0] = x[lane], y[lane], target[lane]
    fx.mma_atom_call(atom, total, left, right, total)
    target[lane] = total[0]


@flyc.jit
def launch_fma(x: fx.Tensor, y: fx.Tensor, target: fx.Tensor, stream: fx.Stream):
    fma_kernel(x, y, target).launch(grid=(1, 1, 1), block=(WAVE, 1, 1), stream=stream)


def test_universal_fma(rng: np.random.Generator) -> None:
    x, y, z = (rng.integers(-500, 500, WAVE).astype(np.float32) for _ in range(3))
    target = device(z)
    launch_fma(device(x), device(y), target, torch.cuda.current_stream())
    np.testing.assert_array_equal(target.cpu().numpy(), x * y + z)


def test_64_bit_lds_copy_is_refused() -> None:
    with pytest.raises(ValueError, match="no 8-byte LDS DMA"):
        rocdl.BufferCopyLDS64b()


def test_everything_exported_has_a_test() -> None:
    tested = {name for name, _ in ATOMICS} | set(COPIES) | set(LDS_COPIES) | set(TRANSPOSES)
    tested |= {name.split()[0] for name in WORDS}
    elsewhere = {"MFMA", "MFMAScale", "MFMA_Scale"}  # test_flydsl_mma.py
    in_kernels_above = {
        "asyncmark",
        "wait_asyncmark",
        "s_waitcnt",
        "SyncScope",
        "make_buffer_ptr",
        "make_buffer_tensor",
    }
    in_kernels_above |= {"get_buffer_rsrc", "sched_mfma", "sched_vmem", "sched_dsrd", "sched_dswr", "UniversalFMA"}
    in_kernels_above |= {"atomic_xchg", "atomic_cas", "generic_load", "generic_store", "memory_fence"}
    reasons = {
        "WMMA": "RDNA and gfx1250",
        "rdna3": "another architecture",
        "rdna4": "another architecture",
        "cdna3": "a module: its s_waitcnt is what rocdl.s_waitcnt calls on gfx950",
        "cdna4": "a module, listed here itself",
        "BufferCopyLDS64b": "refused, above",
        "BufferAtomic": "what the BufferAtomic* above call",
        "UniversalAtomic": "what the UniversalAtomic* above call",
    }
    exported = set(rocdl.__all__) | set(cdna4.__all__) | set(fx.llvm.__all__)
    exported |= {name for name in dir(cdna4) if name.startswith("LDSReadTrans")}
    exported |= {name for name in primitive.__all__ if name.startswith("Universal")}
    exported |= {name for name in fx.gpu.__all__ if name.startswith("shuffle")}
    missing = exported - tested - elsewhere - in_kernels_above - set(reasons)
    assert not missing, f"FlyDSL exports what no test uses: {sorted(missing)}"
    gone = (in_kernels_above | set(reasons) | set(TRANSPOSES) | set(LDS_COPIES) | set(COPIES)) - exported
    assert not gone, f"FlyDSL no longer exports {sorted(gone)}"
