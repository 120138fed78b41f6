"""The front door of all benchmarks.

    python test/bench/bench.py --op NAME [--json FILE]

NAME is a module of test/bench/ops/ with a function `run() -> Report`. Prints its table and its goals, and ends in a
line `goals: N of M hold`; the exit status is 1 if fewer than M do.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

if not __package__:  # run as a file
    sys.path[:0] = [str(Path(__file__).resolve().parents[level]) for level in (1, 2)]

from rich.console import Console
from rich.table import Table

from bench.report import Report

_OPS = Path(__file__).resolve().parent / "ops"


def op_names() -> list[str]:
    return sorted(path.stem for path in _OPS.glob("*.py") if not path.stem.startswith("_"))


def table_of(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(title=title)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def show(report: Report, console: Console) -> None:
    console.print(table_of(f"bench {report.op}", report.columns, report.rows))
    for section in report.sections:
        console.print(table_of(section.title, section.columns, section.rows))
    for note in report.notes:
        console.print(note, markup=False, highlight=False)
    goals = Table(title="goals")
    for column in ("goal", "value", "limit", "source", ""):
        goals.add_column(column, justify="right" if column in ("value", "limit") else "left")
    for goal in report.goals:
        limit = f"{goal.relation} {goal.limit:g} {goal.unit}".rstrip()
        goals.add_row(
            goal.name, f"{goal.value:.4g} {goal.unit}".rstrip(), limit, goal.source, "holds" if goal.holds else "MISSED"
        )
    console.print(goals)


def finish(report: Report, json_file: Path | None) -> int:
    """Write the JSON file, print the last line, and return the exit status."""
    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(json.dumps(report.as_json(), indent=1) + "\n")
    held = sum(goal.holds for goal in report.goals)
    print(f"goals: {held} of {len(report.goals)} hold", flush=True)
    return 0 if held == len(report.goals) else 1


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run one benchmark.")
    parser.add_argument("--op", required=True, choices=op_names(), help="what to measure")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    args = parser.parse_args(argv)
    report: Report = importlib.import_module(f"bench.ops.{args.op}").run()
    # A table that is cut to 80 columns in a log file would lose figures.
    show(report, Console(width=None if sys.stdout.isatty() else 160))
    return finish(report, args.json)


if __name__ == "__main__":
    sys.exit(main())
