"""Few global constants fitted on half of the rows and judged on the other half, over many random halves.

Errors are |modelled / published - 1|. Families weigh the same in a fit, whatever their number of rows. Everything is
deterministic: the halves come from a seed, and the search is over fixed grids.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

GRID_POINTS = 49
MOST_CONSTANTS = 4
_MOST_ROUNDS = 40
_SAME = 1e-6


@dataclass(frozen=True)
class Constant:
    """A global constant: its name, what it is without a fit, and between which values it is looked for."""

    name: str
    default: float
    low: float
    high: float
    unit: str

    def grid(self) -> Floats:
        """Equal steps, in ratio where the range spans more than a factor of three, and the default among them."""
        if self.low > 0 and self.high / self.low > 3:
            points = np.geomspace(self.low, self.high, GRID_POINTS)
        else:
            points = np.linspace(self.low, self.high, GRID_POINTS)
        return np.unique(np.append(points, self.default))


class Surface(Protocol):
    """Times of all rows as a function of the constants."""

    constants: Sequence[Constant]

    def times(self, values: Floats) -> Floats:
        """`values` [..., constants] to nanoseconds [..., rows]."""


def errors(surface: Surface, published: Floats, values: Floats) -> Floats:
    return np.abs(surface.times(values) / published - 1.0)


def family_weights(families: Sequence[str], chosen: npt.NDArray[np.bool_]) -> Floats:
    """Weights of the chosen rows, which sum to 1, with every family that has one weighing the same."""
    names = np.array(families)
    weights = np.zeros(len(names))
    for name in sorted(set(families)):
        rows = chosen & (names == name)
        if rows.any():
            weights[rows] = 1.0 / rows.sum()
    if weights.sum() == 0:
        raise ValueError("nothing to fit on: no row was chosen")
    return np.asarray(weights / weights.sum())


def fit(surface: Surface, published: Floats, weights: Floats, starts: int = 4) -> Floats:
    """Constants of least weighted mean error: one after another over its grid until none moves, from several starts."""
    constants = surface.constants
    if len(constants) > MOST_CONSTANTS:
        raise ValueError(f"{len(constants)} constants to fit, at most {MOST_CONSTANTS} are allowed")
    grids = [constant.grid() for constant in constants]
    draws = random.Random(0)
    best, least = np.array([constant.default for constant in constants]), np.inf
    for start in range(starts):
        values = np.array(
            [c.default if start == 0 else draws.choice(list(g)) for c, g in zip(constants, grids, strict=True)]
        )
        error = float(errors(surface, published, values) @ weights)
        for _ in range(_MOST_ROUNDS):
            before = error
            for index, grid in enumerate(grids):
                tried = np.repeat(values[None, :], len(grid), axis=0)
                tried[:, index] = grid
                found = errors(surface, published, tried) @ weights
                at = int(found.argmin())
                if found[at] < error - _SAME:  # a constant that changes nothing stays what it is
                    error, values = float(found[at]), tried[at]
            if error >= before - _SAME:
                break
        if error < least - _SAME:  # of equally good ones the first, which began at the defaults
            best, least = values, error
    return best


def halves(families: Sequence[str], count: int, seed: int) -> list[npt.NDArray[np.bool_]]:
    """Random halves, drawn within each family so that each is in both; of an odd number the fit gets the smaller half,
    but of a family of one row that row."""
    names = sorted(set(families))
    draws = random.Random(seed)
    result = []
    for _ in range(count):
        chosen = np.zeros(len(families), dtype=bool)
        for name in names:
            rows = [index for index, family in enumerate(families) if family == name]
            chosen[draws.sample(rows, max(1, len(rows) // 2))] = True
        result.append(chosen)
    return result


@dataclass(frozen=True)
class HeldOut:
    """Per row: its mean error over the halves that did not see it, and the mean of its modelled times in them."""

    error: Floats
    nanoseconds: Floats
    constants: Floats  # [halves, constants]


def held_out(
    surface: Surface,
    published: Floats,
    families: Sequence[str],
    count: int,
    seed: int,
) -> HeldOut:
    total = np.zeros(len(published))
    times = np.zeros(len(published))
    seen = np.zeros(len(published))
    constants = []
    for chosen in halves(families, count, seed):
        values = fit(surface, published, family_weights(families, chosen))
        constants.append(values)
        out = ~chosen
        modelled = surface.times(values)
        total[out] += np.abs(modelled[out] / published[out] - 1.0)
        times[out] += modelled[out]
        seen += out
    with np.errstate(invalid="ignore"):  # a family of one row is never held out: NaN
        return HeldOut(total / seen, times / seen, np.array(constants))


class Interpolated:
    """A model that is slow to ask: known at the defaults and along each constant, in between by interpolation.

    The constants but the first scale the time: the logarithm of the time above the first, an overhead that is added,
    is the sum of what each constant does alone. Where two act together this is an approximation; the caller asks the
    model itself at the constants that come out.
    """

    def __init__(
        self, constants: Sequence[Constant], default_ns: Floats, along: Sequence[tuple[Floats, Floats]]
    ) -> None:
        """`along`: for each constant after the first, its values [points] and the times [points, rows] there, with the
        other constants at their defaults. The first constant is in nanoseconds."""
        if len(along) != len(constants) - 1:
            raise ValueError(f"{len(constants) - 1} constants are not an overhead, but {len(along)} were varied")
        self.constants = constants
        overhead = constants[0].default
        if (default_ns <= overhead).any():
            raise ValueError(f"a modelled time is not above its overhead of {overhead} ns")
        self._base = np.log(default_ns - overhead)
        self._along = []
        for constant, (values, times) in zip(constants[1:], along, strict=True):
            order = np.argsort(values)
            if values[order][0] > constant.low or values[order][-1] < constant.high:
                raise ValueError(
                    f"{constant.name} was varied over {values.min()} to {values.max()}, not its whole range"
                )
            self._along.append((values[order], np.log(times[order] - overhead) - self._base))

    def times(self, values: Floats) -> Floats:
        shape = values.shape[:-1]
        flat = values.reshape(-1, values.shape[-1])
        logarithm = np.repeat(self._base[None, :], len(flat), axis=0)
        for index, (points, effects) in enumerate(self._along, start=1):
            above = np.clip(np.searchsorted(points, flat[:, index]), 1, len(points) - 1)
            share = (flat[:, index] - points[above - 1]) / (points[above] - points[above - 1])
            logarithm += effects[above - 1] * (1 - share)[:, None] + effects[above] * share[:, None]
        return np.asarray((flat[:, :1] + np.exp(logarithm)).reshape(*shape, -1))


class Roofline:
    """The competitor: overhead + max(work / reached throughput, bytes / reached bandwidth), all three fitted."""

    constants: Sequence[Constant] = (
        Constant("overhead", 7000.0, 1000.0, 15000.0, "ns"),
        Constant("share of the peak FLOP/s", 0.6, 0.15, 1.0, ""),
        Constant("bandwidth", 6000.0, 1500.0, 16000.0, "B/ns"),
    )

    def __init__(self, flops: Floats, byte_counts: Floats, peaks: Floats) -> None:
        self._flops, self._bytes, self._peaks = flops, byte_counts, peaks

    def times(self, values: Floats) -> Floats:
        overhead, share, bandwidth = (values[..., index, None] for index in range(3))
        return np.asarray(overhead + np.maximum(self._flops / (self._peaks * share), self._bytes / bandwidth))
