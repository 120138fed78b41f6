"""Every atomic of LDS, global, buffer and flat memory; flat and scratch moves of every width; scalar buffer loads."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from core_library import Program
from memory_case import LDS_BYTES, MEMORY_BYTES, SCALAR_OFFSET, MemoryCase, State
from test_memory import (
    BF16,
    HALF,
    SINGLE,
    WIDTHS,
    Addresses,
    Update,
    add_floats,
    anywhere,
    apart,
    float_data,
    half_data,
    read_global,
    read_half,
    read_small,
    registers,
    scalar_words,
    write,
)

CASES: list[MemoryCase] = []


def add(text: str, reference: Callable[[State], None], addresses: Addresses, **options: object) -> None:
    CASES.append(MemoryCase(text, reference, addresses, **options))  # type: ignore[arg-type]


def signed(value: int, size: int) -> int:
    return value - (1 << 8 * size) if value >> 8 * size - 1 else value


def integer_updates(size: int) -> dict[str, Update]:
    return {
        "swap": lambda m, d, _: d,
        "add": lambda m, d, _: m + d,
        "sub": lambda m, d, _: m - d,
        "smin": lambda m, d, _: min(m, d, key=lambda value: signed(value, size)),
        "umin": lambda m, d, _: min(m, d),
        "smax": lambda m, d, _: max(m, d, key=lambda value: signed(value, size)),
        "umax": lambda m, d, _: max(m, d),
        "and": lambda m, d, _: m & d,
        "or": lambda m, d, _: m | d,
        "xor": lambda m, d, _: m ^ d,
        "inc": lambda m, d, _: 0 if m >= d else m + 1,
        "dec": lambda m, d, _: d if m == 0 or m > d else m - 1,
    }


def double(update: Callable[[np.float64, np.float64], np.float64]) -> Update:
    def apply(memory: int, data: int, _: int) -> int:
        old, value = np.array([memory, data], np.uint64).view(np.float64)
        return int(np.float64(update(old, value)).view(np.uint64))

    return apply


def single(update: Callable[[np.float32, np.float32], np.float32]) -> Update:
    def apply(memory: int, data: int, _: int) -> int:
        old, value = np.array([memory, data], np.uint32).view(np.float32)
        return int(np.float32(update(old, value)).view(np.uint32))

    return apply


def doubles(generator: np.random.Generator) -> np.ndarray:
    return generator.standard_normal((64, 2)).view(np.uint32)


def small_numbers(size: int) -> Callable[[np.random.Generator], np.ndarray]:
    """-1, 0 and 1, so that they often equal each other and what memory holds."""
    return lambda generator: generator.integers(-1, 2, (64, 16 // size)).astype(f"i{size}").view(np.uint32)


DOUBLES: dict[str, Update] = {"add_f64": double(np.add), "min_f64": double(np.minimum), "max_f64": double(np.maximum)}
FLOATS = {
    "add_f32": (SINGLE, float_data),
    "pk_add_f16": (HALF, half_data(np.float16)),
    "pk_add_bf16": (BF16, half_data(ml_dtypes.bfloat16)),
}


def atomic(
    space: str, size: int, update: Update, offset: int, returns: bool, swapped: bool = False
) -> Callable[[State], None]:
    """`swapped`: the comparand is the first operand, as in ds_cmpst."""

    def reference(state: State) -> None:
        words = size // 4
        for lane in state.lanes:
            place = state.address[lane] + offset
            before = state.load(space, place, size)
            first, second = state.words(lane, words), state.words(lane, words, words)
            value, comparand = (second, first) if swapped else (first, second)
            state.store(space, place, size, update(before, value, comparand))
            if returns:
                state.set_result(lane, before, words)

    return reference


def add_memory_atomic(name: str, size: int, update: Update, operand: str, **options: object) -> None:
    words = size // 4
    place = apart(size, MEMORY_BYTES - 8)
    for returns in (False, True):
        target = f"{registers(8, words)}, " if returns else ""
        flag = " sc0" * returns
        add(
            f"global_atomic_{name} {target}v20, {operand}, s[12:13] offset:8{flag}",
            atomic("memory", size, update, 8, returns),
            place,
            **options,
        )
        add(
            f"flat_atomic_{name} {target}v[22:23], {operand} offset:8{flag}",
            atomic("memory", size, update, 8, returns),
            place,
            **options,
        )
    add(
        f"buffer_atomic_{name} {operand}, v20, s[16:19], 0 offen offset:8",
        atomic("memory", size, update, 8, False),
        place,
        **options,
    )
    moves = "".join(f"\nv_mov_b32_e32 v{8 + word}, v{24 + word}" for word in range(words))
    add(
        f"buffer_atomic_{name} {operand}, v20, s[16:19], 0 offen offset:8 sc0\ns_waitcnt vmcnt(0){moves}",
        atomic("memory", size, update, 8, True),
        place,
        **options,
    )


for size, suffix in ((4, ""), (8, "_x2")):
    updates = integer_updates(size)
    updates["cmpswap"] = lambda m, d, c: d if m == c else m
    for name, update in updates.items():
        data = registers(24, size // 4 * (2 if name == "cmpswap" else 1))
        kind = np.dtype(f"i{size}")
        add_memory_atomic(name + suffix, size, update, data, memory_type=kind, data=small_numbers(size))
        add_memory_atomic(name + suffix, size, update, data)
for name, update in DOUBLES.items():
    add_memory_atomic(name, 8, update, "v[24:25]", memory_type=np.dtype(np.float64), data=doubles)
for name, (kind, source) in FLOATS.items():
    add_memory_atomic(name, 4, add_floats(kind), "v24", memory_type=kind, data=source)

# ---- LDS: what is changed is first written there -----------------------------------------------------------


def after_write(size: int, update: Update, returns: bool) -> Callable[[State], None]:
    """The upper half of the data is written first and then changed with the lower half."""

    def reference(state: State) -> None:
        words = size // 4
        for lane in state.lanes:
            place = state.address[lane] + 16
            before = state.words(lane, words, words)
            state.store("lds", place, size, update(before, state.words(lane, words), 0))
            if returns:
                state.set_result(lane, before, words)

    return reference


LDS_NAMES = {"swap": "wrxchg", "smin": "min", "smax": "max", "umin": "min", "umax": "max"}


def add_lds(name: str, kind: str, size: int, update: Update, source: Callable[..., np.ndarray] | None) -> None:
    words = size // 4
    value, first = registers(24, words), registers(24 + words, words)
    wide = f"b{8 * size}"
    for returns in (False, True):
        if name == "wrxchg" and not returns:
            continue
        target = f"{registers(8, words)}, " if returns else ""
        change = f"ds_{name}{'_rtn' * returns}_{kind} {target}v20, {value} offset:16"
        add(
            f"ds_write_{wide} v20, {first} offset:16\n{change}",
            after_write(size, update, returns),
            apart(size, LDS_BYTES - 16),
            data=source,
        )


for size in (4, 8):
    for name, update in {**integer_updates(size), "rsub": lambda m, d, _: d - m}.items():
        letter = "i" if name[0] == "s" and name in ("smin", "smax") else "u"
        letter = "b" if name in ("swap", "and", "or", "xor") else letter
        for source in (None, small_numbers(size)):
            add_lds(LDS_NAMES.get(name, name), f"{letter}{8 * size}", size, update, source)
    for returns in (False, True):
        words = size // 4
        target = f"{registers(8, words)}, " if returns else ""
        compare, new = registers(24, words), registers(24 + words, words)
        add(
            f"ds_cmpst{'_rtn' * returns}_b{8 * size} {target}v20, {compare}, {new} offset:16",
            atomic("lds", size, lambda m, d, c: d if m == c else m, 16, returns, swapped=True),
            apart(size, LDS_BYTES - 16),
        )
        zero = "v_mov_b32_e32 v30, 0\nv_mov_b32_e32 v31, 0\n"

        def from_zero(state: State, size: int = size, returns: bool = returns) -> None:
            words = size // 4
            for lane in state.lanes:
                compared, value = state.words(lane, words), state.words(lane, words, words)
                state.store("lds", state.address[lane], size, value if compared == 0 else 0)
                if returns:
                    state.set_result(lane, 0, words)

        add(
            f"{zero}ds_write_b{8 * size} v20, {registers(30, words)}\n"
            f"ds_cmpst{'_rtn' * returns}_b{8 * size} {target}v20, {compare}, {new}",
            from_zero,
            apart(size, LDS_BYTES),
            data=small_numbers(size),
        )
for name, update in (("add", single(np.add)), ("min", single(np.minimum)), ("max", single(np.maximum))):
    add_lds(name, "f32", 4, update, float_data)
for name, update in (("add", double(np.add)), ("min", double(np.minimum)), ("max", double(np.maximum))):
    add_lds(name, "f64", 8, update, doubles)
add_lds("pk_add", "f16", 4, add_floats(HALF), half_data(np.float16))
add_lds("pk_add", "bf16", 4, add_floats(BF16), half_data(ml_dtypes.bfloat16))

# ---- flat and scratch moves ----------------------------------------------------------------------------------

for name, words in WIDTHS:
    add(
        f"flat_load_{name} {registers(8, words)}, v[22:23] offset:16",
        read_global(words, 16),
        anywhere(4 * words, 8000, 4),
    )
    add(
        f"flat_store_{name} v[22:23], {registers(24, words)} offset:16",
        write("memory", 4 * words, 16),
        apart(4 * words, MEMORY_BYTES - 16),
    )
SMALL = (("ubyte", 1, False), ("sbyte", 1, True), ("ushort", 2, False), ("sshort", 2, True))
for name, size, is_signed in SMALL:
    add(f"flat_load_{name} v8, v[22:23] offset:6", read_small("memory", size, is_signed, 6), anywhere(size, 8000))
for name, size, shift in (("byte", 1, 0), ("short", 2, 0), ("byte_d16_hi", 1, 16), ("short_d16_hi", 2, 16)):
    add(f"flat_store_{name} v[22:23], v24", write("memory", size, 0, shift), apart(size, MEMORY_BYTES))
for name, size, is_signed in (("ubyte", 1, False), ("sbyte", 1, True), ("short", 2, False)):
    for high in (False, True):
        suffix = "_hi" if high else ""
        add(
            f"flat_load_{name}_d16{suffix} v8, v[22:23]",
            read_half("memory", size, is_signed, high),
            anywhere(size, 8000),
        )


def through_scratch(size: int, shift: int, is_signed: bool, half: str) -> Callable[[State], None]:
    """A part of the data goes to the lane's own memory and comes back extended, or into one half of the register."""

    def reference(state: State) -> None:
        for lane in state.lanes:
            value = state.words(lane, 1) >> shift & (1 << 8 * size) - 1
            if is_signed:
                value = signed(value, size) & 0xFFFFFFFF
            old = state.result[lane][0]
            if half == "low":
                value = old & 0xFFFF0000 | value & 0xFFFF
            elif half == "high":
                value = old & 0xFFFF | (value & 0xFFFF) << 16
            state.set_result(lane, value, 1)

    return reference


