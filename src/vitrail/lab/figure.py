"""The figures of a claim, as SVG: lines with their bands where arms lie on an axis, else a row of dots for each arm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from vitrail.lab.cells import Cell, cell_map
from vitrail.lab.claim import Arm, Claim, Gap, Results
from vitrail.lab.outcome import FIGURE, Outcome
from vitrail.lab.statistics import mean_interval
from vitrail.page.document import resource, text
from vitrail.report.charts import Line, Plane, level, line_chart
from vitrail.report.scales import Axis, number_axis, share_axis
from vitrail.report.words import count, percent
from vitrail.report.words import figure as written
from vitrail.weights.durable import write_text

WIDTH, ROW, NAMES, MARGIN, FOOT = 520, 26, 150, 14, 34
HEAD = 40  # above each figure of the file: its caption, and which line is which
KINDS = ("second", "third", "first", "fourth", "fifth", "sixth")
STYLES = (("vitrail.page", "theme.css"), ("vitrail.report", "report.css"), ("vitrail.lab", "lab.css"))


class Panel(NamedTuple):
    """One figure with its caption; `keys` are the names of its lines and their kinds."""

    caption: str
    drawn: str
    keys: tuple[tuple[str, str], ...] = ()


def style() -> str:
    """What figures look like, alone and in the page, beside the theme."""
    return "\n".join(resource(*place) for place in STYLES[1:])


def panels(claim: Claim, results: Results) -> list[Panel]:
    """What the test is about first; then the figure that was measured, unless the first one has it."""
    if claim.reached is not None:
        return [_reached_panel(claim, results, claim.reached)]
    gaps = [_gap_panel(claim, results)] if claim.gaps else []
    return [*gaps, _shown_panel(claim, results)]


def write_figure(outcome: Outcome, root: Path) -> Path | None:
    """figure.svg beside the records, which opens by itself."""
    if outcome.results is None:
        return None
    path = root / outcome.claim.name / FIGURE
    rules = "\n".join(resource(*place) for place in STYLES)
    write_text(path, _stacked(outcome.claim.title, panels(outcome.claim, outcome.results), rules))
    return path


def _stacked(title: str, made: Sequence[Panel], rules: str) -> str:
    """All figures of a claim below one another, each with its caption and its keys."""
    parts, top = [], 0.0
    for panel in made:
        width, height = map(float, panel.drawn.split('viewBox="0 0 ', 1)[1].split('"', 1)[0].split())
        scaled = height * WIDTH / width
        place = f'<svg y="{top + HEAD:g}" width="{WIDTH}" height="{scaled:g}" '
        parts.append(_heading(panel, top) + panel.drawn.replace("<svg ", place, 1))
        top += HEAD + scaled + MARGIN
    names = f'xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{text(title)}"'
    style_of = f"<style><![CDATA[{rules}]]></style>"
    return f'<svg {names} class="plot" viewBox="0 0 {WIDTH} {top:g}">{style_of}{"".join(parts)}</svg>'


def _heading(panel: Panel, top: float) -> str:
    keys = "".join(
        f'<g class="{kind}"><line class="line" x1="{x}" x2="{x + 18}" y1="{top + 29:g}" y2="{top + 29:g}"/>'
        f'<text x="{x + 23}" y="{top + 33:g}">{text(name)}</text></g>'
        for x, (name, kind) in zip(_spread(panel.keys), panel.keys, strict=True)
    )
    return f'<text x="0" y="{top + 13:g}">{text(panel.caption)}</text>{keys}'


def _spread(keys: Sequence[tuple[str, str]]) -> list[float]:
    """Where each key begins, so that all fit beside one another."""
    lengths = [len(name) + 6 for name, _ in keys]
    return [round(WIDTH * sum(lengths[:place]) / max(80, sum(lengths)), 1) for place in range(len(keys))]


# ---- lines ----------------------------------------------------------------------------------------------------------


def series(claim: Claim) -> list[str]:
    return list(dict.fromkeys(arm.series for arm in claim.judged))


def lines(claim: Claim, results: Results) -> list[Line]:
    """One for each series, the mean over seeds with its interval as a band."""
    found = results[claim.shown]
    made = []
    for name, kind in zip(series(claim), KINDS, strict=False):
        arms = _along(claim, name)
        made.append(_line(name, kind, [_place(arm) for arm in arms], [found[arm.name] for arm in arms]))
    return made


def gap_lines(claim: Claim, results: Results) -> list[Line]:
    """One for each gap: the difference of two series by seed, with the interval of its mean as a band."""
    return [_gap_line(claim, results, gap, kind) for gap, kind in zip(claim.gaps, KINDS, strict=False)]


def _gap_line(claim: Claim, results: Results, gap: Gap, kind: str) -> Line:
    found = results[claim.shown]
    ones, others = _along(claim, gap.one), _along(claim, gap.other)
    values = [np.subtract(found[a.name], found[b.name]).tolist() for a, b in zip(ones, others, strict=True)]
    return _line(gap.name, kind, [_place(arm) for arm in ones], values)


def _line(name: str, kind: str, places: Sequence[float], values: Sequence[Sequence[float]]) -> Line:
    points = [(place, float(np.mean(row))) for place, row in zip(places, values, strict=True)]
    return Line(name, points, kind, [_band(row) for row in values])


def _along(claim: Claim, name: str) -> list[Arm]:
    return sorted((arm for arm in claim.judged if arm.series == name), key=_place)


def _place(arm: Arm) -> float:
    """On an axis of even ratios: arms are halved and doubled, not counted."""
    assert arm.x is not None
    return math.log10(arm.x)


def _band(values: Sequence[float]) -> tuple[float, float]:
    """The interval of the mean; that of two seeds, which no axis would hold, no wider than three times their range."""
    found, room = mean_interval(values), max(values) - min(values)
    if len(values) > 2:
        return found.low, found.high
    return max(found.low, min(values) - room), min(found.high, max(values) + room)


def _place_axis(claim: Claim) -> Axis:
    places = tuple(sorted({_place(arm) for arm in claim.judged}))
    return Axis(claim.x_label, places[0], places[-1], places, lambda place: written(float(f"{10**place:.4g}")))


def _value_axis(claim: Claim, values: Sequence[float]) -> Axis:
    if claim.shown == "accuracy":
        return share_axis("accuracy", [min(1.0, max(0.0, value)) for value in values])
    return number_axis(claim.shown, values)


# ---- panels ---------------------------------------------------------------------------------------------------------


def _shown_panel(claim: Claim, results: Results) -> Panel:
    seeds = len(next(iter(results[claim.shown].values())))
    caption = f"{claim.shown.replace('_', ' ')}, {count(seeds, 'seed')}, mean and 95 % interval"
    if any(arm.x is None for arm in claim.judged):
        return Panel(caption, _rows(f"{claim.title}: {caption}", claim, results))
    made = lines(claim, results)
    ends = [end for line in made for pair in line.band for end in pair]
    plane = Plane(_place_axis(claim), _value_axis(claim, ends))
    return Panel(
        caption, line_chart(f"{claim.title}: {caption}", _cut(made, plane), plane), _keys(made) if len(made) > 1 else ()
    )


def _gap_panel(claim: Claim, results: Results) -> Panel:
    made = gap_lines(claim, results)
    ends = [end for line in made for pair in line.band for end in pair]
    axis = number_axis("points of accuracy", [100 * end for end in (*ends, 0.0)])
    scaled = [_times(line, 100) for line in made]
    plane = Plane(_place_axis(claim), axis)
    caption = "difference by seed, mean and 95 % interval"
    drawn = line_chart(f"{claim.title}: {caption}", scaled, plane, marks=level(0.0, plane, "equal"))
    return Panel(caption, drawn, _keys(made))


def _times(line: Line, factor: float) -> Line:
    points = [(x, factor * y) for x, y in line.points]
    return Line(line.name, points, line.kind, [(factor * low, factor * high) for low, high in line.band])


def _cut(made: Sequence[Line], plane: Plane) -> list[Line]:
    """Bands no wider than what the axis can show: an interval of accuracies may go beyond 0 and 100 %."""
    low, high = plane.y.low, plane.y.high
    return [
        Line(line.name, line.points, line.kind, [(max(low, a), min(high, b)) for a, b in line.band]) for line in made
    ]


def _reached_panel(claim: Claim, results: Results, least: float) -> Panel:
    found, axis = results["accuracy"], _place_axis(claim)

    def cell(arm: Arm) -> Cell:
        values = np.asarray(found[arm.name])
        return Cell(float((values >= least).mean()), f"mean {percent(float(values.mean()))}")

    rows = {name: [cell(arm) for arm in _along(claim, name)] for name in series(claim)}
    caption = f"share of seeds that reach an accuracy of {percent(least, 0)}, and the mean accuracy"
    drawn = cell_map(f"{claim.title}: {caption}", rows, [axis.write(place) for place in axis.ticks], axis.label)
    return Panel(caption, drawn)


def _keys(made: Sequence[Line]) -> tuple[tuple[str, str], ...]:
    return tuple((line.name, line.kind) for line in made)


# ---- rows -----------------------------------------------------------------------------------------------------------


def _rows(label: str, claim: Claim, results: Results) -> str:
    """A row for each arm: its seeds as dots, the interval of their mean as a line."""
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
