"""The timing model as a whole: what its answer depends on and what not, what it extrapolates, what can be set."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import triton_kernels as kernels
from assemble import KernelText
from core_library import CoreError
from timing_case import last_report, report_of, timing_only
from triton_kernels import Compiled, compile_kernel
from triton_library import layer_norm

BF16 = ml_dtypes.bfloat16
Launch = Callable[[Compiled], None]


def matmul(size: int) -> tuple[Callable[[], Compiled], Launch]:
    signature = {"a": "*bf16", "b": "*bf16", "c": "*bf16"} | dict.fromkeys(
        ["m", "n", "k", "sam", "sak", "sbk", "sbn", "scm"], "i32"
    )
    a, b, c = (np.zeros((size, size), BF16) for _ in range(3))
    grid = (size // 128, size // 128)

    def compiled() -> Compiled:
        aligned = ("a", "b", "c", "m", "n", "k", "sam", "sbn", "scm")
        return compile_kernel(kernels.matmul, signature, {"bm": 128, "bn": 128, "bk": 64}, aligned, num_warps=4)

    return compiled, lambda k: k.launch(grid, a, b, c, size, size, size, size, 1, 1, size, size) and None


def norm(rows: int, columns: int = 2048) -> tuple[Callable[[], Compiled], Launch]:
    x, y = (np.zeros((rows, columns), BF16) for _ in range(2))
    weight, bias = (np.zeros(columns, BF16) for _ in range(2))
    signature = dict.fromkeys(["x", "weight", "bias", "y"], "*bf16") | {"columns": "i32", "epsilon": "fp32"}

    def compiled() -> Compiled:
        return compile_kernel(layer_norm, signature, {"block": columns}, ("x", "weight", "bias", "y", "columns"))

    return compiled, lambda k: k.launch((rows,), x, weight, bias, y, columns, 1e-5) and None


def attention(length: int, causal: bool, heads: int = 4) -> tuple[Callable[[], Compiled], Launch]:
    q, k, v, o = (np.zeros((heads, length, 64), BF16) for _ in range(4))
    signature = dict.fromkeys(["q", "k", "v", "o"], "*bf16") | {"length": "i32", "scale": "fp32"}

    def compiled() -> Compiled:
        constants = {"bm": 64, "bn": 64, "d": 64, "causal": causal}
        return compile_kernel(kernels.attention, signature, constants, ("q", "k", "v", "o", "length"))

    return compiled, lambda kernel: kernel.launch((length // 64, heads), q, k, v, o, length, 0.125) and None


CASES = {
    "matmul": matmul(512),
    "norm": norm(600),
    "attention": attention(512, False),
    "causal attention": attention(512, True),
}


def fresh_report(case: tuple[Callable[[], Compiled], Launch], only: bool = True) -> dict[str, Any]:
    """From a code object of its own: nothing is remembered."""
    compiled, launch = case
    with timing_only(only):
        launch(compiled())
    return last_report()


# ---- what the answer depends on


@pytest.mark.parametrize("name", CASES)
def test_skipping_changes_no_cycle(name: str) -> None:
    """The whole report: each instruction's stalls, each level's bytes."""
    skipped, executed = (fresh_report(CASES[name], only) for only in (True, False))
    assert (skipped.pop("timing_only"), executed.pop("timing_only")) == (1, 0)
    assert skipped == executed


@pytest.mark.parametrize("setting", ["GFX950_THREADS=1", "GFX950_SCHEDULE=round_robin", "GFX950_SCHEDULE=random:5"])
def test_host_threads_and_wave_order_change_no_cycle(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, value = setting.split("=")
    plain = fresh_report(CASES["matmul"], only=False)
    monkeypatch.setenv(name, value)
    assert fresh_report(CASES["matmul"], only=False) == plain


COPY = KernelText(
    "kernel",
    """s_load_dwordx4 s[4:7], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 4, v0
