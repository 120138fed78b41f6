"""The fit of global constants, on data whose true constants are known, and the published rows that it is fed with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.validation import fit, rows
from bench.validation.fit import Constant, Interpolated, Roofline

FAMILIES = ["a"] * 7 + ["b"] * 12 + ["c"] * 3
COUNT = len(FAMILIES)


def some_work(seed: int) -> tuple[fit.Floats, fit.Floats, fit.Floats]:
    """Products from launch-bound to compute-bound, and moves from small to large."""
    draw = np.random.default_rng(seed)
    flops = np.where(np.arange(COUNT) % 3 == 0, 0.0, 10 ** draw.uniform(8, 13, COUNT))
    return flops, 10 ** draw.uniform(6, 10, COUNT), np.full(COUNT, 2.516e6)


def grid_values(surface: fit.Surface) -> st.SearchStrategy[list[float]]:
    return st.tuples(*(st.sampled_from(list(constant.grid())) for constant in surface.constants)).map(list)


@settings(max_examples=8, deadline=None)
@given(data=st.data(), seed=st.integers(0, 1000))
def test_true_constants_of_a_roofline_fit_every_row(data: st.DataObject, seed: int) -> None:
    surface = Roofline(*some_work(seed))
    truth = np.array(data.draw(grid_values(surface)))
    published = surface.times(truth)
    weights = fit.family_weights(FAMILIES, np.ones(COUNT, dtype=bool))
    found = fit.fit(surface, published, weights, starts=8)
    # A constant that no row depends on cannot be found again, so the times are compared, not the constants.
    assert float(fit.errors(surface, published, found) @ weights) < 0.03


def interpolated(overhead: float, slopes: tuple[float, float]) -> Interpolated:
    """A model that is exactly what Interpolated assumes: powers of its constants, and an overhead."""
    constants = (
        Constant("overhead", overhead, 1000.0, 15000.0, "ns"),
        *(Constant(f"c{index}", 1.0, 0.25, 4.0, "") for index in range(2)),
    )
    base = np.geomspace(1e3, 1e6, COUNT)
    shares = np.linspace(0.0, 1.0, COUNT)
    points = np.geomspace(0.25, 4.0, 33)
    along = []
    for slope, share in zip(slopes, (shares, 1 - shares), strict=True):
        along.append((points, overhead + base * points[:, None] ** (slope * share)))
    return Interpolated(constants, overhead + base, along)


@settings(max_examples=8, deadline=None)
@given(data=st.data(), slopes=st.tuples(st.sampled_from([-1.0, -0.5, 0.7]), st.sampled_from([-1.0, 0.5, 1.0])))
def test_true_constants_of_a_slow_model_are_found_again(data: st.DataObject, slopes: tuple[float, float]) -> None:
    surface = interpolated(7000.0, slopes)
    truth = np.array(data.draw(grid_values(surface)))
    published = surface.times(truth)
    found = fit.fit(surface, published, fit.family_weights(FAMILIES, np.ones(COUNT, dtype=bool)), starts=8)
    assert np.abs(surface.times(found) / published - 1).max() < 0.05
    assert found[0] == pytest.approx(truth[0], rel=0.1, abs=400)


def test_held_out_rows_of_a_true_model_have_no_error() -> None:
    surface = interpolated(7000.0, (-1.0, 0.5))
    published = surface.times(np.array([5000.0, 2.0, 0.5]))
    result = fit.held_out(surface, published, FAMILIES, count=6, seed=1)
    assert np.nanmax(result.error) < 0.05
    assert result.constants.shape == (6, 3)


def test_a_wrong_model_is_told_by_its_held_out_error() -> None:
    surface = interpolated(7000.0, (-1.0, 0.5))
    published = surface.times(np.array([5000.0, 2.0, 0.5])) * np.where(np.arange(COUNT) % 2, 1.5, 0.6)
    assert np.nanmean(fit.held_out(surface, published, FAMILIES, count=6, seed=1).error) > 0.2


def test_halves_are_repeatable_and_hold_half_of_each_family() -> None:
    one, two, other = (fit.halves(FAMILIES, 20, seed) for seed in (3, 3, 4))
    assert all((a == b).all() for a, b in zip(one, two, strict=True))
    assert any((a != b).any() for a, b in zip(one, other, strict=True))
    for chosen in one:
        for name, expected in (("a", 3), ("b", 6), ("c", 1)):
            assert sum(chosen[index] for index in range(COUNT) if FAMILIES[index] == name) == expected


def test_a_family_of_one_row_is_never_held_out() -> None:
    surface = Roofline(np.array([1e12, 2e12, 3e12]), np.full(3, 1e6), np.full(3, 2.516e6))
    result = fit.held_out(surface, surface.times(np.array([7000.0, 0.6, 6000.0])), ["x", "x", "y"], 4, 0)
    assert np.isnan(result.error[2])
    assert not np.isnan(result.error[:2]).any()


def test_families_weigh_the_same() -> None:
    weights = fit.family_weights(FAMILIES, np.ones(COUNT, dtype=bool))
    assert weights.sum() == pytest.approx(1)
    assert weights[:7].sum() == pytest.approx(1 / 3)
    with pytest.raises(ValueError, match="no row was chosen"):
        fit.family_weights(FAMILIES, np.zeros(COUNT, dtype=bool))


def test_a_fifth_constant_is_refused() -> None:
    class Five(Roofline):
        constants = (*Roofline.constants, *(Constant(name, 1.0, 0.5, 2.0, "") for name in ("fourth", "fifth")))

    with pytest.raises(ValueError, match="5 constants to fit, at most 4"):
        fit.fit(Five(*some_work(0)), np.ones(COUNT), np.ones(COUNT) / COUNT)


def test_a_model_that_was_not_varied_over_its_range_is_refused() -> None:
    constants = (Constant("overhead", 10.0, 1.0, 20.0, "ns"), Constant("c", 1.0, 0.5, 2.0, ""))
    with pytest.raises(ValueError, match="not its whole range"):
        Interpolated(constants, np.array([20.0]), [(np.array([0.5, 1.0]), np.array([[30.0], [20.0]]))])
    with pytest.raises(ValueError, match="not above its overhead"):
        Interpolated(constants, np.array([10.0]), [(np.array([0.5, 2.0]), np.array([[30.0], [20.0]]))])
    with pytest.raises(ValueError, match="0 were varied"):
        Interpolated(constants, np.array([20.0]), [])


def test_grids_hold_their_ends_and_the_default() -> None:
    for constant in Roofline.constants:
        grid = constant.grid()
        assert grid[0] == pytest.approx(constant.low)
        assert grid[-1] == pytest.approx(constant.high)
        assert constant.default in grid


def test_every_published_row_has_a_source_and_a_time() -> None:
    loaded = rows.load()
    assert {row.family for row in loaded} == set(rows.FAMILIES)
    for row in loaded:
        assert row.source
        assert row.published_ns > 1000  # nothing launches in less
        assert row.bytes > 0
        # Nothing was published that is faster than the data sheet's peaks.
        assert row.flops / row.published_ns < row.peak_flop_per_ns
    assert len({(row.family, row.shape, row.dtype, row.source) for row in loaded}) == len(loaded)


def test_a_row_by_hand() -> None:
    row = next(r for r in rows.load() if r.family == "own GEMM" and r.sizes == {"M": 8, "N": 4096, "K": 4096})
    assert row.flops == 2 * 8 * 4096 * 4096
    assert row.bytes == 2 * (8 * 4096 + 4096 * 4096 + 8 * 4096)
    assert row.published_ns == pytest.approx(2 * 8 * 4096 * 4096 / 22.9e12 * 1e9)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nothing,dense_gemm,bf16,M=1;N=1;K=1,x,tflops,1,d,s,n", "unknown family"),
        ("own GEMM,dense_gemm,bf16,M=1;N=1;K=1,x,furlongs,1,d,s,n", "no way to read a time"),
        ("own GEMM,dense_gemm,bf16,M=0;N=1;K=1,x,tflops,1,d,s,n", "published time is 0"),
        ("", "has no rows"),
    ],
)
def test_bad_rows_are_refused(line: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("family,op,dtype,shape,published_backend,metric,value,device,source,note\n" + line)
    with pytest.raises(ValueError, match=message):
        rows.load(file)
