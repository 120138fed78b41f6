"""`python -m gfx950_emulator profile`: tables, JSON and picture of a GEMM; and what it refuses."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from device_process import run_python

from gfx950_emulator import profile, profile_report, timeline
from gfx950_emulator.errors import EmulatorError
from gfx950_emulator.timeline import Segment, WaveRow

GEMM = """
import sys
import torch
from torch._inductor.kernel.flydsl import gemm, gemm_config

problem = gemm_config.GemmProblem(m=128, n=128, k=512, dtype="bf16", lda=512, ldb=512, ldc=128)
config = next(c for c in gemm_config.DEFAULT_CONFIGS if c.name == "64x64x64_s2_w2x2")
kernel = gemm.compile_gemm(gemm_config.spec_for(problem, config, "gfx950"))
a, b = (torch.ones(128, 512, dtype=torch.bfloat16, device="cuda") for _ in range(2))
c = torch.empty(128, 128, dtype=torch.bfloat16, device="cuda")
for _ in range(2):
    kernel(a, b, c, torch.cuda.current_stream().cuda_stream)
assert (c.cpu() == 512).all()
print("ran", *sys.argv[1:])
sys.exit(int(sys.argv[1]))
"""


def run_profile(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "gfx950_emulator", "profile", *arguments)


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    folder = tmp_path_factory.mktemp("profile")
    (folder / "script.py").write_text(GEMM)
    options = ("--json", str(folder / "p.json"), "--timeline", str(folder / "t.png"), "--top", "3")
    return run_profile(*options, str(folder / "script.py"), "0", "--json"), folder


def test_the_script_gets_its_own_arguments(profiled: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    done, _ = profiled
    assert done.returncode == 0, done.stderr
    assert "ran 0 --json" in done.stdout


def test_tables_say_what_was_asked_for(profiled: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    text = profiled[0].stdout
    for part in (
        "kernels, modelled", "gemm_nt_bf16_64x64x64_s2_w2x2", "modelled", "TFLOP/s of matrix instructions", "of 2516",
        "GB/s", "of 8000", "MFMA pipe", "vector ALU", "occupancy:", "limited by grid", "spills: 0 VGPRs, 0 SGPRs",
        "an average wave", "barrier", "instructions that stall most, the first 3", "bank conflicts: none in",
    ):  # fmt: skip
        assert part in text, part
    stalling = text.split("instructions that stall most")[1].split("bank conflicts")[0]
    assert sum("│ 0" in line for line in stalling.splitlines()) == 3
    assert ".py:" in stalling
    assert "no line table" not in text


def test_json(profiled: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    document = json.loads((profiled[1] / "p.json").read_text())
    assert document["source"] == "modelled"
    [kernel] = document["kernels"]
    first = kernel["first"]
    assert kernel["launches"] == 2
    assert kernel["total_nanoseconds"] == pytest.approx(2 * first["nanoseconds"])
    assert first["grid"] == [4, 1, 1]
    assert first["matrix_flops"] == 2 * 128 * 128 * 512
    assert first["nanoseconds"] > first["launch_nanoseconds"] > 0
    assert set(profile_report.UNITS) <= set(first["utilisation"])
    assert all(0 <= share <= 1 for share in first["utilisation"].values())
    assert set(first["waves"]["stall_cycles_per_wave"]) == set(profile_report.REASONS)
    assert first["resources"]["vgpr_spills"] == 0
    mfma = [i for i in first["instructions"] if i["unit"] == "mfma"]
    waves = first["sampling"]["workgroups_simulated"] * first["waves_per_workgroup"]
    # Of 16 x 16 x 32 each.
    assert sum(i["issues"] for i in mfma) == waves // 4 * (64 * 64 * 512 // (16 * 16 * 32))
    units = {event["unit"] for event in first["timeline"]}
    assert {"mfma", "lds", "vmem", "barrier"} <= units


def test_picture(profiled: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    png = (profiled[1] / "t.png").read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", png[16:24])
    assert 1000 < width < 4000
    assert 400 < height < 8000
    assert len(png) > 15_000  # not an empty frame


def test_rows_of_the_picture(profiled: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    first = json.loads((profiled[1] / "p.json").read_text())["kernels"][0]["first"]
    rows = profile.timeline_rows(first)
    assert len(rows) == first["waves_per_workgroup"]
    assert {row.simd for row in rows} == {0, 1, 2, 3}
    for row in rows:
        assert len(row.barriers) >= 512 // 64
        kinds = {segment.kind for segment in row.segments}
        assert {"mfma", "valu", "lds", "vmem", "wait barrier"} <= kinds
        assert kinds <= set(timeline.COLOURS)
        ends = [segment.end for segment in row.segments if segment.kind.startswith("wait")]
        assert ends == sorted(ends)
        assert all(segment.end >= segment.start >= 0 for segment in row.segments)


def test_a_script_that_fails_is_still_told_of(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(GEMM)
    done = run_profile("--kernel", "gemm_nt", str(tmp_path / "script.py"), "7")
    assert done.returncode == 7
    assert "kernels, modelled" in done.stdout
    done = run_profile("-c", "print('begun'); 1 / 0")
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert "no kernel was launched" in done.stderr


def test_no_kernel_or_none_of_that_name(tmp_path: Path) -> None:
    done = run_profile("-c", "import torch; print(torch.ones(2, device='cuda').sum().item())")
    assert done.returncode == 1
    assert "2.0" in done.stdout
    assert "profile: no kernel was launched" in done.stderr
    (tmp_path / "script.py").write_text(GEMM)
    done = run_profile("--kernel", "softmax", str(tmp_path / "script.py"), "0")
    assert done.returncode == 1
    assert "no kernel has 'softmax' in its name; launched were gemm_nt_bf16_64x64x64_s2_w2x2" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "nothing to run"),
        (("missing.py",), "no such file: missing.py"),
        (("-c",), "argument expected for the -c option"),
        (("--top", "0", "-c", "1"), "--top 0: at least 1"),
        (("--details", "0", "-c", "1"), "--details 0: at least 1"),
        (("--timeline", "t.pdf", "-c", "1"), "t.pdf: a PNG file is drawn, name it .png"),
        (("--nonsense", "-c", "1"), "no such file: --nonsense"),
    ],
)
def test_what_cannot_be_profiled(arguments: tuple[str, ...], message: str) -> None:
    done = run_profile(*arguments)
    assert done.returncode == 2
    assert message in done.stderr


def test_a_timeline_without_matplotlib_is_refused_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(EmulatorError, match="a timeline needs matplotlib"):
        timeline.check()


def test_nothing_to_draw(tmp_path: Path) -> None:
    with pytest.raises(EmulatorError, match="no wave was recorded"):
        timeline.draw([WaveRow(0, 0, 0, [], [])], "k", tmp_path / "t.png")
    assert not (tmp_path / "t.png").exists()


def test_a_damaged_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("{}\nno json\n")
    with pytest.raises(profile_report.ProfileError, match=r"f:2 is no launch of a profile"):
        profile_report.read(tmp_path / "f")


def test_the_close_up_is_inside() -> None:
    rows = [WaveRow(0, 0, 0, [Segment(100.0, 9100.0, "mfma")], [])]
    assert timeline.busiest_window(rows, 1600.0) == (2900.0, 4500.0)
    assert timeline.busiest_window(rows, 10000.0) == (100.0, 9100.0)


def instruction(pc: int, **stalls: float) -> dict[str, Any]:
    return {"pc": pc, "unit": "salu", "text": "s_nop 0", "issues": 2, "stalls": stalls}


def test_a_wait_is_for_what_lies_between() -> None:
    waits = profile.Waits([instruction(0, wait_lgkm=90.0), instruction(4, wait_vm=40.0), instruction(8, issue=6.0)])
    assert waits.between(0, 8) == "wait memory"  # the one at 0 issued already
    assert waits.between(4, 8) == "wait other"
    assert waits.between(8, 0) == "wait lds"  # back to the loop's begin
    assert profile.Waits([]).between(0, 4) == "wait other"


def test_waves_leave_a_barrier_as_the_last_one_comes() -> None:
    def event(wave: int, unit: str, start: float, cycles: float, pc: int) -> dict[str, Any]:
        return {"group": 0, "wave": wave, "simd": wave, "unit": unit, "start": start, "cycles": cycles, "pc": pc}

    launch = {
        "instructions": [instruction(0), instruction(4), instruction(8)],
        "timeline": [
            event(0, "valu", 0, 4, 0), event(1, "valu", 0, 4, 0), event(0, "barrier", 4, 0, 4),
            event(1, "barrier", 50, 0, 4), event(0, "mfma", 54, 16, 8), event(1, "mfma", 50, 16, 8),
        ],
    }  # fmt: skip
    first, second = profile.timeline_rows(launch)
    assert first.barriers == [4]
    assert [(s.start, s.end, s.kind) for s in first.segments] == [
        (0, 4, "valu"), (4, 50, "wait barrier"), (50, 54, "wait other"), (54, 70, "mfma"),
    ]  # fmt: skip
    assert [s.kind for s in second.segments] == ["valu", "wait other", "wait barrier", "mfma"]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("v_mfma_f32_16x16x32_bf16 a[0:3], v[0:3], v[4:7], a[0:3]", "bf16 and fp16"),
        ("v_mfma_f32_32x32x16_f16 a[0:15], v[0:3], v[4:7], 0", "bf16 and fp16"),
        ("v_mfma_f32_16x16x32_fp8_fp8 v[0:3], v[0:1], v[4:5], 0", "fp8"),
        ("v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[0:7], v[4:11], 0", "fp8"),
        ("v_mfma_scale_f32_16x16x128_f8f6f4 v[0:3], v[0:3], v[4:7], 0, v1, v2 cbsz:4 blgp:4", "fp6 and fp4"),
        ("v_mfma_scale_f32_16x16x128_f8f6f4 v[0:3], v[0:7], v[4:7], 0, v1, v2 cbsz:1 blgp:4", "fp8"),
        ("v_mfma_f32_16x16x4_f32 v[0:3], v0, v1, 0", "other"),
    ],
)
def test_peak_of_an_instruction(text: str, kind: str) -> None:
    kernel = {
        "instructions": [{"unit": "mfma", "text": text, "issues": 3}, {"unit": "valu", "text": "v_add", "issues": 9}]
    }
    assert profile_report.peak_tflops(kernel) == (kind, profile_report.PEAK_TFLOPS[kind])


def test_options_end_where_the_code_begins() -> None:
    assert profile.split(["--top", "3", "--json=x", "script.py", "--top", "9"]) == (
        ["--top", "3", "--json=x"],
        ["script.py", "--top", "9"],
    )
    assert profile.split(["-c", "code"]) == ([], ["-c", "code"])
