"""What probing a model found, as one self-contained page."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vitrail.evaluate.probing import FewShot, Probing
from vitrail.page.document import document, resource, text
from vitrail.report.charts import Line, Plane, level, line_chart
from vitrail.report.scales import Axis, share_axis
from vitrail.report.section import figure
from vitrail.report.words import percent

STYLE = """
main { max-width: 84rem; margin: 0 auto; padding: 0 2rem 2.4rem; }
main .chart { flex: 1 1 24rem; }
main :is(th, td) { padding: 0.38rem 0; border-bottom: 1px solid var(--line); }
main :is(td, th:last-child) { padding-left: 2.4rem; text-align: right; }
"""


def page(found: Probing, *, model: str, data: str, split: str, pictures: int, notes: Sequence[str]) -> str:
    """The whole document: the learning curve from few pictures, and every number in a table."""
    said = "".join(f'<p class="note">{text(note)}</p>' for note in notes)
    body = f"""<header>
  <div>
    <p class="kicker">Probing {text(model)}</p>
    <h1>{percent(found.linear)} with a linear classifier on frozen features</h1>
    <p class="between">on {pictures:,} {text(split)} pictures of {text(data)}</p>
    {said}
  </div>
</header>
<main class="pair">
  {_curve(found)}
  {_table(found)}
</main>
<footer><p>Made by vitrail probe: the model’s weights were not changed.</p></footer>
<div id="hint" role="status" hidden></div>"""
    style = resource("vitrail.report", "report.css") + STYLE
    return document(title=f"Probing {model}", style=style, body=body, script=resource("vitrail.report", "report.js"))


def rows(found: Probing) -> list[tuple[str, str]]:
    """Each classifier in words, and its accuracy."""
    shots = [(f"{few.shots} of each class", _with_spread(few)) for few in found.few_shot]
    neighbours = f"{found.k} nearest neighbours" if found.k > 1 else "nearest neighbour"
    return [*shots, (neighbours, percent(found.knn)), ("linear, all pictures", percent(found.linear))]


def _with_spread(few: FewShot) -> str:
    return percent(few.mean) + (f" ± {100 * few.spread:.1f}" if len(few.accuracies) > 1 else "")


def _curve(found: Probing) -> str:
    points = [(math.log2(few.shots), few.mean) for few in found.few_shot]
    band = [(max(0.0, few.mean - few.spread), min(1.0, few.mean + few.spread)) for few in found.few_shot]
    accuracies = [found.linear, *(value for pair in band for value in pair)]
    plane = Plane(_shots_axis([few.shots for few in found.few_shot]), share_axis("accuracy", accuracies))
    marks = level(found.linear, plane, "linear, all pictures")
    drawn = line_chart(
        "Accuracy against pictures of each class", [Line("few-shot", points, "second", band)], plane, marks=marks
    )
    return figure(
        "Accuracy with few pictures of each class: mean over the seeds, and their spread", drawn, "chart wide"
    )


def _shots_axis(shots: Sequence[int]) -> Axis:
    """Doubling is a step; a single number of shots stands in the middle."""
    ticks = tuple(math.log2(number) for number in sorted(set(shots)))
    room = 0.0 if len(ticks) > 1 else 1.0
    return Axis("pictures of each class", ticks[0] - room, ticks[-1] + room, ticks, lambda tick: f"{2**tick:.0f}")


def _table(found: Probing) -> str:
    lines = "".join(f"<tr><th>{text(name)}</th><td>{text(value)}</td></tr>" for name, value in rows(found))
    return f"<table><thead><tr><th>classifier</th><th>accuracy</th></tr></thead><tbody>{lines}</tbody></table>"
