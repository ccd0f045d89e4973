"""Intervals beside scipy's, and that they cover what they promise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from vitrail.lab.statistics import correlation, difference, mean_interval, slope, t_quantile

FEW = st.lists(st.floats(-10, 10, allow_subnormal=False), min_size=3, max_size=3)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 6, 10, 11, 34, 101])
def test_quantiles_of_t_are_scipys(freedom, confidence):
    assert t_quantile(freedom, confidence) == pytest.approx(stats.t.ppf((1 + confidence) / 2, freedom), rel=1e-9)


def test_the_interval_of_a_mean_is_scipys():
    values = [0.51, 0.53, 0.56, 0.50]
    expected = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    assert mean_interval(values)[1:] == pytest.approx(expected)


@given(FEW, FEW)
@settings(max_examples=50)
def test_with_two_arms_the_difference_is_the_paired_t_test(one, other):
    found = difference({"a": one, "b": other}, "a", "b")
    expected = mean_interval([x - y for x, y in zip(one, other, strict=True)])
    assert found == pytest.approx(expected, abs=1e-9)


def test_more_arms_make_the_interval_narrower_where_all_spread_alike():
    random = np.random.default_rng(0)
    widths = {2: [], 6: []}
    for _ in range(200):
        table = {str(arm): random.normal(0, 1, 3).tolist() for arm in range(6)}
        for count in widths:
            found = difference(dict(list(table.items())[:count]), "0", "1")
            widths[count].append(found.high - found.low)
    assert np.mean(widths[6]) < 0.6 * np.mean(widths[2])


@pytest.mark.parametrize("arms", [2, 5])
def test_the_truth_is_covered_as_often_as_promised(arms):
    random, covered, rounds = np.random.default_rng(1), 0, 2000
    for _ in range(rounds):
        seeds = random.normal(0, 3, 3)  # a seed that is easy for all arms must not count
        table = {str(arm): (0.5 * arm + seeds + random.normal(0, 1, 3)).tolist() for arm in range(arms)}
        found = difference(table, "1", "0")
        covered += found.low <= 0.5 <= found.high
    assert covered / rounds == pytest.approx(0.95, abs=0.02)


def test_one_seed_is_sure_of_nothing():
    assert difference({"a": [0.9], "b": [0.1]}, "a", "b")[1:] == (-math.inf, math.inf)
    assert mean_interval([0.5])[1:] == (-math.inf, math.inf)


def test_a_slope_is_found_in_every_seed():
    places = [0.0, 1.0, 2.0, 3.0]
    found = slope(places, [[1, 3, 5, 7], [0, 2, 4, 6], [5, 7.3, 9, 11.1]])
    assert found.value == pytest.approx(2.0, abs=0.05)
    assert found.low > 1.9


def test_correlation_is_numpys():
    one, other = [1.0, 2.0, 4.0, 3.0], [0.1, 0.3, 0.2, 0.5]
    assert correlation(one, other) == pytest.approx(np.corrcoef(one, other)[0, 1])
    assert correlation([1.0, 1.0], other[:2]) == 0.0
