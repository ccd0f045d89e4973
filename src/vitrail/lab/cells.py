"""A table of shares as SVG: a row of cells for each series, as strong in colour as their share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from vitrail.page.document import text
from vitrail.report.words import percent

WIDTH, NAMES, HEAD, ROW, GAP = 520, 150, 36, 40, 3
FAINTEST = 0.06  # of the colour, so that a share of 0 is still a cell
LIGHT_FROM = 0.55  # of the colour, from which on words on it are light


class Cell(NamedTuple):
    """A share of 0 to 1, and a note to write below it."""

    share: float
    note: str


def cell_map(label: str, rows: Mapping[str, Sequence[Cell]], columns: Sequence[str], column_label: str) -> str:
    """Rows by name, each with a cell for every column."""
    width = (WIDTH - NAMES) / len(columns)
    head = "".join(
        f'<text class="tick" x="{NAMES + width * (place + 0.5):g}" y="30">{text(name)}</text>'
        for place, name in enumerate(columns)
    )
    above = f'<text class="axis" x="{(NAMES + WIDTH) / 2:g}" y="12">{text(column_label)}</text>'
    body = "".join(_row(name, cells, HEAD + ROW * place, width) for place, (name, cells) in enumerate(rows.items()))
    box = f'viewBox="0 0 {WIDTH} {HEAD + ROW * len(rows)}"'
    return f'<svg class="plot" role="img" aria-label="{text(label)}" {box}>{above}{head}{body}</svg>'


def _row(name: str, cells: Sequence[Cell], y: float, width: float) -> str:
    drawn = "".join(_cell(cell, NAMES + width * place, y, width) for place, cell in enumerate(cells))
    return f'<text class="tick up" x="{NAMES - 10}" y="{y + ROW / 2:g}">{text(name)}</text>{drawn}'


def _cell(cell: Cell, x: float, y: float, width: float) -> str:
    kind = "cell light" if cell.share >= LIGHT_FROM else "cell"
    middle = x + width / 2
    return (
        f'<g class="{kind}"><rect x="{x + GAP / 2:g}" y="{y + GAP / 2:g}" width="{width - GAP:g}" '
        f'height="{ROW - GAP}" rx="3" fill-opacity="{max(FAINTEST, cell.share):.2f}"/>'
        f'<text class="tick" x="{middle:g}" y="{y + 17:g}">{percent(cell.share, 0)}</text>'
        f'<text class="tick" x="{middle:g}" y="{y + 31:g}">{text(cell.note)}</text></g>'
    )
