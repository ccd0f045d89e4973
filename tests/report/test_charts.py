"""Axes with round ticks, and charts that are well-formed SVG with every value in its place."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from vitrail.evaluate.evaluation import Bin
from vitrail.report import charts
from vitrail.report.charts import HEIGHT, WIDTH, Line, Plane
from vitrail.report.scales import number_axis, round_ticks, share_axis

finite = st.floats(-1e12, 1e12, allow_subnormal=False)


@given(finite, finite)
def test_ticks_are_round_few_and_around_the_values(a: float, b: float) -> None:
    low, high = min(a, b), max(a, b)
    assume(high - low > 1e-6 * max(1.0, abs(low), abs(high)))
    ticks = round_ticks(low, high)
    step = ticks[1] - ticks[0]
    slack = 1e-6 * max(abs(low), abs(high), step)
    assert 3 <= len(ticks) <= 8
    assert ticks[0] <= low + slack
    assert ticks[-1] >= high - slack
    assert np.allclose(np.diff(ticks), step)
    assert f"{step:.6e}"[0] in "125"


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32), max_size=5), st.booleans(), st.booleans())
def test_any_values_have_an_axis(values: list[float], from_zero: bool, tight: bool) -> None:
    axis = number_axis("x", values, from_zero=from_zero, tight=tight)
    assert axis.low < axis.high
    assert all(-1e-6 <= axis.share(value) <= 1 + 1e-6 for value in values if np.isfinite(value) and not tight)
    assert all(axis.write(tick) for tick in axis.ticks)


@given(st.lists(st.floats(0, 1), max_size=5))
def test_shares_stay_between_0_and_100_percent(values: list[float]) -> None:
    axis = share_axis("share", values)
    assert 0 <= axis.low < axis.high <= 1
    assert all(-1e-9 <= axis.share(value) <= 1 + 1e-9 for value in values)


def drawn(svg: str) -> ET.Element:
    return ET.fromstring(svg)


def test_a_line_is_where_its_values_are() -> None:
    plane = Plane(number_axis("steps", [0, 10]), share_axis("right"))
    lines = [Line("one", [(0, 0.0), (5, 0.5), (10, 1.0)], "first"), Line("two", [(5, 0.25)], "second")]
    svg = drawn(charts.line_chart("a chart", lines, plane))
    points = [pair.split(",") for pair in svg.find(".//polyline").get("points").split()]
    places = np.array(points, float)
    assert np.allclose(np.diff(places[:, 0], n=2), 0, atol=0.2)
    assert (np.diff(places[:, 1]) < 0).all()  # up is towards 0
    assert (places >= 0).all()
    assert (places <= [WIDTH, HEIGHT]).all()
    said = [title.text for title in svg.iter("title")]
    assert said == ["steps 0: one 0%, two 25%", "steps 5: one 50%, two 25%", "steps 10: one 100%, two 25%"]


def test_one_point_is_a_chart_too() -> None:
    plane = Plane(number_axis("steps", [7], from_zero=True, tight=True), number_axis("loss", [0.3]))
    assert drawn(charts.line_chart("a chart", [Line("loss", [(7, 0.3)], "first")], plane)).find(".//circle") is not None


def test_labels_cannot_leave_the_chart() -> None:
    evil = '"><script>alert(1)</script>'
    plane = Plane(number_axis(evil, [0, 1]), share_axis(evil))
    for svg in (
        charts.line_chart(evil, [Line(evil, [(0, 0), (1, 1)], "first")], plane, marks=charts.level(0.5, plane, evil)),
        charts.reliability_chart(evil, [(evil, "first", [Bin(0.5, 0.4, 3)])]),
        charts.column_chart(evil, [evil, "b"], [3, 4], evil, evil),
        charts.heat_map(evil, [[1, 2], [0, 3]], [evil, "b"], 10),
    ):
        assert not list(drawn(svg).iter("script"))


@pytest.mark.parametrize(("filled", "total"), [(0, 100), (91, 100), (100, 100), (997, 1000)])
def test_as_many_panes_are_coloured_as_are_right(filled: int, total: int) -> None:
    panes = re.findall('class="pane ([a-z]+)', charts.window("a window", filled, total))
    assert [panes.count("glass"), panes.count("broken")] == [filled, total - filled]


def test_the_heat_map_draws_only_what_was_said() -> None:
    svg = drawn(charts.heat_map("a map", [[8, 2, 0], [0, 0, 0], [1, 0, 9]], ["a", "b", "c"], 10))
    said = {title.text for title in svg.iter("title")}
    assert said == {"a: 8 of 10", "a taken for b: 2 of 10", "c taken for a: 1 of 10", "c: 9 of 10"}
    assert len(list(drawn(charts.heat_map("a map", np.ones((50, 50), int), ["k"] * 50, 20)).iter("title"))) == 20