s_lshl_b32 s2, s2, 12
v_add_u32_e32 v1, s2, v1
s_waitcnt lgkmcnt(0)
global_load_dwordx4 v[4:7], v1, s[4:5]
s_waitcnt vmcnt(0)
global_store_dwordx4 v1, v[4:7], s[6:7]""",
    16,
    vgprs=16,
    block=256,
)


def test_host_addresses_change_no_cycle() -> None:
    """Memory that begins anywhere in a line, in another order."""
    nbytes = 64 << 12
    whole = np.zeros(3 * nbytes + 1024, np.uint8)

    def at(first: int, second: int) -> dict[str, Any]:
        kernel = KernelText(**{**vars(COPY), "name": f"copy{first}"})
        return report_of(kernel, [whole[first : first + nbytes], whole[second : second + nbytes]], 64)

    start = -whole.ctypes.data % 256
    plain = at(start, start + nbytes + 256)
    moved = at(start + nbytes + 516, start + 4)
    assert plain.pop("kernel") != moved.pop("kernel")
    assert plain == moved


def test_a_timing_only_launch_writes_nothing_and_runs_the_same_later() -> None:
    source = np.arange(64 << 10, dtype=np.uint32)
    target = np.full_like(source, 7)
    report_of(COPY, [source, target], 64)
    assert (target == 7).all()
    report_of(COPY, [source, target], 64, only=False)
    np.testing.assert_array_equal(source, target)


# Loops as often as the first word of its argument says, then stores.
BY_DATA = """s_load_dwordx2 s[4:5], s[0:1], 0x0
v_mov_b32_e32 v1, 0
s_waitcnt lgkmcnt(0)
global_load_dword v2, v1, s[4:5]
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s8, v2
.Lagain:
s_sub_u32 s8, s8, 1
s_cmp_lg_u32 s8, 0
s_cbranch_scc1 .Lagain"""


@pytest.mark.parametrize("only", [True, False])
@pytest.mark.parametrize("scalar", [True, False])
def test_what_data_decides_is_not_remembered(only: bool, scalar: bool) -> None:
    vector_load = BY_DATA.split("\n")[3:6]
    body = BY_DATA
    if scalar:
        body = body.replace("\n".join(vector_load), "s_load_dword s8, s[4:5], 0x0\ns_waitcnt lgkmcnt(0)")
    kernel = KernelText(f"kernel_{only}_{scalar}", body, 8, vgprs=8)
    data = np.array([10, 0], np.uint32)
    short = report_of(kernel, [data], only=only)
    data[0] = 1010
    long = report_of(kernel, [data], only=only)
    assert long["cycles"] - short["cycles"] == pytest.approx(1000 * (4 + 4 + 16))
    assert short["sampling"]["depends_on_data"] == 1


def test_a_kernel_that_an_atomic_decides_is_refused_when_timed_only() -> None:
    body = """s_load_dwordx2 s[4:5], s[0:1], 0x0