for part, size in (("byte", 1), ("short", 2)):
    for stored, shift in ((part, 0), (f"{part}_d16_hi", 16)):
        loads = [(f"u{part}", False, ""), (f"s{part}", True, "")]
        if size == 1:
            loads += [("ubyte_d16", False, "low"), ("ubyte_d16_hi", False, "high")]
            loads += [("sbyte_d16", True, "low"), ("sbyte_d16_hi", True, "high")]
        else:
            loads += [("short_d16", False, "low"), ("short_d16_hi", False, "high")]
        for loaded, is_signed, half in loads:
            add(
                f"scratch_store_{stored} v20, v24, off\ns_waitcnt vmcnt(0)\nscratch_load_{loaded} v8, v20, off",
                through_scratch(size, shift, is_signed, half),
                anywhere(size, 64),
                scratch=64,
            )

# ---- scalar loads through a buffer ---------------------------------------------------------------------------

for name, count in (("dword", 1), ("dwordx2", 2), ("dwordx4", 4), ("dwordx8", 8), ("dwordx16", 16)):
    target = "s40" if count == 1 else f"s[40:{39 + count}]"
    moves = "\n".join(f"v_mov_b32_e32 v{8 + word}, s{40 + count - 1 - word % count}" for word in range(4))
    add(
        f"s_buffer_load_{name} {target}, s[16:19], 0x84\ns_waitcnt lgkmcnt(0)\n{moves}",
        scalar_words(count, 0x84),
        anywhere(4, 64),
    )
    add(
        f"s_buffer_load_{name} {target}, s[16:19], s20\ns_waitcnt lgkmcnt(0)\n{moves}",
        scalar_words(count, SCALAR_OFFSET),
        anywhere(4, 64),
    )


@pytest.fixture(scope="module")
def program() -> Program:
    return Program([case.kernel(f"case{index}") for index, case in enumerate(CASES)])


@pytest.mark.parametrize("index", range(len(CASES)), ids=[str(case) for case in CASES])
def test_instruction(program: Program, index: int) -> None:
    CASES[index].run(lambda buffers: program.launch(f"case{index}", 1, buffers))
