"""`python -m gfx950_emulator profile script.py`: run it, and say of every kernel what its modelled time goes into.

Kernels of child processes are profiled as well: they inherit the environment and append to the same file.
"""

from __future__ import annotations

import argparse
import bisect
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gfx950_emulator import target
from gfx950_emulator.activation import activate
from gfx950_emulator.errors import EmulatorError

FILE = "GFX950_PROFILE"
TIMELINE = "GFX950_PROFILE_TIMELINE"
# FlyDSL's switch for line tables, which change no instruction; Triton writes them anyway.
FLYDSL_LINES = "FLYDSL_DEBUG_ENABLE_DEBUG_INFO"
# How the waits before an instruction are coloured in a timeline, by the reason for which it stalls most.
_WAITS = {
    "wait_vm": "wait memory",
    "memory_pipe": "wait memory",
    "wait_lgkm": "wait lds",
    "lds_pipe": "wait lds",
    "barrier": "wait barrier",
    "matrix_data": "wait mfma",
    "matrix_pipe": "wait mfma",
}
_WORK = {"mfma": "mfma", "valu": "valu", "lds": "lds", "vmem": "vmem", "smem": "vmem"}


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m gfx950_emulator profile",
        description="Run Python code on the emulated gfx950 and print, for each kernel, where its modelled time goes.",
        usage="%(prog)s [options] script.py [arguments] | -m module [arguments] | -c code",
    )
    made.add_argument("--kernel", metavar="TEXT", help="only kernels with this in their name")
    made.add_argument("--top", type=int, default=10, metavar="N", help="instructions that stall most, default 10")
    made.add_argument(
        "--details", type=int, default=5, metavar="N", help="kernels described one by one, most time first; default 5"
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="also write everything to this file")
    made.add_argument(
        "--timeline", type=Path, metavar="FILE.png", help="draw one compute unit: of the kernel with most modelled time"
    )
    return made


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Our options, and what is to be run: from the first argument on that is no option of ours nor its value."""
    with_value = {"--kernel", "--top", "--details", "--json", "--timeline"}
    at = 0
    while at < len(arguments):
        if arguments[at] in with_value:
            at += 2
        elif arguments[at].split("=")[0] in with_value or arguments[at] in ("-h", "--help"):
            at += 1
        else:
            break
    return list(arguments[:at]), list(arguments[at:])


class Waits:
    """Why a wave waited between two instructions of a timeline: for what those from the one to the other mostly wait.

    s_waitcnt and its like issue nothing, so they are no events: their stalls belong to the gap before the next one.
    """

    def __init__(self, instructions: Sequence[Mapping[str, Any]]) -> None:
        self._pcs = [instruction["pc"] for instruction in instructions]
        self._stalls = [
            {name: cycles / instruction["issues"] for name, cycles in instruction["stalls"].items()}
            for instruction in instructions
        ]

    def between(self, before: int, after: int) -> str:
        """The kind of wait from the instruction at `before` (left out) to the one at `after`, bytes of the kernel."""
        first = bisect.bisect_right(self._pcs, before) if before < after else bisect.bisect_left(self._pcs, after)
        total: dict[str, float] = {}
        for stalls in self._stalls[first : bisect.bisect_right(self._pcs, after)]:
            for name, cycles in stalls.items():
                total[name] = total.get(name, 0.0) + cycles
        reason = max(total, key=lambda name: total[name], default="")
        return _WAITS.get(reason, "wait other")


def releases(waves: Mapping[tuple[int, int, int], Sequence[Mapping[str, Any]]]) -> dict[tuple[int, int], float]:
    """When the n-th barrier of a workgroup lets its waves go: as the last of them arrives."""
    when: dict[tuple[int, int], float] = {}
    for (_, group, _), events in waves.items():
        for number, event in enumerate(event for event in events if event["unit"] == "barrier"):
            when[group, number] = max(when.get((group, number), 0.0), event["start"])
    return when


def timeline_rows(launch: Mapping[str, Any]) -> list[Any]:
    """The waves of a launch's timeline, with what each does and, in the gaps, what it waits for."""
    from gfx950_emulator.timeline import Segment, WaveRow

    waits = Waits(sorted(launch["instructions"], key=lambda instruction: instruction["pc"]))
    waves: dict[tuple[int, int, int], list[Mapping[str, Any]]] = {}
    for event in sorted(launch.get("timeline", ()), key=lambda item: item["start"]):
        waves.setdefault((event["simd"], event["group"], event["wave"]), []).append(event)
    released = releases(waves)
    rows = []
    for (simd, group, wave), events in sorted(waves.items()):
        segments, barriers = [], []
        end, pc = events[0]["start"], events[0]["pc"]  # of the instruction before
        for event in events:
            start = event["start"]
            if start > end:
                segments.append(Segment(end, start, waits.between(pc, event["pc"])))
            if event["unit"] == "barrier":
                barriers.append(start)
                finish = released[group, len(barriers) - 1]
                segments.append(Segment(start, finish, "wait barrier"))
            else:
                finish = start + event["cycles"]
                segments.append(Segment(start, finish, _WORK.get(event["unit"], "salu")))
            end, pc = max(end, finish), event["pc"]
        rows.append(WaveRow(simd, group, wave, segments, barriers))
    return rows