v_mov_b32_e32 v1, 0
v_mov_b32_e32 v2, 1
s_waitcnt lgkmcnt(0)
global_atomic_add v3, v1, v2, s[4:5] sc0
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s8, v3
s_cmp_lg_u32 s8, 0
s_cbranch_scc1 .Lend
s_nop 0
.Lend:"""
    kernel = KernelText("kernel", body, 8, vgprs=8)
    with pytest.raises(CoreError, match=r"invalid_launch.*atomic"):
        report_of(kernel, [np.zeros(2, np.uint32)])
    assert report_of(kernel, [np.zeros(2, np.uint32)], only=False)["cycles"] > 0


# ---- extrapolation


@pytest.mark.parametrize(
    ("case", "what"),
    [
        (case, what)
        for case in ("matmul", "norm")
        for what in ("rounds=4,most_rounds=16,simulated_instructions=1000000", "trace_instructions=4000000", "places=6")
    ],
)
def test_doubling_what_is_simulated_moves_the_result_little(
    case: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = {"matmul": matmul(8192), "norm": norm(32768)}[case]
    plain = fresh_report(large)
    assert plain["sampling"]["workgroups_simulated"] < plain["occupancy"]["workgroups_of_fullest_cu"]
    monkeypatch.setenv("GFX950_TIMING_PARAMS", what)
    assert fresh_report(large)["nanoseconds"] == pytest.approx(plain["nanoseconds"], rel=0.03)


def by_workgroup(name: str, loops: str) -> KernelText:
    """Workgroup s2 loops as often as `loops` puts into s8."""
    body = f"{loops}\n.Lagain:\ns_sleep 1\ns_sub_u32 s8, s8, 1\ns_cmp_lg_u32 s8, 0\ns_cbranch_scc1 .Lagain"
    return KernelText(name, body, 8, vgprs=256, block=512)  # one workgroup on a compute unit


def test_workgroups_that_differ_are_dealt_out_in_order() -> None:
    """Work grows from 1 to 2 with the number: 8 rounds take as long as the mean of them."""
    memory = [np.zeros(64, np.uint32)]
    groups = 2048
    ramp = report_of(by_workgroup("ramp", "s_lshr_b32 s8, s2, 4\ns_add_u32 s8, s8, 128"), memory, groups)
    flat = report_of(by_workgroup("flat", "s_movk_i32 s8, 192"), memory, groups)
    assert ramp["sampling"]["uniform"] == 0
    assert flat["sampling"]["uniform"] == 1
    assert ramp["cycles"] == pytest.approx(flat["cycles"], rel=0.05)


def test_causal_attention_takes_between_the_mean_work_and_the_most() -> None:
    """Tiles go round the XCDs, so that one of them gets the longest of each 8 and ends last."""
    full, causal = (fresh_report(attention(2048, causal, 96)) for causal in (False, True))
    assert full["sampling"]["uniform"] == 1
    assert causal["sampling"]["uniform"] == 0
    work = causal["sampling"]["instructions_of"]
    mean = (work["0"] + work["31"]) / 2 / full["sampling"]["instructions_of"]["0"]
    of_last_xcd = (work["0"] + (work["31"] - work["0"]) * 19 / 31) / full["sampling"]["instructions_of"]["0"]
    ratio = causal["cycles"] / full["cycles"]
    assert mean < ratio < 1.2 * of_last_xcd, (mean, ratio, of_last_xcd)


def test_bytes_over_bandwidth_is_the_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GFX950_TIMING_PARAMS", "warm=0")  # 67 MB fit in the Infinity Cache
    groups = 8192
    memory = np.empty(groups << 12, np.uint8)
    report = report_of(COPY, [memory, np.empty_like(memory)], groups)
    least = 2 * memory.nbytes / 7200
    assert least <= report["nanoseconds"] - 7000 + 1e-6 < 1.5 * least


# ---- numbers and reports


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("hbm=1", "no parameter 'hbm'"),
        ("xcds=0", "above 0"),
        ("clock_ghz=fast", "with a number"),
        ("clock_ghz=-1", "from 0 up"),
        ("/nowhere", "neither a list"),
        ("clock_ghz=2,xcds", "name=value"),
    ],
)
def test_bad_parameters_are_refused(value: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GFX950_TIMING_PARAMS", value)
    with pytest.raises(CoreError, match=message):
        report_of(COPY, [np.zeros(1024, np.uint32)] * 1 + [np.zeros(1024, np.uint32)])


def test_parameters_from_a_list_and_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = [np.zeros(1024, np.uint32) for _ in range(2)]
    plain = report_of(COPY, memory)
    file = tmp_path / "params"
    file.write_text("launch_ns = 1000  # less\n\nmall_latency_clk = 1900\n")
    for value in ("launch_ns=1000,mall_latency_clk=1900", str(file)):
        monkeypatch.setenv("GFX950_TIMING_PARAMS", value)
        changed = report_of(COPY, memory)
        assert changed["launch_nanoseconds"] == 1000
        assert 1100 < changed["cycles"] - plain["cycles"] < 2500


# A mechanism, and a kernel in which it costs.
LDS = """v_lshlrev_b32_e32 v1, {shift}, v0
{reads}
s_waitcnt lgkmcnt(0)"""
SWITCHES = {
    "coissue": "v_add_f32_e32 v1, v2, v3\ns_add_u32 s8, s9, s10\n" * 64,
    "valu_rates": "v_exp_f32_e32 v1, v2\n" * 64,
    "mfma_latency": "v_mfma_f32_16x16x32_bf16 v[4:7], v[4:7], v[0:3], v[8:11]\n" * 64,
    "mfma_valu_wait": ("v_mfma_f32_16x16x32_bf16 v[4:7], v[0:3], v[0:3], v[4:7]\n" + "v_mov_b32_e32 v8, 0\n" * 3) * 64,
    "lds_conflicts": LDS.format(shift=8, reads="ds_read_b32 v2, v1\n" * 64),
}


@pytest.mark.parametrize("switch", SWITCHES)
def test_a_switch_takes_its_mechanism_away(switch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    block = 512 if switch == "coissue" else 64
    kernel = KernelText(f"kernel_{switch}", SWITCHES[switch], 8, vgprs=32, block=block, lds=32768)
    memory = [np.zeros(64, np.uint32)]
    plain = report_of(kernel, memory)["cycles"]
    monkeypatch.setenv("GFX950_TIMING_PARAMS", f"{switch}=0")
    without = report_of(kernel, memory)["cycles"]
    assert (without > 1.2 * plain) if switch == "coissue" else (without < 0.95 * plain), (plain, without)


def test_profile_lines_and_timeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "profile.jsonl"
    monkeypatch.setenv("GFX950_PROFILE", str(path))
    memory = [np.zeros(1024, np.uint32) for _ in range(2)]
    report_of(COPY, memory)
    monkeypatch.setenv("GFX950_PROFILE_TIMELINE", "1")
    report_of(COPY, memory)
    first, second = (json.loads(line) for line in path.read_text().splitlines())
    assert "timeline" not in first
    assert len(second["timeline"]) == second["waves"]["instructions"] - 8  # s_waitcnt is no event
    assert {event["unit"] for event in second["timeline"]} >= {"vmem", "smem", "valu", "salu"}


def test_stalls_name_the_instruction_and_the_reason() -> None:
    report = report_of(COPY, [np.zeros(1024, np.uint32) for _ in range(2)])
    worst = max(report["instructions"], key=lambda entry: entry["stall_cycles"])
    assert worst["text"] == "s_waitcnt vmcnt(0)"
    assert worst["stalls"]["wait_vm"] > 4 * 250
    stalls = report["waves"]["stall_cycles_per_wave"]
    assert sum(stalls.values()) * 4 == pytest.approx(sum(e["stall_cycles"] for e in report["instructions"]))


def test_main_loop_and_spills() -> None:
    body = """s_movk_i32 s8, 50
.Lagain:
v_mfma_f32_16x16x32_bf16 v[4:7], v[0:3], v[0:3], v[4:7]
s_nop 2
s_sub_u32 s8, s8, 1
s_cmp_lg_u32 s8, 0
s_cbranch_scc1 .Lagain"""
    report = report_of(KernelText("kernel", body, 8, vgprs=16, scratch=64), [np.zeros(64, np.uint32)])
    loop = report["main_loop"]
    # 16 clocks of the matrix unit in each 4 + 12 + 4 + 4 + 16.
    assert loop["found"] == 1
    assert loop["trips"] == 49
    assert loop["mfma_busy"] == pytest.approx(16 / 40, rel=0.03)
    assert report["resources"]["scratch_bytes_per_lane"] == 64
    assert report["matrix_flops"] == 50 * 2 * 16 * 16 * 32
