"""What a walk is made of: steps, what can stand in a step (a picture, a table, a heat map ...), and how numbers are
written. Nothing here knows of a model, a terminal or a page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vitrail.config import Pair

Pixels = NDArray[np.uint8]
Array = NDArray[np.floating]
Picks = tuple[int | None, ...]  # indices that are shown; None: some are left out here

ROWS_SHOWN, COLUMNS_SHOWN = 17, 8  # the worked example is shown whole, anything longer as an excerpt


# ---- what a step can show -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Picture:
    """Pixels (rows x columns x 1 or 3), whole or cut into patches, one of which may be marked."""

    caption: str
    pixels: Pixels
    patch_size: Pair | None = None
    marked: int | None = None


@dataclass(frozen=True, eq=False)
class Numbers:
    """A matrix, all of it; `row_picks` and `column_picks` say which part is printed."""

    caption: str
    values: Array
    rows: tuple[str, ...]
    columns: tuple[str, ...] = ()
    keep: tuple[int, ...] = ()  # rows that an excerpt must not leave out

    @property
    def row_picks(self) -> Picks:
        return excerpt(len(self.values), ROWS_SHOWN, self.keep)

    @property
    def column_picks(self) -> Picks:
        return excerpt(self.values.shape[1], COLUMNS_SHOWN)

    @property
    def left_out(self) -> str:
        """Says that this is an excerpt, and of what; empty if it is not one."""
        whole = None not in self.row_picks and None not in self.column_picks
        return "" if whole else f"excerpt of {shape_text(*self.values.shape)}"

    @property
    def largest(self) -> float:
        return float(np.nanmax(np.abs(self.values), initial=0.0))

    @property
    def decimals(self) -> int:
        return decimals_for(self.largest)


@dataclass(frozen=True, eq=False)
class HeatMaps:
    """Attention over the patches, several maps (rows x columns each) on one picture."""

    caption: str
    titles: tuple[str, ...]
    values: tuple[Array, ...]
    pixels: Pixels
    patch_size: Pair


@dataclass(frozen=True, eq=False)
class Relation:
    """How much each token (row) attends to each (column), as colours; the last columns are the patches of a picture."""

    caption: str
    values: Array
    labels: tuple[str, ...]
    pixels: Pixels
    patch_size: Pair


@dataclass(frozen=True, eq=False)
class Bars:
    """Probabilities, the largest first."""

    caption: str
    labels: tuple[str, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class Sum:
    """One number of the step, worked out."""

    caption: str
    line: str


Exhibit = Picture | Numbers | HeatMaps | Relation | Bars | Sum


@dataclass(frozen=True)
class Step:
    """One stage: which part of the model, what happens (words, equation), what comes out (shape, exhibits)."""

    part: str
    title: str
    equation: str  # in the notation of walk_equations; empty if there is none
    words: str
    shape: str
    axes: str
    exhibits: tuple[Exhibit, ...] = ()


@dataclass(frozen=True)
class Walk:
    """All steps, and what they lead to: the classes with their probabilities, largest first (none without a head)."""

    name: str
    model: str
    picture: Picture
    steps: tuple[Step, ...]
    ranking: tuple[tuple[str, float], ...]


# ---- how numbers are written --------------------------------------------------------------------------------------


def excerpt(count: int, limit: int, keep: Sequence[int] = ()) -> Picks:
    """All indices if they are few; otherwise the first ones, those to keep and the last, with gaps between."""
    if count <= limit:
        return tuple(range(count))
    chosen = sorted({*range(min(limit, 8) - 2), *keep, count - 1})
    picks: list[int | None] = []
    for index in chosen:
        if picks and index - 1 != picks[-1]:
            picks.append(None)
        picks.append(index)
    return tuple(picks)


def decimals_for(largest: float) -> int:
    """Two, unless the numbers are so small that they would look like zeros, or so large that nobody wants them."""
    if not math.isfinite(largest) or largest == 0 or 0.3 <= largest < 100:
        return 2
    return min(6, max(0, 2 - math.floor(math.log10(largest))))


def number(value: float, decimals: int = 2) -> str:
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def percent(value: float) -> str:
    return f"{value:.1%}"


def shape_text(*sizes: int) -> str:
    return " × ".join(str(size) for size in sizes)


def terms(a: Array, b: Array, limit: int = 4) -> str:
    """The beginning of a sum of products: `0.53 × 0.20 + -0.10 × 1.20 + …`."""
    shown = " + ".join(f"{factor(x)} × {factor(y)}" for x, y in zip(a[:limit], b[:limit], strict=True))
    return shown + (" + …" if len(a) > limit else "")


def factor(value: float) -> str:
    shown = number(value)
    return f"({shown})" if shown.startswith("-") else shown
