"""What `vitrail inspect` found, as one self-contained page: parts, weights, and what pictures bring out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vitrail.explain.internals import Internals, Seen
from vitrail.model.cost import Part
from vitrail.page.document import document, resource, text
from vitrail.page.pictures import img
from vitrail.report import inside_figures as figures
from vitrail.report.section import Section
from vitrail.report.words import count, percent

SIDE = 240


class Inspected(NamedTuple):
    """A model by its kind and source, what it is in a few words, its parts, its settings, its classes, its inside."""

    kind: str
    source: str
    facts: dict[str, str]
    parts: Sequence[Part]
    settings: dict[str, object]
    classes: Sequence[str]
    inside: Internals


def page(found: Inspected) -> str:
    """The whole document. What does not exist for this model is not there, and said."""
    made = (_filters(found), _positions(found), _attention(found), _tokens(found), _lens(found), _parts(found))
    sections = [section for section in made if section is not None]
    rows = "".join(
        f'<tr><th scope="row">{text(name)}</th><td>{text(value)}</td></tr>' for name, value in found.facts.items()
    )
    notes = "".join(f'<p class="note">{text(note)}</p>' for note in found.inside.notes)
    body = f"""<a class="skip" href="#{sections[0].name.lower()}">Skip to the first part</a>
<header class="alone"><div>
  <p class="kicker">Inside a model</p>
  <h1>{text(found.kind)}</h1>
  <p class="between">{text(found.source)}</p>
  <table class="facts"><tbody>{rows}</tbody></table>
  {notes}
</div></header>
<div class="page">
  <nav aria-label="Parts"><ol><li><ol>{"".join(map(_link, sections))}</ol></li></ol></nav>
  <main>{"".join(map(_section, sections))}
  </main>
</div>
<footer><p>Made by vitrail inspect. {_measured(found.inside)}</p></footer>
<div id="hint" role="status" hidden></div>"""
    style = resource("vitrail.report", "report.css") + resource("vitrail.report", "inside.css")
    script = resource("vitrail.report", "report.js")
    return document(title=f"{found.kind} {found.source}: inside", style=style, body=body, script=script)


def _link(section: Section) -> str:
    return f'<li><a href="#{section.name.lower()}">{text(section.name)}</a></li>'


def _section(section: Section) -> str:
    anchor = section.name.lower()
    return f"""
<section class="part" id="{anchor}" aria-labelledby="{anchor}-title">
  <p class="name">{text(section.name)}</p>
  <h2 id="{anchor}-title">{text(section.title)}</h2>
  <p class="words">{text(section.words)}</p>
  {section.body}
</section>"""


def _measured(inside: Internals) -> str:
    return (
        f"Figures of attention, tokens and answers are of {count(inside.pictures, 'picture')}." if inside.blocks else ""
    )


# ---- parts --------------------------------------------------------------------------------------------------------


def _filters(found: Inspected) -> Section | None:
    if found.inside.filters is None:
        return None
    words = (
        "The first layer compares every patch with one small pattern for each number of the embedding. Their principal "
        "components look like a basis for the fine structure of a patch where the model has learned much, and like "
        "noise where it has not."
    )
    drawn = figures.filters_figure(found.inside.filters)
    return Section("Filters", "What the first layer looks for", words, f'<div class="sheets">{drawn}</div>')


def _positions(found: Inspected) -> Section | None:
    if found.inside.positions is None:
        return None
    learned = found.inside.positions.scheme.startswith("learned")
    how = "learned" if learned else "given by a formula, not learned"
    words = (
        f"The positions of this model are {how}. In each small grid, the light places are those whose position is like "
        f"that of the grid’s own place. {figures.positions_words(found.inside.positions)}"
    )
    drawn = figures.positions_figure(found.inside.positions)
    return Section("Positions", "Where it thinks patches are", words, f'<div class="sheets">{drawn}</div>')


def _attention(found: Inspected) -> Section | None:
    inside = found.inside
    if not inside.blocks:
        return None
    words = (
        "A head with a small distance looks around its own patch, as a convolution does; one with a large distance "
        "takes in the whole picture. Class token and registers are left out of distances."
    )
    drawn = figures.distance_figure(inside) + figures.entropy_figure(inside) + figures.front_figure(inside)
    return Section("Attention", "How far it looks", words, f'<div class="charts">{drawn}</div>')


def _tokens(found: Inspected) -> Section | None:
    inside = found.inside
    if not inside.blocks:
        return None
    worst = max(block.outliers for block in inside.blocks)
    said = f"In the worst block {percent(worst)} of the patches are such outliers." if worst else "There are none here."
    words = (
        "What becomes of the patches from block to block. Large models without registers use a few patches of plain "
        f"background as a notepad; their norms stand far above the others. {said}"
    )
    charts = figures.similarity_figure(inside) + figures.norm_figure(inside)
    cards = "".join(_look(seen) for seen in inside.seen)
    body = (
        f'<div class="charts">{charts}</div><h3>Norms of the last block</h3>'
        f'<p>From nothing (dark) to an outlier (light).</p><ul class="looks">{cards}</ul>'
    )
    return Section("Tokens", "What becomes of the patches", words, body)


def _look(seen: Seen) -> str:
    name = text(seen.name)
    return (
        f'<li><div class="two">{img(seen.pixels, SIDE, name)}{figures.norms_picture(seen)}</div>'
        f'<div><p class="file" title="{name}">{text(_short(seen.name))}</p></div></li>'
    )


def _short(name: str) -> str:
    return name.replace("\\", "/").rsplit("/", 1)[-1]


def _lens(found: Inspected) -> Section | None:
    drawn = figures.lens_figure(found.inside)
    if not drawn:
        return None
    words = (
        "The tokens after each block, given to the model’s own last norm and head. These were trained for the last "
        "block only, so early answers are rough; see where they settle."
    )
    rows = "".join(_lens_row(seen, found.classes) for seen in found.inside.seen)
    head = "".join(f'<th scope="col">{n}</th>' for n in range(1, len(found.inside.blocks) + 1))
    table = f'<table><thead><tr><th scope="col">after block</th>{head}</tr></thead><tbody>{rows}</tbody></table>'
    body = f'<div class="charts">{drawn}</div><div class="lens" tabindex="0">{table}</div>'
    return Section("Answers", "When it makes up its mind", words, body)


def _lens_row(seen: Seen, classes: Sequence[str]) -> str:
    if seen.answers is None:
        return ""
    answers = seen.answers
    cells = "".join(
        f"<td{' class=same' if top == answers.label else ''}>{text(classes[top])}<br>{percent(share, 0)}</td>"
        for top, share in zip(answers.top, answers.top_probability, strict=True)
    )
    return f'<tr><th scope="row">{text(_short(seen.name))}</th>{cells}</tr>'


def _parts(found: Inspected) -> Section:
    rows = "".join(
        f'<tr><th scope="row">{text(part.name)}</th><td>{part.parameters:,}</td><td>{part.macs / 1e6:,.1f}</td></tr>'
        for part in found.parts
    )
    head = "<thead><tr><th>part</th><th>weights</th><th>million multiply-adds</th></tr></thead>"
    settings = "".join(
        f'<tr><th scope="row">{text(name)}</th><td>{text(str(value))}</td></tr>'
        for name, value in found.settings.items()
    )
    body = (
        f'<div class="scroll"><table class="facts">{head}<tbody>{rows}</tbody></table></div>'
        f'<details><summary>All settings</summary><table class="facts"><tbody>{settings}</tbody></table></details>'
    )
    return Section("Parts", "What it is made of", "Weights, and multiply-adds for one picture.", body)
