"""A walk in the terminal: panels, coloured tables, pictures of half-blocks. Without colours everything is characters.

A colour cell is 24 bits and carries its own ink, so that it reads the same on a dark and on a light terminal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from PIL import Image
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.style import Style
from rich.text import Text

from vitrail.errors import one_line
from vitrail.explain.walk_equations import text_of
from vitrail.explain.walk_parts import (
    Bars,
    Exhibit,
    HeatMaps,
    Numbers,
    Picture,
    Pixels,
    Relation,
    Step,
    Sum,
    Walk,
    number,
    percent,
)

WIDEST = 110
PICTURE_WIDTH = 32  # characters a small picture is enlarged to
LARGEST_PICTURE = 64  # and a large one is shrunk to

INK, PAPER = (24, 24, 32), (246, 244, 238)
PLUS, MINUS, HEAT, FRAME = (70, 130, 200), (226, 120, 60), (214, 69, 65), (226, 60, 50)
SHADES = " .:-=+*#%@"  # from light to dark

Colour = tuple[int, int, int]


def show(walk: Walk, console: Console) -> None:
    """Print the whole walk, at most 110 columns wide."""
    painter = Painter(colours=console.color_system is not None and not console.no_color)
    width = min(console.width, WIDEST)
    console.print(painter.opening(walk), width=width)
    count = 0
    for part, steps in groupby(walk.steps, key=lambda step: step.part):
        console.print(Rule(Text(part, "bold"), style="dim"), width=width)
        for step in steps:
            count += 1
            console.print(painter.step(step, count), width=width)
    console.print(painter.ending(walk), width=width)


@dataclass(frozen=True)
class Painter:
    """Turns the parts of a walk into what rich can print, with colours or with characters alone."""

    colours: bool

    def opening(self, walk: Walk) -> RenderableType:
        title = Text.assemble(("A walk through a Vision Transformer", "bold"), "\n", (safe(walk.name), "italic"))
        note = Text("Every number is computed by this model from this picture, and rounded only to be shown.", "dim")
        return Padding(Group(title, Text(walk.model, "dim"), note), (1, 2))

    def ending(self, walk: Walk) -> RenderableType:
        if not walk.ranking:
            return Padding(Text("The features above are the model’s answer: it has no head."), (0, 2, 1, 2))
        label, share = walk.ranking[0]
        return Padding(Text.assemble("The model says ", (safe(label), "bold"), f", {percent(share)}."), (0, 2, 1, 2))

    def step(self, step: Step, count: int) -> RenderableType:
        body: list[RenderableType] = [Text(text_of(step.equation), "bold cyan"), Text(""), Text(safe(step.words))]
        body += [Columns([self.exhibit(exhibit) for exhibit in row], padding=(0, 4)) for row in _beside(step.exhibits)]
        title = Text.assemble((f" {count} ", "bold reverse"), (f" {step.title} ", "bold"))
        shape = Text.assemble((step.shape, "bold green"), (f"  {step.axes}", "dim"))
        return Panel(
            Group(*body), title=title, title_align="left", subtitle=shape, subtitle_align="right", padding=(1, 2)
        )

    def exhibit(self, exhibit: Exhibit) -> RenderableType:
        left_out = exhibit.left_out if isinstance(exhibit, Numbers) else ""
        caption = Text.assemble((safe(exhibit.caption), "italic"), (f"  ({left_out})" if left_out else "", "dim"))
        return Group(Text(""), caption, self._drawn(exhibit))

    def _drawn(self, exhibit: Exhibit) -> RenderableType:
        match exhibit:
            case Picture():
                return self.canvas(*_spread(exhibit, enlarge=self.colours))
            case Numbers():
                return self.table(exhibit)
            case HeatMaps():
                return Columns([self.heat(exhibit, i) for i in range(len(exhibit.titles))], padding=(1, 3))
            case Relation():
                return self.relation(exhibit)
            case Bars():
                return self.bars(exhibit)
            case Sum():
                return Text(safe(exhibit.line), "yellow")

    # ---- pictures

    def canvas(self, pixels: Pixels, kind: Pixels) -> Text:
        """Pixels (rows x columns x 3) where `kind` is 1; nothing where it is 0, a frame where it is 2."""
        return self._half_blocks(pixels, kind) if self.colours else _characters(pixels, kind)

    def _half_blocks(self, pixels: Pixels, kind: Pixels) -> Text:
        """Two rows of pixels in one row of text: the upper in the ink's colour, the lower in the paper's."""
        text = Text(no_wrap=True)
        for y in range(0, len(pixels), 2):
            for x in range(pixels.shape[1]):
                text.append(*_half_block(*(_pixel(pixels, kind, row, x) for row in (y, y + 1))))
            text.append("\n")
        return _without_last_newline(text)

    # ---- tables

    def table(self, table: Numbers) -> Text:
        label_width = max(len(_clipped(name)) for name in table.rows) + 1
        heads = [table.columns[j] if j is not None else "…" for j in table.column_picks] if table.columns else []
        cell = max(7, *(len(safe(head)) + 1 for head in heads), _widest(table) + 2)
        text = Text(no_wrap=True)
        if heads:
            text.append(" " * label_width + "".join(safe(head).rjust(cell) for head in heads) + "\n", "dim")
        for i in table.row_picks:
            text.append((_clipped(table.rows[i]) if i is not None else "…").ljust(label_width), "dim")
            for j in table.column_picks:
                text.append(*self._cell(table, i, j, cell))
            text.append("\n")
        return _without_last_newline(text)

    def _cell(self, table: Numbers, i: int | None, j: int | None, width: int) -> tuple[str, Style | None]:
        if i is None or j is None:
            return "…".rjust(width - 1) + " ", Style(dim=True)
        value = float(table.values[i, j])
        shown = number(value, table.decimals).rjust(width - 1) + " "
        towards = PLUS if value >= 0 else MINUS
        return shown, self._on(towards, abs(value) / (table.largest or 1) * 0.85)

    def _on(self, towards: Colour, amount: float) -> Style | None:
        """Paper that has taken on some colour, with dark ink on it."""
        return _style(INK, _blend(PAPER, towards, amount)) if self.colours else None

    # ---- attention

    def heat(self, maps: HeatMaps, index: int) -> Text:
        values = maps.values[index]
        top, few = float(values.max()) or 1.0, values.shape[1] <= 8
        text = Text.assemble((maps.titles[index] + "\n", "dim"), no_wrap=True)
        for row in values:
            for value in row:
                share = float(value) / top
                shown = f"{value:5.0%} " if few else "  " if self.colours else _shade(share) * 2
                text.append(shown, self._on(HEAT, share))
            text.append("\n")
        return _without_last_newline(text)

    def relation(self, relation: Relation) -> Text:
        top, width = float(relation.values.max()) or 1.0, max(len(name) for name in relation.labels) + 1
        text = Text(no_wrap=True)
        for name, row in zip(relation.labels, relation.values, strict=True):
            text.append(name.ljust(width), "dim")
            for value in row:
                share = float(value) / top
                text.append("  " if self.colours else _shade(share) * 2, self._on(HEAT, share))
            text.append("\n")
        return _without_last_newline(text)

    def bars(self, bars: Bars) -> Text:
        width = max(len(_clipped(label)) for label in bars.labels)
        text = Text(no_wrap=True, overflow="ellipsis")
        for label, value in zip(bars.labels, bars.values, strict=True):
            text.append(f"{_clipped(label).ljust(width)}  {percent(value):>6}  ")
            text.append("█" * max(1, round(value * 40)) + "\n", "bold green" if value == max(bars.values) else "dim")
        return _without_last_newline(text)


def safe(text: str) -> str:
    """Names come from files: without control characters, so that none can move the cursor."""
    return one_line(text)


def _without_last_newline(text: Text) -> Text:
    text.right_crop(1)
    return text


def _clipped(label: str, most: int = 32) -> str:
    shown = safe(label)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def _beside(exhibits: tuple[Exhibit, ...]) -> Iterator[list[Exhibit]]:
    """Tables and pictures stand side by side where there is room; the rest on lines of its own."""
    for alone, group in groupby(exhibits, key=lambda exhibit: not isinstance(exhibit, Numbers | Picture)):
        if alone:
            yield from ([exhibit] for exhibit in group)
        else:
            yield list(group)


def _widest(table: Numbers) -> int:
    shown = [(i, j) for i in table.row_picks for j in table.column_picks if i is not None and j is not None]
    return max(len(number(float(table.values[i, j]), table.decimals)) for i, j in shown)


def _spread(picture: Picture, enlarge: bool) -> tuple[Pixels, Pixels]:
    """The picture at a size for the terminal, with gaps between its patches, and what each pixel is (see canvas)."""
    rgb = np.broadcast_to(picture.pixels, (*picture.pixels.shape[:2], 3))
    if picture.patch_size is None:
        pixels = _scaled(rgb, _enlargement(rgb.shape[1], 4 if enlarge else 1))
        return pixels, np.ones(pixels.shape[:2], np.uint8)
    (p, q), (height, width) = picture.patch_size, rgb.shape[:2]
    rows, columns = height // p, width // q
    tile = _tile_size(p, q, columns, 2 if enlarge else 1)
    pixels = np.zeros((rows * (tile[0] + 1) + 1, columns * (tile[1] + 1) + 1, 3), np.uint8)
    kind = np.zeros(pixels.shape[:2], np.uint8)
    for index in range(rows * columns):
        row, column = divmod(index, columns)
        y, x = row * (tile[0] + 1), column * (tile[1] + 1)
        if index == picture.marked:
            kind[y : y + tile[0] + 2, x : x + tile[1] + 2] = 2
        here = slice(y + 1, y + 1 + tile[0]), slice(x + 1, x + 1 + tile[1])
        pixels[here] = _resized(rgb[row * p : (row + 1) * p, column * q : (column + 1) * q], tile)
        kind[here] = 1
    return pixels, kind


def _enlargement(width: int, most: int) -> float:
    return min(most, PICTURE_WIDTH // width) if width <= PICTURE_WIDTH else min(1.0, LARGEST_PICTURE / width)


def _tile_size(p: int, q: int, columns: int, most: int) -> tuple[int, int]:
    across = max(1, min(most * q, LARGEST_PICTURE // columns - 1))
    return max(1, round(across * p / q)), across


def _scaled(rgb: Pixels, factor: float) -> Pixels:
    height, width = (max(1, round(side * factor)) for side in rgb.shape[:2])
    return _resized(rgb, (height, width))


def _resized(rgb: Pixels, size: tuple[int, int]) -> Pixels:
    """Enlarged pixels stay squares; shrunk ones are averaged."""
    method = Image.Resampling.NEAREST if size[0] >= rgb.shape[0] else Image.Resampling.BOX
    return np.asarray(Image.fromarray(np.ascontiguousarray(rgb)).resize(size[::-1], method))


def _pixel(pixels: Pixels, kind: Pixels, y: int, x: int) -> Colour | None:
    if y >= len(pixels) or kind[y, x] == 0:
        return None
    return FRAME if kind[y, x] == 2 else (int(pixels[y, x, 0]), int(pixels[y, x, 1]), int(pixels[y, x, 2]))


def _half_block(upper: Colour | None, lower: Colour | None) -> tuple[str, Style | None]:
    if upper is None and lower is None:
        return " ", None
    return ("▄", _style(lower, None)) if upper is None else ("▀", _style(upper, lower))


def _characters(pixels: Pixels, kind: Pixels) -> Text:
    """Darker characters for darker pixels. A character is twice as high as wide: two a pixel, or every second row."""
    step = 1 if pixels.shape[1] <= 36 else 2
    lines = []
    for y in range(0, len(pixels), step):
        row = (_character(pixels[y, x], int(kind[y, x])) for x in range(pixels.shape[1]))
        lines.append("".join(shown * (2 if step == 1 else 1) for shown in row).rstrip())
    return Text("\n".join(lines), no_wrap=True)


def _character(pixel: Pixels, kind: int) -> str:
    return " " if kind == 0 else "o" if kind == 2 else _shade(1 - float(pixel.mean()) / 255)


def _shade(amount: float) -> str:
    return SHADES[round(min(1.0, max(0.0, amount)) * (len(SHADES) - 1))]


def _blend(a: Colour, b: Colour, amount: float) -> Colour:
    red, green, blue = (round(x + (y - x) * min(1.0, max(0.0, amount))) for x, y in zip(a, b, strict=True))
    return red, green, blue


def _style(ink: Colour | None, paper: Colour | None) -> Style:
    return Style(color=_hex(ink), bgcolor=_hex(paper))


def _hex(colour: Colour | None) -> str | None:
    return None if colour is None else "#{:02x}{:02x}{:02x}".format(*colour)
