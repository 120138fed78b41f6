"""LDS, global, buffer, scratch and scalar memory instructions, and atomics: results and memory, byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from core_library import CoreError, Program
from memory_case import EVERY_LANE, LDS_BYTES, MEMORY_BYTES, SCALAR_OFFSET, MemoryCase, State

CASES: list[MemoryCase] = []
Addresses = Callable[[np.random.Generator], np.ndarray]


def add(text: str, reference: Callable[[State], None], addresses: Addresses, **options: Any) -> None:
    CASES.append(MemoryCase(text, reference, addresses, **options))


def anywhere(size: int, limit: int, align: int | None = None) -> Addresses:
    """64 addresses of `size` bytes below `limit`; lanes may share them."""
    step = align or size
    return lambda generator: generator.integers(0, (limit - size) // step + 1, 64) * step


def apart(size: int, limit: int) -> Addresses:
    """No two lanes share a byte."""
    return lambda generator: generator.permutation(limit // size)[:64] * size


# ---- LDS -------------------------------------------------------------------------------------------------


def read_lds(words: int, offset: int = 0) -> Callable[[State], None]:
    def reference(state: State) -> None:
        for lane in state.lanes:
            state.set_result(lane, state.load("lds", state.address[lane] + offset, 4 * words), words)

    return reference


def read_small(space: str, size: int, signed: bool, offset: int = 0) -> Callable[[State], None]:
    def reference(state: State) -> None:
        for lane in state.lanes:
            value = state.load(space, state.address[lane] + offset, size)
            if signed and value >> (8 * size - 1):
                value -= 1 << 8 * size
            state.set_result(lane, value & 0xFFFFFFFF, 1)

    return reference


def read_two(words: int, first: int, second: int) -> Callable[[State], None]:
    def reference(state: State) -> None:
        for lane in state.lanes:
            for place, offset in enumerate((first, second)):
                value = state.load("lds", state.address[lane] + offset, 4 * words)
                state.set_result(lane, value, words, place * words)

    return reference


def write(space: str, size: int, offset: int = 0, shift: int = 0) -> Callable[[State], None]:
    def reference(state: State) -> None:
        for lane in state.lanes:
            state.store(space, state.address[lane] + offset, size, state.words(lane, 4) >> shift)

    return reference


def write_two(words: int, first: int, second: int) -> Callable[[State], None]:
    def reference(state: State) -> None:
        for lane in state.lanes:
            state.store("lds", state.address[lane] + first, 4 * words, state.words(lane, words))
            state.store("lds", state.address[lane] + second, 4 * words, state.words(lane, words, 2))

    return reference


def transposed(bits: int, size: int = 8) -> Callable[[State], None]:
    """Within 16 lanes the elements that the lanes point at are a matrix of 16 columns, of which a lane gets one.

    Against AMD's rocRoller, whose test of these instructions on hardware states the layout for every width.
    """

    def reference(state: State) -> None:
        count = 8 * size // bits
        for group in range(0, 64, 16):
            flat = []
            for lane in range(group, group + 16):
                word = state.load("lds", state.address[lane], size)
                flat += [word >> (bits * element) & ((1 << bits) - 1) for element in range(count)]
            for lane in range(16):
                if group + lane in state.lanes:
                    value = sum(flat[16 * element + lane] << (bits * element) for element in range(count))
                    state.set_result(group + lane, value, size // 4)

    return reference


def registers(first: int, count: int) -> str:
    return f"v{first}" if count == 1 else f"v[{first}:{first + count - 1}]"


for name, words in (("b32", 1), ("b64", 2), ("b96", 3), ("b128", 4)):
    add(
        f"ds_read_{name} {registers(8, words)}, v20",
        read_lds(words),
        anywhere(4 * words, LDS_BYTES, 16 if words > 2 else None),
    )
    add(
        f"ds_read_{name} {registers(8, words)}, v20 offset:1040",
        read_lds(words, 1040),
        anywhere(4 * words, LDS_BYTES - 1040, 16 if words > 2 else None),
    )
    add(
        f"ds_write_{name} v20, {registers(24, words)} offset:64",
        write("lds", 4 * words, 64),
        apart(16 if words > 2 else 4 * words, LDS_BYTES - 64),
    )
for name, size, signed in (("u8", 1, False), ("i8", 1, True), ("u16", 2, False), ("i16", 2, True)):
    add(f"ds_read_{name} v8, v20 offset:6", read_small("lds", size, signed, 6), anywhere(size, LDS_BYTES - 6))
add("ds_write_b8 v20, v24 offset:3", write("lds", 1, 3), apart(1, LDS_BYTES - 3))
add("ds_write_b16 v20, v24", write("lds", 2), apart(2, LDS_BYTES))
add("ds_write_b8_d16_hi v20, v24", write("lds", 1, shift=16), apart(1, LDS_BYTES))
add("ds_write_b16_d16_hi v20, v24", write("lds", 2, shift=16), apart(2, LDS_BYTES))


def read_half(space: str, size: int, signed: bool, high: bool) -> Callable[[State], None]:
    """The d16 forms: into one half of the register, the other stays."""

    def reference(state: State) -> None:
        for lane in state.lanes:
            value = state.load(space, state.address[lane], size)
            if signed and value >> (8 * size - 1):
                value -= 1 << 8 * size
            old = state.result[lane][0]
            half = (value & 0xFFFF) << 16 | old & 0xFFFF if high else value & 0xFFFF | old & 0xFFFF0000
            state.set_result(lane, half, 1)

    return reference


for name, size, signed in (("u8", 1, False), ("i8", 1, True), ("u16", 2, False)):
    for suffix in ("", "_hi"):
        add(
            f"ds_read_{name}_d16{suffix} v8, v20",
            read_half("lds", size, signed, suffix == "_hi"),
            anywhere(size, LDS_BYTES),
        )
for name, size, signed in (("ubyte", 1, False), ("sbyte", 1, True), ("short", 2, False)):
    for suffix in ("", "_hi"):
        read = read_half("memory", size, signed, suffix == "_hi")
        add(f"global_load_{name}_d16{suffix} v8, v20, s[12:13]", read, anywhere(size, MEMORY_BYTES))
        add(f"buffer_load_{name}_d16{suffix} v8, v20, s[16:19], 0 offen", read, anywhere(size, MEMORY_BYTES))
add("ds_read2_b32 v[8:9], v20 offset0:3 offset1:200", read_two(1, 12, 800), anywhere(4, LDS_BYTES - 800))
add("ds_read2_b64 v[8:11], v20 offset0:250 offset1:1", read_two(2, 2000, 8), anywhere(8, LDS_BYTES - 2000))
add("ds_read2st64_b32 v[8:9], v20 offset0:2 offset1:15", read_two(1, 512, 3840), anywhere(4, LDS_BYTES - 3840))
add("ds_read2st64_b64 v[8:11], v20 offset0:1 offset1:7", read_two(2, 512, 3584), anywhere(8, LDS_BYTES - 3584))
add("ds_write2_b32 v20, v24, v26 offset0:0 offset1:255", write_two(1, 0, 1020), apart(4, 1020))
add("ds_write2_b64 v20, v[24:25], v[26:27] offset0:128 offset1:0", write_two(2, 1024, 0), apart(8, 1024))
add("ds_write2st64_b32 v20, v24, v26 offset0:4 offset1:1", write_two(1, 1024, 256), apart(4, 256))
add("ds_write2st64_b64 v20, v[24:25], v[26:27] offset0:0 offset1:2", write_two(2, 0, 1024), apart(8, 1024))
# The core refuses them when EXEC disables a lane.
add("ds_read_b64_tr_b16 v[8:9], v20", transposed(16), anywhere(8, LDS_BYTES), masks=(EVERY_LANE,) * 3)
add("ds_read_b64_tr_b8 v[8:9], v20", transposed(8), anywhere(8, LDS_BYTES), masks=(EVERY_LANE,) * 3)
add("ds_read_b64_tr_b4 v[8:9], v20", transposed(4), anywhere(8, LDS_BYTES), masks=(EVERY_LANE,) * 3)
add("ds_read_b96_tr_b6 v[8:10], v20", transposed(6, 12), anywhere(12, LDS_BYTES, 16), masks=(EVERY_LANE,) * 3)

# ---- global ----------------------------------------------------------------------------------------------


def read_global(words: int, offset: int = 0) -> Callable[[State], None]:
    def reference(state: State) -> None:
        for lane in state.lanes:
            state.set_result(lane, state.load("memory", state.address[lane] + offset, 4 * words), words)

    return reference


WIDTHS = (("dword", 1), ("dwordx2", 2), ("dwordx3", 3), ("dwordx4", 4))
for name, words in WIDTHS:
    load, store = registers(8, words), registers(24, words)
    within = MEMORY_BYTES - 1024
    add(f"global_load_{name} {load}, v20, s[12:13]", read_global(words), anywhere(4 * words, MEMORY_BYTES, 4))
    add(
        f"global_load_{name} {load}, v[22:23], off offset:1024",
        read_global(words, 1024),
        anywhere(4 * words, within, 4),
    )
    add(
        f"global_load_{name} {load}, v[22:23], off offset:-4",
        read_global(words, -4),
        lambda generator, words=words: anywhere(4 * words, MEMORY_BYTES - 4, 4)(generator) + 4,
    )
    add(
        f"global_store_{name} v20, {store}, s[12:13] offset:1024",
        write("memory", 4 * words, 1024),
        apart(4 * words, within),
    )
    add(f"global_store_{name} v[22:23], {store}, off nt", write("memory", 4 * words), apart(4 * words, MEMORY_BYTES))
for name, size, signed in (("ubyte", 1, False), ("sbyte", 1, True), ("ushort", 2, False), ("sshort", 2, True)):
    add(
        f"global_load_{name} v8, v20, s[12:13] offset:5",
        read_small("memory", size, signed, 5),
        anywhere(size, MEMORY_BYTES - 5),
    )
add("global_store_byte v20, v24, s[12:13]", write("memory", 1), apart(1, MEMORY_BYTES))
add("global_store_short v20, v24, s[12:13] sc0 sc1", write("memory", 2), apart(2, MEMORY_BYTES))
add("global_store_short_d16_hi v20, v24, s[12:13]", write("memory", 2, shift=16), apart(2, MEMORY_BYTES))
add("global_store_byte_d16_hi v20, v24, s[12:13]", write("memory", 1, shift=16), apart(1, MEMORY_BYTES))

# ---- buffers ---------------------------------------------------------------------------------------------

# A raw buffer: each dword (or the one byte or short) is checked against num_records. Beyond, loads give 0 and stores
# are dropped.


def buffer_load(words: int, offset: int) -> Callable[[State], None]:
    def reference(state: State) -> None:
        for lane in state.lanes:
            for word in range(words):
                place = state.address[lane] + offset + 4 * word
                value = state.load("memory", place, 4) if place + 4 <= state.records else 0
                state.set_result(lane, value, 1, word)

    return reference


def buffer_store(size: int, offset: int) -> Callable[[State], None]:
    def reference(state: State) -> None:
        step = min(4, size)
        for lane in state.lanes:
            for part in range(0, size, step):
                place = state.address[lane] + offset + part
                if place + step <= state.records:
                    state.store("memory", place, step, state.words(lane, 4) >> 8 * part)

    return reference


def buffer_small(size: int, signed: bool, offset: int) -> Callable[[State], None]:
    def reference(state: State) -> None:
        for lane in state.lanes:
            place = state.address[lane] + offset
            value = state.load("memory", place, size) if place + size <= state.records else 0
            if signed and value >> (8 * size - 1):
                value -= 1 << 8 * size
            state.set_result(lane, value & 0xFFFFFFFF, 1)

    return reference


def straddling(align: int) -> Addresses:
    """Around the end of a buffer of 8000 bytes, and far past it."""
    return lambda generator: np.concatenate(
        [
            generator.integers(0, 7900 // align, 40) * align,
            8000 - 16 + generator.permutation(8) * align,
            generator.integers(8000 // align, 15000 // align, 16) * align,
        ]
    )


def spread_out(align: int, size: int) -> Addresses:
    """As `straddling`, with no two lanes on the same byte."""
    return lambda generator: np.concatenate(
        [
            generator.permutation((8000 - 64) // size)[:40] * size,
            8000 - 16 + np.arange(4) * max(align, size),
            9000 + np.arange(20) * size,
        ]
    )


for name, words in WIDTHS:
    load, store = registers(8, words), registers(24, words)
    add(f"buffer_load_{name} {load}, v20, s[16:19], 0 offen", buffer_load(words, 0), straddling(4), records=8000)
    add(
        f"buffer_load_{name} {load}, v20, s[16:19], s20 offen offset:64",
        buffer_load(words, 64 + SCALAR_OFFSET),
        anywhere(4 * words, 8192, 4),
    )
    add(
        f"buffer_store_{name} {store}, v20, s[16:19], 0 offen",
        buffer_store(4 * words, 0),
        spread_out(4, 4 * words),
        records=8000,
    )
    add(
        f"buffer_store_{name} {store}, v20, s[16:19], s20 offen offset:128",
        buffer_store(4 * words, 128 + SCALAR_OFFSET),
        apart(4 * words, 8192),
    )
for name, size, signed in (("ubyte", 1, False), ("sbyte", 1, True), ("ushort", 2, False), ("sshort", 2, True)):
    add(f"buffer_load_{name} v8, v20, s[16:19], 0 offen", buffer_small(size, signed, 0), straddling(size), records=8000)
add("buffer_store_byte v24, v20, s[16:19], 0 offen", buffer_store(1, 0), spread_out(1, 1), records=8000)
add("buffer_store_short v24, v20, s[16:19], 0 offen", buffer_store(2, 0), spread_out(2, 2), records=8000)


def same_for_all(state: State) -> None:
    for lane in state.lanes:
        state.set_result(lane, state.load("memory", 256 + SCALAR_OFFSET, 4), 1)


add("buffer_load_dword v8, off, s[16:19], s20 offset:256", same_for_all, anywhere(4, 64))


def out_of_reach(state: State) -> None:
    """Offset -4: a masked lane's store and load."""
    for lane in state.lanes:
        state.set_result(lane, 0, 1)


