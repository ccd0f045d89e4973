"""report.html of a run: one self-contained page, and a model card beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vitrail.page.document import document, resource, text
from vitrail.report.classes import class_section, confusion_section
from vitrail.report.confidence import confidence_section
from vitrail.report.facts import RunFacts
from vitrail.report.gallery import example_section, mistake_section
from vitrail.report.headline import headline, opening
from vitrail.report.inside import inside_section
from vitrail.report.model_card import model_card
from vitrail.report.section import Section
from vitrail.report.setup import command_section, data_section, settings_section
from vitrail.report.training import training_section
from vitrail.weights.durable import write_text

SECTIONS = (
    mistake_section,
    class_section,
    confusion_section,
    confidence_section,
    example_section,
    inside_section,
    training_section,
    data_section,
    settings_section,
    command_section,
)
MODEL_CARD = "model_card.md"


def write_report(path: Path, facts: RunFacts) -> None:
    """The page to `path` and the model card beside it, each whole or not at all."""
    write_text(path, page(facts))
    write_text(path.with_name(MODEL_CARD), model_card(facts))


def page(facts: RunFacts) -> str:
    """The whole document. A section that makes no sense for this run is not there."""
    sections = [section for make in SECTIONS if (section := make(facts)) is not None]
    title = f"{facts.title}: {headline(facts).sentence}"
    return assemble(title, opening(facts), sections, f"The figures are of {facts.measured_on}.")


def assemble(title: str, top: str, sections: Sequence[Section], note: str) -> str:
    """A page of sections under its top (markup), with a note at its foot."""
    body = f"""<a class="skip" href="#{_anchor(sections[0])}">Skip to the first part</a>
{top}
<div class="page">
  <nav aria-label="Parts"><ol><li><ol>{"".join(map(_link, sections))}</ol></li></ol></nav>
  <main>{"".join(map(_part, sections))}
  </main>
</div>
<footer><p>Made by vitrail. {text(note)}</p></footer>
<div id="hint" role="status" hidden></div>"""
    style = _resource("report.css") + _resource("inside.css")
    return document(title=title, style=style, body=body, script=_resource("report.js"))


def _link(section: Section) -> str:
    return f'<li><a href="#{_anchor(section)}">{text(section.name)}</a></li>'


def _part(section: Section) -> str:
    anchor = _anchor(section)
    words = f'<p class="words">{text(section.words)}</p>' if section.words else ""
    return f"""
<section class="part" id="{anchor}" aria-labelledby="{anchor}-title">
  <p class="name">{text(section.name)}</p>
  <h2 id="{anchor}-title">{text(section.title)}</h2>
  {words}
  {section.body}
</section>"""


def _anchor(section: Section) -> str:
    return section.name.lower().replace(" ", "-")


def _resource(name: str) -> str:
    return resource("vitrail.report", name)
