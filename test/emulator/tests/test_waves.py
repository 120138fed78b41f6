"""Waves of a workgroup: barriers, ids, instructions without an effect, and programs that never end."""

from __future__ import annotations

import numpy as np
import pytest
from assemble import KernelText
from core_library import CoreError, Program

SCHEDULES = ("run_to_barrier", "round_robin", "random:7")

STORE = """v_lshlrev_b32_e32 v10, 2, v9
s_load_dwordx2 s[20:21], s[0:1], 0x0
s_waitcnt lgkmcnt(0)
global_store_dword v10, v8, s[20:21]
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_barrier(schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 8 waves reads, after a barrier, what the next wave wrote before it, three rounds long."""
    rounds = (
        """
v_lshlrev_b32_e32 v1, 2, v0
v_mov_b32_e32 v8, v0
v_add_u32_e32 v2, 0x100, v1
v_and_b32_e32 v2, 0x7ff, v2
"""
        + 3
        * """ds_write_b32 v1, v8
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v3, v2
s_waitcnt lgkmcnt(0)
v_lshl_add_u32 v8, v3, 1, v0
s_barrier
"""
    )
    kernel = KernelText("kernel", f"{rounds}v_mov_b32_e32 v9, v0\n{STORE}", 8, vgprs=16, lds=2048, block=512)
    monkeypatch.setenv("GFX950_SCHEDULE", schedule)
    out = np.zeros(512, np.uint32)
    counts = Program([kernel]).launch("kernel", 1, [out])
    expected = thread = np.arange(512, dtype=np.uint32)
    for _ in range(3):
        expected = expected[(thread + 64) % 512] * 2 + thread
    np.testing.assert_array_equal(out, expected)
    assert counts["waves"] == 8


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_wave_waits_for_another_through_memory(schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wave 0 spins until wave 1 has written: it must not starve it."""
    body = f"""v_readfirstlane_b32 s8, v0
v_mov_b32_e32 v5, 0
v_mov_b32_e32 v8, 7
v_mov_b32_e32 v9, v0
s_load_dwordx2 s[20:21], s[0:1], 0x0
s_waitcnt lgkmcnt(0)
s_cmp_lg_u32 s8, 0
s_cbranch_scc1 .Lwriter
.Lspin:
s_sleep 1
global_load_dword v6, v5, s[20:21] offset:2048 sc0 sc1
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s9, v6
s_cmp_eq_u32 s9, 0
s_cbranch_scc1 .Lspin
s_branch .Ldone
.Lwriter:
v_mov_b32_e32 v6, 1
global_store_dword v5, v6, s[20:21] offset:2048 sc0 sc1
.Ldone:
{STORE}"""
    monkeypatch.setenv("GFX950_SCHEDULE", schedule)
    monkeypatch.setenv("GFX950_TIMEOUT", "20")
    out = np.zeros(513, np.uint32)
    Program([KernelText("kernel", body, 8, vgprs=16, block=128)]).launch("kernel", 1, [out])
    assert (out[:128] == 7).all()
    assert out[512] == 1


def test_a_program_that_never_ends_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GFX950_TIMEOUT", "0.5")
    kernel = KernelText("kernel", ".Lagain:\ns_nop 0\ns_branch .Lagain", 8, vgprs=8)
    with pytest.raises(CoreError, match="timeout"):
        Program([kernel]).launch("kernel", 1, [np.zeros(64, np.uint32)])


@pytest.mark.parametrize(
    "text",
    ["s_setprio 2", "s_sleep 3", "s_nop 15", "buffer_wbl2 sc0 sc1", "buffer_inv sc1", "s_waitcnt vmcnt(3) lgkmcnt(2)"],
)
def test_without_an_effect_on_values(text: str) -> None:
    kernel = KernelText("kernel", f"v_mov_b32_e32 v9, v0\nv_add_u32_e32 v8, 5, v0\n{text}\n{STORE}", 8, vgprs=16)
    out = np.zeros(64, np.uint32)
    Program([kernel]).launch("kernel", 1, [out])
    np.testing.assert_array_equal(out, np.arange(64) + 5)


def test_workgroups_beyond_the_first_and_partial_waves() -> None:
    """100 threads in a workgroup: the second wave has 36 lanes."""
    body = f"s_mul_i32 s8, s2, 100\nv_add_u32_e32 v9, s8, v0\nv_lshl_or_b32 v8, s2, 16, v0\n{STORE}"
    out = np.full(900, 0xFFFFFFFF, np.uint32)
    counts = Program([KernelText("kernel", body, 8, vgprs=16, block=100)]).launch("kernel", 7, [out])
    group, thread = np.divmod(np.arange(700), 100)
    np.testing.assert_array_equal(out[:700], group << 16 | thread)
    assert (out[700:] == 0xFFFFFFFF).all()
    assert counts["workgroups"] == 7
    assert counts["waves"] == 14
