"""Charts as inline SVG: pure functions of numbers. Colours come from the page's style, by class.

Places are in units of the chart's own box, which the page scales to the width there is. A shape with a `<title>` says
what it shows when pointed at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from vitrail.evaluate.evaluation import Bin
from vitrail.page.document import text
from vitrail.report.scales import Axis, number_axis, share_axis
from vitrail.report.words import percent

WIDTH, HEIGHT, LOW = 440, 270, 160
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 12, 44  # margins, which hold the ticks and labels
DOTTED = 40  # points, up to which each one is marked
LARGEST_DOT = 13.0

Point = tuple[float, float]


@dataclass(frozen=True)
class Plane:
    """Two axes and the box they are drawn in."""

    x: Axis
    y: Axis
    height: int = HEIGHT

    @property
    def bottom(self) -> int:
        return self.height - BOTTOM

    def across(self, value: float) -> float:
        return round(LEFT + self.x.share(value) * (WIDTH - LEFT - RIGHT), 1)

    def up(self, value: float) -> float:
        return round(self.bottom - self.y.share(value) * (self.bottom - TOP), 1)

    def at(self, point: Point) -> str:
        return f"{self.across(point[0])},{self.up(point[1])}"


@dataclass(frozen=True)
class Line:
    """Points from left to right. `kind` is its class in the style; `band` is a low and a high around each point."""

    name: str
    points: Sequence[Point]
    kind: str
    band: Sequence[Point] = ()


def line_chart(label: str, lines: Sequence[Line], plane: Plane, *, marks: str = "") -> str:
    """Lines over two axes; pointing anywhere tells the values of all lines there. `marks` is more to draw on it."""
    bands = "".join(_band(line, plane) for line in lines if line.band)
    drawn = "".join(_line(line, plane) for line in lines)
    return _framed(label, plane, bands + drawn + marks + _columns(lines, plane))


def level(value: float, plane: Plane, name: str) -> str:
    """A dashed line across the chart, with its name on it."""
    place = plane.up(value)
    words = place - 5 if plane.y.share(value) <= 0.9 else place + 13  # below only where there is no room above
    return (
        f'<line class="level" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{place}" y2="{place}"/>'
        f'<text class="note" text-anchor="end" x="{WIDTH - RIGHT - 4}" y="{_n(words)}">{text(name)}</text>'
    )


def threshold(point: Point, plane: Plane, name: str) -> str:
    """A dashed line down from a point of a curve, with its name at its foot."""
    x, y = plane.across(point[0]), plane.up(point[1])
    anchor, words = ("end", x - 6) if plane.x.share(point[0]) > 0.5 else ("start", x + 6)
    return (
        f'<line class="level" x1="{x}" x2="{x}" y1="{y}" y2="{plane.bottom}"/>'
        f'<circle class="dot mark" cx="{x}" cy="{y}" r="4.5"/>'
        f'<text class="note" text-anchor="{anchor}" x="{_n(words)}" y="{plane.bottom - 8}">{text(name)}</text>'
    )


def reliability_chart(label: str, groups: Sequence[tuple[str, str, Sequence[Bin]]]) -> str:
    """Groups of (name, kind, bins): how sure against how often right. On the diagonal, the two are the same."""
    plane = Plane(share_axis("how sure it says it is"), share_axis("how often it is right"))
    most = max((bin.count for _, _, bins in groups for bin in bins), default=1)
    diagonal = f'<polyline class="level" points="{plane.at((0, 0))} {plane.at((1, 1))}"/>'
    drawn = "".join(_bins(name, kind, bins, most, plane) for name, kind, bins in groups)
    return _framed(label, plane, diagonal + drawn)


def _bins(name: str, kind: str, bins: Sequence[Bin], most: int, plane: Plane) -> str:
    filled = [bin for bin in bins if bin.count]
    path = " ".join(plane.at((bin.confidence, bin.accuracy)) for bin in filled)
    dots = "".join(
        f'<circle class="dot" cx="{plane.across(bin.confidence)}" cy="{plane.up(bin.accuracy)}" '
        f'r="{_n(max(2.5, LARGEST_DOT * math.sqrt(bin.count / most)))}"><title>{text(name)}: {bin.count:,} answers, '
        f"{percent(bin.confidence)} sure, {percent(bin.accuracy)} right</title></circle>"
        for bin in filled
    )
    return f'<g class="{kind}"><polyline class="line" points="{path}"/>{dots}</g>'


def column_chart(label: str, names: Sequence[str], counts: Sequence[int], y_label: str, x_label: str) -> str:
    """A column for each of many things, largest first."""
    order = np.argsort(-np.asarray(counts), kind="stable")
    plane = Plane(Axis(x_label, 0, len(counts), (), str), number_axis(y_label, counts, from_zero=True), LOW)
    width = (WIDTH - LEFT - RIGHT) / len(counts)
    columns = "".join(
        f'<rect class="column" x="{plane.across(place)}" y="{plane.up(counts[i])}" width="{width * 0.86:.2f}" '
        f'height="{_n(plane.bottom - plane.up(counts[i]))}"><title>{text(names[i])}: {counts[i]:,}</title></rect>'
        for place, i in enumerate(order)
    )
    return _framed(label, plane, columns)


def heat_map(label: str, confusion: Sequence[Sequence[int]], classes: Sequence[str], cells: int) -> str:
    """K x K counts, rows true and columns predicted, as strong as their share of the row; the `cells` largest ones."""
    matrix = np.asarray(confusion)
    rows, columns = np.nonzero(matrix)
    order = np.argsort(-matrix[rows, columns], kind="stable")[:cells]
    totals, size = np.maximum(matrix.sum(axis=1), 1), len(matrix)
    drawn = []
    for i, j in zip(rows[order].tolist(), columns[order].tolist(), strict=True):
        kind, strength = "right" if i == j else "wrong", math.sqrt(matrix[i, j] / totals[i])
        said = text(classes[i]) if i == j else f"{text(classes[i])} taken for {text(classes[j])}"
        drawn.append(
            f'<rect class="{kind}" x="{j}" y="{i}" width="1" height="1" fill-opacity="{max(0.15, strength):.2f}">'
            f"<title>{said}: {matrix[i, j]} of {totals[i]}</title></rect>"
        )
    ground = f'<rect class="ground" width="{size}" height="{size}"/>'
    return f'<svg class="confusions" {_role(label)} viewBox="0 0 {size} {size}">{ground}{"".join(drawn)}</svg>'


def window(label: str, filled: int, total: int) -> str:
    """Panes of glass in lead, `filled` of `total` of them in colour."""
    columns = {100: 10, 1000: 40}[total]
    pitch, side = 10, 9
    panes = []
    for index in range(total):
        row, column = divmod(index, columns)
        kind = f"glass-{(row * row * 2 + row + column * 3) % 7}" if index < filled else "broken"
        place = f'x="{column * pitch}" y="{row * pitch}" width="{side}" height="{side}"'
        panes.append(f'<rect class="pane {kind}" {place}/>')
    box = f"-1 -1 {columns * pitch + 1} {total // columns * pitch + 1}"
    return f'<svg {_role(label)} viewBox="{box}">{"".join(panes)}</svg>'


# ---- frame and lines ----------------------------------------------------------------------------------------------


def _framed(label: str, plane: Plane, inside: str) -> str:
    x, y, bottom = plane.x, plane.y, plane.bottom
    across = "".join(
        f'<text class="tick" x="{plane.across(tick)}" y="{bottom + 16}">{text(x.write(tick))}</text>'
        for tick in x.ticks
    )
    up = "".join(
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{plane.up(tick)}" y2="{plane.up(tick)}"/>'
        f'<text class="tick up" x="{LEFT - 7}" y="{plane.up(tick)}">{text(y.write(tick))}</text>'
        for tick in y.ticks
    )
    names = (
        f'<text class="axis" x="{(LEFT + WIDTH - RIGHT) / 2:g}" y="{plane.height - 8}">{text(x.label)}</text>'
        f'<text class="axis" transform="translate(9 {(TOP + bottom) / 2:g}) rotate(-90)">{text(y.label)}</text>'
    )
    base = f'<line class="base" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}"/>'
    box = f'viewBox="0 0 {WIDTH} {plane.height}"'
    return f'<svg class="plot" {_role(label)} {box}>{up}{base}{across}{names}{inside}</svg>'


def _line(line: Line, plane: Plane) -> str:
    path = " ".join(map(plane.at, line.points))
    marked = line.points if len(line.points) <= DOTTED and not line.band else ()
    dots = "".join(f'<circle class="dot" cx="{plane.across(a)}" cy="{plane.up(b)}" r="2.6"/>' for a, b in marked)
    return f'<g class="{line.kind}"><polyline class="line" points="{path}"/>{dots}</g>'


def _band(line: Line, plane: Plane) -> str:
    low = [plane.at((a, b)) for (a, _), (b, _) in zip(line.points, line.band, strict=True)]
    high = [plane.at((a, b)) for (a, _), (_, b) in zip(line.points, line.band, strict=True)]
    return f'<g class="{line.kind}"><polygon class="band" points="{" ".join(low + high[::-1])}"/></g>'


def _columns(lines: Sequence[Line], plane: Plane) -> str:
    """Invisible columns, one around each place of the line with most points, that tell the nearest values."""
    places = sorted({a for a, _ in max((line.points for line in lines), key=len)})
    edges = [plane.x.low, *((a + b) / 2 for a, b in pairwise(places)), plane.x.high]
    return "".join(_column(place, edges[i : i + 2], lines, plane) for i, place in enumerate(places))


def _column(place: float, edges: Sequence[float], lines: Sequence[Line], plane: Plane) -> str:
    nearest = [(line, min(line.points, key=lambda point: abs(point[0] - place))) for line in lines]
    said = ", ".join(f"{line.name} {plane.y.write(round(b, 4))}" for line, (_, b) in nearest)
    left, right = map(plane.across, edges)
    dots = "".join(
        f'<circle class="dot {line.kind}" cx="{plane.across(a)}" cy="{plane.up(b)}" r="4"/>' for line, (a, b) in nearest
    )
    hit = f'<rect class="hit" x="{left}" y="{TOP}" width="{_n(right - left)}" height="{plane.bottom - TOP}"/>'
    rule = f'<line class="rule" x1="{plane.across(place)}" x2="{plane.across(place)}" y1="{TOP}" y2="{plane.bottom}"/>'
    return (
        f'<g class="at"><title>{text(f"{plane.x.label} {plane.x.write(place)}: {said}")}</title>{hit}{rule}{dots}</g>'
    )


def _role(label: str) -> str:
    return f'role="img" aria-label="{text(label)}"'


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
