"""`bench --op validate` with a model whose errors are known: its tables and goals, and what it remembers of a run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import gfx950_emulator  # isort: skip  # noqa: F401  before torch

import numpy as np
import pytest
import torch
from rich.console import Console

from bench.report import Report
from bench.validation import fit, launches, predict, rows, study, tables
from bench.validation.fit import Constant
from bench.validation.launches import Candidate
from bench.validation.micro import Case
from bench.validation.rows import FAMILIES, Row
from bench.validation.study import Study
from bench.validation.tables import Contest
from gfx950_emulator import hip

CONSTANTS = (Constant("launch_ns", 3000.0, 1000.0, 12000.0, "ns"), Constant("l2_bytes_per_clk", 64.0, 32.0, 128.0, ""))
ROWS = rows.load()
PUBLISHED = np.array([row.published_ns for row in ROWS])
MICRO = [Case("right", 16.0, 16.5), Case("wrong", 16.0, 20.0)]


def known_study(factor: np.ndarray, dropped: list[str] | None = None) -> Study:
    """A model that says `factor` times what was published, and more if its second constant is not 64."""
    times = PUBLISHED * factor
    along = [(np.array([32.0, 128.0, 64.0]), np.stack([times * 1.5, times * 1.4, times]))]
    halved = PUBLISHED * (1 + (factor - 1) / 2)
    switched = {"a mechanism that is right": times * 1.2, "a mechanism that is wrong": halved}
    return Study(ROWS, ["some candidate"] * len(ROWS), times, along, switched, dropped or [])


def contests(found: Study) -> tuple[Contest, Contest]:
    return (
        Contest.of(found.surface(CONSTANTS), ROWS, 8, 0),
        Contest.of(tables.roofline_of(ROWS), ROWS, 8, 0),
    )


def not_fitted(found: Study) -> Contest:
    """The model at its defaults, so that a test knows what is right and what is wrong."""
    surface, values = found.surface(CONSTANTS), np.array([constant.default for constant in CONSTANTS])
    held = fit.HeldOut(fit.errors(surface, PUBLISHED, values), surface.times(values), values[None, :])
    return Contest(surface, held, values)


def test_a_model_without_error_holds_its_goals() -> None:
    found = known_study(np.ones(len(ROWS)))
    model, roofline = contests(found)
    goals = tables.goals_of(found, model, roofline, MICRO[:1], 0.5)
    assert [goal.name for goal in goals if not goal.holds] == []
    assert {goal.name.split(":")[0] for goal in goals} >= set(FAMILIES)
    report = Report(op="validate", columns=["row"], rows=[["x"]], goals=goals)
    assert len(json.loads(json.dumps(report.as_json()))["goals"]) == len(goals)
    assert model.every[0] == pytest.approx(3000.0)


def test_every_miss_is_printed_and_is_a_missed_goal() -> None:
    factor = np.where([row.family == "norm" for row in ROWS], 1.0, np.where(np.arange(len(ROWS)) % 2, 1.6, 0.7))
    found = known_study(factor, ["one row, one candidate"])
    model, roofline = not_fitted(found), contests(found)[1]
    missed = {goal.name for goal in tables.goals_of(found, model, roofline, MICRO, 2.0) if not goal.holds}
    assert {"own GEMM: mean error", "own GEMM: worst row", "attention: mean error"} <= missed
    assert {"micro-kernels off by over 5%", "candidates dropped", "prediction for 8192^3"} <= missed
    assert "norm: mean error" not in missed
    lines = tables.row_lines(found, model, roofline)
    assert len(lines) == len(ROWS)
    assert all(len(line) == len(tables.ROW_COLUMNS) for line in lines)
    assert any(line[5].endswith(" over") for line in lines)
    assert not any(line[5].endswith(" over") for line in lines if line[0].startswith("norm"))
    counts = [int(line[1]) for line in tables.family_section(ROWS, model, roofline, "").rows]
    assert sum(counts) == len(ROWS)


def test_a_default_that_is_not_the_fit_is_a_missed_goal() -> None:
    found = known_study(np.ones(len(ROWS)))
    constants = (Constant("launch_ns", 3500.0, 1000.0, 12000.0, "ns"), CONSTANTS[1])
    model = Contest(found.surface(constants), contests(found)[0].held, np.array([3000.0, 64.0]))
    goals = {g.name: g for g in tables.goals_of(found, model, contests(found)[1], [], 0.5)}
    assert not goals["default of launch_ns from its fit"].holds
    assert goals["default of l2_bytes_per_clk from its fit"].holds


def test_a_mechanism_whose_removal_helps_is_named() -> None:
    section, better = tables.sensitivity_section(known_study(np.full(len(ROWS), 1.3)))
    assert len(section.rows) == 3
    [text] = better
    assert text.startswith("Without 'a mechanism that is wrong' the fit is better for own GEMM, Triton GEMM,")
    assert text.endswith("and on the mean of the families.")


def test_a_micro_kernel_s_error() -> None:
    section = tables.micro_section(MICRO)
    assert section.rows[1] == ["wrong", "16", "20", "25.0%"]


class Launched:
    """Candidates that advance the virtual clock, and count."""

    def __init__(self) -> None:
        self.built = 0
        self.launches: list[str] = []

    def candidates(self, row: Row) -> Iterator[Candidate]:
        self.built += 1

        def launch(name: str, nanoseconds: float) -> None:
            self.launches.append(name)
            hip.runtime().gfx950_clock_advance_ns(nanoseconds)

        def fail() -> None:
            raise torch.AcceleratorError("no such address")

        yield Candidate("slow", lambda: launch("slow", 9000.0))
        yield Candidate("broken", fail)
        yield Candidate("fast", lambda: launch("fast", 8000.0))


def made(monkeypatch: pytest.MonkeyPatch, file: Path) -> tuple[Launched, predict.Predictions]:
    launched = Launched()
    monkeypatch.setattr(launches, "candidates", launched.candidates)
    return launched, predict.Predictions(file)


def run_study(predictions: predict.Predictions, switches: Mapping[str, Mapping[str, float]]) -> Study:
    return study.study(ROWS[:2], CONSTANTS, switches, predictions, Console(quiet=True))


def test_a_run_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "known.json"
    launched, predictions = made(monkeypatch, file)
    found = run_study(predictions, {"off": {"coissue": 0}})
    assert found.best == ["fast", "fast"]
    assert found.default == pytest.approx([8000.0, 8000.0])
    assert found.dropped == [f"{row.family} {row.label}, broken" for row in ROWS[:2]]
    # The points of l2_bytes_per_clk without its default, and the switch, for the fastest alone.
    assert launched.launches.count("slow") == 2
    assert launched.launches.count("fast") == 2 * (1 + 2 + 1)
    launched, predictions = made(monkeypatch, file)
    again = run_study(predictions, {"off": {"coissue": 0}})
    assert (launched.built, launched.launches, predictions.asked) == (0, [], 0)
    assert again.dropped == found.dropped
    assert (again.default == found.default).all()


def test_other_sources_are_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "known.json"
    run_study(made(monkeypatch, file)[1], {})
    monkeypatch.setattr(predict, "sources_digest", lambda: "other")
    launched, predictions = made(monkeypatch, file)
    run_study(predictions, {})
    assert launched.built == 2


def test_two_candidates_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launches, "candidates", lambda row: [Candidate("x", lambda: None)] * 2)
    with pytest.raises(ValueError, match="two candidates are called 'x'"):
        predict.Predictions(tmp_path / "f").names(ROWS[0])


def test_a_row_that_nothing_can_run_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise torch.AcceleratorError("no such address")

    monkeypatch.setattr(launches, "candidates", lambda row: [Candidate("x", fail)])
    with pytest.raises(ValueError, match="no candidate can be launched"):
        run_study(predict.Predictions(tmp_path / "f"), {})


def test_parameters_are_set_and_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(predict.PARAMETERS, raising=False)
    import os

    with predict.parameters({"launch_ns": 5.0, "xcds": 2}):
        assert os.environ[predict.PARAMETERS] == "launch_ns=5.0,xcds=2"
        with predict.parameters({}):
            assert os.environ[predict.PARAMETERS] == ""
        assert os.environ[predict.PARAMETERS] == "launch_ns=5.0,xcds=2"
    assert predict.PARAMETERS not in os.environ