MINUS_FOUR: Addresses = lambda generator: np.full(64, 0xFFFFFFFC, np.uint32)  # noqa: E731
add(
    "buffer_store_dword v24, v20, s[16:19], 0 offen\nbuffer_load_dword v8, v20, s[16:19], 0 offen",
    out_of_reach,
    MINUS_FOUR,
    records=0xFFFFFFFF,
)

# ---- global and buffer memory to LDS ---------------------------------------------------------------------


def to_lds(words: int, base: int, lds_offset: int, offset: int) -> Callable[[State], None]:
    """LDS address: M0 + the instruction's offset + lane * size; the offset counts for memory, too."""

    def reference(state: State) -> None:
        for lane in state.lanes:
            for word in range(words):
                place = state.address[lane] + offset + 4 * word
                value = state.load("memory", place, 4) if place + 4 <= state.records else 0
                state.store("lds", base + lds_offset + lane * 4 * words + 4 * word, 4, value)

    return reference


for name, words in (("dword", 1), ("dwordx4", 4)):
    add(
        f"buffer_load_{name} v20, s[16:19], 0 offen lds", to_lds(words, 512, 0, 0), anywhere(4 * words, 8000, 4), m0=512
    )
    add(
        f"buffer_load_{name} v20, s[16:19], s20 offen offset:32 lds",
        to_lds(words, 1024, 32, 32 + SCALAR_OFFSET),
        anywhere(4 * words, 8000, 4),
        m0=1024,
    )
    if words == 1:  # the core refuses a DMA of several dwords across the end of its buffer
        add(
            f"buffer_load_{name} v20, s[16:19], 0 offen  lds",
            to_lds(words, 64, 0, 0),
            straddling(4),
            m0=64,
            records=8000,
        )
    add(f"global_load_lds_{name} v20, s[12:13]", to_lds(words, 256, 0, 0), anywhere(4 * words, 8000, 4), m0=256)
    add(
        f"global_load_lds_{name} v[22:23], off offset:16",
        to_lds(words, 2048, 16, 16),
        anywhere(4 * words, 8000, 4),
        m0=2048,
    )


