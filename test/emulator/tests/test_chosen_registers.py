"""Registers that M0 chooses: s_set_gpr_idx, s_movrel; and a kernel in which LLVM uses them."""

from __future__ import annotations

import numpy as np
import pytest
from assemble import KernelText
from core_library import CodeObject, CoreError, Program

# s[4:5]: the output. v[16:31]: 100 + number; the same in s[32:47].
PROLOGUE = "s_load_dwordx2 s[4:5], s[0:1], 0x0\ns_waitcnt lgkmcnt(0)\nv_lshlrev_b32_e32 v1, 2, v0\n" + "".join(
    f"v_mov_b32_e32 v{16 + k}, {100 + k}\ns_movk_i32 s{32 + k}, {100 + k}\n" for k in range(16)
)
STORES = "".join(f"global_store_dword v1, v{register}, s[4:5] offset:{256 * k}\n" for k, register in enumerate((8, 9)))


def run(body: str) -> np.ndarray:
    out = np.zeros((2, 64), np.uint32)
    text = PROLOGUE + "v_mov_b32_e32 v8, 0\nv_mov_b32_e32 v9, 0\n" + body + STORES
    Program([KernelText("kernel", text, 8, vgprs=64)]).launch("kernel", 1, [out])
    return out


@pytest.mark.parametrize("index", [0, 1, 7, 15])
def test_index_mode(index: int) -> None:
    out = run(
        f"s_movk_i32 s8, {0x300 + index}\n"  # only eight bits count
        "s_set_gpr_idx_on s8, gpr_idx(SRC0)\nv_mov_b32_e32 v8, v16\ns_set_gpr_idx_off\n"
        "s_set_gpr_idx_on s8, gpr_idx(DST)\nv_mov_b32_e32 v16, 7\ns_set_gpr_idx_off\n"
        f"v_mov_b32_e32 v9, v{16 + index}\n"
    )
    assert (out[0] == 100 + index).all()
    assert (out[1] == 7).all()


def test_index_and_mode_change() -> None:
    out = run(
        "s_mov_b32 s8, 3\ns_mov_b32 s9, 5\ns_set_gpr_idx_on s8, gpr_idx(SRC0)\nv_mov_b32_e32 v8, v16\n"
        "s_set_gpr_idx_idx s9\nv_mov_b32_e32 v9, v16\ns_set_gpr_idx_mode gpr_idx(DST)\nv_mov_b32_e32 v4, v8\n"
        "s_set_gpr_idx_off\nv_add_u32_e32 v9, v9, v9\n"
    )
    assert (out[0] == 103).all()
    assert (out[1] == 2 * 103).all()  # v[4 + 5] was written over


def test_disabled_lanes_keep_their_register() -> None:
    out = run(
        "s_mov_b32 s8, 2\ns_mov_b64 exec, 0xff\ns_set_gpr_idx_on s8, gpr_idx(SRC0,DST)\nv_mov_b32_e32 v6, v16\n"
        "s_set_gpr_idx_off\ns_mov_b64 exec, -1\n"
    )
    assert (out[0] == np.where(np.arange(64) < 8, 102, 0)).all()


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("v_add_u32_e32 v8, v16, v16\n", "another instruction than v_mov_b32 in the index mode"),
        ("v_mov_b32_dpp v8, v16 row_shl:1 row_mask:0xf bank_mask:0xf\n", "this form of v_mov_b32 in the index mode"),
        ("s_cbranch_scc1 .Lover\nv_mov_b32_e32 v8, v16\n.Lover:\n", "another instruction than v_mov_b32"),
    ],
)
def test_what_is_refused(body: str, why: str) -> None:
    with pytest.raises(CoreError, match=f"unsupported_instruction: .*{why}"):
        run(f"s_mov_b32 s8, 2\ns_set_gpr_idx_on s8, gpr_idx(SRC0)\n{body}s_set_gpr_idx_off\n")


def test_a_way_around_the_switch_is_refused() -> None:
    with pytest.raises(CoreError, match="in and out of the index mode"):
        run(
            "s_mov_b32 s8, 2\ns_cmp_eq_u32 s8, 0\ns_cbranch_scc1 .Linside\ns_set_gpr_idx_on s8, gpr_idx(SRC0)\n"
            ".Linside:\nv_mov_b32_e32 v8, v16\ns_set_gpr_idx_off\n"
        )


def test_a_register_beyond_the_last() -> None:
    with pytest.raises(CoreError, match=r"memory_fault: .*M0 chooses v271"):
        run("s_movk_i32 s8, 255\ns_set_gpr_idx_on s8, gpr_idx(SRC0)\nv_mov_b32_e32 v8, v16\ns_set_gpr_idx_off\n")


@pytest.mark.parametrize("index", [0, 6, 14])
def test_relative_moves(index: int) -> None:
    out = run(
        f"s_mov_b32 m0, {index}\ns_nop 0\ns_movrels_b32 s8, s32\ns_movrels_b64 s[10:11], s[32:33]\n"
        "s_movreld_b32 s32, s8\ns_add_u32 s9, s10, s11\ns_movreld_b64 s[32:33], s[10:11]\n"
        f"v_mov_b32_e32 v8, s9\nv_mov_b32_e32 v9, s{32 + index + 1}\n"
    )
    assert (out[0] == 201 + 2 * index).all()
    assert (out[1] == 101 + index).all()


COMPILED = """
target triple = "amdgcn-amd-amdhsa"
define amdgpu_kernel void @choose(ptr addrspace(1) %p, ptr addrspace(1) %out, i32 %i, i32 %j) #0 {
  %z = load <16 x i32>, ptr addrspace(1) %p
  %e = extractelement <16 x i32> %z, i32 %i
  %f = insertelement <16 x i32> %z, i32 %e, i32 %j
  store <16 x i32> %f, ptr addrspace(1) %out
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="64,64" }
"""


@pytest.mark.parametrize(("i", "j"), [(0, 15), (9, 4)])
def test_compiled_array_access(i: int, j: int) -> None:
    """LLVM's code for an array in registers, by the LLVM in Triton."""
    from assemble import assemble_source
    from triton._C.libtriton import llvm

    llvm.init_targets()
    text = llvm.translate_to_asm(COMPILED, "amdgcn-amd-amdhsa", "gfx950", "", [], False, False)
    assert text.count("s_set_gpr_idx_on") == 2
    values, out = np.arange(16, dtype=np.uint32) * 11, np.zeros(16, np.uint32)
    arguments = np.array([values.ctypes.data, out.ctypes.data, i | j << 32], np.uint64).tobytes()
    CodeObject(assemble_source(text)).launch_packed("choose", (1, 1, 1), (64, 1, 1), arguments, [values, out])
    values[j] = values[i]
    assert (out == values).all()
