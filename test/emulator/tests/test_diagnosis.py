"""GFX950_TRACE, GFX950_BREAK and the random schedule: what one workgroup did, as text."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from assemble import KernelText
from core_library import CoreError, Program

# Lane l of wave w of workgroup g stores 3 * (l + 64 * w) to out[g][l + 64 * w].
BODY = """v_mul_u32_u24_e32 v8, 3, v0
v_lshlrev_b32_e32 v9, 2, v0
s_lshl_b32 s5, s2, 9
s_load_dwordx2 s[20:21], s[0:1], 0x0
s_waitcnt lgkmcnt(0)
s_add_u32 s20, s20, s5
s_addc_u32 s21, s21, 0
global_store_dword v9, v8, s[20:21]
"""
INSTRUCTIONS = len(BODY.splitlines()) + 1  # s_endpgm
GROUPS, WAVES = 3, 2


@pytest.fixture
def trace_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GFX950_TRACE_FILE", str(tmp_path / "trace.txt"))
    return tmp_path / "trace.txt"


def run(name: str = "triple") -> None:
    out = np.zeros((GROUPS, 128), np.uint32)
    Program([KernelText(name, BODY, 8, vgprs=16, block=128)]).launch(name, GROUPS, [out])
    np.testing.assert_array_equal(out, np.tile(3 * np.arange(128), (GROUPS, 1)))


def test_trace_of_one_workgroup(trace_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GFX950_TRACE", "tripl:2")
    run()
    header, *lines = trace_file.read_text().splitlines()
    assert header == "gfx950 trace: kernel 'triple', workgroup (2, 0, 0), 2 waves"
    assert len(lines) == WAVES * INSTRUCTIONS
    assert lines[0] == (
        "wave 0  0x0000  v_mul_u32_u24_e32 v8, 3, v0  ->  v8: [0]=00000000 [1]=00000003 [2]=00000006 [3]=00000009 +60"
    )
    assert lines[2].endswith("s_lshl_b32 s5, s2, 9  ->  s5=00000400, scc=1")
    second = [line for line in lines if line.startswith("wave 1")]
    assert "v8: [0]=000000c0 [1]=000000c3" in second[0]
    assert re.fullmatch(r"wave 1  0x[0-9a-f]{4}  s_endpgm", second[-1])


def test_no_trace_of_other_kernels(trace_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GFX950_TRACE", "another")
    monkeypatch.setenv("GFX950_BREAK", "another:0")
    run()
    assert not trace_file.exists()


def test_trace_ends_with_the_instruction_that_fails(trace_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GFX950_TRACE", "stray")
    body = "v_mov_b32_e32 v1, 0\nv_mov_b32_e32 v2, 0\nglobal_store_dword v[1:2], v1, off\n".replace("[1:2]", "[2:3]")
    with pytest.raises(CoreError, match="memory_fault"):
        Program([KernelText("stray", "v_mov_b32_e32 v3, 0\n" + body, 8, vgprs=8)]).launch(
            "stray", 1, [np.zeros(1, np.uint32)]
        )
    assert trace_file.read_text().splitlines()[-1].endswith("global_store_dword v[2:3], v1, off  (not completed)")


def test_breakpoint_dumps_every_wave_once(trace_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GFX950_BREAK", "triple:4:1")
    run()
    text = trace_file.read_text()
    dumps = text.split("breakpoint: wave ")[1:]
    assert [dump.splitlines()[0] for dump in dumps] == [
        f"{wave} at 0x4, before 'v_lshlrev_b32_e32 v9, 2, v0'" for wave in range(WAVES)
    ]
    rows = {line.split()[0]: line.split()[1:] for line in dumps[1].splitlines()}
    assert [int(value, 16) for value in rows["v8"]] == [3 * lane for lane in range(64, 128)]
    assert rows["v9"] == ["ffa5ffa5"] * 64  # not written yet
    assert int(rows["s0"][2], 16) == 1  # the workgroup's number, behind the kernarg pointer


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("GFX950_TRACE", "triple:3", "names workgroup 3; kernel 'triple' is launched with 3, counted from 0"),
        ("GFX950_TRACE", ":1", "expected KERNEL or KERNEL:WORKGROUP"),
        ("GFX950_TRACE", "triple:one", "expected KERNEL or KERNEL:WORKGROUP"),
        ("GFX950_BREAK", "triple", "expected KERNEL:PC"),
        ("GFX950_BREAK", "triple:zz", "expected KERNEL:PC"),
        ("GFX950_BREAK", "triple:2", "names pc 0x2; no instruction of kernel 'triple' begins there"),
        ("GFX950_TRACE_FILE", "/nowhere/at/all", "cannot write '/nowhere/at/all'"),
        ("GFX950_SCHEDULE", "random", "expected run_to_barrier, round_robin or random:SEED"),
        ("GFX950_SCHEDULE", "random:-1", "expected run_to_barrier, round_robin or random:SEED"),
    ],
)
def test_bad_values(variable: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if variable == "GFX950_TRACE_FILE":
        monkeypatch.setenv("GFX950_TRACE", "triple")
    monkeypatch.setenv(variable, value)
    with pytest.raises(CoreError, match="invalid_launch: ") as failure:
        run()
    assert message in str(failure.value)


def order(trace_file: Path) -> list[int]:
    """The waves in the order in which they executed their instructions."""
    waves = [int(line.split()[1]) for line in trace_file.read_text().splitlines() if line.startswith("wave ")]
    trace_file.unlink()
    return waves


def test_random_schedule_depends_on_its_seed_alone(trace_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = "v_add_u32_e32 v1, 1, v1\n" * 200 + "s_barrier\n" + "v_add_u32_e32 v1, 1, v1\n" * 200
    program = Program([KernelText("long", f"v_mov_b32_e32 v1, 0\n{rounds}", 8, vgprs=8, block=512)])
    monkeypatch.setenv("GFX950_TRACE", "long:1")
    orders = {}
    for schedule in ("run_to_barrier", "round_robin", "random:1", "random:2"):
        monkeypatch.setenv("GFX950_SCHEDULE", schedule)
        for threads in ("1", "2"):
            monkeypatch.setenv("GFX950_THREADS", threads)
            program.launch("long", 4, [np.zeros(1, np.uint32)])
            seen = order(trace_file)
            assert [seen.count(wave) for wave in range(8)] == [403] * 8
            assert orders.setdefault(schedule, seen) == seen
    assert len({tuple(seen) for seen in orders.values()}) == 4