def part_to_lds(size: int, signed: bool, base: int, offset: int) -> Callable[[State], None]:
    """Bytes and halves become dwords of LDS."""

    def reference(state: State) -> None:
        for lane in state.lanes:
            place = state.address[lane] + offset
            value = state.load("memory", place, size) if place + size <= state.records else 0
            if signed and value >> (8 * size - 1):
                value |= 0xFFFFFFFF << 8 * size & 0xFFFFFFFF
            state.store("lds", base + offset + 4 * lane, 4, value)

    return reference


for name, size, signed in (("ubyte", 1, False), ("sbyte", 1, True), ("ushort", 2, False), ("sshort", 2, True)):
    add(
        f"buffer_load_{name} v20, s[16:19], 0 offen offset:8 lds",
        part_to_lds(size, signed, 512, 8),
        anywhere(size, 8000, size),
        m0=512,
    )
    add(
        f"buffer_load_{name} v20, s[16:19], 0 offen lds",
        part_to_lds(size, signed, 64, 0),
        straddling(size),
        m0=64,
        records=8000,
    )
    add(f"global_load_lds_{name} v20, s[12:13]", part_to_lds(size, signed, 256, 0), anywhere(size, 8000, size), m0=256)

# ---- scratch ---------------------------------------------------------------------------------------------


