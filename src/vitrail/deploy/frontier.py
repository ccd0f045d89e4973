"""What `vitrail optimize` found, as one self-contained page: accuracy against time, and every number."""

from __future__ import annotations

from collections.abc import Sequence

from vitrail.deploy.optimize import Measured, Search, frontier
from vitrail.page.document import document, resource, text
from vitrail.report.charts import Line, Plane, line_chart
from vitrail.report.scales import number_axis, share_axis
from vitrail.report.section import figure
from vitrail.report.words import percent

COLUMNS = ("", "accuracy", "points lost", "ms a picture", "pictures a second", "MB", "faster", "throughput")

STYLE = """main { max-width: 84rem; margin: 0 auto; padding: 0 2rem; }
section { margin-bottom: 2.5rem; }
th, td { padding: 0.25rem 1.4rem 0.25rem 0; }
th + th, td + td { text-align: right; }"""


def page(name: str, found: Search, about: Sequence[str]) -> str:
    """The whole document; `about` are sentences on what was measured and how."""
    chosen = found.chosen
    title = f"{name}: {chosen.name}, {chosen.faster:.1f} times as fast, {chosen.drop:.1f} points lost"
    said = "".join(f"<p>{text(sentence)}</p>" for sentence in about)
    missing = "".join(f"<li>{text(which)}: {text(why)}</li>" for which, why in found.failed.items())
    drawn = figure(
        "Each dot is a model that was measured; on the line, nothing is both faster and better", _chart(found)
    )
    body = f"""<header><div>
  <p class="kicker">Optimisation of {text(name)}</p>
  <h1>{text(chosen.name)}</h1>
  <p class="summary">{chosen.ms:.1f} ms a picture, {chosen.faster:.2f} times as fast as the original, \
{percent(chosen.accuracy)} right.</p>
</div></header>
<main>
  <section><h2>Accuracy against time</h2><div class="charts">{drawn}</div></section>
  <section><h2>Everything that was measured</h2>{_table(found)}</section>
  <section><h2>How</h2>{said}{f"<p>Could not be made:</p><ul>{missing}</ul>" if missing else ""}</section>
</main>
<footer><p>Made by vitrail optimize.</p></footer>
<div id="hint" role="status" hidden></div>"""
    style = resource("vitrail.report", "report.css") + STYLE
    return document(title=title, style=style, body=body, script=resource("vitrail.report", "report.js"))


def _chart(found: Search) -> str:
    """All as dots, the frontier as a line, the chosen one larger."""
    edge = frontier(found.measured)
    plane = Plane(
        number_axis("milliseconds a picture", [one.ms for one in found.measured], from_zero=True),
        share_axis("accuracy", [one.accuracy for one in found.measured]),
    )
    dots = "".join(_dot(one, plane, one == found.chosen) for one in found.measured)
    line = Line("accuracy", [(one.ms, one.accuracy) for one in edge], "second")
    return line_chart("Accuracy against milliseconds", [line], plane, marks=f'<g class="second">{dots}</g>')


def _dot(one: Measured, plane: Plane, chosen: bool) -> str:
    words = text(f"{one.name}: {one.ms:.1f} ms, {percent(one.accuracy)}")
    place = f'cx="{plane.across(one.ms)}" cy="{plane.up(one.accuracy)}"'
    kind, radius = ("dot mark", 6) if chosen else ("dot", 3)
    return f'<circle class="{kind}" {place} r="{radius}"><title>{words}</title></circle>'


def _table(found: Search) -> str:
    head = "".join(f"<th>{text(column)}</th>" for column in COLUMNS)
    rows = "".join(_row(one, one == found.chosen) for one in sorted(found.measured, key=lambda one: one.ms))
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _row(one: Measured, chosen: bool) -> str:
    name = f"<b>{text(one.name)}</b>" if chosen else text(one.name)
    cells = (
        percent(one.accuracy),
        f"{one.drop:.1f}",
        f"{one.ms:.1f}",
        f"{one.pictures_a_second:.1f}",
        f"{one.bytes / 2**20:.1f}",
        f"{one.faster:.2f}",
        f"{one.throughput:.2f}",
    )
    return f"<tr><td>{name}</td>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
