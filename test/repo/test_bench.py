"""The benchmarks' front door: goals, exit status, last line, JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import bench
from bench.report import Goal, Report


def goal(value: float, relation: str = "<=", limit: float = 1.0) -> Goal:
    return Goal(name="g", value=value, relation=relation, limit=limit, unit="s", source="measured")  # type: ignore[arg-type]


def report(*goals: Goal) -> Report:
    return Report(op="x", columns=["what", "time"], rows=[["a", "1 s"]], goals=goals)


@pytest.mark.parametrize(
    ("value", "relation", "limit", "holds"),
    [
        (1.0, "<=", 1.0, True),
        (1.1, "<=", 1.0, False),
        (1.0, ">=", 1.0, True),
        (0.9, ">=", 1.0, False),
        (0.0, "==", 0.0, True),
        (float("nan"), "<=", 1.0, False),
        (float("nan"), ">=", 1.0, False),
    ],
)
def test_goal(value: float, relation: str, limit: float, holds: bool) -> None:
    assert goal(value, relation, limit).holds is holds


def run_with(result: Report, monkeypatch: pytest.MonkeyPatch, *args: str) -> int:
    module = type("module", (), {"run": staticmethod(lambda: result)})
    monkeypatch.setattr(bench.importlib, "import_module", lambda name: module)
    return bench.main(["--op", "build", *args])


def test_all_goals_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "out" / "x.json"
    assert run_with(report(goal(0.5), goal(1.0)), monkeypatch, "--json", str(file)) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "goals: 2 of 2 hold"
    written = json.loads(file.read_text())
    assert [entry["holds"] for entry in written["goals"]] == [True, True]
    assert written["rows"] == [["a", "1 s"]]


def test_a_missed_goal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_with(report(goal(0.5), goal(2.0)), monkeypatch) == 1
    output = capsys.readouterr().out
    assert output.splitlines()[-1] == "goals: 1 of 2 hold"
    assert "MISSED" in output


def test_a_report_without_a_goal_or_with_a_short_row_is_an_error() -> None:
    with pytest.raises(ValueError, match="has no goal"):
        report()
    with pytest.raises(ValueError, match="1 cells, the table has 2 columns"):
        Report(op="x", columns=["a", "b"], rows=[["a"]], goals=[goal(1.0)])


def test_an_unknown_op(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main(["--op", "nothing"])
    assert "build" in capsys.readouterr().err
