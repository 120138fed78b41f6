"""DPP, lane permutations and the reads and writes of single lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from core_library import Program
from vector_case import VectorCase as Case

U32, I32, F32 = np.uint32, np.int32, np.float32
CASES: list[Case] = []
EVERY_LANE = (0xFFFFFFFFFFFFFFFF,)


def add(text: str, sources: str, result: str, reference: Callable[..., Any], **options: Any) -> None:
    CASES.append(Case(text, tuple(sources.split()), result, reference, **options))


def by_wave(values: np.ndarray) -> np.ndarray:
    return values.reshape(-1, 64)


def enabled_lanes(exec_: np.ndarray) -> np.ndarray:
    return np.unpackbits(exec_.view(np.uint8), bitorder="little").astype(bool).reshape(-1, 64)


# ---- DPP -------------------------------------------------------------------------------------------------

LANE = np.arange(64)
ROW, IN_ROW = LANE // 16 * 16, LANE % 16
NOWHERE = -1


def inside(source: np.ndarray, valid: np.ndarray) -> np.ndarray:
    return np.where(valid, source, NOWHERE)


# Modifier -> lane that each lane reads.
PATTERNS: dict[str, np.ndarray] = {
    "quad_perm:[1,0,3,2]": LANE // 4 * 4 + np.array([1, 0, 3, 2])[LANE % 4],
    "quad_perm:[2,2,0,1]": LANE // 4 * 4 + np.array([2, 2, 0, 1])[LANE % 4],
    "row_mirror": ROW + 15 - IN_ROW,
    "row_half_mirror": LANE // 8 * 8 + 7 - LANE % 8,
    "row_bcast:15": inside(ROW - 1, LANE >= 16),
    "row_bcast:31": inside(np.full(64, 31), LANE >= 32),
    "wave_shl:1": inside(LANE + 1, LANE < 63),
    "wave_shr:1": inside(LANE - 1, LANE > 0),
    "wave_rol:1": (LANE + 1) % 64,
    "wave_ror:1": (LANE - 1) % 64,
}
for count in (1, 2, 3, 4, 8, 15):
    PATTERNS[f"row_shl:{count}"] = inside(LANE + count, IN_ROW + count < 16)
    PATTERNS[f"row_shr:{count}"] = inside(LANE - count, count <= IN_ROW)
    PATTERNS[f"row_ror:{count}"] = ROW + (IN_ROW - count) % 16


def moved(
    source: np.ndarray, exec_: np.ndarray, pattern: np.ndarray, rows: int, banks: int, bound_ctrl: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The value each lane reads, and whether the lane takes part."""
    on = enabled_lanes(exec_)
    reads = by_wave(source)[:, np.maximum(pattern, 0)]
    valid = (pattern != NOWHERE) & on[:, np.maximum(pattern, 0)]
    unmasked = (rows >> (LANE // 16) & 1 == 1) & (banks >> (LANE % 16 // 4) & 1 == 1)
    value = np.where(valid, reads, reads.dtype.type(0))
    takes_part = np.broadcast_to(unmasked, valid.shape) & (valid | bound_ctrl)
    return value.reshape(-1), takes_part.reshape(-1)


def move_case(modifier: str, rows: int = 0xF, banks: int = 0xF, bound_ctrl: bool = False) -> None:
    def reference(source: np.ndarray, old: np.ndarray, exec_: np.ndarray) -> np.ndarray:
        value, takes_part = moved(source, exec_, PATTERNS[modifier], rows, banks, bound_ctrl)
        return np.where(takes_part, value, old)

    text = (
        f"v_mov_b32_dpp {{d}}, {{0}} {modifier} row_mask:{rows:#x} bank_mask:{banks:#x}" + " bound_ctrl:1" * bound_ctrl
    )
    add(text, "b32", "b32", reference, needs=("old", "exec_"))


for modifier in PATTERNS:
    move_case(modifier)
    move_case(modifier, bound_ctrl=True)
move_case("row_bcast:15", rows=0xA)
move_case("row_bcast:31", rows=0xC)
move_case("row_shr:1", banks=0x5)
move_case("quad_perm:[1,0,3,2]", rows=0x6, banks=0x9, bound_ctrl=True)

OPERATIONS: dict[str, tuple[str, Callable[[np.ndarray, np.ndarray], np.ndarray]]] = {
    "v_add_u32_dpp": ("u32", lambda a, b: a + b),
    "v_and_b32_dpp": ("u32", lambda a, b: a & b),
    "v_xor_b32_dpp": ("u32", lambda a, b: a ^ b),
    "v_max_i32_dpp": ("i32", np.maximum),
    "v_add_f32_dpp": ("f32", lambda a, b: a + b),
}
for name, (kind, operation) in OPERATIONS.items():
    for modifier, rows, banks, bound_ctrl in (
        ("row_shr:1", 0xF, 0xF, False),
        ("row_shr:4", 0xF, 0xE, True),
        ("row_bcast:15", 0xA, 0xF, False),
        ("quad_perm:[1,0,3,2]", 0xF, 0xF, True),
        ("row_ror:8", 0xF, 0xF, False),
    ):

        def reference(
            a: np.ndarray,
            b: np.ndarray,
            old: np.ndarray,
            exec_: np.ndarray,
            operation: Any = operation,
            call: Any = (modifier, rows, banks, bound_ctrl),
        ) -> np.ndarray:
            value, takes_part = moved(a, exec_, PATTERNS[call[0]], *call[1:])
            return np.where(takes_part, operation(value, b), old)

        flag = " bound_ctrl:1" * bound_ctrl
        add(
            f"{name} {{d}}, {{0}}, {{1}} {modifier} row_mask:{rows:#x} bank_mask:{banks:#x}{flag}",
            f"{kind} {kind}",
            kind,
            reference,
            needs=("old", "exec_"),
        )

# ---- single lanes ----------------------------------------------------------------------------------------


def first_enabled(exec_: np.ndarray) -> np.ndarray:
    return np.argmax(enabled_lanes(exec_), axis=1)


def first_lane(source: np.ndarray, exec_: np.ndarray) -> np.ndarray:
    waves = by_wave(source)
    return np.repeat(waves[np.arange(len(waves)), first_enabled(exec_)], 64)


def one_lane(source: np.ndarray, lane: np.ndarray) -> np.ndarray:
    waves, index = by_wave(source), by_wave(lane)[:, 0] & U32(63)
    return np.repeat(waves[np.arange(len(waves)), index], 64)


add("v_readfirstlane_b32 s18, {0}\nv_mov_b32_e32 {d}, s18", "b32", "b32", first_lane, needs=("exec_",))
add("v_readlane_b32 s18, {0}, {s1}\nv_mov_b32_e32 {d}, s18", "b32 b32", "b32", one_lane)
add("v_readlane_b32 s18, {0}, 63\nv_mov_b32_e32 {d}, s18", "b32", "b32", lambda a: one_lane(a, np.full_like(a, 63)))
add("v_accvgpr_write_b32 a3, {0}\nv_accvgpr_mov_b32 a6, a3\nv_accvgpr_read_b32 {d}, a6", "b32", "b32", lambda a: a)
add("v_accvgpr_write_b32 a3, 17\nv_accvgpr_read_b32 {d}, a3", "", "b32", lambda: np.full(256, 17, U32))


def bits_below(mask: np.ndarray, start: np.ndarray, lane: np.ndarray, first: int) -> np.ndarray:
    below = np.clip(lane.astype(np.int64) - first, 0, 32)
    return start + np.bitwise_count(mask.astype(np.uint64) & ((1 << below) - 1).astype(np.uint64)).astype(U32)


add("v_mbcnt_lo_u32_b32 {d}, {0}, {1}", "b32 u32", "u32", lambda a, b, lane: bits_below(a, b, lane, 0), needs=("lane",))
add(
    "v_mbcnt_hi_u32_b32 {d}, {0}, {1}", "b32 u32", "u32", lambda a, b, lane: bits_below(a, b, lane, 32), needs=("lane",)
)
add(
    "v_mbcnt_lo_u32_b32 {d}, -1, 0\nv_mbcnt_hi_u32_b32 {d}, -1, {d}",
    "",
    "u32",
    lambda: np.tile(np.arange(64, dtype=U32), 4),
)

# ---- swaps between the halves of a wave ------------------------------------------------------------------


def swapped(width: int) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    def reference(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        a, b = by_wave(first).copy(), by_wave(second).copy()
        for base in range(0, 64, 2 * width):
            low, high = slice(base, base + width), slice(base + width, base + 2 * width)
            a[:, high], b[:, low] = by_wave(second)[:, low], by_wave(first)[:, high]
        return a.reshape(-1).astype(np.uint64) | b.reshape(-1).astype(np.uint64) << np.uint64(32)

    return reference


for width in (16, 32):
    for form in ("e32", "e64"):
        text = f"v_permlane{width}_swap_b32_{form} {{0}}, {{1}}\nv_mov_b32_e32 v8, {{0}}\nv_mov_b32_e32 v9, {{1}}"
        add(text, "b32 b32", "b64", swapped(width), execution=EVERY_LANE)

# ---- through the LDS hardware, without memory ------------------------------------------------------------


def backward_permute(address: np.ndarray, data: np.ndarray, exec_: np.ndarray, offset: int = 0) -> np.ndarray:
    source = (by_wave(address) + U32(offset)) // U32(4) % U32(64)
    on = np.take_along_axis(enabled_lanes(exec_), source.astype(np.intp), axis=1)
    return np.where(on, np.take_along_axis(by_wave(data), source.astype(np.intp), axis=1), U32(0)).reshape(-1)


add("ds_bpermute_b32 {d}, {0}, {1}\ns_waitcnt lgkmcnt(0)", "u32 b32", "b32", backward_permute, needs=("exec_",))
add(
    "ds_bpermute_b32 {d}, {0}, {1} offset:24\ns_waitcnt lgkmcnt(0)",
    "u32 b32",
    "b32",
    lambda a, b, exec_: backward_permute(a, b, exec_, 24),
    needs=("exec_",),
)


def forward_permute(address: np.ndarray, data: np.ndarray, exec_: np.ndarray, old: np.ndarray) -> np.ndarray:
    """Each enabled lane sends; when two send to one lane, the higher one wins. Lanes that get nothing get 0."""
    target, on, waves = by_wave(address) // U32(4) % U32(64), enabled_lanes(exec_), by_wave(data)
    result = np.zeros_like(waves)
    for wave in range(len(waves)):
        for lane in np.flatnonzero(on[wave]):
            result[wave, target[wave, lane]] = waves[wave, lane]
    return result.reshape(-1)


add("ds_permute_b32 {d}, {0}, {1}\ns_waitcnt lgkmcnt(0)", "u32 b32", "b32", forward_permute, needs=("exec_", "old"))


def write_lane(value: np.ndarray, lane: np.ndarray, old: np.ndarray) -> np.ndarray:
    waves = by_wave(old).copy()
    waves[np.arange(len(waves)), by_wave(lane)[:, 0] & U32(63)] = by_wave(value)[:, 0]
    return waves.reshape(-1)


# v_writelane ignores EXEC, so it is run with every lane on.
add(
    "s_mov_b32 m0, {s1}\nv_writelane_b32 {d}, {s0}, m0",
    "b32 b32",
    "b32",
    write_lane,
    needs=("old",),
    execution=EVERY_LANE,
)


def swizzle(offset: int) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    if offset & 0x8000:
        source = LANE // 4 * 4 + np.array([offset >> 2 * q & 3 for q in range(4)])[LANE % 4]
    else:
        and_mask, or_mask, xor_mask = offset & 31, offset >> 5 & 31, offset >> 10 & 31
        source = LANE // 32 * 32 + (((LANE % 32) & and_mask | or_mask) ^ xor_mask)

    def reference(data: np.ndarray, exec_: np.ndarray) -> np.ndarray:
        return np.where(enabled_lanes(exec_)[:, source], by_wave(data)[:, source], U32(0)).reshape(-1)

    return reference


for offset in (0x041F, 0x081F, 0x101F, 0x201F, 0x401F, 0x7C1F, 0x001C, 0x00F0, 0x80B1, 0x804E, 0x8000, 0x80E4):
    add(
        f"ds_swizzle_b32 {{d}}, {{0}} offset:{offset:#x}\ns_waitcnt lgkmcnt(0)",
        "b32",
        "b32",
        swizzle(offset),
        needs=("exec_",),
    )


@pytest.fixture(scope="module")
def program() -> Program:
    return Program([case.kernel(f"case{index}") for index, case in enumerate(CASES)])


@pytest.mark.parametrize("index", range(len(CASES)), ids=[str(case) for case in CASES])
def test_instruction(program: Program, index: int) -> None:
    CASES[index].run(lambda groups, buffers: program.launch(f"case{index}", groups, buffers))
