"""The inside of a model as figures: those of the paper's figure 7, and what pictures bring out block by block."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vitrail.explain.filters import Filters
from vitrail.explain.internals import Block, Internals, Seen, Spread
from vitrail.explain.similarity import OUTLIER, Positions
from vitrail.page.document import text
from vitrail.page.sheets import crisp, glass, sheet
from vitrail.report.charts import Line, Plane, level, line_chart
from vitrail.report.scales import Axis, number_axis, share_axis
from vitrail.report.section import figure, key
from vitrail.report.words import figure as written
from vitrail.report.words import percent

FILTER_COLUMNS = 7
MOST_GRIDS = 16  # on a side of the sheet of positions; of more places every second, third ... is shown


# ---- from the weights ---------------------------------------------------------------------------------------------


def filters_figure(filters: Filters) -> str:
    """The principal components of the embedding's filters, in their colours, grey for none."""
    strongest = abs(filters.values).max(axis=(1, 2, 3), keepdims=True)
    shades = (127.5 + 127.5 * filters.values / np.maximum(strongest, 1e-12)).round().astype(np.uint8)
    colours = shades[..., :3] if shades.shape[-1] >= 3 else shades[..., :1].repeat(3, axis=-1)
    together = percent(sum(filters.variance))
    caption = f"The first {len(filters.values)} principal components of the patch filters: {together} of their variance"
    return figure(caption, crisp(sheet(colours, FILTER_COLUMNS), text(caption)), "sheet filters")


def positions_figure(positions: Positions) -> str:
    """A grid of grids: in the place of each patch, how alike every place is to it."""
    (rows, columns), similarity = positions.grid, positions.similarity
    low = float(similarity.min())
    tiles = glass((similarity - low) / max(1 - low, 1e-6)).reshape(rows, columns, rows, columns, 3)
    step = -(-max(rows, columns) // MOST_GRIDS)
    few = tiles[step // 2 :: step, step // 2 :: step]
    which = "Each patch’s position" if step == 1 else f"The positions of one patch in {step} each way,"
    caption = f"{which} compared with all others: from {written(low)} (dark) to 1 (light)"
    if positions.scheme.startswith("sincos"):
        caption += "; sines and cosines, not learned"
    made = sheet(few.reshape(-1, rows, columns, 3), few.shape[1])
    return figure(caption, crisp(made, text(caption)), "sheet positions")


def positions_words(positions: Positions) -> str:
    """What the grid of grids shows, in numbers."""
    shape = positions.shape
    named = {
        "neighbours": shape.neighbours,
        "patches far apart": shape.far,
        "the same row": shape.same_row,
        "the same column": shape.same_column,
        "neither row nor column in common": shape.elsewhere,
    }
    said = ", ".join(f"{name} {value:.2f}" for name, value in named.items() if value is not None)
    return f"Mean cosine similarity of two positions: {said}." if said else ""


# ---- from pictures ------------------------------------------------------------------------------------------------


def distance_figure(found: Internals) -> str:
    caption = "Mean attention distance: how far away, in pixels, what a patch looks at is"
    values = [value for block in found.blocks for value in block.distance]
    assert found.everywhere is not None
    y = number_axis("pixels", [*values, found.everywhere], from_zero=True)
    plane = Plane(_block_axis(found.blocks), y)
    return _heads(caption, found.blocks, "distance", plane, level(found.everywhere, plane, "all patches alike"))


def entropy_figure(found: Internals) -> str:
    caption = "Entropy of attention: 0 bits looks at one token, each bit more at twice as many"
    values = [value for block in found.blocks for value in block.entropy]
    plane = Plane(_block_axis(found.blocks), number_axis("bits", values, from_zero=True))
    return _heads(caption, found.blocks, "entropy", plane)


def front_figure(found: Internals) -> str:
    """Empty for a model without a class token or registers."""
    if not any(value for block in found.blocks for value in block.to_front):
        return ""
    caption = "How much of their attention patches give to the class token and registers"
    return _heads(caption, found.blocks, "to_front", Plane(_block_axis(found.blocks), share_axis("attention")))


def _heads(caption: str, blocks: Sequence[Block], name: str, plane: Plane, marks: str = "") -> str:
    """The mean of the heads, the range between them, and a dot for each."""
    spreads = [Spread.of(getattr(block, name)) for block in blocks]
    line = Line("mean", [(n, s.mean) for n, s in enumerate(spreads, 1)], "second", [(s.least, s.most) for s in spreads])
    dots = "".join(
        f'<circle class="head" cx="{plane.across(n)}" cy="{plane.up(value)}" r="2.4"/>'
        for n, block in enumerate(blocks, 1)
        for value in getattr(block, name)
    )
    names = key(("mean of the heads, and each head", "second"))
    return figure(caption, line_chart(caption, [line], plane, marks=dots + marks), key=names)


def similarity_figure(found: Internals) -> str:
    """Empty where there is one patch, which is like nothing else."""
    values = [block.similarity for block in found.blocks if block.similarity is not None]
    if len(values) < len(found.blocks):
        return ""
    caption = "How alike the patches of a picture are (mean cosine): at 1 they can no longer be told apart"
    plane = Plane(_block_axis(found.blocks), number_axis("cosine", [0.0, *values]))
    line = Line("cosine", list(enumerate(values, 1)), "second")
    return figure(caption, line_chart(caption, [line], plane))


def norm_figure(found: Internals) -> str:
    caption = f"Norms of the patches: a patch above {OUTLIER:g} medians has become a notepad, which registers prevent"
    middle = [(n, block.norm) for n, block in enumerate(found.blocks, 1)]
    largest = [(n, block.largest_norm) for n, block in enumerate(found.blocks, 1)]
    plane = Plane(_block_axis(found.blocks), number_axis("norm", [b for _, b in middle + largest], from_zero=True))
    lines = [Line("median", middle, "second"), Line("largest", largest, "third")]
    names = key(("median", "second"), ("largest", "third"))
    return figure(caption, line_chart(caption, lines, plane), key=names)


def lens_figure(found: Internals) -> str:
    """Empty for a model without a lens."""
    rows = [(n, b.answer, b.agreement) for n, b in enumerate(found.blocks, 1)]
    answer = [(float(n), said) for n, said, _ in rows if said is not None]
    agreement = [(float(n), same) for n, _, same in rows if same is not None]
    if not answer:
        return ""
    caption = "If it stopped after a block: how probable its last answer is, and how often it is already the first"
    lines = [Line("probability of the last answer", answer, "second"), Line("same answer", agreement, "third")]
    names = key(("probability of its last answer", "second"), ("pictures with the same answer", "third"))
    plane = Plane(_block_axis(found.blocks), share_axis(""))
    return figure(caption, line_chart(caption, lines, plane), key=names)


def norms_picture(seen: Seen) -> str:
    """The norms of the last block's patches, from nothing (dark) to an outlier (light)."""
    shares = seen.norms / max(OUTLIER * float(np.median(seen.norms)), 1e-12)
    return crisp(glass(shares), text(f"norms of the patches of {seen.name}"))


def _block_axis(blocks: Sequence[Block]) -> Axis:
    count = len(blocks)
    step = -(-count // 12)
    ticks = tuple(float(n) for n in range(1, count + 1, step))
    return Axis("block", 0.5, count + 0.5, ticks, lambda n: f"{n:.0f}")
