"""Micro-kernels with known answers, one mechanism each: the model's clocks against documented rates, within 5%."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from assemble import KernelText
from timing_case import Repeated, report_of

GOLDEN = {
    row["case"]: float(row["clocks"]) for row in csv.DictReader(Path(__file__).with_name("timing_golden.csv").open())
}
TOLERANCE = 0.05


def close(measured: float, expected: float) -> None:
    assert abs(measured - expected) <= TOLERANCE * expected, f"{measured:g} clocks, documented {expected:g}"


# ---- matrix and vector units

# Registers of A, B and C/D of each instruction.
MFMA = {
    "v_mfma_f32_16x16x32_bf16": (4, 4, 4),
    "v_mfma_f32_16x16x32_f16": (4, 4, 4),
    "v_mfma_f32_32x32x16_bf16": (4, 4, 16),
    "v_mfma_f32_32x32x16_f16": (4, 4, 16),
    "v_mfma_f32_16x16x16_bf16": (2, 2, 4),
    "v_mfma_f32_32x32x8_f16": (2, 2, 16),
    "v_mfma_i32_16x16x64_i8": (4, 4, 4),
    "v_mfma_i32_32x32x32_i8": (4, 4, 16),
    "v_mfma_f32_16x16x128_f8f6f4 fp8": (8, 8, 4),
    "v_mfma_f32_16x16x128_f8f6f4 fp4": (4, 4, 4),
    "v_mfma_f32_32x32x64_f8f6f4 fp8": (8, 8, 16),
    "v_mfma_f32_32x32x64_f8f6f4 fp4": (4, 4, 16),
    "v_mfma_f64_16x16x4_f64": (2, 2, 8),
    "v_mfma_f32_4x4x4_16b_f16": (2, 2, 4),
}


def registers(first: int, count: int) -> str:
    return f"v[{first}:{first + count - 1}]"


def mfma(name: str, destination: int, a: int, b: int, c: int) -> str:
    mnemonic, _, kind = name.partition(" ")
    words = MFMA[name]
    operands = [registers(destination, words[2]), registers(a, words[0]), registers(b, words[1])]
    text = f"{mnemonic} {', '.join([*operands, registers(c, words[2])])}"
    return text + (" cbsz:4 blgp:4" if kind == "fp4" else "")


def mfma_rate(name: str) -> float:
    """Four accumulators in turn: nothing waits for a result."""
    body = "\n".join(mfma(name, at, 0, 8, at) for at in (16, 32, 48, 64))
    return Repeated(body, times=32).clocks() / 4


def same_accumulator(name: str) -> float:
    return Repeated(mfma(name, 16, 0, 8, 16)).clocks()


def result_as_a(name: str) -> float:
    """Each instruction multiplies what the one before it gave."""
    body = mfma(name, 16, 32, 8, 64) + "\n" + mfma(name, 32, 16, 8, 80)
    return Repeated(body).clocks() / 2


def result_in_vector(name: str) -> float:
    """A vector instruction reads the result, and the next matrix instruction that of the vector instruction."""
    return Repeated(mfma(name, 16, 0, 8, 32) + "\nv_mov_b32_e32 v0, v16").clocks()


OPERANDS = {
    "v_add_f32": "v_add_f32_e32 v1, v2, v3",
    "v_fma_f32": "v_fma_f32 v1, v2, v3, v4",
    "v_pk_fma_f32": "v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7]",
    "v_fma_f64": "v_fma_f64 v[0:1], v[2:3], v[4:5], v[6:7]",
    "v_lshlrev_b64": "v_lshlrev_b64 v[0:1], 3, v[2:3]",
    "v_exp_f32": "v_exp_f32_e32 v1, v2",
    "v_rcp_f32": "v_rcp_f32_e32 v1, v2",
    "v_mul_lo_u32": "v_mul_lo_u32 v1, v2, v3",
    "s_add_u32": "s_add_u32 s8, s9, s10",
}

MEASURES: dict[str, Callable[[str], float]] = {
    "mfma": mfma_rate,
    "same accumulator": same_accumulator,
    "result as A": result_as_a,
    "result in vector": result_in_vector,
    "valu": lambda name: Repeated(OPERANDS[name]).clocks(),
    "salu": lambda name: Repeated(OPERANDS[name]).clocks(),
    "s_nop": lambda argument: Repeated(f"s_nop {argument}").clocks(),
    "s_sleep": lambda argument: Repeated(f"s_sleep {argument}").clocks(),
}


@pytest.mark.parametrize("case", GOLDEN)
def test_documented_rate(case: str) -> None:
    measure = next(name for name in sorted(MEASURES, key=len, reverse=True) if case.startswith(name + " "))
    close(MEASURES[measure](case[len(measure) + 1 :]), GOLDEN[case])


# ---- LDS

# Lanes that are served together. b128 reads: measured on hardware.
B128 = [[*range(4), *range(12, 16), *range(20, 28)], [*range(4, 12), *range(16, 20), *range(28, 32)]]


def consecutive(width: int) -> list[list[int]]:
    return [list(range(first, first + width)) for first in range(0, 64, width)]


PHASES = {
    "ds_read_b32": (4, consecutive(32)),
    "ds_write_b32": (4, consecutive(32)),
    "ds_read_b64": (8, consecutive(32)),
    "ds_write_b64": (8, consecutive(16)),
    "ds_read_b64_tr_b16": (8, consecutive(32)),
    "ds_read_b128": (16, B128 + [[lane + 32 for lane in phase] for phase in B128]),
    "ds_write_b128": (16, consecutive(8)),
}


def lds_clocks(name: str, addresses: list[int], waves: int = 4) -> float:
    """Of one instruction, when the LDS unit has nothing but such to do."""
    words = PHASES[name][0] // 4
    data = "v2" if words == 1 else registers(4, words)
    access = f"{name} v0, {data}" if "write" in name else f"{name} {data}, v0"
    before = """s_load_dwordx2 s[20:21], s[0:1], 0x0
