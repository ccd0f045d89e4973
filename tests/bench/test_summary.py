"""Medians, ratios and arithmetic, against numbers worked out by hand."""

from __future__ import annotations

import pytest

from vitrail.bench.memory import PeakMemory
from vitrail.bench.plan import shape
from vitrail.bench.summary import overall, spread, summarise

ROUNDS = {"vitrail": [1.0, 2.0, 4.0], "timm": [2.0, 2.0, 6.0], "transformers": [3.0, 3.0, 3.0]}


def test_spread_is_median_and_quartiles() -> None:
    assert spread([1, 2, 3, 4, 5]) == {"median": 3, "q1": 2, "q3": 4}
    assert spread([7]) == {"median": 7, "q1": 7, "q3": 7}


def test_ratio_is_taken_within_a_round() -> None:
    cell = summarise(ROUNDS, [1e9] * 3, "inference", batch=4, flops=10**8)
    assert cell["speedup"]["timm"] == {"median": 1.5, "q1": 1.25, "q3": 1.75, "of_medians": 1.0}
    assert cell["fastest_peer"] == "timm"


def test_share_of_the_peak_counts_training_three_times() -> None:
    for mode, passes in (("inference", 1), ("training", 3)):
        ours = summarise(ROUNDS, [1e9] * 3, mode, batch=4, flops=10**8)["peers"]["vitrail"]
        assert ours["gflops"] == pytest.approx(0.2 * passes)
        assert ours["percent_of_peak"]["median"] == pytest.approx(20 * passes)
        assert ours["images_per_second"] == 2


def test_overall_is_a_geometric_mean() -> None:
    cells = [
        {"mode": "training", "fastest_peer": "timm", "speedup": {"timm": {"median": ratio}}} for ratio in (1.0, 4.0)
    ]
    assert overall(cells, "training", "timm") == pytest.approx(2)
    assert overall(cells, "training", None) == pytest.approx(2)
    assert overall(cells, "inference", "timm") is None


@pytest.mark.parametrize(("size", "gmacs"), [("Ti", 1.26), ("S", 4.61), ("B", 17.58)])  # DeiT, Table 5: 1.3, 4.6, 17.6
def test_operations_are_the_known_ones(size: str, gmacs: float) -> None:
    assert shape(size).forward_flops / 2e9 == pytest.approx(gmacs, rel=0.01)


def test_peak_memory_sees_what_was_freed_again() -> None:
    peak = PeakMemory()
    block = bytearray(b"x" * 50_000_000)
    del block
    reading = peak.read()
    assert reading["total"] > reading["growth"]
    if reading["source"].startswith("VmHWM"):
        assert reading["growth"] > 45_000_000