def run(code: list[str]) -> int:
    """Runs it and returns its exit status; an error of the script is printed, and what ran before it is still shown."""
    try:
        target.run(code)
    except SystemExit as exit_:
        if exit_.code is None or isinstance(exit_.code, int):
            return exit_.code or 0
        print(exit_.code, file=sys.stderr)
        return 1
    except Exception:  # noqa: BLE001  it is the script's, told as Python would
        traceback.print_exc()
        return 1
    return 0


def main(argv: list[str]) -> int:
    ours, code = split(argv)
    arguments = parser().parse_args(ours)
    for option in ("top", "details"):
        if getattr(arguments, option) < 1:
            print(f"profile: --{option} {getattr(arguments, option)}: at least 1", file=sys.stderr)
            return 2
    if arguments.timeline is not None and arguments.timeline.suffix != ".png":
        print(f"profile: --timeline {arguments.timeline}: a PNG file is drawn, name it .png", file=sys.stderr)
        return 2
    try:
        target.check(code)
    except target.NothingToRun as error:
        print(f"profile: {error}", file=sys.stderr)
        return 2
    if arguments.timeline is not None:
        from gfx950_emulator import timeline

        timeline.check()
    activate()
    with tempfile.TemporaryDirectory(prefix="gfx950-profile-") as folder:
        file = Path(folder) / "launches.jsonl"
        file.touch()
        os.environ[FILE] = str(file)
        os.environ.setdefault(FLYDSL_LINES, "1")
        if arguments.timeline is not None:
            os.environ[TIMELINE] = "1"
        status = run(code)
        sys.stdout.flush()
        told = tell(file, arguments)
    return status or told


def tell(file: Path, arguments: argparse.Namespace) -> int:
    from rich.console import Console

    from gfx950_emulator import profile_report

    try:
        found = profile_report.kernels(profile_report.read(file), arguments.kernel)
    except profile_report.ProfileError as error:
        print(f"profile: {error}", file=sys.stderr)
        return 1
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    console.print()
    console.print(profile_report.overview(found))
    for kernel in found[: arguments.details]:
        profile_report.show(kernel, console, arguments.top)
    if (more := len(found) - arguments.details) > 0:
        console.print(f"\n{more} more kernels are in the first table alone: --details {len(found)}, or --kernel TEXT")
    if arguments.json is not None:
        document = [
            {"launches": kernel.launches, "total_nanoseconds": kernel.nanoseconds, "first": dict(kernel.first)}
            for kernel in found
        ]
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps({"source": "modelled", "kernels": document}, indent=1) + "\n")
    if arguments.timeline is not None:
        from gfx950_emulator import timeline

        first = found[0].first
        title = f"{first['kernel']}: one compute unit, modelled"
        try:
            timeline.draw(timeline_rows(first), title, arguments.timeline)
        except EmulatorError as error:
            print(f"profile: {error}", file=sys.stderr)
            return 1
        console.print(f"\ntimeline: {arguments.timeline}", markup=False)
    return 0
