"""How sure a few seeds make us: Student's t, and the difference of two arms with its interval. Plain numpy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

CONFIDENCE = 0.95

Table = Mapping[str, Sequence[float]]  # an arm to its values, one a seed, the same seeds in every arm


class Interval(NamedTuple):
    """An estimate, and where its true value lies with 95 % confidence."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:+.4f} ({self.low:+.4f} to {self.high:+.4f})"


def mean_interval(values: Sequence[float]) -> Interval:
    """The mean of independent values; one value alone says nothing of its spread."""
    numbers = np.asarray(values, float)
    if len(numbers) < 2:
        return Interval(float(numbers.mean()), -math.inf, math.inf)
    return _interval(float(numbers.mean()), float(numbers.std(ddof=1)) / math.sqrt(len(numbers)), len(numbers) - 1)


def difference(table: Table, one: str, other: str) -> Interval:
    """Mean of `one` minus mean of `other`, paired by seed.

    The spread is that of all arms of the table, after the mean of each arm and of each seed is taken away (a
    randomised block design): with two arms this is the paired t-test, with more it is surer of its spread.
    """
    values = np.array([list(map(float, row)) for row in table.values()])  # arms x seeds
    arms, seeds = values.shape
    gap = float(np.mean(table[one]) - np.mean(table[other]))
    if seeds < 2:
        return Interval(gap, -math.inf, math.inf)
    rest = values - values.mean(axis=1, keepdims=True) - values.mean(axis=0) + values.mean()
    freedom = (arms - 1) * (seeds - 1)
    spread = math.sqrt(float((rest**2).sum()) / freedom)
    return _interval(gap, spread * math.sqrt(2 / seeds), freedom)


def slope(places: Sequence[float], rows: Sequence[Sequence[float]]) -> Interval:
    """How the values of each seed rise with `places`: least squares for each seed, then the mean over seeds."""
    x = np.asarray(places, float)
    centred = x - x.mean()
    return mean_interval([float(centred @ np.asarray(row, float) / (centred @ centred)) for row in rows])


def correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Pearson's; 0 where one of the two does not vary."""
    a, b = (np.asarray(values, float) - np.mean(values) for values in (one, other))
    scale = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / scale if scale else 0.0


def t_quantile(freedom: int, confidence: float = CONFIDENCE) -> float:
    """The t beyond which, on both sides together, lies 1 - confidence."""
    low, high = 0.0, 1.0
    while _within(high, freedom) < confidence:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < confidence else (low, middle)
    return (low + high) / 2


def _within(t: float, freedom: int) -> float:
    """The probability of |T| < t for whole degrees of freedom: the finite sums of Abramowitz and Stegun 26.7.3-4."""
    angle = math.atan2(t, math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    term, total, first = (1.0, 1.0, 2) if freedom % 2 == 0 else (cosine, cosine, 3)
    for k in range(first, freedom - 1, 2):
        term *= (k - 1) / k * cosine**2
        total += term
    if freedom % 2 == 0:
        return sine * total
    return 2 / math.pi * (angle + (sine * total if freedom > 1 else 0.0))


def _interval(value: float, error: float, freedom: int) -> Interval:
    half = t_quantile(freedom) * error
    return Interval(value, value - half, value + half)