v_and_b32_e32 v0, 63, v0
v_lshlrev_b32_e32 v0, 2, v0
s_waitcnt lgkmcnt(0)
global_load_dword v0, v0, s[20:21]
s_waitcnt vmcnt(0)
s_barrier
"""
    repeated = Repeated(access, before, "s_waitcnt lgkmcnt(0)", block=64 * waves, lds=65536, times=128)
    return repeated.clocks([np.array(addresses, np.uint32)]) / waves


def with_conflicts(phases: list[list[int]], size: int, degree: int) -> list[int]:
    """Addresses of which, in each phase, `degree` different ones meet in every bank that is used."""
    addresses = [0] * 64
    for phase in phases:
        columns = len(phase) // degree
        for place, lane in enumerate(phase):
            addresses[lane] = place % columns * size + place // columns * 256
    return addresses


CONFLICTS = [
    (name, degree)
    for name, (_, phases) in PHASES.items()
    for degree in (1, 2, 4, 8, 16, 32)
    if degree <= len(phases[0])
]


@pytest.mark.parametrize(("name", "degree"), CONFLICTS)
def test_lds_conflicts(name: str, degree: int) -> None:
    """128 bytes a clock without conflicts; each phase as often as one bank has to serve it."""
    size, phases = PHASES[name]
    close(lds_clocks(name, with_conflicts(phases, size, degree)), 64 * size / 128 * degree)


@pytest.mark.parametrize("name", PHASES)
def test_all_64_lanes_in_the_same_banks(name: str) -> None:
    """The highest degree: every lane of every phase in turn, so 64 times the banks of a lane, at 128 bytes a clock the
    clocks of an access without conflicts times the lanes of a phase."""
    size, phases = PHASES[name]
    close(lds_clocks(name, [256 * lane for lane in range(64)]), 64 * size / 128 * len(phases[0]))


def test_lanes_that_read_one_dword_share_it() -> None:
    close(lds_clocks("ds_read_b32", [128] * 64), 2)


def test_b128_reads_are_not_served_by_consecutive_lanes() -> None:
    """Each 16 consecutive lanes in all banks once; of the lanes that are served together, two in each bank."""
    columns = [*range(16), 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11] * 2
    close(lds_clocks("ds_read_b128", [16 * column + 256 * (lane // 16) for lane, column in enumerate(columns)]), 16)
    close(lds_clocks("ds_read_b128", [16 * lane for lane in range(64)]), 8)


# ---- memory

LOAD_BASE = "s_load_dwordx2 s[20:21], s[0:1], 0x0\nv_mov_b32_e32 v1, 0\ns_waitcnt lgkmcnt(0)"


def latency(step: int, span: int) -> float:
    """Of a load that waits for the one before it, one lane on, through `span` bytes in steps of `step`, twice over."""
    before = LOAD_BASE + "\ns_mov_b64 exec, 1"
    chase = f"""global_load_dword v2, v1, s[20:21]
