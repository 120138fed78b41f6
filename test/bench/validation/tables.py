"""What a validation says: its tables and its goals, from predictions and held-out errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bench.report import Goal, Section
from bench.validation import fit
from bench.validation.fit import Constant, Floats
from bench.validation.micro import Case
from bench.validation.rows import FAMILIES, Row
from bench.validation.study import Study

# Mean and worst error that a family is held to; None: no worst was set.
LIMITS: Mapping[str, tuple[float, float | None]] = {
    "own GEMM": (0.08, 0.20),
    "Triton GEMM": (0.12, None),
    "FP8 GEMM": (0.08, 0.20),
    "Triton FP8 GEMM": (0.12, None),
    "MX GEMM": (0.08, 0.20),
    "attention": (0.20, None),
    "norm": (0.20, None),
    "stream": (0.20, None),
}
# How far the model's defaults may be from what the fit on all rows says, and a micro-kernel from its documented rate.
DEFAULTS_TOLERANCE = 0.10
MICRO_TOLERANCE = 0.05
COST_SECONDS = 1.0
ROW_COLUMNS = ("row", "published", "modelled by", "published µs", "modelled µs", "error", "roofline µs", "its error")


@dataclass(frozen=True)
class Contest:
    """The model and the roofline, each fitted on halves and judged on what they did not see, and fitted on all rows."""

    surface: fit.Surface
    held: fit.HeldOut
    every: Floats

    @staticmethod
    def of(surface: fit.Surface, rows: Sequence[Row], halves: int, seed: int) -> Contest:
        families = [row.family for row in rows]
        published = np.array([row.published_ns for row in rows])
        weights = fit.family_weights(families, np.ones(len(rows), dtype=bool))
        return Contest(
            surface,
            fit.held_out(surface, published, families, halves, seed),
            fit.fit(surface, published, weights),
        )


def roofline_of(rows: Sequence[Row]) -> fit.Roofline:
    work, moved, peaks = (np.array([getattr(r, name) for r in rows]) for name in ("flops", "bytes", "peak_flop_per_ns"))
    return fit.Roofline(work, moved, peaks)


def by_family(rows: Sequence[Row], error: Floats) -> dict[str, Floats]:
    families = np.array([row.family for row in rows])
    return {family: error[families == family] for family in FAMILIES}


def means(rows: Sequence[Row], error: Floats) -> dict[str, float]:
    return {family: float(np.nanmean(values)) for family, values in by_family(rows, error).items()}


def worsts(rows: Sequence[Row], error: Floats) -> dict[str, float]:
    return {family: float(np.nanmax(values)) for family, values in by_family(rows, error).items()}


def row_lines(found: Study, model: Contest, roofline: Contest) -> list[list[str]]:
    lines = []
    for index, row in enumerate(found.rows):
        modelled, line = float(model.held.nanoseconds[index]), float(roofline.held.nanoseconds[index])
        limit = LIMITS[row.family][1] or LIMITS[row.family][0]
        over = " over" if float(model.held.error[index]) > limit else ""
        lines.append(
            [
                f"{row.family}, {row.dtype}, {row.label}",
                f"{row.published_backend} {row.value:g} {row.metric}",
                found.best[index],
                f"{row.published_ns / 1e3:.1f}",
                f"{modelled / 1e3:.1f}",
                f"{modelled / row.published_ns - 1:+.1%}{over}",
                f"{line / 1e3:.1f}",
                f"{line / row.published_ns - 1:+.1%}",
            ]
        )
    return lines


def family_section(rows: Sequence[Row], model: Contest, roofline: Contest, title: str) -> Section:
    mean, worst, line = means(rows, model.held.error), worsts(rows, model.held.error), means(rows, roofline.held.error)
    counts = {family: len(values) for family, values in by_family(rows, model.held.error).items()}
    return Section(
        title=title,
        columns=["family", "rows", "model mean", "model worst row", "roofline mean", "goal mean", "goal worst"],
        rows=[
            [
                family,
                str(counts[family]),
                f"{mean[family]:.1%}",
                f"{worst[family]:.1%}",
                f"{line[family]:.1%}",
                f"{limit:.0%}",
                "-" if worst_limit is None else f"{worst_limit:.0%}",
            ]
            for family, (limit, worst_limit) in LIMITS.items()
        ],
    )


def constants_section(contest: Contest, title: str) -> Section:
    fitted = contest.held.constants
    return Section(
        title=title,
        columns=["constant", "unit", "default", "fit on all of them", "least of the halves", "median", "most"],
        rows=[
            [
                constant.name,
                constant.unit,
                f"{constant.default:g}",
                f"{contest.every[index]:.4g}",
                f"{fitted[:, index].min():.4g}",
                f"{np.median(fitted[:, index]):.4g}",
                f"{fitted[:, index].max():.4g}",
            ]
            for index, constant in enumerate(contest.surface.constants)
        ],
    )


def sensitivity_section(found: Study) -> tuple[Section, list[str]]:
    """Mean error by family without one mechanism, at the model's defaults; and the mechanisms that hurt the fit."""
    before = means(found.rows, np.abs(found.default / found.published - 1))
    lines = [
        ["(nothing): the error"] + [f"{before[f]:.1%}" for f in FAMILIES] + [f"{np.mean(list(before.values())):.1%}"]
    ]
    better = []
    for name, times in found.switched.items():
        after = means(found.rows, np.abs(times / found.published - 1))
        change = {family: after[family] - before[family] for family in FAMILIES}
        overall = float(np.mean(list(change.values())))
        lines.append([name, *(f"{change[family]:+.1%}" for family in FAMILIES), f"{overall:+.1%}"])
        improved = [family for family in FAMILIES if change[family] < -5e-4]
        if improved:
            verdict = "and on the mean of the families" if overall < 0 else "but not on the mean of the families"
            better.append(f"Without {name!r} the fit is better for {', '.join(improved)}, {verdict}.")
    return (
        Section(
            title="sensitivity: change of the mean error without a mechanism, nothing fitted again",
            columns=["without", *FAMILIES, "mean"],
            rows=lines,
        ),
        better,
    )