def round_trip(words: int) -> Callable[[State], None]:
    def reference(state: State) -> None:
        for lane in state.lanes:
            state.set_result(lane, state.words(lane, words), words)

    return reference


for name, words in WIDTHS:
    load, store = registers(8, words), registers(24, words)
    add(
        f"scratch_store_{name} off, {store}, off offset:16\nscratch_store_dword off, v20, off\ns_waitcnt vmcnt(0)\n"
        f"scratch_load_{name} {load}, off, off offset:16",
        round_trip(words),
        anywhere(4, 64),
        scratch=64,
    )
    add(
        f"scratch_store_{name} v20, {store}, off\ns_waitcnt vmcnt(0)\nscratch_load_{name} {load}, v20, off",
        round_trip(words),
        anywhere(4 * words, 64, 4),
        scratch=64,
    )

# ---- scalar loads ----------------------------------------------------------------------------------------


def scalar_words(count: int, offset: int) -> Callable[[State], None]:
    def reference(state: State) -> None:
        value = state.load("memory", offset, 4 * count)
        for lane in state.lanes:
            for word in range(4):
                state.result[lane][word] = value >> 32 * (count - 1 - word % count) & 0xFFFFFFFF

    return reference


for name, count in (("dword", 1), ("dwordx2", 2), ("dwordx4", 4), ("dwordx8", 8), ("dwordx16", 16)):
    target = "s40" if count == 1 else f"s[40:{39 + count}]"
    moves = "\n".join(f"v_mov_b32_e32 v{8 + word}, s{40 + count - 1 - word % count}" for word in range(4))
    add(
        f"s_load_{name} {target}, s[12:13], 0x84\ns_waitcnt lgkmcnt(0)\n{moves}",
        scalar_words(count, 0x84),
        anywhere(4, 64),
    )
    add(
        f"s_load_{name} {target}, s[12:13], s20\ns_waitcnt lgkmcnt(0)\n{moves}",
        scalar_words(count, SCALAR_OFFSET),
        anywhere(4, 64),
    )

