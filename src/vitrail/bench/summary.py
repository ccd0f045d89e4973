"""From the seconds of every round to medians, quartiles and ratios."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vitrail.bench.peers import OURS
from vitrail.bench.plan import PASSES

Rounds = Mapping[str, Sequence[float]]  # library -> seconds of one call, a number for every round


def spread(values: Iterable[float]) -> dict[str, float]:
    """Median and quartiles."""
    points = list(values)
    low, middle, high = statistics.quantiles(points, n=4, method="inclusive") if len(points) > 1 else points * 3
    return {"median": middle, "q1": low, "q3": high}


def summarise(rounds: Rounds, gemm_rates: Sequence[float], mode: str, batch: int, flops: int) -> dict[str, Any]:
    """What is reported of one cell: a library's numbers, and how much faster ours is than each other.

    A ratio is taken within a round, where both saw the same machine, and the median of those is reported.
    """
    work = flops * batch * PASSES[mode]
    return {
        "gemm_gflops": spread(rate / 1e9 for rate in gemm_rates),
        "peers": {name: _one(seconds, gemm_rates, work, batch) for name, seconds in rounds.items()},
        "speedup": _speedups(rounds),
        "fastest_peer": _fastest(rounds),
    }


def _one(seconds: Sequence[float], gemm_rates: Sequence[float], work: int, batch: int) -> dict[str, Any]:
    shares = [100 * work / time / rate for time, rate in zip(seconds, gemm_rates, strict=True)]
    median = statistics.median(seconds)
    return {
        "seconds": {**spread(seconds), "rounds": list(seconds)},
        "images_per_second": batch / median,
        "gflops": work / median / 1e9,
        "percent_of_peak": spread(shares),
    }


def _speedups(rounds: Rounds) -> dict[str, dict[str, float]]:
    """Their seconds over ours: above 1, ours is faster."""
    if OURS not in rounds:
        return {}
    return {name: _speedup(seconds, rounds[OURS]) for name, seconds in rounds.items() if name != OURS}


def _speedup(theirs: Sequence[float], ours: Sequence[float]) -> dict[str, float]:
    ratios = [their / our for their, our in zip(theirs, ours, strict=True)]
    return {**spread(ratios), "of_medians": statistics.median(theirs) / statistics.median(ours)}


def _fastest(rounds: Rounds) -> str | None:
    others = {name: statistics.median(seconds) for name, seconds in rounds.items() if name != OURS}
    return min(others, key=lambda name: others[name]) if others else None


def overall(cells: Iterable[Mapping[str, Any]], mode: str, peer: str | None) -> float | None:
    """The geometric mean over a mode's cells of how much faster ours is than `peer`, or than the fastest (None)."""
    named = [(cell["speedup"], peer or cell["fastest_peer"]) for cell in cells if cell["mode"] == mode]
    ratios = [speedup[name]["median"] for speedup, name in named if name in speedup]
    return statistics.geometric_mean(ratios) if ratios else None
