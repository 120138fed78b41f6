"""The timing model against published times of an MI355X, and against a roofline with as many fitted constants.

Rows are those of test/bench/data/published_times.csv, every one of them printed. The kernels that stand for them are
compiled for gfx950 and timed by the model alone (validation/launches.py says which). Three global constants are fitted
on random halves of the rows of every family, each family with the same weight, and judged on the other halves; the
figures are means over many such halves. No family is left out of the fit or chosen for it. What misses its goal says
so.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from bench.report import Report

# Nothing is written to the tensors, so that they need no memory of the host: the largest row has 51 GB of them.
os.environ.setdefault("GFX950_MEMORY_LIMIT", "288G")
# Before torch: it is what makes a CPU-only torch see a gfx950.
import gfx950_emulator  # isort: skip

import torch
from rich.console import Console
from torch._inductor.runtime.cache_dir_utils import cache_dir

from bench.validation import launches, micro, predict, tables
from bench.validation.fit import Constant
from bench.validation.rows import load
from bench.validation.study import study
from bench.validation.tables import Contest

HALVES = 200
SEED = 5
# Named as in the core's timing/params.inc, whose defaults they have; the first is added to a time, the others scale it.
CONSTANTS = (
    Constant("launch_ns", 7000.0, 1000.0, 12000.0, "ns"),
    Constant("clock_drop_ghz", 0.7, 0.0, 1.2, "GHz"),
    Constant("mall_bytes_per_ns", 9000.0, 5000.0, 17000.0, "B/ns"),
)
# A mechanism and what takes it out of the model.
SWITCHES: Mapping[str, Mapping[str, float]] = {
    "co-issue of classes": {"coissue": 0},
    "s_setprio": {"arbitration": 0},
    "rates of slow vector instructions": {"valu_rates": 0},
    "latency of MFMA results": {"mfma_latency": 0},
    "vector ALU waits behind an MFMA": {"mfma_valu_wait": 0},
    "LDS bank conflicts": {"lds_conflicts": 0},
    "measured lane groups of ds_read_b128": {"lds_special_phases": 0},
    "L1 and L2": {"cache_model": 0},
    "clock that falls with MFMA use": {"clock_drop_ghz": 0},
    "launch overhead": {"launch_ns": 0},
    "warm Infinity Cache": {"warm": 0},
    "soft threshold of the Infinity Cache": {"mall_smooth": 64},
    "back-pressure of memory": {"memory_queue_clk": 1e9},
}


def cost_seconds() -> float:
    """One prediction for 8192 x 8192 x 8192, compiled and decoded already, with nothing remembered of its time."""
    row = next(r for r in load() if r.family == "own GEMM" and r.sizes == {"M": 8192, "N": 8192, "K": 8192})
    candidate = list(launches.candidates(row))[-1]
    seconds = []
    for launch_ns in (7001.0, 7002.0, 7003.0):  # another value each time, or the core would remember
        with predict.parameters({"launch_ns": launch_ns}), gfx950_emulator.timing_only():
            torch.cuda.synchronize()
            started = time.perf_counter()
            candidate.launch()
            torch.cuda.synchronize()
            seconds.append(time.perf_counter() - started)
    return min(seconds[1:])


def run() -> Report:
    console = Console(stderr=True, highlight=False)
    rows = load()
    predictions = predict.Predictions(Path(cache_dir()) / "gfx950_validation.json")
    constants = tables.with_defaults(CONSTANTS, gfx950_emulator.timing_parameters())
    found = study(rows, constants, SWITCHES, predictions, console)
    model = Contest.of(found.surface(constants), rows, HALVES, SEED)
    roofline = Contest.of(tables.roofline_of(rows), rows, HALVES, SEED)
    sensitivity, better = tables.sensitivity_section(found)
    cases = list(micro.cases())
    return Report(
        op="validate",
        columns=tables.ROW_COLUMNS,
        rows=tables.row_lines(found, model, roofline),
        sections=[
            tables.family_section(rows, model, roofline, f"held-out error, {HALVES} fits on halves of every family"),
            tables.constants_section(model, "constants of the model"),
            tables.constants_section(roofline, "constants of the roofline"),
            sensitivity,
            tables.micro_section(cases),
        ],
        goals=tables.goals_of(found, model, roofline, cases, cost_seconds()),
        notes=[
            "All times but the published ones are modelled. A row's figures are means over the halves without it.",
            "No measurements of several configurations of one shape are published: nothing here tells how the model",
            "ranks them, and gaps below 10% are ties.",
            *better,
            *(f"dropped, the emulator cannot launch it: {text}" for text in found.dropped),
            f"{predictions.asked} predictions were made in {predictions.seconds:.0f} s; others were known already.",
        ],
    )
