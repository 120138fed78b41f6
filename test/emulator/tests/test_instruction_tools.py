"""`python -m gfx950_emulator coverage` and `disasm`."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from assemble import KernelText, assemble
from device_process import run_python

OFF = {"GFX950_EMULATOR": "0"}


def tool(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "gfx950_emulator", *arguments, env=OFF, cwd=cwd)


@pytest.fixture(scope="module")
def covered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    tests = tmp_path_factory.mktemp("tests")
    (tests / "test_it.py").write_text("v_xad_u32 v1, v2, v3, v4; v_add_f32_e64 v1, v2, v3")
    done = tool("coverage", "--json", "--tests", str(tests))
    assert done.returncode == 0, done.stderr
    report: dict[str, object] = json.loads(done.stdout)
    return report


def test_no_unexplained_gap(covered: dict[str, dict[str, object]]) -> None:
    summary = covered["summary"]
    assert summary["gap"] == 0
    assert summary["surveyed"] == 345
    assert summary["surveyed_missing"] == []
    assert summary["registered_but_unreached"] == []  # the registry holds instructions of gfx950 alone
    assert summary["named_by_tests"] == 2
    assert summary["mnemonics"] > 1200  # what LLVM 23 knows of gfx950; far fewer means that the enumeration broke


@pytest.mark.parametrize(
    ("mnemonic", "forms"),
    [
        ("v_add_f32", {"e32", "e64 clamp", "e64 abs", "e64 neg", "sdwa", "dpp quad_perm", "dpp row_shr"}),
        ("v_pk_fma_f16", {"clamp", "neg_lo", "neg_hi"}),
        ("v_mfma_f32_16x16x32_bf16", {"plain", "agpr"}),
        ("v_mfma_scale_f32_16x16x128_f8f6f4", {"plain", "cbsz blgp"}),
        ("buffer_load_dwordx4", {"offen", "offen lds", "off"}),
        ("flat_load_dword", {"plain"}),
        ("scratch_store_dwordx4", {"off", "plain"}),
        ("ds_read_b64_tr_b16", {"plain"}),
        ("s_sendmsg", {"plain"}),
        ("v_cmp_lt_f32", {"e32", "e64", "sdwa"}),
    ],
)
def test_forms(covered: dict[str, list[dict[str, list[str]]]], mnemonic: str, forms: set[str]) -> None:
    entry = next(row for row in covered["instructions"] if row["mnemonic"] == mnemonic)
    assert set(entry["forms"]) >= forms


def test_refused_and_named(covered: dict[str, list[dict[str, object]]]) -> None:
    rows = {row["mnemonic"]: row for row in covered["instructions"]}
    typed = rows["tbuffer_load_format_x"]
    assert (typed["state"], typed["forms"], typed["reason"]) == ("refused", [], "typed buffers, for graphics")
    assert rows["v_xad_u32"]["tests"] == rows["v_add_f32"]["tests"] == ["test_it.py"]
    assert rows["v_sub_f32"]["tests"] == []
    assert rows["v_mfma_f32_16x16x32_bf16"]["occurrences"]
    # Other architectures' instructions are not in the list.
    assert not {"v_fmac_f16", "v_mfma_f32_16x16x8_xf32", "v_wmma_f32_16x16x16_f16"} & set(rows)


def test_a_gap_fails() -> None:
    code = "import sys, gfx950_emulator.coverage as c; c.REFUSED = c.REFUSED[1:]; sys.exit(c.main([]))"
    done = run_python("-c", code, env=OFF)
    assert done.returncode == 1, done.stderr
    gaps = re.findall(r"^gap +(\S+):", done.stdout, re.MULTILINE)
    assert gaps
    assert all(name.startswith("v_smfmac_i32_") for name in gaps)
    assert f"{len(gaps)} unexplained gaps" in done.stdout


def test_a_surveyed_mnemonic_that_is_missing_fails() -> None:
    code = (
        "import sys, gfx950_emulator.coverage as c; s = c.survey(); "
        "c.survey = lambda: {**s, 'v_smfmac_i32_16x16x64_i8': 1, 'v_readlane_b32_sdwa': 1}; sys.exit(c.main([]))"
    )
    done = run_python("-c", code, env=OFF)
    assert done.returncode == 1, done.stderr
    assert "345 of 347 surveyed" in done.stdout
    assert "missing: v_smfmac_i32_16x16x64_i8, v_readlane_b32_sdwa" in done.stdout


KERNELS = [
    KernelText(
        "loop",
        """s_movk_i32 s4, 3
