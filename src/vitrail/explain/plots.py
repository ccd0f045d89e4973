"""Pictures of maps as PNG files. The only place that imports matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from vitrail.errors import one_line
from vitrail.explain.methods import scaled
from vitrail.explain.study import MOST_SHOWN, Finding, Study, ranking
from vitrail.weights.durable import write_atomically

COLOURS = "inferno"
INK, SOFT, WARNING = "#1d2033", "#5d6075", "#a8283a"
FONT: dict[str, Any] = {"family": ["DejaVu Sans"], "parse_math": False}  # a class may be called $10
ACROSS, CELL, GAP, EDGE = 3, 3.0, 0.22, 0.22  # a contact sheet: pictures a row; widths in inches
HEAD, FOOT, LINE = 0.8, 0.5, 0.17  # inches above the pictures and below, and of a line of words


def write_overlay(path: Path, study: Study, found: Finding) -> None:
    """The picture beside the picture under its map, with what it was taken for and how far the map can be trusted."""
    rows, columns = study.pixels.shape[:2]
    width = 7.4
    each = (width - 1.2) / 2
    figure = Figure(figsize=(width, each * rows / columns + 1.25), facecolor="white")
    plain, covered = figure.subplots(1, 2, gridspec_kw={"wspace": 0.04})
    figure.subplots_adjust(
        left=0.02, right=0.9, top=1 - 0.78 / figure.get_figheight(), bottom=0.38 / figure.get_figheight()
    )
    shown = _show(plain, covered, study, found)
    _colour_bar(figure, shown, covered)
    _words(figure, study, found)
    _save(path, figure)


def _show(plain: Any, covered: Any, study: Study, found: Finding) -> Any:
    """The picture, and the picture under its map; what it returns is what a scale of colours is made from."""
    rows, columns = study.pixels.shape[:2]
    shown_as = "nearest" if max(rows, columns) <= 64 else "antialiased"
    plain.imshow(seen(study.pixels), interpolation=shown_as)
    # Grey under the map, so that colour means heat.
    covered.imshow(seen(study.pixels).mean(axis=2), cmap="gray", vmin=0, vmax=255, interpolation=shown_as)
    for axes in (plain, covered):
        axes.set_axis_off()
    heat = scaled(found.explanation.enlarged((rows, columns)))
    return covered.imshow(heat, cmap=COLOURS, alpha=0.35 + 0.45 * heat, vmin=0, vmax=1)


def _colour_bar(figure: Figure, shown: Any, beside: Any) -> None:
    place = beside.get_position()
    bar = figure.colorbar(shown, cax=figure.add_axes((place.x1 + 0.015, place.y0, 0.016, place.height)))
    assert bar.solids is not None
    bar.solids.set_alpha(1)
    bar.set_ticks([0, 1], labels=["least", "most"])
    bar.ax.tick_params(length=0, labelsize=8, labelcolor=SOFT)
    bar.outline.set_visible(False)


def _words(figure: Figure, study: Study, found: Finding) -> None:
    height = figure.get_figheight()
    label, probability, taken = _answer(study)
    title = f"{_short(label, 44)}  {probability}"
    figure.text(0.02, 1 - 0.2 / height, title, size=13, weight="bold", color=INK, va="top", **FONT)
    line = f"{found.explanation.method}  ·  {_short(taken + Path(study.name).name, 80)}"
    figure.text(0.02, 1 - 0.5 / height, line, size=9, color=SOFT, va="top", **FONT)
    if found.trust is not None:
        colour = SOFT if found.trust.better_than_random else WARNING
        said = f"This map is {found.trust.words} (score {found.trust.score:+.2f})"
        figure.text(0.02, 0.14 / height, said, size=9, color=colour, va="bottom", **FONT)


def _answer(study: Study) -> tuple[str, str, str]:
    """The class that is explained, its probability, and what the picture was taken for where that is another."""
    is_answer = study.label == study.prediction.label
    label = study.label if is_answer else f"Why {study.label}"
    taken = "" if is_answer else f"taken for {study.prediction.label}  ·  "
    return label, f"{100 * study.probability:.1f} %", taken


def write_contact_sheet(path: Path, studies: Sequence[Study], source: str) -> None:
    _save(path, contact_sheet(studies, source))


def contact_sheet(studies: Sequence[Study], source: str) -> Figure:
    """Many pictures in one, each beside its map by one method, with one scale for all; `source` is the model."""
    shown, findings = studies[:MOST_SHOWN], _by_best_method(studies)[:MOST_SHOWN]
    columns = min(ACROSS, len(shown))
    # Pictures of several shapes get the room of the highest; an extreme one is shown smaller.
    shape = min(2.0, max(0.4, *(study.pixels.shape[0] / study.pixels.shape[1] for study in shown)))
    room = CELL / 2 * shape + (2 + max(len(_verdict(found)) for found in findings)) * LINE + GAP
    width = 2 * EDGE + columns * (CELL + GAP) - GAP
    sheet = _Sheet(width, HEAD + -(-len(shown) // columns) * room + FOOT)
    for number, (study, found) in enumerate(zip(shown, findings, strict=True)):
        row, column = divmod(number, columns)
        _cell(sheet, EDGE + column * (CELL + GAP), HEAD + row * room, shape, study, found)
    of = f"the first {len(shown)} of {len(studies):,}" if len(shown) < len(studies) else f"{len(shown)}"
    model, by = "/".join(Path(source).parts[-3:]), f", explained by {findings[0].explanation.method}"
    sheet.write(EDGE, 0.2, width - 2 * EDGE, model, by, size=13, weight="bold", color=INK)
    about = f"{of} pictures, each beside where its answer comes from"
    sheet.write(EDGE, 0.48, width - 2 * EDGE, about, size=9, color=SOFT)
    _scale_for_all(sheet)
    return sheet.figure


class _Sheet:
    """A white sheet measured in inches from its top left corner."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self.figure = Figure(figsize=(width, height), facecolor="white")
        FigureCanvasAgg(self.figure)  # which can tell how wide words are

    def place(self, left: float, top: float, width: float, height: float) -> tuple[float, float, float, float]:
        """Left, bottom, width and height as shares of the sheet."""
        return left / self.width, 1 - (top + height) / self.height, width / self.width, height / self.height

    def write(self, left: float, top: float, width: float, words: str, end: str = "", **style: Any) -> None:
        """One line; of `words` as much as fits before `end`."""
        plain = _short(words, 200)
        line = self.figure.text(left / self.width, 1 - top / self.height, plain + end, va="top", **style, **FONT)
        while plain and (wide := line.get_window_extent().width / self.figure.dpi) > width:
            plain = plain[: min(len(plain) - 1, round(len(plain) * width / wide))]
            line.set_text(f"{plain}…{end}")


