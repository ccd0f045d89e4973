"""Axes: from values to places on a chart, with ticks at round numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from vitrail.report.words import figure

TICKS = 5  # about as many as a small chart can carry


@dataclass(frozen=True)
class Axis:
    """From `low` to `high`, both on a tick or on a value, and how a value on it is written."""

    label: str
    low: float
    high: float
    ticks: tuple[float, ...]
    write: Callable[[float], str]

    def share(self, value: float) -> float:
        """The place of a value, 0 at `low` and 1 at `high`."""
        return (value - self.low) / (self.high - self.low)


def number_axis(
    label: str, values: Iterable[float], *, from_zero: bool = False, tight: bool = False, count: int = TICKS
) -> Axis:
    """Wide enough for all values; `tight` ends at the largest one instead of the tick after it."""
    low, high = _range(values, from_zero)
    ticks = round_ticks(low, high, count)
    if tight:
        return Axis(label, low, high, tuple(tick for tick in ticks if low <= tick <= high), figure)
    return Axis(label, ticks[0], ticks[-1], ticks, figure)


def share_axis(label: str, values: Iterable[float] = (0.0, 1.0), *, count: int = TICKS) -> Axis:
    """Percentages, never beyond 0 and 100."""
    low, high = _range(values, from_zero=False)
    ticks = tuple(tick for tick in round_ticks(low, high, count) if -1e-9 <= tick <= 1 + 1e-9)
    return Axis(label, ticks[0], ticks[-1], ticks, lambda share: f"{100 * share:.10g}%")


def round_ticks(low: float, high: float, count: int = TICKS) -> tuple[float, ...]:
    """About `count` multiples of 1, 2 or 5 times a power of ten; the first is not above `low`, the last not below."""
    assert low < high
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    digits = max(0, 2 - math.floor(math.log10(step)))
    return tuple(round(index * step, digits) for index in range(first, last + 1))


def _range(values: Iterable[float], from_zero: bool) -> tuple[float, float]:
    """The least and the largest value, moved apart where they are the same."""
    known = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(known), max(known)
    if from_zero:
        low = min(0.0, low)
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        margin = abs(high) * 0.1 or 1.0
        return (low - margin if low else 0.0), high + margin
    return low, high
