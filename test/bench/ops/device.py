# mypy: disable-error-code="no-untyped-call"
"""What the emulated device costs the host: calls of small operators, the import, and memory over many training steps.

Every ratio compares two things that one run measures alternately, so that other load on the machine meets both; of each
operator the least counts, because load only ever adds time. Times are processor time of the process.
"""

from __future__ import annotations

import os
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench.report import Goal, Report

# Before torch: it is what makes a CPU-only torch see a gfx950.
import gfx950_emulator  # noqa: F401  # isort: skip

import torch

CALLS, ROUNDS = 4000, 25
IMPORTS = 31
STEPS, WARM_UP = 2000, 200

_IMPORT = "import torch; print(torch.cuda.is_available())"


def least_alternating(functions: list[Callable[[], object]], calls: int, rounds: int) -> list[float]:
    """Processor seconds of one call of each, the least of all rounds."""
    best = [float("inf")] * len(functions)
    for _ in range(rounds):
        for index, function in enumerate(functions):
            start = time.process_time()
            for _ in range(calls):
                function()
            best[index] = min(best[index], (time.process_time() - start) / calls)
    return best


def operator_costs() -> dict[str, tuple[float, float]]:
    """Microseconds of one call on the CPU and on the device."""

    def calls(device: str) -> dict[str, Callable[[], object]]:
        a, b = torch.ones(16, device=device), torch.ones(16, device=device)
        square = torch.ones(16, 16, device=device)
        return {
            "add of 16 elements": lambda: a + b,
            "add_ in place": lambda: a.add_(b),
            "view": lambda: square.t(),
            "empty": lambda: torch.empty(16, device=device),
            "mm 16 x 16": lambda: torch.mm(square, square),
        }

    host, device = calls("cpu"), calls("cuda")
    result = {}
    for name in host:
        on_host, on_device = least_alternating([host[name], device[name]], CALLS, ROUNDS)
        result[name] = (on_host * 1e6, on_device * 1e6)
    return result


def import_seconds() -> tuple[float, float, float]:
    """Of a whole process that imports torch, without and with the device: the switch acts before its first line.

    Medians of both, and the median of the ratios of neighbours: single runs differ by more than the device costs, so
    neither's least says anything.
    """
    seconds: dict[str, list[float]] = {"0": [], "1": []}
    for turn in range(IMPORTS):
        for switch in ("0", "1") if turn % 2 else ("1", "0"):
            environment = os.environ | {"GFX950_EMULATOR": switch}
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [sys.executable, "-c", _IMPORT]
            said = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            if said != str(switch == "1"):
                raise RuntimeError(f"GFX950_EMULATOR={switch}, and torch.cuda.is_available() is {said}")
            seconds[switch].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    ratios = [emulated / plain for plain, emulated in zip(seconds["0"], seconds["1"], strict=True)]
    return statistics.median(seconds["0"]), statistics.median(seconds["1"]), statistics.median(ratios)


def resident_bytes() -> int:
    match = re.search(r"^VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    if match is None:
        raise RuntimeError("/proc/self/status has no VmRSS")
    return int(match[1]) << 10


def training_growth() -> tuple[int, int, int]:
    """Bytes that the process, tensors on the device and memory taken from it grew by after the warm-up, at the end."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 10)
    ).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def steps(count: int) -> tuple[int, int, int]:
        for _ in range(count):
            x, target = torch.randn(4, 1, 8, 8, device="cuda"), torch.randint(0, 10, (4,), device="cuda")
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(torch.nn.functional.dropout(model(x), 0.1), target).backward()
            optimizer.step()
        optimizer.zero_grad()
        return resident_bytes(), torch.cuda.memory_allocated(), torch.cuda.memory_reserved()

    before = steps(WARM_UP)
    after = steps(STEPS)
    return after[0] - before[0], after[1] - before[1], after[2] - before[2]


def run() -> Report:
    load_before = os.getloadavg()[0]
    operators = operator_costs()
    print("operators measured", file=sys.stderr)
    plain, emulated, import_ratio = import_seconds()
    print("imports measured", file=sys.stderr)
    resident, allocated, reserved = training_growth()
    rows = [
        [name, f"{host:.2f} us", f"{device:.2f} us", f"{device / host:.2f}"]
        for name, (host, device) in operators.items()
    ]
    rows.append(["import torch", f"{plain:.3f} s", f"{emulated:.3f} s", f"{import_ratio:.3f}"])
    rows.append([f"memory over {STEPS} training steps", "", f"{resident / 2**20:.2f} MiB", ""])
    host, device = operators["add of 16 elements"]
    limits = [
        ("add of 16 elements, device / CPU", device / host, 2.5, ""),
        ("import torch, with / without the device", import_ratio, 1.03, ""),
        (f"growth of the process over {STEPS} steps", resident / 2**20, 2.0, "MiB"),
        ("growth of tensors on the device", float(allocated), 0.0, "bytes"),
        ("growth of memory taken from the device", float(reserved), 0.0, "bytes"),
    ]
    return Report(
        op="device",
        columns=["what", "CPU, or without", "device, or with", "ratio"],
        rows=rows,
        goals=[
            Goal(name=name, value=value, relation="<=", limit=limit, unit=unit, source="measured")
            for name, value, limit, unit in limits
        ],
        notes=[
            f"{len(os.sched_getaffinity(0))} cores, load {load_before:.1f} before and {os.getloadavg()[0]:.1f} after.",
            f"Processor time; least of {ROUNDS} rounds of {CALLS} calls; of {IMPORTS} pairs of imports the median.",
        ],
    )