# ---- atomics ---------------------------------------------------------------------------------------------

Update = Callable[[int, int, int], int]  # memory, data, comparand


def atomic(size: int, update: Update, offset: int, returns: bool) -> Callable[[State], None]:
    def reference(state: State) -> None:
        words = size // 4
        for lane in state.lanes:
            place = state.address[lane] + offset
            before = state.load("memory", place, size)
            comparand = state.words(lane, words, words)
            after = update(before, state.words(lane, words), comparand)
            state.store("memory", place, size, after)
            if returns:
                state.set_result(lane, before, words)

    return reference


def add_floats(kind: np.dtype) -> Update:
    def update(before: int, data: int, _: int) -> int:
        unsigned = {2: np.uint16, 4: np.uint32}[kind.itemsize]
        size = 4 // kind.itemsize
        parts = [
            np.array([word], np.uint32).view(unsigned)[index : index + 1].view(kind)
            for index in range(size)
            for word in (before, data)
        ]
        with np.errstate(all="ignore"):
            sums = [
                (parts[2 * i].astype(np.float32) + parts[2 * i + 1].astype(np.float32)).astype(kind)
                for i in range(size)
            ]
        return int.from_bytes(b"".join(value.tobytes() for value in sums), "little")

    return update


def float_data(generator: np.random.Generator) -> np.ndarray:
    return generator.standard_normal((64, 4)).astype(np.float32).view(np.uint32)


def half_data(kind: Any) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda generator: generator.standard_normal((64, 8)).astype(kind).view(np.uint32)