def _by_best_method(studies: Sequence[Study]) -> list[Finding]:
    """Of each picture the map by the method that is most faithful over all of them; untried, by the first."""
    ranks = ranking(studies)
    best = ranks[0].method if ranks else studies[0].findings[0].explanation.method
    return [next(found for found in study.findings if found.explanation.method == best) for study in studies]


def _cell(sheet: _Sheet, left: float, top: float, shape: float, study: Study, found: Finding) -> None:
    """One picture beside its map, and what there is to say of it below."""
    side, beside = CELL / 2, 0.03
    places = [sheet.place(x, top, side - beside, side * shape) for x in (left, left + side + beside)]
    plain, covered = map(sheet.figure.add_axes, places)
    _show(plain, covered, study, found)
    below = top + side * shape + 0.05
    label, probability, taken = _answer(study)
    sheet.write(left, below, CELL, label, f"  {probability}", size=9, weight="bold", color=INK)
    sheet.write(left, below + LINE, CELL, f"{taken}{Path(study.name).name}", size=7.5, color=SOFT)
    doubted = found.trust is not None and not found.trust.better_than_random
    for number, line in enumerate(_verdict(found)):
        colour = WARNING if doubted or number else SOFT  # a second line is a doubt, too
        sheet.write(left, below + (2 + number) * LINE, CELL, line, size=7.5, color=colour)


def _scale_for_all(sheet: _Sheet) -> None:
    top, room = sheet.height - 0.38, sheet.width - 2 * EDGE
    bar = sheet.figure.add_axes(sheet.place(EDGE + 0.4, top, 1.6, 0.11))
    bar.imshow(np.linspace(0, 1, 256)[None], cmap=COLOURS, aspect="auto")
    bar.set_axis_off()
    words = "most      how much a place did for the answer, each map on its own scale"
    sheet.write(EDGE, top - 0.02, 0.4, "least", size=8, color=SOFT)
    sheet.write(EDGE + 2.1, top - 0.02, room - 2.1, words, size=8, color=SOFT)


def _verdict(found: Finding) -> list[str]:
    """How far a map can be trusted, in lines short enough for a cell of the sheet."""
    if found.trust is None:
        return ["not tried"]
    first, *more = found.trust.words.split(", ")
    return [f"{first} (score {found.trust.score:+.2f})", *more]


def write_heads(path: Path, heads: NDArray[np.float32], title: str) -> None:
    """Every head of every layer in one picture: a row a layer, a column a head (layers x heads x rows x columns)."""
    layers, count, rows, columns = heads.shape
    cell = min(1.0, 12 / count)
    size = (cell * count + 0.8, cell * rows / columns * layers + 0.9)
    figure = Figure(figsize=size, facecolor="white")
    grid = figure.subplots(layers, count, squeeze=False, gridspec_kw={"wspace": 0.05, "hspace": 0.05})
    figure.subplots_adjust(left=0.6 / size[0], right=1 - 0.1 / size[0], top=1 - 0.75 / size[1], bottom=0.1 / size[1])
    for layer, row in enumerate(grid):
        for head, axes in enumerate(row):
            axes.imshow(scaled(heads[layer, head]), cmap=COLOURS, vmin=0, vmax=1, interpolation="nearest")
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
        row[0].set_ylabel(f"layer {layer + 1}", rotation=0, ha="right", va="center", size=8, color=SOFT)
    for head, axes in enumerate(grid[0]):
        axes.set_title(f"head {head + 1}" if cell > 0.6 else f"{head + 1}", size=8, color=SOFT, pad=3)
    figure.text(
        0.1 / size[0], 1 - 0.14 / size[1], _short(title, 70), size=10, weight="bold", color=INK, va="top", **FONT
    )
    _save(path, figure)


def seen(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """What can be shown of any number of channels (rows x columns x 3)."""
    return pixels[..., :3] if pixels.shape[2] >= 3 else np.repeat(pixels[..., :1], 3, axis=2)


def _short(words: str, length: int) -> str:
    plain = one_line(words)
    return plain if len(plain) <= length else plain[: length - 1] + "…"


def _save(path: Path, figure: Figure) -> None:
    write_atomically(path, lambda temporary: FigureCanvasAgg(figure).print_figure(temporary, dpi=144, format="png"))
