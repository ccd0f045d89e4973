"""Numbers that look random, are the same everywhere, and do not depend on their company."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vitrail.data.randomness import integers, noise, permutation, uniform, weighted

COUNT = 100_000
whole = st.integers(0, 2**62)


def test_the_same_numbers_on_every_machine() -> None:
    """Written down once: another value would change every run that is resumed after an update."""
    assert uniform(1, 2, [3, 4], "flip").tolist() == [0.18602130403284056, 0.005412222378005427]
    assert integers(1, 2, [3, 4, 5], "flip", 100).tolist() == [18, 0, 41]
    assert permutation(1, 2, 8).tolist() == [6, 2, 1, 3, 0, 4, 5, 7]
    assert noise(1, 2, 3, "erase", 9).tolist() == [[159, 147, 102, 131, 26, 16, 67, 138, 162]]


@given(seed=st.integers(-(2**40), 2**40), epoch=whole, indices=st.lists(whole, min_size=1, max_size=20))
def test_a_number_does_not_depend_on_the_others(seed: int, epoch: int, indices: list[int]) -> None:
    together = uniform(seed, epoch, indices, "x")
    assert together.tolist() == [uniform(seed, epoch, index, "x")[0] for index in indices]
    assert ((together >= 0) & (together < 1)).all()


def test_uniform() -> None:
    values = uniform(0, 0, np.arange(COUNT), "x")
    counts, _ = np.histogram(values, 100, (0, 1))
    chi_square = ((counts - COUNT / 100) ** 2 / (COUNT / 100)).sum()
    assert 60 < chi_square < 150  # 99 on average, 14 its standard deviation
    assert abs(np.corrcoef(values[1:], values[:-1])[0, 1]) < 0.015


def test_seeds_epochs_and_streams_are_independent() -> None:
    rows = [
        uniform(seed, epoch, np.arange(COUNT), stream)
        for seed, epoch, stream in itertools.product((0, 1), (0, 1, 2), ("flip", "shift x"))
    ]
    correlations = np.corrcoef(rows) - np.eye(len(rows))
    assert np.abs(correlations).max() < 0.02  # about 5 standard deviations
    assert len({row.tobytes() for row in rows}) == len(rows)


@given(seed=whole, epoch=whole, count=st.integers(0, 300))
def test_permutation_has_every_number_once(seed: int, epoch: int, count: int) -> None:
    assert sorted(permutation(seed, epoch, count).tolist()) == list(range(count))


def test_permutation_puts_every_number_everywhere() -> None:
    places = np.stack([permutation(0, epoch, 10) for epoch in range(5000)])
    counts = np.stack([np.bincount(column, minlength=10) for column in places.T])
    assert np.abs(counts - 500).max() < 120  # 21 is the standard deviation


def test_weighted_draws_as_often_as_the_weights_say() -> None:
    drawn = weighted(0, 0, COUNT, np.array([0.0, 1.0, 0.0, 3.0, 0.0]))
    shares = np.bincount(drawn, minlength=5) / COUNT
    np.testing.assert_allclose(shares, [0, 0.25, 0, 0.75, 0], atol=0.01)
    assert shares[[0, 2, 4]].sum() == 0


def test_noise_is_uniform_and_fewer_bytes_are_its_beginning() -> None:
    many = noise(0, 0, [5, 6], "x", 30_001)
    assert many.shape == (2, 30_001)
    assert (noise(0, 0, 6, "x", 11)[0] == many[1, :11]).all()
    counts = np.bincount(many[0], minlength=256)
    assert 160 < ((counts - 30_001 / 256) ** 2 / (30_001 / 256)).sum() < 380  # 255 on average
    assert (many[0] != many[1]).mean() > 0.99
