"""report.html of a run without labels: what it rebuilt, how its features grew, and what to do with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from vitrail.data.examples import Pixels
from vitrail.page.document import text
from vitrail.page.pictures import img
from vitrail.report.facts import DataFacts, Row
from vitrail.report.headline import Tile, tile_list, time_tiles
from vitrail.report.report import assemble
from vitrail.report.section import Section
from vitrail.report.setup import command_section, data_section, settings_section
from vitrail.report.training import training_section
from vitrail.report.words import figure as number
from vitrail.report.words import percent
from vitrail.weights.durable import write_text

SIDE = 240


class Pictures(NamedTuple):
    """One picture as it is, as the encoder saw it, and as it was rebuilt."""

    original: Pixels
    masked: Pixels
    rebuilt: Pixels


@dataclass(frozen=True)
class PretrainFacts:
    """A run without labels, and what its encoder is good for on validation pictures."""

    title: str
    method: str
    figures: Mapping[str, float]  # of the encoder that was kept: loss, knn, few_shot
    yardstick: float | None
    previews: Sequence[Pictures]
    metrics: Sequence[Row]
    classes: tuple[str, ...]
    data: DataFacts
    config: Mapping[str, Any]
    reasons: Mapping[str, str]
    commands: Sequence[tuple[str, str]]


def write_pretraining_report(path: Path, facts: PretrainFacts) -> None:
    """The page to `path`, whole or not at all."""
    write_text(path, page(facts))


def page(facts: PretrainFacts) -> str:
    made = (
        preview_section(facts),
        training_section(facts),
        data_section(facts),
        settings_section(facts),
        command_section(facts),
    )
    sections = [section for section in made if section is not None]
    title = f"{facts.title}: {headline(facts)}"
    return assemble(title, opening(facts), sections, "The figures are of validation pictures, which it did not see.")


def headline(facts: PretrainFacts) -> str:
    """The figure that matters, in one sentence."""
    if "knn" in facts.figures:
        return f"Without a label, its features tell {percent(facts.figures['knn'])} of pictures by their neighbours"
    pictures = facts.data.pictures.get("train", 0)
    return f"It learned from {pictures:,} pictures without a label"


def opening(facts: PretrainFacts) -> str:
    return f"""<header>
  <div>
    <p class="kicker">Report of the run {text(facts.title)}, pre-trained by {text(facts.method)}</p>
    <h1>{text(headline(facts))}</h1>
    <p class="summary">{text(summary(facts))}</p>
  </div>
</header>
{tile_list(tiles(facts))}"""


def summary(facts: PretrainFacts) -> str:
    words = "This is an encoder, not a classifier: train a classifier from it with the labels there are."
    loss = facts.figures["loss"]
    if facts.yardstick is None:
        return words
    if loss >= facts.yardstick:
        return (
            f"Its loss of {number(loss)} is no better than always giving the mean answer: it needs more time. {words}"
        )
    return f"Its loss is {number(loss)}, where always giving the mean answer has {number(facts.yardstick)}. {words}"


def tiles(facts: PretrainFacts) -> list[Tile]:
    found = []
    if "knn" in facts.figures:
        found.append(Tile("Nearest neighbours", percent(facts.figures["knn"]), "right by the 20 most similar pictures"))
    if "few_shot" in facts.figures:
        found.append(Tile("Few-shot", percent(facts.figures["few_shot"]), "right with ten labels of each class"))
    found.append(Tile("Loss", number(facts.figures["loss"]), "on validation pictures"))
    if "feature_spread" in facts.figures:
        found.append(Tile("Spread of features", percent(facts.figures["feature_spread"]), "near zero it has collapsed"))
    return [*found, *time_tiles(facts)]


def preview_section(facts: PretrainFacts) -> Section | None:
    """Pictures of the validation split, masked and rebuilt at the last step."""
    if not facts.previews:
        return None
    names = ("original", "masked", "rebuilt")
    cards = "".join(
        f'<li><div class="frame">{img(picture, SIDE, f"picture {n}, {name}")}</div><div><p>{n}, {name}</p></div></li>'
        for n, row in enumerate(facts.previews, start=1)
        for name, picture in zip(names, row, strict=True)
    )
    words = (
        "Validation pictures as they are, with the patches that were hidden, and as they were predicted from the rest "
        "at the last step. Visible patches are shown as they were."
    )
    return Section("Rebuilt", "What it made of hidden patches", words, f'<ul class="cards">{cards}</ul>')
