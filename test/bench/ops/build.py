"""How long repacking takes, and what the patches cost `import torch`.

The import is measured in new processes that alternate between the base and the patched wheel, both unpacked side by
side with their bytecode compiled, so that drift of the machine touches both alike.
"""

from __future__ import annotations

import compileall
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
import zipfile
from pathlib import Path

from bench.report import Goal, Report
from build_scripts.fetch import fetch
from build_scripts.layout import BUILD
from build_scripts.pins import read_pins
from build_scripts.repack import repack

REPACK_RUNS = 3
REPACK_LIMIT_SECONDS = 60.0
# Pairs of imports; with fewer, even the least of a busy machine wanders by more than the limit allows.
IMPORT_PAIRS = 20
IMPORT_LIMIT_RATIO = 1.03
_IMPORT = """
import json, sys, time
start = time.perf_counter()
import torch
wall = time.perf_counter() - start
flydsl = sorted(name for name in sys.modules if name.split(".")[0] == "flydsl")
print(json.dumps({"wall": wall, "file": torch.__file__, "version": torch.__version__, "flydsl": flydsl}))
"""


def unpack(wheel: Path, folder: Path, other: Path | None = None, other_wheel: Path | None = None) -> None:
    """Unpack a wheel; files that are the same in another unpacked one are linked, which saves 700 MB."""
    same: dict[str, int] = {}
    if other_wheel is not None:
        with zipfile.ZipFile(other_wheel) as archive:
            same = {info.filename: info.CRC for info in archive.infolist()}
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            if other is not None and same.get(info.filename) == info.CRC:
                target = folder / info.filename
                target.parent.mkdir(parents=True, exist_ok=True)
                target.hardlink_to(other / info.filename)
            else:
                archive.extract(info, folder)
    compileall.compile_dir(folder, quiet=2, workers=2)


def import_once(folder: Path) -> dict[str, object]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GFX950_")}
    environment["PYTHONPATH"] = str(folder)
    command = [sys.executable, "-c", _IMPORT]
    output = subprocess.run(command, env=environment, cwd=folder, check=True, capture_output=True, text=True).stdout
    result: dict[str, object] = json.loads(output)
    if not str(result["file"]).startswith(str(folder)):
        raise RuntimeError(f"torch was imported from {result['file']}, expected it under {folder}")
    return result


def run() -> Report:
    pins = read_pins()
    base = fetch(None, None, pins)
    work = BUILD / "bench"
    shutil.rmtree(work, ignore_errors=True)
    try:
        seconds = []
        for _ in range(REPACK_RUNS):
            start = time.perf_counter()
            result = repack(base, work / "wheel", pins)
            seconds.append(time.perf_counter() - start)
        print(f"repacked {REPACK_RUNS} times; unpacking both wheels", file=sys.stderr)
        folders = {"base": work / "base", "patched": work / "patched"}
        unpack(base, folders["base"])
        unpack(result.path, folders["patched"], folders["base"], base)

        walls: dict[str, list[float]] = {"base": [], "patched": []}
        flydsl: object = []
        for pair in range(-1, IMPORT_PAIRS):
            # Each goes first as often as the other.
            for name in ("base", "patched") if pair % 2 else ("patched", "base"):
                told = import_once(folders[name])
                if pair >= 0:  # the first pair only warms the file cache
                    walls[name].append(float(str(told["wall"])))
                if name == "patched":
                    flydsl = told["flydsl"]
            if pair > 0 and pair % 5 == 4:
                print(f"imported {pair + 1} of {IMPORT_PAIRS} times", file=sys.stderr)
        size = result.path.stat().st_size / 1e6
    finally:
        shutil.rmtree(work, ignore_errors=True)

    # Other load only ever adds time, so the least of many says what the import itself takes.
    ratio = min(walls["patched"]) / min(walls["base"])
    rows = [
        [
            f"repack {size:.0f} MB",
            *(f"{value:.2f} s" for value in (statistics.median(seconds), min(seconds), max(seconds))),
        ]
    ]
    for name, values in walls.items():
        rows.append(
            [f"import torch, {name}", *(f"{v:.3f} s" for v in (statistics.median(values), min(values), max(values)))]
        )
    return Report(
        op="build",
        columns=["what", "median", "least", "most"],
        rows=rows,
        goals=[
            Goal(
                name="repack",
                value=max(seconds),
                relation="<=",
                limit=REPACK_LIMIT_SECONDS,
                unit="s",
                source="measured",
            ),
            Goal(
                name="import torch, least patched / least base",
                value=ratio,
                relation="<=",
                limit=IMPORT_LIMIT_RATIO,
                unit="",
                source="measured",
            ),
            Goal(
                name="flydsl modules after import torch",
                value=len(flydsl) if isinstance(flydsl, list) else float("nan"),
                relation="==",
                limit=0,
                unit="",
                source="counted",
            ),
        ],
        notes=[f"{base.name}; {REPACK_RUNS} repacks, {IMPORT_PAIRS} pairs of imports in new processes, alternating"],
    )
