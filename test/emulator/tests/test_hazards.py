"""GFX950_CHECK=1: each kind of hazard is found in a kernel that has it, and not in the same kernel repaired."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pytest
from assemble import KernelText
from core_library import CoreError, Program

SCHEDULES = ("run_to_barrier", "round_robin")
LDS_BYTES = 4096

# v1: the thread's dword in memory and LDS; v2: that of the thread in the other wave; s[20:21]: memory; s8: the wave.
PROLOGUE = """s_load_dwordx2 s[20:21], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 2, v0
v_xor_b32_e32 v2, 0x100, v1
v_readfirstlane_b32 s8, v0
s_lshr_b32 s8, s8, 6
v_mov_b32_e32 v8, v0
v_mov_b32_e32 v9, v0
v_mov_b32_e32 v4, 0
s_waitcnt lgkmcnt(0)
v_mov_b32_e32 v6, s20
v_mov_b32_e32 v7, s21
v_add_co_u32_e32 v6, vcc, v6, v1
v_addc_co_u32_e32 v7, vcc, 0, v7, vcc
"""
EPILOGUE = """s_waitcnt vmcnt(0) lgkmcnt(0)
v_add_u32_e32 v8, v8, v9
global_store_dword v1, v8, s[20:21] offset:2048
"""
FILLED = """ds_write_b32 v1, v8
s_waitcnt lgkmcnt(0)
s_barrier
"""
# LDS DMA of each wave to its 256 bytes of LDS.
DMA = """s_lshl_b32 s9, s8, 8
s_mov_b32 m0, s9
s_nop 0
global_load_lds_dword v1, s[20:21]
"""
MATRIX = "v_mfma_f32_16x16x32_bf16 v[16:19], v[20:23], v[24:27], 0\n"
ZEROS = "".join(f"v_mov_b32_e32 v{register}, 0\n" for register in range(16, 28)) + "s_nop 4\n"


@dataclass(frozen=True)
class Pair:
    """`text` holds one FIX: without it the kernel is bad, with `fix` in its place it is not."""

    name: str
    kind: str
    text: str
    fix: str
    broken: str = ""  # stands for FIX in the bad kernel: a repair that is not enough
    needs: str = ""  # what the finding says is needed
    waves: int = 2


FIX = "{FIX}"

PAIRS = [
    Pair(
        "load_read",
        "missing wait",
        "global_load_dword v8, v1, s[20:21]\n{FIX}\nv_add_u32_e32 v8, 1, v8\n",
        "s_waitcnt vmcnt(0)",
        needs=r"needs s_waitcnt vmcnt\(0\)",
    ),
    Pair(
        "load_overwritten",
        "missing wait",
        "buffer_load_dword v8, v1, s[16:19], 0 offen\n{FIX}\nv_mov_b32_e32 v8, 0\n",
        "s_waitcnt vmcnt(0)",
    ),
    Pair(
        "older_of_two_loads",
        "missing wait",
        "global_load_dwordx2 v[8:9], v4, s[20:21]\nglobal_load_dword v10, v1, s[20:21]\n"
        "{FIX}\nv_add_u32_e32 v8, v9, v9\n",
        "s_waitcnt vmcnt(1)",
        "s_waitcnt vmcnt(2)",
        needs=r"v9, .*needs s_waitcnt vmcnt\(1\)",
    ),
    Pair(
        "younger_of_two_loads",
        "missing wait",
        "global_load_dword v8, v1, s[20:21]\nglobal_store_dword v1, v9, s[20:21]\nglobal_load_dword v10, v1, s[20:21]\n"
        "{FIX}\nv_add_u32_e32 v8, v8, v10\n",
        "s_waitcnt vmcnt(0)",
        "s_waitcnt vmcnt(1)",
    ),
    Pair(
        "accumulation_register",
        "missing wait",
        "global_load_dwordx4 a[0:3], v4, s[20:21]\n{FIX}\nv_accvgpr_read_b32 v8, a3\n",
        "s_waitcnt vmcnt(0)",
        needs="a3",
    ),
    Pair(
        "atomic_result",
        "missing wait",
        "global_atomic_add v8, v1, v9, s[20:21] sc0\n{FIX}\nv_add_u32_e32 v8, 1, v8\n",
        "s_waitcnt vmcnt(0)",
    ),
    Pair(
        "lds_result",
        "missing wait",
        FILLED + "ds_read_b32 v8, v1\n{FIX}\nv_add_u32_e32 v8, 1, v8\n",
        "s_waitcnt lgkmcnt(0)",
    ),
    Pair(
        "lds_results_in_order",
        "missing wait",
        FILLED + "ds_read_b32 v8, v1\nds_read_b32 v9, v1\n{FIX}\nv_add_u32_e32 v8, 1, v8\n",
        "s_waitcnt lgkmcnt(1)",
        "s_waitcnt lgkmcnt(2)",
        needs=r"needs s_waitcnt lgkmcnt\(1\)",
    ),
    Pair(
        "lane_exchange",
        "missing wait",
        "ds_bpermute_b32 v8, v1, v9\n{FIX}\nv_add_u32_e32 v8, 1, v8\n",
        "s_waitcnt lgkmcnt(0)",
    ),
    Pair(
        "scalar_load",
        "missing wait",
        "s_load_dword s22, s[20:21], 0x0\n{FIX}\nv_mov_b32_e32 v8, s22\n",
        "s_waitcnt lgkmcnt(0)",
        needs=r"s22, .*needs s_waitcnt lgkmcnt\(0\)",
    ),
    Pair(
        "scalar_loads_out_of_order",
        "missing wait",
        "s_load_dword s22, s[20:21], 0x0\ns_load_dword s23, s[20:21], 0x4\n{FIX}\nv_mov_b32_e32 v8, s22\n",
        "s_waitcnt lgkmcnt(0)",
        "s_waitcnt lgkmcnt(1)",
    ),
    Pair(
        "flat_load",
        "missing wait",
        "flat_load_dword v8, v[6:7]\n{FIX}\nv_add_u32_e32 v8, 1, v8\n",
        "s_waitcnt vmcnt(0) lgkmcnt(0)",
        "s_waitcnt vmcnt(0)",
        needs=r"needs s_waitcnt lgkmcnt\(0\)",
    ),
    Pair(
        "read_behind_no_barrier",
        "lds read/write race|lds write/read race",
        "ds_write_b32 v1, v8\ns_waitcnt lgkmcnt(0)\n{FIX}\nds_read_b32 v8, v2\n",
        "s_barrier",
        needs="needs s_barrier",
    ),
    Pair(
        "barrier_before_write_completes",
        "lds read/write race",
        "ds_write_b32 v1, v8\n{FIX}\ns_barrier\nds_read_b32 v8, v2\n",
        "s_waitcnt lgkmcnt(0)",
        needs=r"needs s_waitcnt lgkmcnt\(0\) in wave [01], then s_barrier",
    ),
    Pair(
        "two_writers",
        "lds write/write race",
        "ds_write_b32 v1, v8\ns_waitcnt lgkmcnt(0)\n{FIX}\nds_write_b32 v2, v8\n",
        "s_barrier",
    ),
    Pair(
        "two_writers_of_a_half",
        "lds write/write race",
        "ds_write_b16 v1, v8\ns_waitcnt lgkmcnt(0)\n{FIX}\nds_write_b16 v2, v8\n",
        "s_barrier",
    ),
    Pair(
        "write_behind_read",
        "lds write/read race|lds read/write race",
        FILLED + "ds_read_b32 v8, v2\ns_waitcnt lgkmcnt(0)\n{FIX}\nds_write_b32 v1, v9 offset:0\n",
        "s_barrier",
        broken="v_add_u32_e32 v9, 7, v9",
    ),
    Pair(
        "barrier_before_read_returns",
        "lds write/read race",
        FILLED + "v_add_u32_e32 v9, 7, v9\nds_read_b32 v8, v2\n{FIX}\ns_barrier\nds_write_b32 v1, v9\n",
        "s_waitcnt lgkmcnt(0)",
        needs=r"needs s_waitcnt lgkmcnt\(0\) in wave [01], then s_barrier",
    ),
    Pair(
        "atomic_and_write",
        "lds write/write race",
        FILLED + "v_add_u32_e32 v9, 7, v9\nds_add_u32 v2, v9\ns_waitcnt lgkmcnt(0)\n{FIX}\nds_write_b32 v1, v9\n",
        "s_barrier",
    ),
    Pair("dma_own", "lds dma not waited", DMA + "{FIX}\nds_read_b32 v8, v1\n", "s_waitcnt vmcnt(0)"),
    Pair(
        "dma_own_one_too_many",
        "lds dma not waited",
        DMA + "global_load_lds_dword v1, s[20:21] offset:512\n{FIX}\nds_read_b32 v8, v1\n",
        "s_waitcnt vmcnt(1)",
        "s_waitcnt vmcnt(2)",
        needs=r"needs s_waitcnt vmcnt\(1\)",
    ),
    Pair(
        "dma_overwritten",
        "lds dma not waited",
        DMA + "{FIX}\nds_write_b32 v1, v8\n",
        "s_waitcnt vmcnt(0)",
    ),
    Pair(
        "dma_no_barrier",
        "lds dma race|lds write/read race",
        DMA + "s_waitcnt vmcnt(0)\n{FIX}\nds_read_b32 v8, v2\n",
        "s_barrier",
    ),
    Pair(
        "dma_barrier_before_it_completes",
        "lds dma race",
        DMA + "{FIX}\ns_barrier\nds_read_b32 v8, v2\n",
        "s_waitcnt vmcnt(0)",
        needs=r"needs s_waitcnt vmcnt\(0\) in wave [01], then s_barrier",
    ),
    Pair(
        "dma_over_what_others_read",
        "lds write/read race",
        FILLED + "ds_read_b32 v8, v2\n{FIX}\ns_barrier\n" + DMA + "s_waitcnt vmcnt(0)\n",
        "s_waitcnt lgkmcnt(0)",
    ),
    Pair(
        "m0",
        "m0 wait state",
        "s_mov_b32 m0, 0\n{FIX}\nglobal_load_lds_dword v1, s[20:21]\n",
        "s_nop 0",
        needs="needs s_nop 0",
        waves=1,
    ),
    Pair(
        "matrix_result_read",
        "matrix wait state",
        ZEROS + MATRIX + "{FIX}\nv_mov_b32_e32 v8, v19\n",
        "s_nop 0",
        "s_nop 6",
        needs="v19.* needs s_nop 0 or 1 other instruction before it",
    ),
    Pair(
        "matrix_result_stored",
        "matrix wait state",
        ZEROS + MATRIX + "{FIX}\nglobal_store_dword v1, v16, s[20:21]\n",
        "s_nop 7",
    ),
    Pair(
        "matrix_result_overwritten",
        "matrix wait state",
        ZEROS + MATRIX + "{FIX}\nv_mov_b32_e32 v17, 0\n",
        "s_nop 7",
    ),
    Pair(
        "matrix_result_as_factor",
        "matrix wait state",
        ZEROS + MATRIX + "{FIX}\nv_mfma_f32_16x16x32_bf16 v[28:31], v[20:23], v[16:19], 0\n",
        "s_nop 0",
        "s_nop 6",
    ),
    Pair(
        "matrix_result_as_part_of_a_sum",
        "matrix wait state",
        ZEROS + MATRIX + "{FIX}\nv_mfma_f32_16x16x32_bf16 v[28:31], v[20:23], v[24:27], v[18:21]\n",
        "s_nop 0",
        "s_nop 4",
    ),
    Pair(
        "matrix_operand",
        "vector wait state",
        ZEROS + "v_mov_b32_e32 v20, 1.0\n{FIX}\n" + MATRIX,
        "s_nop 0",
        "s_nop 0",
        needs="v20",
    ),
    Pair(
        "dpp_operand",
        "vector wait state",
        "v_add_u32_e32 v9, 1, v9\n{FIX}\nv_mov_b32_dpp v8, v9 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf\n",
        "s_nop 0",
        "s_nop 0",
    ),
    Pair(
        "buffer_scalar",
        "vector wait state",
        "v_readfirstlane_b32 s22, v4\n{FIX}\nbuffer_load_dword v8, v1, s[16:19], s22 offen\n",
        "s_nop 0",
        "s_nop 3",
        needs="s22",
    ),
    Pair(
        "lane_select",
        "vector wait state",
        "v_readfirstlane_b32 s22, v4\n{FIX}\nv_readlane_b32 s23, v8, s22\n",
        "s_nop 0",
        "s_nop 2",
    ),
    Pair(
        "division",
        "vector wait state",
        "v_cmp_eq_u32_e32 vcc, 1, v9\n{FIX}\nv_div_fmas_f32 v8, v8, v9, v9\n",
        "s_nop 0",
        "s_nop 2",
        needs="vcc_lo",
    ),
]

HARMLESS = {
    "load_over_load": "global_load_dword v8, v1, s[20:21]\nglobal_load_dword v8, v1, s[20:21] offset:4\n",
    "store_data_overwritten": "global_store_dword v1, v9, s[20:21]\nv_mov_b32_e32 v9, 0\n",
    "store_outstanding_at_the_end": "global_store_dword v1, v9, s[20:21]\ns_endpgm\n",
    "two_halves": "v_lshlrev_b32_e32 v3, 2, v0\nv_and_b32_e32 v3, 0xff, v3\nv_lshl_add_u32 v3, s8, 1, v3\n"
    "ds_write_b16 v3, v8\n",
    "four_bytes": "v_and_b32_e32 v3, 63, v0\nv_lshl_add_u32 v3, v3, 1, s8\nds_write_b8 v3, v8\n",
    "same_value": "v_and_b32_e32 v3, 0xfc, v1\nv_mov_b32_e32 v5, 5\nds_write_b32 v3, v5\n",
    "atomics": "ds_add_u32 v4, v8\nds_add_rtn_u32 v9, v4, v8\n",
    "own_write_read_back": "ds_write_b32 v1, v8\nds_read_b32 v8, v1\n",
    "sum_of_products": ZEROS + MATRIX + MATRIX.replace(", 0", ", v[16:19]"),
    "lds_beside_scalar_load": FILLED + "s_load_dword s22, s[20:21], 0x0\nds_read_b32 v8, v1\ns_waitcnt lgkmcnt(0)\n"
    "v_add_u32_e32 v8, s22, v8\n",
}


def kernel(body: str, waves: int = 2) -> KernelText:
    # s[16:19]: a buffer over all of memory.
    descriptor = "s_mov_b64 s[16:17], s[20:21]\ns_mov_b32 s18, 0x1000\ns_mov_b32 s19, 0x27000\n"
    text = PROLOGUE + descriptor + body + EPILOGUE
    return KernelText("kernel", text, 8, vgprs=32, agprs=4, lds=LDS_BYTES, block=64 * waves)


def launch(text: KernelText) -> dict[str, int]:
    memory = np.zeros(1024, np.uint32)
    return Program([text]).launch("kernel", 1, [memory])


@pytest.fixture(params=SCHEDULES, autouse=True)
def schedule(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("GFX950_SCHEDULE", request.param)
    monkeypatch.setenv("GFX950_CHECK", "1")
    return request.param


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_bad_is_found(pair: Pair) -> None:
    bad = kernel(pair.text.replace(FIX, pair.broken), pair.waves)
    with pytest.raises(CoreError, match=rf"^hazard: .*\[({pair.kind})\]") as caught:
        launch(bad)
    if pair.needs:
        caught.match(pair.needs)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_repaired_is_not(pair: Pair) -> None:
    launch(kernel(pair.text.replace(FIX, f"{pair.broken}\n{pair.fix}"), pair.waves))


@pytest.mark.parametrize("name", HARMLESS)
def test_harmless_is_not(name: str) -> None:
    launch(kernel(HARMLESS[name]))


def test_off_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GFX950_CHECK")
    launch(kernel(PAIRS[0].text.replace(FIX, "")))


def test_message_names_both_instructions() -> None:
    pair = next(pair for pair in PAIRS if pair.name == "two_writers")
    with pytest.raises(CoreError) as caught:
        launch(kernel(pair.text.replace(FIX, "")))
    pattern = (
        r"kernel 'kernel', workgroup \(0, 0, 0\), wave ([01]), '(ds_write_b32 v[12], v8)' \(pc 0x[0-9a-f]+\): "
        r".* LDS byte \d+ \(lane \d+\), .*'(ds_write_b32 v[12], v8)' \(pc 0x[0-9a-f]+\) of wave ([01]); needs"
    )
    caught.match(pattern)
    found = re.search(pattern, str(caught.value))
    assert found is not None
    wave, text, other_text, other_wave = found.groups()
    assert wave != other_wave
    assert text != other_text


def test_uninitialised_reads_are_counted_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The upper half of what the single wave reads was never written."""
    text = kernel("ds_write_b32 v1, v8\ns_waitcnt lgkmcnt(0)\nds_read2_b32 v[8:9], v1 offset0:0 offset1:64\n", waves=1)
    assert launch(text)["uninitialised_lds_reads"] == 64
    monkeypatch.setenv("GFX950_CHECK", "2")
    with pytest.raises(CoreError, match=r"hazard: .*\[uninitialised lds\] reads LDS byte 256 "):
        launch(text)