BF16, HALF, SINGLE = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16), np.dtype(np.float32)
INTEGER: list[tuple[str, int, Update]] = [
    ("add", 4, lambda m, d, _: m + d),
    ("add_x2", 8, lambda m, d, _: m + d),
    ("cmpswap_x2", 8, lambda m, d, c: d if m == c else m),
]
for name, size, update in INTEGER:
    data = "v[24:27]" if "cmpswap" in name else registers(24, size // 4)
    for returns in (False, True):
        target = f"{registers(8, size // 4)}, " if returns else ""
        add(
            f"global_atomic_{name} {target}v20, {data}, s[12:13] offset:8" + " sc0" * returns,
            atomic(size, update, 8, returns),
            apart(size, MEMORY_BYTES - 8),
        )


def matching(generator: np.random.Generator) -> np.ndarray:
    """All lanes on one address: each adds."""
    return np.full(64, 96)


add("global_atomic_add v20, v24, s[12:13]", atomic(4, lambda m, d, _: m + d, 0, False), matching)
add("global_atomic_add_x2 v20, v[24:25], s[12:13]", atomic(8, lambda m, d, _: m + d, 0, False), matching)
for name, kind, source in (
    ("add_f32", SINGLE, float_data),
    ("pk_add_bf16", BF16, half_data(ml_dtypes.bfloat16)),
    ("pk_add_f16", HALF, half_data(np.float16)),
):
    sum_of = add_floats(kind)
    add(
        f"global_atomic_{name} v20, v24, s[12:13]",
        atomic(4, sum_of, 0, False),
        apart(4, MEMORY_BYTES),
        data=source,
        memory_type=kind,
    )
    add(
        f"buffer_atomic_{name} v24, v20, s[16:19], 0 offen offset:4",
        atomic(4, sum_of, 4, False),
        apart(4, MEMORY_BYTES - 4),
        data=source,
        memory_type=kind,
    )
    add(
        f"global_atomic_{name} v8, v20, v24, s[12:13] sc0",
        atomic(4, sum_of, 0, True),
        apart(4, MEMORY_BYTES),
        data=source,
        memory_type=kind,
    )


@pytest.fixture(scope="module")
def program() -> Program:
    return Program([case.kernel(f"case{index}") for index, case in enumerate(CASES)])


@pytest.mark.parametrize("index", range(len(CASES)), ids=[str(case) for case in CASES])
def test_instruction(program: Program, index: int) -> None:
    CASES[index].run(lambda buffers: program.launch(f"case{index}", 1, buffers))


# ---- faults: an address that no allocation holds is an error that names it -------------------------------

FAULTS = [
    MemoryCase("global_load_dword v8, v20, s[12:13]", lambda state: None, lambda g: np.full(64, 0x40000000)),
    MemoryCase("global_store_dword v20, v24, s[12:13]", lambda state: None, lambda g: np.full(64, 0x40000000)),
    MemoryCase("ds_read_b32 v8, v20", lambda state: None, lambda g: np.full(64, LDS_BYTES)),
    MemoryCase("ds_write_b64 v20, v[24:25]", lambda state: None, lambda g: np.full(64, LDS_BYTES - 4)),
    MemoryCase("s_load_dword s40, s[12:13], 0xff000", lambda state: None, lambda g: np.zeros(64)),
]


@pytest.mark.parametrize("case", FAULTS, ids=str)
def test_faults_are_errors(case: MemoryCase) -> None:
    program = Program([case.kernel("kernel")])
    with pytest.raises(CoreError, match="memory_fault") as caught:
        case.run(lambda buffers: program.launch("kernel", 1, buffers))
    assert case.text.split()[0] in str(caught.value)


# ---- transposing reads that are not modelled: half a tile, and addresses on which AMD's sources disagree ---

REFUSED = [
    (
        MemoryCase("ds_read_b64_tr_b4 v[8:9], v20", lambda state: None, anywhere(8, LDS_BYTES), masks=(1,) * 3),
        "lanes off",
    ),
    (
        MemoryCase(
            "ds_read_b96_tr_b6 v[8:10], v20",
            lambda state: None,
            lambda generator: np.arange(64) * 12,
            masks=(EVERY_LANE,) * 3,
        ),
        r"address 12 \(lane 1\)",
    ),
]


@pytest.mark.parametrize(("case", "message"), REFUSED, ids=[str(case) for case, _ in REFUSED])
def test_refused_where_hardware_is_unknown(case: MemoryCase, message: str) -> None:
    program = Program([case.kernel("kernel")])
    with pytest.raises(CoreError, match=f"unsupported_instruction.*{message}"):
        case.run(lambda buffers: program.launch("kernel", 1, buffers))