def micro_section(cases: Sequence[Case]) -> Section:
    return Section(
        title="micro-kernels with documented answers",
        columns=["case", "documented", "modelled", "error"],
        rows=[[case.name, f"{case.documented:g}", f"{case.modelled:.4g}", f"{case.error:.1%}"] for case in cases],
    )


def _percent(name: str, value: float, limit: float) -> Goal:
    return Goal(name=name, value=100 * value, relation="<=", limit=100 * limit, unit="%", source="modelled")


def goals_of(found: Study, model: Contest, roofline: Contest, micro: Sequence[Case], cost: float) -> list[Goal]:
    rows = found.rows
    mean, worst, line = means(rows, model.held.error), worsts(rows, model.held.error), means(rows, roofline.held.error)
    goals = []
    for family, (limit, worst_limit) in LIMITS.items():
        goals.append(_percent(f"{family}: mean error", mean[family], limit))
        if worst_limit is not None:
            goals.append(_percent(f"{family}: worst row", worst[family], worst_limit))
        goals.append(
            Goal(
                name=f"{family}: mean error over the roofline's",
                value=mean[family] / line[family],
                relation="<=",
                limit=1.0,
                unit="",
                source="modelled",
            )
        )
    for index, constant in enumerate(model.surface.constants):
        fitted = float(model.every[index])  # NumPy's own numbers are not what JSON takes
        away = abs(constant.default / fitted - 1) if fitted else float("inf")
        goals.append(_percent(f"default of {constant.name} from its fit", away, DEFAULTS_TOLERANCE))
    outside = sum(not case.error <= MICRO_TOLERANCE for case in micro)
    goals += [
        Goal(name="micro-kernels off by over 5%", value=outside, relation="==", limit=0, unit="", source="modelled"),
        Goal(name="candidates dropped", value=len(found.dropped), relation="==", limit=0, unit="", source="emulated"),
        Goal(name="prediction for 8192^3", value=cost, relation="<=", limit=COST_SECONDS, unit="s", source="measured"),
    ]
    return goals


def with_defaults(constants: Sequence[Constant], known: Mapping[str, Mapping[str, object]]) -> tuple[Constant, ...]:
    """The constants with the defaults that the model has."""
    return tuple(Constant(c.name, float(str(known[c.name]["default"])), c.low, c.high, c.unit) for c in constants)
