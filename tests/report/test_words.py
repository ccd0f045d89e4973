"""How figures are written."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrail.report.words import count, duration, figure, listed, percent


@pytest.mark.parametrize(
    ("share", "written"),
    [(0.9123, "91.2%"), (1.0, "100.0%"), (0.0, "0.0%"), (0.99999, "over 99.9%"), (1e-6, "under 0.1%"), (math.nan, "–")],
)
def test_percent(share: float, written: str) -> None:
    assert percent(share) == written


@given(st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_only_all_is_100_percent(share: float) -> None:
    assert percent(share) not in ("100.0%", "0.0%")


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0.41234, "0.412"),
        (12500.0, "12,500"),
        (3e-5, "3e-05"),
        (0.0, "0"),
        (2.5, "2.5"),
        (-0.25, "-0.25"),
        (1e9, "1e+09"),
    ],
)
def test_figure(value: float, written: str) -> None:
    assert figure(value) == written


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (48, "48 seconds"),
        (90, "90 seconds"),
        (1, "1 second"),
        (1205, "20 minutes"),
        (9000, "2.5 hours"),
        (200000, "2.3 days"),
    ],
)
def test_duration(seconds: float, written: str) -> None:
    assert duration(seconds) == written


def test_count_and_listed() -> None:
    assert [count(1, "class"), count(2, "class"), count(12000, "picture")] == [
        "1 class",
        "2 classes",
        "12,000 pictures",
    ]
    assert [listed([]), listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]
