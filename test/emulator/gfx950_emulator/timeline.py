"""A picture of one compute unit: waves as rows, what each does as colours, barriers marked, over modelled clocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gfx950_emulator.errors import EmulatorError

# What a wave does, in the order of the legend. Work in full colours, waits in pale ones.
COLOURS = {
    "mfma": ("#c0392b", "MFMA"),
    "valu": ("#e59f2f", "VALU"),
    "salu": ("#8e7cc3", "SALU, branch, other"),
    "lds": ("#2e7d4f", "LDS"),
    "vmem": ("#2f6fb3", "vector and scalar memory"),
    "wait memory": ("#cfe0f1", "waits for memory"),
    "wait lds": ("#cdebd5", "waits for LDS"),
    "wait barrier": ("#d9d9d9", "waits at a barrier"),
    "wait mfma": ("#f5d5d0", "waits for an MFMA result or the matrix unit"),
    "wait other": ("#f4f0e6", "waits for a result or for its turn"),
}
_BARRIER = "#111111"
_ROW_HEIGHT = 0.84


@dataclass(frozen=True)
class Segment:
    start: float  # clocks
    end: float
    kind: str  # of COLOURS


@dataclass(frozen=True)
class WaveRow:
    simd: int
    workgroup: int
    wave: int
    segments: Sequence[Segment]
    barriers: Sequence[float]  # when the wave came to one


def _pyplot() -> Any:
    try:
        import matplotlib
    except ModuleNotFoundError as error:
        raise EmulatorError(
            "a timeline needs matplotlib, which is not installed: `pip install -r requirements-test.txt` has the "
            "version that this is tested with; without --timeline the profile needs none"
        ) from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def check() -> None:
    """Raises EmulatorError if nothing can be drawn here: better before a long run than after it."""
    _pyplot()


def busiest_window(rows: Sequence[WaveRow], width: float) -> tuple[float, float]:
    """Where to look closely: `width` clocks in the middle of the first half, when the pipeline is full and running."""
    begin = min(segment.start for row in rows for segment in row.segments)
    end = max(segment.end for row in rows for segment in row.segments)
    if end - begin <= width:
        return begin, end
    middle = begin + (end - begin) * 0.4
    return max(begin, middle - width / 2), max(begin, middle - width / 2) + width


def _panel(axes: Any, rows: Sequence[WaveRow], window: tuple[float, float], marker: float) -> set[str]:
    from matplotlib.collections import PolyCollection

    low, high = window
    quads: dict[str, list[list[tuple[float, float]]]] = {}
    marks: list[tuple[float, float]] = []
    for y, row in enumerate(rows):
        for segment in row.segments:
            start, end = max(segment.start, low), min(segment.end, high)
            if start < end:
                bottom, top = y - _ROW_HEIGHT / 2, y + _ROW_HEIGHT / 2
                quads.setdefault(segment.kind, []).append([(start, bottom), (end, bottom), (end, top), (start, top)])
        marks.extend((time, y) for time in row.barriers if low <= time <= high)
    # Waits below work, so that a thin instruction is not hidden by the wait after it.
    for kind in sorted(quads, key=lambda name: not name.startswith("wait")):
        axes.add_collection(PolyCollection(quads[kind], facecolors=COLOURS[kind][0], edgecolors="none"))
    if marks:
        axes.scatter(
            [time for time, _ in marks],
            [y for _, y in marks],
            marker="|",
            s=marker,
            c=_BARRIER,
            linewidths=1.3,
            zorder=3,
        )
    axes.set_xlim(low, high)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks(range(len(rows)))
    axes.set_yticklabels([f"wg {row.workgroup} wave {row.wave}" for row in rows], fontsize=7)
    for y in range(1, len(rows)):
        if rows[y].simd != rows[y - 1].simd:
            axes.axhline(y - 0.5, color="#777777", linewidth=0.8)
    middles: dict[int, list[int]] = {}
    for y, row in enumerate(rows):
        middles.setdefault(row.simd, []).append(y)
    for simd, places in middles.items():
        axes.text(
            1.006,
            sum(places) / len(places),
            f"SIMD {simd}",
            transform=axes.get_yaxis_transform(),
            va="center",
            fontsize=8,
        )
    axes.tick_params(axis="x", labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return set(quads) | ({"barrier"} if marks else set())


def draw(rows: Sequence[WaveRow], title: str, path: Path, close_up: float = 1600.0) -> None:
    """Two panels: all that was recorded, and a close-up of `close_up` clocks."""
    pyplot = _pyplot()
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    if not any(row.segments for row in rows):
        raise EmulatorError(f"{title}: nothing to draw, no wave was recorded")
    ordered = sorted(rows, key=lambda row: (row.simd, row.workgroup, row.wave))
    begin = min(segment.start for row in ordered for segment in row.segments)
    end = max(segment.end for row in ordered for segment in row.segments)
    window = busiest_window(ordered, close_up)
    height = max(2.4, 0.24 * len(ordered) + 0.7)
    figure, (whole, close) = pyplot.subplots(2, 1, figsize=(15, 2 * height + 1.5), layout="constrained")
    shown = _panel(whole, ordered, (begin, end), 18)
    shown |= _panel(close, ordered, window, 60)
    whole.axvspan(*window, color="#000000", alpha=0.06, linewidth=0)
    whole.set_xlabel("clocks of the compute unit (modelled); the grey band is shown below", fontsize=9)
    close.set_xlabel(f"clocks, close-up of {window[1] - window[0]:.0f}", fontsize=9)
    handles: list[Any] = [
        Patch(color=colour, label=label) for kind, (colour, label) in COLOURS.items() if kind in shown
    ]
    if "barrier" in shown:
        handles.append(
            Line2D([], [], color=_BARRIER, marker="|", linestyle="none", markersize=9, label="comes to a barrier")
        )
    figure.legend(handles=handles, loc="outside lower center", ncols=6, fontsize=9, frameon=False)
    figure.suptitle(title, fontsize=11)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
