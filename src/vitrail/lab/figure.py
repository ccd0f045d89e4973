"""The figure of a claim, as SVG: lines with their bands where arms lie on an axis, else a row of dots for each arm."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from vitrail.lab.claim import Arm, Claim, Results
from vitrail.lab.outcome import FIGURE, Outcome
from vitrail.lab.statistics import mean_interval
from vitrail.page.document import resource, text
from vitrail.report.charts import Line, Plane, line_chart
from vitrail.report.scales import Axis, number_axis, share_axis
from vitrail.report.section import key
from vitrail.weights.durable import write_text

WIDTH, ROW, NAMES, MARGIN, FOOT = 520, 26, 150, 14, 34
KINDS = ("second", "third", "first", "fourth", "fifth", "sixth")
STYLES = (("vitrail.page", "theme.css"), ("vitrail.report", "report.css"), ("vitrail.lab", "lab.css"))


def style() -> str:
    """What figures look like, alone and in the page, beside the theme."""
    return "\n".join(resource(*place) for place in STYLES[1:])


def draw(claim: Claim, results: Results) -> str:
    """The figure that is shown, with everything in it said in its label."""
    label = f"{claim.title}: {claim.shown}"
    if all(arm.x is not None for arm in claim.judged):
        return line_chart(label, lines(claim, results), _plane(claim, results))
    return _rows(label, claim, results)


def keys(claim: Claim) -> str:
    """Which line is which; nothing where rows have their names beside them."""
    named = series(claim) if all(arm.x is not None for arm in claim.judged) else []
    return key(*zip(named, KINDS, strict=False)) if len(named) > 1 else ""


def write_figure(outcome: Outcome, root: Path) -> Path | None:
    """figure.svg beside the records, which opens by itself."""
    if outcome.results is None:
        return None
    path = root / outcome.claim.name / FIGURE
    rules = "\n".join(resource(*place) for place in STYLES)
    drawn = draw(outcome.claim, outcome.results)
    opened = drawn.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    write_text(path, opened.replace(">", f"><style><![CDATA[{rules}]]></style>", 1))
    return path


def series(claim: Claim) -> list[str]:
    return list(dict.fromkeys(arm.series for arm in claim.judged))


def lines(claim: Claim, results: Results) -> list[Line]:
    """One for each series, the mean over seeds with its interval as a band, cut to what was measured."""
    found = results[claim.shown]
    made = []
    for name, kind in zip(series(claim), KINDS, strict=False):
        arms = sorted((arm for arm in claim.judged if arm.series == name), key=_place)
        points = [(_place(arm), float(np.mean(found[arm.name]))) for arm in arms]
        bands = [_band(found[arm.name]) for arm in arms]
        made.append(Line(name, points, kind, bands))
    return made


def _band(values: Sequence[float]) -> tuple[float, float]:
    """The interval of the mean, but no wider than the values with as much again on each side: two or three seeds can
    have an interval that no axis would hold."""
    found, room = mean_interval(values), max(values) - min(values)
    return max(found.low, min(values) - room), min(found.high, max(values) + room)


def _place(arm: Arm) -> float:
    assert arm.x is not None
    return arm.x


def _plane(claim: Claim, results: Results) -> Plane:
    ends = [end for line in lines(claim, results) for pair in line.band for end in pair]
    places = [_place(arm) for arm in claim.judged]
    return Plane(number_axis(claim.x_label, places, tight=True), _value_axis(claim, ends))


def _value_axis(claim: Claim, values: Sequence[float]) -> Axis:
    if claim.shown == "accuracy":
        return share_axis("accuracy", [min(1.0, max(0.0, value)) for value in values])
    return number_axis(claim.shown, values)


def _rows(label: str, claim: Claim, results: Results) -> str:
    """A row for each arm: its seeds as dots, the interval of their mean as a line, the paper's value in words."""
    found = results[claim.shown]
    axis = _value_axis(claim, [value for row in found.values() for value in (*row, *_band(row))])
    height = MARGIN + ROW * len(found) + FOOT
    bottom = height - FOOT

    def across(value: float) -> float:
        return round(NAMES + min(1.0, max(0.0, axis.share(value))) * (WIDTH - NAMES - MARGIN), 1)

    ticks = "".join(
        f'<line class="grid" x1="{across(tick)}" x2="{across(tick)}" y1="{MARGIN}" y2="{bottom}"/>'
        f'<text class="tick" x="{across(tick)}" y="{bottom + 15}">{text(axis.write(tick))}</text>'
        for tick in axis.ticks
    )
    rows = []
    for place, (name, values) in enumerate(found.items()):
        y, (low, high) = MARGIN + ROW * (place + 0.5), _band(values)
        dots = "".join(f'<circle class="dot" cx="{across(value)}" cy="{y}" r="3.4"/>' for value in values)
        said = f"{name}: {', '.join(axis.write(round(value, 4)) for value in values)}"
        rows.append(
            f'<g class="second"><title>{text(said)}</title><text class="tick up" x="{NAMES - 8}" y="{y}">{text(name)}'
            f'</text><line class="line" x1="{across(low)}" x2="{across(high)}" y1="{y}" y2="{y}"/>{dots}</g>'
        )
    under = f'<text class="axis" x="{(NAMES + WIDTH - MARGIN) / 2:g}" y="{height - 3}">{text(axis.label)}</text>'
    box = f'viewBox="0 0 {WIDTH} {height}"'
    return f'<svg class="plot" role="img" aria-label="{text(label)}" {box}>{ticks}{"".join(rows)}{under}</svg>'
