"""The report's look inside: what the model looks at in its best and worst pictures, and what it has learned to see."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vitrail.explain.internals import Internals
from vitrail.page.document import text
from vitrail.page.pictures import img
from vitrail.page.sheets import overlay
from vitrail.report import inside_figures as figures
from vitrail.report.facts import InsideFacts, Look, RunFacts
from vitrail.report.gallery import answer_line, truth_line
from vitrail.report.section import Section

SIDE = 240  # pixels across, enough for a card on a fine screen


def inside_section(facts: RunFacts) -> Section | None:
    inside = facts.inside
    if inside is None:
        return None
    body = _looks(facts, inside) + ("" if inside.internals is None else _learned(inside.internals))
    if not body:
        return Section("Inside", "What it looks at", inside.note, "")
    words = (
        f"Beside each picture, where the answer comes from: {inside.method}. The map explains the answer that was "
        "given, right or wrong; it is a hint, not a proof."
        if inside.best or inside.worst
        else ""
    )
    return Section("Inside", "What it looks at", f"{words} {inside.note}".strip(), body)


def _looks(facts: RunFacts, inside: InsideFacts) -> str:
    named = {"The pictures it knows best": inside.best, "The pictures it is most wrong about": inside.worst}
    return "".join(f"<h3>{title}</h3>{_cards(facts, looks)}" for title, looks in named.items() if looks)


def _cards(facts: RunFacts, looks: Sequence[Look]) -> str:
    return f'<ul class="looks">{"".join(_card(facts, look) for look in looks)}</ul>'


def _card(facts: RunFacts, look: Look) -> str:
    row, name = facts.probabilities[look.n], text(facts.names[look.n])
    k = int(row.argmax())
    true = np.flatnonzero(facts.targets[look.n]).tolist() if facts.multi_label else [int(facts.targets[look.n])]
    kind = "good" if k in true else "bad"
    labels = ", ".join(facts.classes[i] for i in true) or "no label"
    heat = img(overlay(look.pixels, look.heat), SIDE, f"where the answer to {name} comes from")
    short = text(facts.names[look.n].replace("\\", "/").rsplit("/", 1)[-1])
    return (
        f'<li><div class="two">{img(look.pixels, SIDE, name)}{heat}</div>'
        f"<div>{answer_line(facts, k, float(row[k]), kind)}{truth_line(labels)}"
        f'<p class="file" title="{name}">{short}</p></div></li>'
    )


def _learned(internals: Internals) -> str:
    sheets = [
        "" if internals.filters is None else figures.filters_figure(internals.filters),
        "" if internals.positions is None else figures.positions_figure(internals.positions),
    ]
    charts = figures.distance_figure(internals) + figures.lens_figure(internals) if internals.blocks else ""
    drawn = (f'<div class="sheets">{"".join(sheets)}</div>' if any(sheets) else "") + (
        f'<div class="charts">{charts}</div>' if charts else ""
    )
    return f"<h3>What it has learned to see</h3>{drawn}" if drawn else ""
