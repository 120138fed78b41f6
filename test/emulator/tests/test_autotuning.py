"""Inductor's table of candidates on the virtual clock: marked as modelled, with its ties and their rule."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from device_process import run_emulated

from gfx950_emulator import autotuning


@dataclass(frozen=True)
class Choice:
    name: str


def table(timings: dict[Choice, float]) -> list[str]:
    """As Inductor prints it."""
    best = min(timings.values())
    lines = ["AUTOTUNE mm(64x64, 64x64)", "strides: [64, 1], [1, 64]", "dtypes: torch.bfloat16, torch.bfloat16"]
    for choice in sorted(timings, key=timings.__getitem__):
        lines.append(f"  {choice.name} {timings[choice]:.4f} ms {best / timings[choice]:.1%} what it is")
    return [*lines, "SingleProcess AUTOTUNE benchmarking takes 1.0 seconds"]


def test_a_tie_is_within_ten_percent_of_the_best() -> None:
    timings = {Choice("slow"): 0.02, Choice("near"): 0.011, Choice("best"): 0.010, Choice("not"): 0.0111}
    lines = autotuning.marked(table(timings), timings)
    assert [line.split()[0] for line in lines if line.endswith("[tie]")] == ["best", "near"]
    assert lines[0].endswith("[modelled times]")
    assert lines[-1].startswith("2 of 4 candidates within 10% of the best.")
    assert autotuning.RULE in lines[-1]


def test_one_that_is_alone_is_no_tie() -> None:
    timings = {Choice("best"): 0.010, Choice("slow"): 0.02}
    lines = autotuning.marked(table(timings), timings)
    assert not any(line.endswith("[tie]") for line in lines)
    assert lines[-1].startswith("1 of 2 candidates")


def test_equal_times_keep_the_order_of_the_offer() -> None:
    timings = {Choice("b"): 0.01, Choice("a"): 0.01, Choice("c"): 0.009}
    assert [choice.name for choice in autotuning.ordered(timings)] == ["c", "b", "a"]
    marks = [line.split()[0] for line in autotuning.marked(table(timings), timings) if line.endswith("[tie]")]
    assert marks == []  # 0.01 is 11% more than 0.009, and one alone is no tie


@pytest.mark.parametrize(
    ("time", "tie"), [(1.0, True), (1.1, True), (1.1001, False), (float("inf"), False), (None, False)]
)
def test_what_a_tie_is(time: float | None, tie: bool) -> None:
    assert autotuning.is_tie(time, 1.0) is tie


def test_a_failed_candidate_is_no_tie_even_if_all_failed() -> None:
    timings = {Choice("x"): float("inf"), Choice("y"): float("inf")}
    lines = autotuning.marked(["  x inf ms nan", "  y inf ms nan"], timings)
    assert not any(line.endswith("[tie]") for line in lines)


def test_other_lines_stay_as_they_are() -> None:
    lines = ["something else", "  best of all"]
    assert autotuning.marked(lines, {Choice("best"): 0.01}) == lines
    assert autotuning.marked([], {}) == []


def test_inductor_prints_the_marks(tmp_path: Path) -> None:
    code = """
import torch
a = torch.zeros(256, 256, dtype=torch.bfloat16, device="cuda")
b = torch.zeros(256, 256, dtype=torch.bfloat16, device="cuda")
torch._inductor.config.max_autotune_gemm_backends = "ATEN,FLYDSL"
torch._inductor.config.flydsl_enable_autotuning = True
torch.compile(lambda x, y: x @ y.T, mode="max-autotune-no-cudagraphs")(a, b)
"""
    done = run_emulated(code, env={"TORCHINDUCTOR_CACHE_DIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert re.search(r"^AUTOTUNE mm\(256x256, 256x256\)  \[modelled times\]$", done.stderr, re.MULTILINE), done.stderr
    rows = re.findall(r"^  (\S+) (\d+\.\d+) ms .*?(\[tie\])?$", done.stderr, re.MULTILINE)
    assert len(rows) > 2, done.stderr
    told = re.search(
        r"^(\d+) of (\d+) candidates within 10% of the best\. Times are modelled", done.stderr, re.MULTILINE
    )
    assert told is not None, done.stderr
    marked = sum(bool(tie) for _, _, tie in rows)
    assert marked == (int(told[1]) if int(told[1]) > 1 else 0)
    times = [float(time) for _, time, _ in rows]
    assert times == sorted(times)
