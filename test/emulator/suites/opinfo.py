"""PyTorch's operator database on the emulated device, against the CPU.

    python test/emulator/suites/opinfo.py [--op NAME] [--dtype NAME] [--shard I/N] [--exceptions] [--json FILE]

Runs every operator of `op_db` in float32, bfloat16, float16 and int64, forward, backward and with out=, prints a table
by dtype and direction, and holds the failures against opinfo_exceptions.csv: one that is not listed, and a listed one
that is right, end in status 1. The operators run in a process of their own, so that one that crashes is a failure like
others.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import time
import zlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opinfo_entry import Entry, Outcome

EXCEPTIONS = Path(__file__).with_name("opinfo_exceptions.csv")
KINDS = {
    "unsupported": "the device refuses it, by name",
    "rounding": "right to fewer digits than the CPU",
    "different": "defined differently on a GPU, or free to differ",
    "bug": "wrong; to be mended",
}
GOAL = 0.99


@dataclass(frozen=True)
class Exemption:
    op: str
    dtype: str  # or * for all
    direction: str  # or *
    kind: str
    reason: str
    drop_when: str

    def covers(self, entry: Entry) -> bool:
        return self.op == entry.op and self.dtype in ("*", entry.dtype) and self.direction in ("*", entry.direction)


def read_exceptions(path: Path = EXCEPTIONS) -> list[Exemption]:
    with path.open(newline="") as file:
        rows = [Exemption(**row) for row in csv.DictReader(file)]
    for row in rows:
        if row.kind not in KINDS or not row.reason or not row.drop_when:
            raise ValueError(f"{path.name}: {row}: kind must be one of {', '.join(KINDS)}, with a reason and drop_when")
    return rows


def work() -> int:
    """The process that runs entries: their text on stdin, outcomes on stdout, one a line."""
    import gfx950_emulator  # noqa: F401  # before torch
    import torch  # isort: skip

    from opinfo_entry import Entry, run

    torch.set_num_threads(1)
    import warnings

    warnings.simplefilter("ignore")
    print("ready", flush=True)
    for line in sys.stdin:
        outcome = run(Entry(*line.rstrip("\n").split("|")))
        print(json.dumps(asdict(outcome)), flush=True)
    return 0


class Worker:
    """Runs entries in another process, and starts another one when it dies."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def run(self, entry: Entry) -> Outcome:
        from opinfo_entry import Outcome

        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, __file__, "--worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            self._answer()
        assert self._process.stdin is not None
        self._process.stdin.write(f"{entry}\n")
        self._process.stdin.flush()
        answer = self._answer()
        if answer is not None:
            return Outcome(**json.loads(answer))
        status = self._process.wait()
        self._process = None
        return Outcome("raises", f"the process ended with status {status}")

    def _answer(self) -> str | None:
        """The next line that is an answer: operators print too."""
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(("ready", '{"status"')):
                return line
        return None

    def close(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()


def choose(args: argparse.Namespace, exceptions: list[Exemption]) -> list[Entry]:
    from opinfo_entry import entries

    found = entries()
    if args.exceptions:
        found = [entry for entry in found if any(row.covers(entry) for row in exceptions)]
    if args.op:
        found = [entry for entry in found if entry.op == args.op or entry.op.startswith(f"{args.op}.")]
    if args.dtype:
        found = [entry for entry in found if entry.dtype == args.dtype]
    if args.direction:
        found = [entry for entry in found if entry.direction == args.direction]
    if args.sample:  # the same in every run
        found = sorted(found, key=lambda entry: zlib.crc32(str(entry).encode()))[: args.sample]
    if args.shard:
        index, count = (int(part) for part in args.shard.split("/"))
        return found[index - 1 :: count]
    return found


def table(outcomes: dict[Entry, Outcome]) -> list[list[str]]:
    """By dtype and direction: what ran, what was right, what was compared by shape, and the share."""
    rows = []
    groups = sorted({(entry.dtype, entry.direction) for entry in outcomes})
    for dtype, direction in [*groups, ("all", "")]:
        group = [
            outcome
            for entry, outcome in outcomes.items()
            if (entry.dtype, entry.direction) == (dtype, direction) or dtype == "all"
        ]
        ran = [outcome for outcome in group if outcome.status != "not_run"]
        right = [outcome for outcome in ran if outcome.status == "right"]
        by_shape = sum(outcome.by_shape for outcome in right)
        samples = sum(outcome.samples for outcome in right)
        share = f"{100 * len(right) / len(ran):.2f}%" if ran else "-"
        rows.append([dtype, direction, str(len(ran)), str(len(right)), share, str(by_shape), str(samples)])
    return rows


def judge(outcomes: dict[Entry, Outcome], exceptions: list[Exemption]) -> tuple[list[str], list[str]]:
    """Failures that nobody listed, and listed ones that no longer fail."""
    new, mended = [], []
    for entry, outcome in outcomes.items():
        listed = any(row.covers(entry) for row in exceptions)
        if outcome.status in ("wrong", "raises") and not listed:
            new.append(f"{entry}: {outcome.status}: {outcome.detail}")
    for row in exceptions:
        covered = [outcome.status for entry, outcome in outcomes.items() if row.covers(entry)]
        if covered and not any(status in ("wrong", "raises") for status in covered):
            mended.append(f"{row.op}|{row.dtype}|{row.direction}: right now; take its line out")
    return new, mended


def show(rows: Iterable[list[str]]) -> None:
    header = ["dtype", "direction", "run", "right", "share", "by shape", "samples"]
    for row in [header, *rows]:
        print(f"{row[0]:10s} {row[1]:10s} " + " ".join(f"{cell:>9s}" for cell in row[2:]))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="PyTorch's operator database on the emulated device.")
    parser.add_argument("--op", help="an operator, in all its variants")
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16", "int64"))
    parser.add_argument("--direction", choices=("forward", "backward", "out"))
    parser.add_argument("--shard", metavar="I/N", help="the I-th of N parts, from 1")
    parser.add_argument("--sample", type=int, metavar="N", help="N entries, the same in every run")
    parser.add_argument("--exceptions", action="store_true", help="only what the exceptions file lists")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all outcomes there")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.worker:
        return work()
    import gfx950_emulator  # noqa: F401  # before torch: the database asks what the device can do

    exceptions = read_exceptions()
    began, outcomes, worker = time.monotonic(), {}, Worker()
    for entry in choose(args, exceptions):
        outcomes[entry] = outcome = worker.run(entry)
        if outcome.status in ("wrong", "raises"):
            print(f"{entry}: {outcome.status}: {outcome.detail}", flush=True)
    worker.close()
    show(table(outcomes))
    not_run = sum(outcome.status == "not_run" for outcome in outcomes.values())
    print(f"{not_run} entries not run: the CPU refuses all their samples. {time.monotonic() - began:.0f} s.")
    new, mended = judge(outcomes, exceptions)
    for title, lines in (("not listed in", new), ("no longer true in", mended)):
        if lines:
            print(f"\n{len(lines)} {title} {EXCEPTIONS.name}:", *lines, sep="\n  ")
    if args.json:
        args.json.write_text(json.dumps({str(entry): asdict(outcome) for entry, outcome in outcomes.items()}, indent=1))
    return 1 if new or mended else 0


if __name__ == "__main__":
    sys.exit(main())
