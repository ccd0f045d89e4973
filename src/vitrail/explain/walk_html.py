"""A walk as one self-contained page: inline style and SVG, pictures as data, equations as MathML, nothing from the net.

Every string that came from outside (class names, file names) passes through `text` on its way in.
"""

from __future__ import annotations

import io
import re
from base64 import b64encode
from itertools import groupby
from string import Template

import numpy as np
from PIL import Image

from vitrail.config import Pair
from vitrail.explain.walk_equations import mathml_of
from vitrail.explain.walk_explore import Explore
from vitrail.explain.walk_explore_html import explore_section
from vitrail.explain.walk_parts import (
    Array,
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
from vitrail.page.document import document, resource
from vitrail.page.document import text as plain_text
from vitrail.page.pictures import PIXELATED, png

NUMBERED_GRID = 8  # patches across, up to which they carry their numbers and percentages
LEVELS = 40  # of heat, where there are more patches than that


def page(walk: Walk, explore: Explore | None = None) -> str:
    """The whole document, with a part to explore where that is given."""
    images = Images()
    template = Template(_resource("walk.html"))
    parts = list(dict.fromkeys(step.part for step in walk.steps))
    sections = "".join(
        _section(step, count, parts.index(step.part) + 1, images) for count, step in enumerate(walk.steps, 1)
    )
    explored = "" if explore is None else explore_section(explore, images.use(explore.pixels))
    body = template.substitute(
        name=text(walk.name),
        model=text(walk.model),
        window=_window(walk, images),
        answer=_answer(walk),
        contents=_contents(walk, explored=explore is not None),
        sections=explored + sections,
        images=images.definitions(),
    )
    title = f"{walk.name}: a walk through a Vision Transformer"
    style, script = (_resource(f"walk.{kind}") + _resource(f"explore.{kind}") for kind in ("css", "js"))
    return document(title=title, style=style, body=body, script=script)


def text(words: str) -> str:
    """Any string as text of the page, with a typographic minus."""
    return plain_text(re.sub(r"(?<![\w.])-(?=\d)", "−", words))


def _resource(name: str) -> str:
    return resource("vitrail.explain", name)


class Images:
    """Each picture stands in the page once, as a PNG in a data URI, and is used wherever it is shown."""

    def __init__(self) -> None:
        self._known: dict[bytes, str] = {}

    def use(self, pixels: Pixels) -> str:
        data = png(pixels)
        name = self._known.setdefault(data, f"picture-{len(self._known) + 1}")
        return f'<use href="#{name}"/>'

    def definitions(self) -> str:
        found = "".join(_image(name, data) for data, name in self._known.items())
        return f'<svg class="defs" aria-hidden="true" width="0" height="0"><defs>{found}</defs></svg>'


def _image(name: str, data: bytes) -> str:
    with Image.open(io.BytesIO(data)) as picture:
        width, height = picture.size
    kind = ' class="pixelated"' if max(width, height) <= PIXELATED else ""
    href = f"data:image/png;base64,{b64encode(data).decode('ascii')}"
    return f'<image id="{name}"{kind} width="{width}" height="{height}" href="{href}"/>'


# ---- the frame of the page ----------------------------------------------------------------------------------------


def _window(walk: Walk, images: Images) -> str:
    """The picture at the top, leaded like a stained-glass window where the walk says how it is cut."""
    cut = next(
        (e for step in walk.steps for e in step.exhibits if isinstance(e, Picture) and e.patch_size), walk.picture
    )
    return _patches(Picture(walk.picture.caption, cut.pixels, cut.patch_size), images, gap=0.08, numbered=False)


def _answer(walk: Walk) -> str:
    if not walk.ranking:
        return '<p class="answer"><span class="verdict">features</span> this model has no head</p>'
    label, share = walk.ranking[0]
    return (
        f'<p class="answer"><span class="verdict">{text(label)}</span> <span class="share">{percent(share)}</span></p>'
    )


def _contents(walk: Walk, *, explored: bool) -> str:
    """The list of steps, grouped by the part of the model they belong to."""
    groups: list[str] = []
    first = '<li><span>Look around</span><ol><li><a href="#explore"><b>→</b> Click a patch</a></li></ol></li>'
    for part, steps in groupby(enumerate(walk.steps, 1), key=lambda pair: pair[1].part):
        items = "".join(
            f'<li><a href="#step-{count}"><b>{count}</b> {text(step.title)} <i>{text(step.shape)}</i></a></li>'
            for count, step in steps
        )
        groups.append(f'<li class="part-{len(groups) + 1}"><span>{text(part)}</span><ol>{items}</ol></li>')
    return f"<ol>{first if explored else ''}{''.join(groups)}</ol>"


def _section(step: Step, count: int, part: int, images: Images) -> str:
    exhibits = "".join(_figure(exhibit, images) for exhibit in step.exhibits)
    return f"""
<section class="step part-{part}" id="step-{count}" aria-labelledby="title-{count}" tabindex="-1">
  <div class="words">
    <p class="part">{text(step.part)}</p>
    <h2 id="title-{count}"><span class="count">{count}</span> <span>{text(step.title)}</span></h2>
    <div class="equation" tabindex="0" role="group" aria-label="equation">{mathml_of(step.equation)}</div>
    <p>{text(step.words)}</p>
    <p class="shape"><b>{text(step.shape)}</b> <span>{text(step.axes)}</span></p>
  </div>
  <div class="exhibits">{exhibits}</div>
</section>"""


# ---- exhibits -----------------------------------------------------------------------------------------------------


def _figure(exhibit: Exhibit, images: Images) -> str:
    note = f" <small>{text(exhibit.left_out)}</small>" if isinstance(exhibit, Numbers) and exhibit.left_out else ""
    kind = type(exhibit).__name__.lower()
    caption = f"<figcaption>{text(exhibit.caption)}{note}</figcaption>"
    return f'<figure class="{kind}">{caption}{_drawn(exhibit, images)}</figure>'


def _drawn(exhibit: Exhibit, images: Images) -> str:
    match exhibit:
        case Picture():
            return _patches(exhibit, images)
        case Numbers():
            return _table(exhibit)
        case HeatMaps():
            return _heat_maps(exhibit, images)
        case Relation():
            return _relation(exhibit, images)
        case Bars():
            return _bars(exhibit)
        case Sum():
            return f'<p class="line">{_powers(text(exhibit.line))}</p>'


def _powers(line: str) -> str:
    """`e^1.83` with a raised exponent."""
    return re.sub(r"e\^(−?-?[\d.]+)", r"<var>e</var><sup>\1</sup>", line)


def _patches(picture: Picture, images: Images, gap: float = 0.12, numbered: bool = True) -> str:
    """The picture, whole or with gaps between its patches, which show parts of one and the same image."""
    height, width = picture.pixels.shape[:2]
    label = f'role="img" aria-label="{text(picture.caption)}"'
    if picture.patch_size is None:
        return f'<svg class="whole" {label} viewBox="0 0 {width} {height}">{images.use(picture.pixels)}</svg>'
    p, q = picture.patch_size
    rows, columns, lead = height // p, width // q, gap * min(p, q)
    use, numbers = images.use(picture.pixels), numbered and columns <= NUMBERED_GRID
    parts = []
    for index in range(rows * columns):
        row, column = divmod(index, columns)
        x, y = column * (q + lead) + lead, row * (p + lead) + lead
        place = f'x="{x:g}" y="{y:g}" width="{q}" height="{p}"'
        parts.append(f'<svg {place} viewBox="{column * q} {row * p} {q} {p}">{use}</svg>')
        if numbers:
            size = min(p, q)
            corner = f'x="{x + size * 0.07:g}" y="{y + size * 0.23:g}" font-size="{size * 0.19:g}"'
            parts.append(f"<text {corner}>{index + 1}</text>")
        if index == picture.marked:
            parts.append(f'<rect class="mark" {place} stroke-width="{lead * 1.4:g}"/>')
    box = f"0 0 {columns * (q + lead) + lead:g} {rows * (p + lead) + lead:g}"
    return f'<svg class="cut" {label} viewBox="{box}">{"".join(parts)}</svg>'


def _table(table: Numbers) -> str:
    head = ""
    if table.columns:
        cells = "".join(f'<th scope="col">{_label(table.columns, j)}</th>' for j in table.column_picks)
        head = f"<thead><tr><td></td>{cells}</tr></thead>"
    rows = "".join(
        f'<tr{_row_class(table, i)}><th scope="row">{_label(table.rows, i)}</th>'
        + "".join(_cell(table, i, j) for j in table.column_picks)
        + "</tr>"
        for i in table.row_picks
    )
    return f'<div class="scroll" tabindex="0"><table>{head}<tbody>{rows}</tbody></table></div>'


def _row_class(table: Numbers, i: int | None) -> str:
    return ' class="total"' if i is not None and table.rows[i].startswith("=") else ""


def _label(names: tuple[str, ...], index: int | None) -> str:
    return "⋮" if index is None else text(names[index])


def _cell(table: Numbers, i: int | None, j: int | None) -> str:
    if i is None or j is None:
        return "<td>…</td>"
    value = float(table.values[i, j])
    strength = abs(value) / (table.largest or 1)
    kind = "plus" if value >= 0 else "minus"
    return f'<td class="{kind}" style="--s:{strength:.2f}">{text(number(value, table.decimals))}</td>'


def _heat_maps(maps: HeatMaps, images: Images) -> str:
    drawn = "".join(
        f'<div class="heat"><p>{text(title)}</p>{_heat(values, maps, images, title)}</div>'
        for title, values in zip(maps.titles, maps.values, strict=True)
    )
    scale = '<p class="scale" aria-hidden="true"><span>0%</span><i></i><span>the most in each map</span></p>'
    return f'<div class="maps">{drawn}</div>{scale}'


def _heat(values: Array, maps: HeatMaps, images: Images, title: str) -> str:
    """One map: colour over the dimmed picture, as strong as the weight, and its percentage where there is room."""
    (height, width), (p, q) = maps.pixels.shape[:2], maps.patch_size
    top, few = float(values.max()) or 1.0, values.shape[1] <= NUMBERED_GRID
    cells = _numbered_cells(values / top, values, (p, q)) if few else _many_cells(values / top, (p, q))
    label = f'role="img" aria-label="{text(f"{maps.caption}, {title}")}"'
    below = f'<g class="dim">{images.use(maps.pixels)}</g>'
    return f'<svg {label} viewBox="0 0 {width} {height}">{below}{cells}</svg>'


def _numbered_cells(strengths: Array, values: Array, patch_size: Pair) -> str:
    p, q = patch_size
    cells = []
    for (row, column), strength in np.ndenumerate(strengths):
        x, y = column * q, row * p
        cells.append(f'<rect x="{x}" y="{y}" width="{q}" height="{p}" fill-opacity="{strength * 0.88:.2f}"/>')
        place = f'x="{x + q / 2:g}" y="{y + p / 2:g}" font-size="{min(p, q) * 0.26:g}"'
        cells.append(f"<text {place}>{float(values[row, column]):.0%}</text>")
    return "".join(cells)


def _many_cells(strengths: Array, patch_size: Pair) -> str:
    """One path for all patches of about the same strength: a quarter of the size of single squares."""
    p, q = patch_size
    levels = (strengths * LEVELS).round().astype(int)
    paths = []
    for level in range(1, LEVELS + 1):
        square = "".join(f"M{column * q} {row * p}h{q}v{p}h-{q}z" for row, column in np.argwhere(levels == level))
        if square:
            paths.append(f'<path fill-opacity="{level / LEVELS * 0.88:.2f}" d="{square}"/>')
    return "".join(paths)


def _relation(relation: Relation, images: Images) -> str:
    """A square of all weights beside the picture. The script lets a reader choose a row; the picture then shows it."""
    count, short = len(relation.values), [name.removeprefix("patch ") for name in relation.labels]
    across = "".join(
        f'<text x="{j + 0.5}" y="-0.35">{text("cls" if name == "class" else name[:3])}</text>'
        for j, name in enumerate(short)
    )
    rows = "".join(_relation_row(relation, i) for i in range(count))
    label = f'role="group" tabindex="0" aria-label="{text(relation.caption)}; arrow keys choose a row"'
    square = f'<svg class="square" {label} viewBox="-4.2 -1.3 {count + 4.3:g} {count + 1.4:g}">{across}{rows}</svg>'
    rows_, columns = (side // patch for side, patch in zip(relation.pixels.shape, relation.patch_size, strict=False))
    values = relation.values[0, count - rows_ * columns :].reshape(rows_, columns)
    maps = HeatMaps(relation.caption, (relation.labels[0],), (values,), relation.pixels, relation.patch_size)
    looks = f'<p aria-live="polite">{text(relation.labels[0])} looks at</p>'
    return (
        f'<div class="explore">{square}<div class="heat">{looks}{_heat(values, maps, images, "chosen row")}</div></div>'
    )


def _relation_row(relation: Relation, i: int) -> str:
    top, name = float(relation.values.max()) or 1.0, text(relation.labels[i])
    cells = "".join(
        f'<rect x="{j}" y="{i}" width="1" height="1" data-weight="{value:.4f}" fill-opacity="{value / top:.2f}">'
        f"<title>{name} → {text(relation.labels[j])}: {percent(value)}</title></rect>"
        for j, value in enumerate(relation.values[i].tolist())
    )
    chosen = " chosen" if i == 0 else ""
    frame = f'<rect class="frame" x="0" y="{i}" width="{len(relation.values)}" height="1"/>'
    return f'<g class="row{chosen}" data-name="{name}"><text x="-0.4" y="{i + 0.5}">{name}</text>{cells}{frame}</g>'


def _bars(bars: Bars) -> str:
    rows = "".join(
        f'<li><span>{text(label)}</span><i style="--s:{value:.4f}"></i><b>{percent(value)}</b></li>'
        for label, value in zip(bars.labels, bars.values, strict=True)
    )
    return f'<ol class="chart">{rows}</ol>'
