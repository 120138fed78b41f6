"""Kernels with one hazard each, and their repair: what test_hazards.py checks.

    python test/emulator/tests/hazard_kernels.py [NAME...]

prints them: each kind, what the checker says of the bad kernel, and that it is silent about the repaired one.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

import numpy as np
from assemble import KernelText
from core_library import CoreError, Program

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
s_nop 1
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
MATRIX_F64 = "v_mfma_f64_16x16x4_f64 v[16:23], v[24:25], v[26:27], 0\n"
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
        "dpp_second_operand",
        "vector wait state",
        "v_add_u32_e32 v9, 1, v9\n{FIX}\nv_add_u32_dpp v8, v4, v9 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf\n",
        "s_nop 1",
        "s_nop 0",
        needs="v9",
    ),
    Pair(
        "dpp_keeps_lanes",
        "vector wait state",
        "v_mov_b32_e32 v8, 0\n{FIX}\nv_mov_b32_dpp v8, v9 row_shr:4 row_mask:0xf bank_mask:0xa\n",
        "s_nop 1",
        "s_nop 0",
        needs="v8",
    ),
    Pair(
        "transcendental_accumulated",
        "vector wait state",
        "v_exp_f32_e32 v8, v9\n{FIX}\nv_fmac_f32_e32 v8, v9, v9\n",
        "s_nop 0",
        needs="v8",
    ),
    Pair(
        "half_overwritten",
        "vector wait state",
        "v_add_f16_sdwa v8, v9, v9 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD src1_sel:DWORD\n{FIX}\n"
        "v_mov_b32_e32 v8, 0\n",
        "s_nop 0",
        needs="v8",
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
    Pair(
        "dma_over_own_read",
        "lds dma over a read",
        "ds_write_b32 v1, v8\nds_read_b32 v8, v1\n{FIX}\n" + DMA,
        "s_waitcnt lgkmcnt(0)",
        needs=r"needs s_waitcnt lgkmcnt\(0\)",
    ),
    Pair(
        "scalar_result_read",
        "vector wait state",
        "v_cmp_eq_u32_e32 vcc, 1, v9\n{FIX}\nv_cndmask_b32_e32 v8, v8, v9, vcc\n",
        "s_nop 0",
        "s_nop 0",
        needs="vcc_lo.* needs s_nop 0 or 1 other instruction before it",
    ),
    Pair(
        "first_lane_as_operand",
        "vector wait state",
        "v_readfirstlane_b32 s22, v4\n{FIX}\nv_add_u32_e32 v8, s22, v8\n",
        "s_nop 1",
        needs="s22",
    ),
    Pair(
        "lane_of_a_result",
        "vector wait state",
        "v_add_u32_e32 v9, 1, v9\n{FIX}\nv_readfirstlane_b32 s22, v9\n",
        "s_nop 0",
        needs="v9",
    ),
    Pair(
        "swap_of_a_result",
        "vector wait state",
        "v_add_u32_e32 v9, 1, v9\n{FIX}\nv_permlane32_swap_b32_e32 v8, v9\n",
        "s_nop 0",
        "s_nop 0",
        needs="v9",
    ),
    Pair(
        "transcendental_result",
        "vector wait state",
        "v_exp_f32_e32 v9, v9\n{FIX}\nv_add_f32_e32 v8, v8, v9\n",
        "s_nop 0",
        needs="v9",
    ),
    Pair(
        "half_result",
        "vector wait state",
        "v_add_f16_sdwa v9, v8, v8 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_0 src1_sel:WORD_0\n"
        "{FIX}\nv_add_u32_e32 v8, v9, v8\n",
        "s_nop 0",
        needs="v9",
    ),
    Pair(
        "byte_of_a_conversion",
        "vector wait state",
        "v_cvt_pk_fp8_f32 v9, v8, v8 op_sel:[0,0,1]\n{FIX}\nv_add_u32_e32 v8, v9, v8\n",
        "s_nop 0",
        needs="v9",
    ),
    Pair(
        "dot_product_read",
        "vector wait state",
        "v_dot2_f32_f16 v9, v8, v8, v9\n{FIX}\nv_add_f32_e32 v8, v9, v9\n",
        "s_nop 0",
        "s_nop 1",
        needs="v9",
    ),
    Pair(
        "dot_product_overwritten",
        "vector wait state",
        "v_dot2_f32_f16 v9, v8, v8, v9\n{FIX}\nv_mov_b32_e32 v9, 0\n",
        "s_nop 2",
        needs="v9",
    ),
    Pair(
        "exec_before_dpp",
        "exec wait state",
        "v_cmpx_ge_u32_e32 vcc, v8, v8\n{FIX}\nv_mov_b32_dpp v8, v9 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf\n",
        "s_nop 0",
        "s_nop 3",
        needs="needs s_nop 0 or 1 other instruction before it",
    ),
    Pair(
        "exec_before_lane_read",
        "exec wait state",
        "v_cmpx_ge_u32_e32 vcc, v8, v8\n{FIX}\nv_readfirstlane_b32 s22, v4\n",
        "s_nop 0",
        "s_nop 2",
    ),
    Pair(
        "exec_before_matrix",
        "exec wait state",
        ZEROS + "v_cmpx_ge_u32_e32 vcc, v8, v8\n{FIX}\n" + MATRIX,
        "s_nop 3",
    ),
    Pair(
        "store_data_overwritten",
        "store wait state",
        "global_store_dwordx4 v4, v[20:23], s[20:21]\n{FIX}\nv_mov_b32_e32 v23, 0\n",
        "s_nop 0",
        "s_nop 0",
        needs="v20.* needs s_nop 0 or 1 other instruction before it|v23",
    ),
    Pair(
        "buffer_store_data_overwritten",
        "store wait state",
        "buffer_store_dwordx3 v[20:22], v1, s[16:19], 0 offen\n{FIX}\nv_mov_b32_e32 v20, 0\n",
        "s_nop 1",
    ),
    Pair(
        "matrix_sum_overwritten",
        "matrix wait state",
        ZEROS + "v_mfma_f32_16x16x32_bf16 v[16:19], v[20:23], v[24:27], v[28:31]\n{FIX}\nv_mov_b32_e32 v29, 0\n",
        "s_nop 0",
        "s_nop 1",
        needs="may still read as C; needs s_nop 0",
    ),
    Pair(
        "f64_matrix_result_read",
        "matrix wait state",
        ZEROS + MATRIX_F64 + "{FIX}\nv_mov_b32_e32 v8, v19\n",
        "s_nop 0",
        "s_nop 15\ns_nop 1",
    ),
    Pair(
        "f64_matrix_result_stored",
        "matrix wait state",
        ZEROS + MATRIX_F64 + "{FIX}\nglobal_store_dword v1, v16, s[20:21]\n",
        "s_nop 0",
        "s_nop 15\ns_nop 0",
    ),
    Pair(
        "f64_matrix_result_as_factor",
        "matrix wait state",
        ZEROS + MATRIX_F64 + "{FIX}\nv_mfma_f64_16x16x4_f64 v[8:15], v[16:17], v[26:27], 0\ns_nop 15\ns_nop 3\n",
        "s_nop 0",
        "s_nop 15\ns_nop 1",
    ),
    Pair(
        "small_f64_matrix_results_as_sum",
        "matrix wait state",
        ZEROS + "v_mfma_f64_4x4x4_4b_f64 v[16:17], v[20:21], v[24:25], 0\n{FIX}\n"
        "v_mfma_f64_4x4x4_4b_f64 v[16:17], v[20:21], v[24:25], v[16:17]\n",
        "s_nop 0",
        "s_nop 2",
    ),
    Pair(
        "f64_sum_behind_f64_matrix",
        "matrix wait state",
        ZEROS + MATRIX_F64 + "{FIX}\nv_fma_f64 v[28:29], v[26:27], v[26:27], v[26:27]\n",
        "s_nop 1",
    ),
    Pair(
        "mode_written_twice",
        "mode wait state",
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1\n{FIX}\ns_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 0\n",
        "s_nop 1",
    ),
    Pair(
        "m0_before_a_message",
        "m0 wait state",
        "s_mov_b32 m0, 0\n{FIX}\ns_sendmsg sendmsg(MSG_INTERRUPT)\n",
        "s_nop 0",
    ),
    Pair(
        "m0_before_a_chosen_register",
        "m0 wait state",
        "s_mov_b32 m0, 0\n{FIX}\ns_movrels_b32 s22, s20\n",
        "s_nop 0",
    ),
]

HARMLESS = {
    "load_over_load": "global_load_dword v8, v1, s[20:21]\nglobal_load_dword v8, v1, s[20:21] offset:4\n",
    "store_data_overwritten": "global_store_dword v1, v9, s[20:21]\nv_mov_b32_e32 v9, 0\n",
    "wide_store_with_a_scalar_offset": "buffer_store_dwordx4 v[20:23], v1, s[16:19], s8 offen\nv_mov_b32_e32 v20, 0\n",
    "transcendental_of_transcendental": "v_exp_f32_e32 v9, v9\nv_log_f32_e32 v8, v9\n",
    "dpp_that_keeps_no_lane": "v_mov_b32_e32 v8, 0\n"
    "v_mov_b32_dpp v8, v9 row_shr:4 row_mask:0xf bank_mask:0xf bound_ctrl:1\n",
    "dot_products_that_add_up": "v_dot2_f32_f16 v9, v8, v8, v9\nv_dot2_f32_f16 v9, v8, v8, v9\ns_nop 2\n",
    "scalar_unit_reads_at_once": "v_readfirstlane_b32 s22, v4\ns_add_u32 s23, s22, 1\n",
    "short_loop": "s_mov_b32 s22, 9\n.Lagain:\nv_add_u32_e32 v8, 1, v8\ns_sub_u32 s22, s22, 1\ns_cmp_lg_u32 s22, 0\n"
    "s_cbranch_scc1 .Lagain\n",
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


def bad(pair: Pair) -> KernelText:
    return kernel(pair.text.replace(FIX, pair.broken), pair.waves)


def repaired(pair: Pair) -> KernelText:
    return kernel(pair.text.replace(FIX, f"{pair.broken}\n{pair.fix}"), pair.waves)


def verdict(text: KernelText) -> str:
    try:
        launch(text)
    except CoreError as error:
        return str(error)
    return ""


def main(argv: list[str]) -> int:
    unknown = set(argv) - {pair.name for pair in PAIRS}
    if unknown:
        print(f"no kernel of the name {', '.join(sorted(unknown))}; there are: {' '.join(pair.name for pair in PAIRS)}")
        return 2
    os.environ["GFX950_CHECK"] = "1"
    wrong = 0
    chosen = [pair for pair in PAIRS if not argv or pair.name in argv]
    for pair in sorted(chosen, key=lambda pair: pair.kind):
        found, after = verdict(bad(pair)), verdict(repaired(pair))
        is_right = any(f"[{kind}]" in found for kind in pair.kind.split("|")) and not after
        wrong += not is_right
        message = found.split("wave ", 1)[-1] or "NOT FOUND"
        print(f"{pair.kind.split('|')[0]:22} {pair.name}")
        print(f"  bad       wave {message}")
        print(f"  repaired  {after or 'clean'}, by {', '.join(pair.fix.split(chr(10)))}")
    kinds = {kind for pair in chosen for kind in pair.kind.split("|")}
    print(f"\n{len(chosen)} kernels of {len(kinds)} kinds: {len(chosen) - wrong} found and silent once repaired")
    return int(wrong != 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