.Lagain:
v_mfma_f32_16x16x32_bf16 v[4:7], v[8:11], v[12:15], v[4:7]
v_smfmac_i32_16x16x64_i8 v[4:7], v[8:9], v[16:19], v2
s_sub_u32 s4, s4, 1
s_cmp_lg_u32 s4, 0
s_cbranch_scc1 .Lagain""",
        16,
        vgprs=24,
        lds=512,
        scratch=64,
    ),
    KernelText("short", "v_mov_b32_e32 v1, v0", 8, vgprs=8),
]


@pytest.fixture(scope="module")
def image() -> bytes:
    return assemble(KERNELS)


def test_disasm(image: bytes, tmp_path: Path) -> None:
    path = tmp_path / "kernels.hsaco"
    path.write_bytes(image)
    done = tool("disasm", str(path), "--kernel", "loop")
    assert done.returncode == 0, done.stderr
    assert "kernel short" not in done.stdout
    lines = done.stdout.splitlines()
    assert lines[0] == "kernel loop"
    for detail in ("lds_bytes 512", "scratch_bytes_per_lane 64", "vgprs 24", "vgpr_spills 0", "kernarg_bytes 16"):
        assert detail in lines[1]
    assert lines[2] == "  7 instructions, 36 bytes: salu 3, mfma 1, branch 1, other 1, not executable 1"
    assert lines[4] == "> 000004  mfma    v_mfma_f32_16x16x32_bf16 v[4:7], v[8:11], v[12:15], v[4:7]"
    assert lines[5].endswith("; not executable: this instruction is not modelled")
    assert lines[8].endswith("; to 000004")


def test_disasm_counts(image: bytes, tmp_path: Path) -> None:
    (tmp_path / "k").write_bytes(image)
    done = tool("disasm", "k", "--counts", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"kernel short\n.*\n  2 instructions, 8 bytes: valu 1, other 1\n +1  s_endpgm\n", done.stdout)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda image: b"", "invalid_image: "),
        (lambda image: b"not an object\n" * 20, "invalid_image: code object: no ELF magic"),
        (lambda image: image[: len(image) // 3], "invalid_image: "),
        # e_machine of x86-64; then another AMD processor in e_flags
        (lambda image: image[:18] + b"\x3e\0" + image[20:], "unsupported_target: "),
        (lambda image: image[:48] + b"\x4c" + image[49:], "unsupported_target: "),
    ],
)
def test_disasm_of_bad_files(change: object, message: str, image: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad.hsaco"
    path.write_bytes(change(image))  # type: ignore[operator]
    done = tool("disasm", str(path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"disasm: {path}: {message}")
    assert done.stderr.count("\n") == 1


def test_disasm_of_no_file(image: bytes, tmp_path: Path) -> None:
    done = tool("disasm", str(tmp_path / "none"))
    assert (done.returncode, done.stderr) == (1, f"disasm: cannot read {tmp_path}/none: No such file or directory\n")
    (tmp_path / "k").write_bytes(image)
    done = tool("disasm", str(tmp_path / "k"), "--kernel", "lop")
    assert (done.returncode, done.stderr) == (1, f"disasm: {tmp_path}/k has no kernel 'lop'; it has loop, short\n")
