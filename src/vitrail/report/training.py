"""How it learned: loss, accuracy, learning rate and waiting for data, against time and against steps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from vitrail.report import charts
from vitrail.report.charts import Line, Plane, Point
from vitrail.report.facts import Row, Story
from vitrail.report.scales import Axis, number_axis, share_axis
from vitrail.report.section import Section, figure, key
from vitrail.report.words import duration, percent, unit_of_time
from vitrail.report.words import figure as number

PLACES = 120  # along a curve; more rows are averaged, and their range is drawn as a band
SHARES = (
    ("accuracy", "accuracy", "second"),
    ("balanced_accuracy", "balanced", "third"),
    ("mean_average_precision", "mean average precision", "second"),
    ("knn", "by nearest neighbours", "second"),
    ("few_shot", "by a few of each class", "third"),
)


class Across(NamedTuple):
    """What curves are drawn against: a column of the rows, and how many of it make one unit of the axis."""

    column: str
    size: float
    axis: Axis


def training_section(facts: Story) -> Section | None:
    rows = [row for row in facts.metrics if row.get("kind") in ("train", "val") and _finite(row, "seconds", "step")]
    if not rows:
        return None
    choices = "".join(
        f'<label><input type="radio" name="against" value="{name}"{checked}> {name}</label>'
        for name, checked in (("time", " checked"), ("steps", ""))
    )
    unit, size = unit_of_time(max(float(row["seconds"]) for row in rows))
    panels = "".join(
        f'<div class="charts against-{name}">{_charts(facts, rows, across)}</div>'
        for name, across in (
            ("time", _across(rows, "seconds", size, f"{unit}s")),
            ("steps", _across(rows, "step", 1.0, "steps")),
        )
    )
    chooser = f'<fieldset class="choice"><legend>Against</legend>{choices}</fieldset>'
    return Section("Training", "How it learned", _words(facts, rows), f'<div class="curves">{chooser}{panels}</div>')


def _words(facts: Story, rows: Sequence[Row]) -> str:
    said = [f"{max(row['step'] for row in rows):,} steps in {duration(max(row['seconds'] for row in rows))}"]
    if speed := [row["images_per_second"] for row in rows if _finite(row, "images_per_second")]:
        said.append(f"{number(speed[-1])} pictures a second")
    words = ", ".join(said) + "."
    best = max((row for row in rows if _finite(row, "accuracy")), key=lambda row: row["accuracy"], default=None)
    if best is not None:
        words += f" The best validation accuracy was {percent(best['accuracy'])}, at step {best['step']:,}."
    for probe in _probes(facts.metrics):
        words += f" A linear probe on the features it started from reached {percent(probe['accuracy'])}."
    return words


def _across(rows: Sequence[Row], column: str, size: float, label: str) -> Across:
    axis = number_axis(label, [row[column] / size for row in rows], from_zero=True, tight=True)
    return Across(column, size, axis)


def _charts(facts: Story, rows: Sequence[Row], across: Across) -> str:
    train = [row for row in rows if row["kind"] == "train"]
    val = [row for row in rows if row["kind"] == "val"]
    probes = [float(probe["accuracy"]) for probe in _probes(facts.metrics)]
    losses = [
        _averaged("training", _points(train, across, "loss"), "first"),
        Line("validation", _points(val, across, "loss"), "second"),
    ]
    shares = [Line(name, _points(val, across, column), kind) for column, name, kind in SHARES]
    rates = [_averaged("learning rate", _points(train, across, "lr"), "first")]
    waits = [_averaged("waiting", _points(train, across, "waiting"), "first")]
    x = across.axis
    rate = number_axis("rate", _values(rates), from_zero=True, count=2)
    wait = share_axis("of the time", [0.0, 0.1, *_values(waits)], count=2)
    return (
        _chart("Loss", losses, Plane(x, number_axis("loss", _values(losses))))
        + _chart("Accuracy", shares, Plane(x, share_axis("right", [*_values(shares), *probes])), probes)
        + _chart("Learning rate", rates, Plane(x, rate, charts.LOW))
        + _chart("Waiting for data", waits, Plane(x, wait, charts.LOW))
    )


def _chart(title: str, lines: Sequence[Line], plane: Plane, probes: Sequence[float] = ()) -> str:
    """Of lines without points, nothing."""
    there = [line for line in lines if line.points]
    if not there:
        return ""
    marks = "".join(charts.level(value, plane, f"linear probe {percent(value)}") for value in probes)
    names = key(*((line.name, line.kind) for line in there)) if len(there) > 1 else ""
    return figure(title, charts.line_chart(f"{title} while training", there, plane, marks=marks), key=names)


def _averaged(name: str, points: Sequence[Point], kind: str) -> Line:
    """At most PLACES points, each the mean of its neighbours, with their range as a band."""
    if len(points) <= PLACES:
        return Line(name, points, kind)
    groups = np.array_split(np.array(points), PLACES)
    means = [(float(group[:, 0].mean()), float(group[:, 1].mean())) for group in groups]
    ranges = [(float(group[:, 1].min()), float(group[:, 1].max())) for group in groups]
    return Line(name, means, kind, ranges)


def _points(rows: Sequence[Row], across: Across, column: str) -> list[Point]:
    return [(float(row[across.column]) / across.size, float(row[column])) for row in rows if _finite(row, column)]


def _values(lines: Iterable[Line]) -> list[float]:
    return [b for line in lines for _, b in line.points] + [b for line in lines for pair in line.band for b in pair]


def _probes(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.get("kind") == "probe" and _finite(row, "accuracy")]


def _finite(row: Row, *names: str) -> bool:
    return all(isinstance(row.get(name), int | float) and math.isfinite(row[name]) for name in names)
