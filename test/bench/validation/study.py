"""All predictions that a validation needs: every row's candidates, then the best with the model's numbers changed."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console

from bench.validation.fit import Constant, Floats, Interpolated
from bench.validation.predict import Predictions
from bench.validation.rows import Row

# Values at which a constant that is not an overhead is asked for, its ends among them; its default is known anyway.
POINTS = 3
_SAVE_EVERY = 10  # rows


@dataclass(frozen=True)
class Study:
    rows: list[Row]
    best: list[str]  # the candidate that stands for the row
    default: Floats  # nanoseconds
    along: list[tuple[Floats, Floats]]  # for each constant but the first: values, and times [values, rows]
    switched: Mapping[str, Floats]  # mechanism off: times
    dropped: list[str]  # candidates that the emulator could not launch

    @property
    def published(self) -> Floats:
        return np.array([row.published_ns for row in self.rows])

    def surface(self, constants: Sequence[Constant]) -> Interpolated:
        return Interpolated(constants, self.default, self.along)


def points_of(constant: Constant) -> Floats:
    between = np.geomspace if constant.low > 0 else np.linspace
    values = np.asarray(between(constant.low, constant.high, POINTS))
    return values[~np.isclose(values, constant.default)]


def study(
    rows: Sequence[Row],
    constants: Sequence[Constant],
    switches: Mapping[str, Mapping[str, float]],
    predictions: Predictions,
    console: Console,
) -> Study:
    """The first constant is the launch overhead, which is added and so needs no predictions."""
    varied = [(constant, points_of(constant)) for constant in constants[1:]]
    changes: list[dict[str, float]] = [{}]
    changes += [{constant.name: float(value)} for constant, values in varied for value in values]
    changes += [dict(change) for change in switches.values()]
    best: list[str] = []
    times: list[list[float]] = []
    dropped: list[str] = []
    warnings.filterwarnings("ignore", message="TypedStorage is deprecated")
    for number, row in enumerate(rows):
        console.print(f"  {number + 1} of {len(rows)}: {row.family} {row.dtype} {row.label}", style="dim")
        fastest = _fastest(row, predictions, dropped)
        best.append(fastest)
        times.append([_asked(row, fastest, change, predictions) for change in changes])
        if number % _SAVE_EVERY == 0:
            predictions.save()
    predictions.save()
    table = np.array(times).T
    along = []
    at = 1
    for constant, values in varied:
        times_there = np.vstack([table[at : at + len(values)], table[:1]])
        along.append((np.append(values, constant.default), times_there))
        at += len(values)
    switched = {name: table[at + index] for index, name in enumerate(switches)}
    return Study(list(rows), best, table[0], along, switched, dropped)


def _fastest(row: Row, predictions: Predictions, dropped: list[str]) -> str:
    """By the model's defaults; the first of equal ones."""
    least, found = float("inf"), None
    for name in predictions.names(row):
        time = predictions.ask(row, name, {})
        if time is None:
            dropped.append(f"{row.family} {row.label}, {name}")
        elif time < least:
            least, found = time, name
    if found is None:
        raise ValueError(f"{row.family} {row.label}: no candidate can be launched")
    return found


def _asked(row: Row, name: str, change: Mapping[str, float], predictions: Predictions) -> float:
    time = predictions.ask(row, name, change)
    if time is None:
        raise ValueError(f"{row.family} {row.label}, {name}: can be launched, but not with {dict(change)}")
    return time
