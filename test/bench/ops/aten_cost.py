"""What the emulated device charges for ATen's operators, against the times that are published for an MI355X.

Every row of test/bench/data/aten_times.csv. The formulas are those of test/emulator/device/cost_models.cpp, asked of
the device's own library. Their constants were fitted to every second row of a family; the errors of the others count.
"""

from __future__ import annotations

import csv
import re
import statistics
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from bench.report import Goal, Report

# Before torch: its library holds the formulas.
import gfx950_emulator  # isort: skip  # noqa: F401

import torch

DATA = Path(__file__).resolve().parents[1] / "data" / "aten_times.csv"
DTYPES = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp32": torch.float32,
    "fp8": torch.float8_e4m3fn,
    "mxfp8": torch.float8_e4m3fn,
    "mxfp4": torch.float4_e2m1fn_x2,
}
# Charged with the constants of bf16 products, at the peak of its own dtype: all rows are held out.
NOT_FITTED = frozenset(("fp8_gemm",))
# The held-out mean error of a family. What a tuned library does for one shape is not in a formula of four constants:
# below this, the order of two candidates says nothing.
MEAN_LIMIT = 0.15
NO_DATA = (
    "elementwise operators and reductions (bandwidth of a copy), convolution, float32 and float64 products, "
    "attention backward (2.5 x forward), RMS norm backward (2 x forward), sort"
)


@dataclass(frozen=True)
class Row:
    family: str
    dtype: str
    shape: str
    published: float  # microseconds
    modelled: float
    held_out: bool
    source: str

    @property
    def error(self) -> float:
        return self.modelled / self.published - 1


def sizes_of(family: str, shape: str) -> list[int]:
    """What aten_nanoseconds wants for a family, from a shape as it is written in the table."""
    value = {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)(?=;|$)", shape)}
    if family == "grouped_gemm":
        ragged = re.search(r"M_groups=([\d/]+)", shape)
        rows = [int(part) for part in ragged[1].split("/")] if ragged else [value["M_per_group"]] * value["G"]
        return [value["N"], value["K"], *rows]
    names = {
        "gemm": "M N K",
        "fp8_gemm": "M N K",
        "mx_gemm": "M N K",
        "attention": "B H Sq Skv D causal",
        "norm": "M N",
        "topk": "M N",
    }[family]
    return [value[name] for name in names.split()]


def read_rows() -> list[Row]:
    rows: list[Row] = []
    seen: dict[str, int] = defaultdict(int)
    with DATA.open(newline="") as file:
        for line in csv.DictReader(file):
            family = line["family"]
            formula = "gemm" if family in NOT_FITTED else family
            nanoseconds = torch.ops.gfx950_emulator.aten_nanoseconds(
                formula, sizes_of(family, line["shape"]), DTYPES[line["dtype"]]
            )
            held_out = family in NOT_FITTED or seen[family] % 2 == 1
            seen[family] += 1
            rows.append(
                Row(
                    family=family,
                    dtype=line["dtype"],
                    shape=line["shape"],
                    published=float(line["us"]),
                    modelled=nanoseconds * 1e-3,
                    held_out=held_out,
                    source=line["source"].split(";")[0],
                )
            )
    return rows


def run() -> Report:
    rows = read_rows()
    goals = []
    notes = ["All modelled times are formulas; `held out` rows did not take part in the fit."]
    for family in dict.fromkeys(row.family for row in rows):
        errors = [abs(row.error) for row in rows if row.family == family]
        held_out = [abs(row.error) for row in rows if row.family == family and row.held_out]
        notes.append(
            f"{family}: {len(errors)} rows, mean {statistics.mean(errors):.1%}, largest {max(errors):.1%}; "
            f"held out {len(held_out)}, mean {statistics.mean(held_out):.1%}"
        )
        goals.append(
            Goal(
                name=f"{family}: mean error of held-out rows",
                value=statistics.mean(held_out),
                relation="<=",
                limit=MEAN_LIMIT,
                unit="",
                source="modelled",
            )
        )
    notes.append(f"No published times for: {NO_DATA}.")
    return Report(
        op="aten_cost",
        columns=["family", "dtype", "shape", "modelled µs", "published µs", "error", "held out", "source"],
        rows=[
            [
                row.family,
                row.dtype,
                row.shape,
                f"{row.modelled:.1f}",
                f"{row.published:.1f}",
                f"{row.error:+.0%}",
                "yes" if row.held_out else "",
                row.source,
            ]
            for row in rows
        ],
        goals=goals,
        notes=notes,
    )