s_waitcnt vmcnt(0)
v_add_u32_e32 v1, {step}, v1
v_and_b32_e32 v1, {span - 1:#x}, v1"""
    return Repeated(chase, before, times=span // step).clocks([np.zeros(max(span, 256) // 4, np.uint32)]) - 12


def test_dependent_loads_in_l1() -> None:
    """The second half of the repetitions finds every line in L1."""
    close(latency(128, 8192), 120)


@pytest.mark.parametrize(("warm", "clocks"), [(0, 1200), (1, 700)])
def test_dependent_loads_that_never_repeat_go_beyond_l2(
    warm: int, clocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To HBM the first time that they are ever touched, else to the Infinity Cache."""
    monkeypatch.setenv("GFX950_TIMING_PARAMS", f"warm={warm}")
    before = LOAD_BASE + "\ns_mov_b64 exec, 1"
    chase = "global_load_dword v2, v1, s[20:21]\ns_waitcnt vmcnt(0)\nv_add_u32_e32 v1, 0x80, v1"
    memory = [np.zeros(1 << 14, np.uint32)]
    close(Repeated(chase, before).clocks(memory) - 8, clocks)


def stream(apart: int, span: int, loops: int, vgprs: int = 32, block: int = 1024) -> KernelText:
    """Each workgroup reads `block` * 16 bytes at a time: from `apart` bytes times its number on, around `span`."""
    body = f"""{LOAD_BASE}
s_mul_i32 s2, s2, {apart}
s_add_u32 s20, s20, s2
s_addc_u32 s21, s21, 0
v_lshlrev_b32_e32 v1, 4, v0
s_mov_b32 s8, 0
s_mov_b32 s9, {loops}
.Lagain:
v_add_u32_e32 v2, s8, v1
global_load_dwordx4 v[4:7], v2, s[20:21]
s_add_u32 s8, s8, {16 * block}
s_and_b32 s8, s8, {span - 1:#x}
s_sub_u32 s9, s9, 1
s_cmp_lg_u32 s9, 0
s_cbranch_scc1 .Lagain
s_waitcnt vmcnt(0)"""
    return KernelText("kernel", body, 8, vgprs=vgprs, block=block)


def bytes_per_ns(memory: np.ndarray, groups: int, apart: int, span: int, loops: int, vgprs: int = 32) -> float:
    """Of a stream, without its beginning and its end: from one and from twice as many workgroups."""
    moved, taken = [], []
    for n in (groups, 2 * groups):
        report = report_of(stream(apart, span, loops, vgprs), [memory], n)
        moved.append(report["memory"]["requested_bytes"])
        taken.append(report["nanoseconds"])
    return float((moved[1] - moved[0]) / (taken[1] - taken[0]))


def test_hbm_stream() -> None:
    """Every line once: 7.2 TB/s, the figure that copies reach."""
    groups = 2048
    memory = np.empty(groups << 19, np.uint8)  # never touched
    assert abs(bytes_per_ns(memory, groups, 1 << 18, 1 << 18, 16) - 7200) < 0.05 * 7200


def test_l2_stream() -> None:
    """All workgroups read the same 512 KB many times: 64 bytes a clock for each compute unit.

    With so many registers that a compute unit has one workgroup: two at the same place would share its L1.
    """
    memory = np.empty(1 << 19, np.uint8)
    expected = 64 * 256 * 2.4
    assert abs(bytes_per_ns(memory, 1024, 0, 1 << 19, 512, 128) - expected) < 0.05 * expected


def test_l1_stream() -> None:
    """The same 16 KB many times: 128 bytes a clock."""
    memory = np.empty(1 << 14, np.uint8)
    expected = 128 * 256 * 2.4
    assert abs(bytes_per_ns(memory, 2048, 0, 1 << 14, 256) - expected) < 0.05 * expected


@pytest.mark.parametrize(("stride", "lines"), [(4, 2), (16, 8), (64, 32), (128, 64), (256, 64)])
def test_strided_loads(stride: int, lines: int) -> None:
    """Lanes `stride` bytes apart: 16 lanes and one line a clock."""
    before = f"{LOAD_BASE}\nv_mul_u32_u24_e32 v1, {stride}, v0"
    repeated = Repeated("global_load_dword v2, v1, s[20:21]", before, "s_waitcnt vmcnt(0)")
    close(repeated.clocks([np.zeros(1 << 16, np.uint32)]), max(4, lines))


# ---- workgroups


def test_barrier_waits_for_the_slowest_wave() -> None:
    """Wave 0 sleeps 640 clocks, wave 1 does not: both are through together."""
    before = "v_readfirstlane_b32 s8, v0\ns_cmp_lg_u32 s8, 0"
    body = "s_cbranch_scc1 1f\ns_sleep 10\n1:\ns_barrier"
    close(Repeated(body, before, block=128).clocks(), 640 + 8 + 8)


# LLVM's occupancy for 512 registers in granules of 8, at most 8 waves.
@pytest.mark.parametrize(
    ("vgprs", "waves"), [(64, 8), (72, 7), (80, 6), (88, 5), (96, 5), (104, 4), (128, 4), (168, 3), (176, 2), (256, 2)]
)
def test_occupancy_by_registers(vgprs: int, waves: int) -> None:
    kernel = KernelText("kernel", "s_nop 0", 8, vgprs=vgprs, block=256)
    occupancy = report_of(kernel, [np.zeros(64, np.uint32)], 256 * 16)["occupancy"]
    assert occupancy["waves_per_simd"] == waves
    assert occupancy["limiter"] == ("registers" if waves < 8 else "waves")


@pytest.mark.parametrize(("lds", "groups"), [(20480, 8), (32768, 4), (40960, 4), (65536, 2), (81920, 2), (81921, 1)])
def test_occupancy_by_lds(lds: int, groups: int) -> None:
    kernel = KernelText("kernel", "s_nop 0", 8, vgprs=32, block=256, lds=lds)
    occupancy = report_of(kernel, [np.zeros(64, np.uint32)], 256 * 16)["occupancy"]
    assert occupancy["workgroups_per_cu"] == groups


def two_kinds(first: str, second: str, times: int = 64) -> float:
    """Clocks of a repetition when, on each SIMD, one wave does `first` while another does `second`."""
    before = "v_readfirstlane_b32 s8, v0\ns_cmp_gt_u32 s8, 255\ns_cbranch_scc1 .Lsecond"

    def clocks(n: int) -> float:
        text = "\n".join([before, *[first] * n, "s_endpgm", ".Lsecond:", *[second] * n])
        kernel = KernelText("kernel", text, 8, vgprs=64, block=512)
        return float(report_of(kernel, [np.zeros(64, np.uint32)])["cycles"])

    return (clocks(2 * times) - clocks(times)) / times


MATRIX = "v_mfma_f32_16x16x32_bf16 v[16:19], v[0:3], v[8:11], v[16:19]"


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("v_add_f32_e32 v1, v2, v3", "v_add_f32_e32 v1, v2, v3", 8),  # one class: in turn
        ("v_add_f32_e32 v1, v2, v3", "s_add_u32 s8, s9, s10", 4),  # two classes: at once
        (MATRIX, "v_add_f32_e32 v1, v2, v3\n" * 3, 16),  # vector instructions in the shadow of a matrix one
        (MATRIX, MATRIX, 32),  # one matrix unit
    ],
    ids=["valu valu", "valu salu", "mfma valu", "mfma mfma"],
)
def test_coissue(first: str, second: str, expected: float) -> None:
    close(two_kinds(first, second), expected)


def test_vector_instructions_wait_behind_a_matrix_one_of_their_wave() -> None:
    """1 + (16 + 16 bytes)/16 slots, then one slot each: 12 + 4 clocks, of which the matrix unit needs 16."""
    close(Repeated(f"{MATRIX}\nv_add_f32_e32 v40, v41, v42").clocks(), 16)
    close(Repeated(f"{MATRIX}\n" + "v_add_f32_e32 v40, v41, v42\n" * 2).clocks(), 20)


def test_priority_decides_between_waves() -> None:
    """The later wave of each SIMD raises its priority: it ends first and not last."""

    work = "v_add_f32_e32 v1, v2, v3\n" * 200

    def end_of_second(priority: int) -> float:
        text = f"""v_readfirstlane_b32 s8, v0
s_cmp_gt_u32 s8, 255
s_cbranch_scc0 .Lgo
s_setprio {priority}
.Lgo:
s_nop 15
{work}s_cbranch_scc0 .Lend
s_sleep 100
.Lend:"""
        kernel = KernelText("kernel", text, 8, vgprs=64, block=512)
        return float(report_of(kernel, [np.zeros(64, np.uint32)])["cycles"])

    assert end_of_second(3) < end_of_second(0) - 500
