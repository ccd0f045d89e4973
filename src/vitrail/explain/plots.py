"""Pictures of maps as PNG files. The only place that imports matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from vitrail.errors import one_line
from vitrail.explain.methods import scaled
from vitrail.explain.study import Finding, Study
from vitrail.weights.durable import write_atomically

COLOURS = "inferno"
INK, SOFT, WARNING = "#1d2033", "#5d6075", "#a8283a"
FONT: dict[str, Any] = {"family": ["DejaVu Sans"], "parse_math": False}  # a class may be called $10


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
    shown_as = "nearest" if max(rows, columns) <= 64 else "antialiased"
    plain.imshow(seen(study.pixels), interpolation=shown_as)
    # Grey under the map, so that colour means heat.
    covered.imshow(seen(study.pixels).mean(axis=2), cmap="gray", vmin=0, vmax=255, interpolation=shown_as)
    for axes in (plain, covered):
        axes.set_axis_off()
    heat = scaled(found.explanation.enlarged((rows, columns)))
    shown = covered.imshow(heat, cmap=COLOURS, alpha=0.35 + 0.45 * heat, vmin=0, vmax=1)
    _colour_bar(figure, shown, covered)
    _words(figure, study, found)
    _save(path, figure)


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
    why = f"Why {study.label}" if study.label != study.prediction.label else study.label
    taken = "" if study.label == study.prediction.label else f" (taken for {study.prediction.label})"
    title = f"{_short(why, 40)}  {100 * study.probability:.1f} %{_short(taken, 40)}"
    figure.text(0.02, 1 - 0.2 / height, title, size=13, weight="bold", color=INK, va="top", **FONT)
    line = f"{found.explanation.method}  ·  {_short(Path(study.name).name, 60)}"
    figure.text(0.02, 1 - 0.5 / height, line, size=9, color=SOFT, va="top", **FONT)
    if found.trust is not None:
        colour = SOFT if found.trust.better_than_random else WARNING
        said = f"This map is {found.trust.words} (score {found.trust.score:+.2f})"
        figure.text(0.02, 0.14 / height, said, size=9, color=colour, va="bottom", **FONT)


def write_sheet(path: Path, heads: NDArray[np.float32], title: str) -> None:
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
