"""The figure that matters, in plain words, and the key figures as tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vitrail.page.document import text
from vitrail.report import charts
from vitrail.report.facts import RunFacts, Story
from vitrail.report.words import count, duration, percent

FINE = 0.985  # accuracy from which one speaks of 1,000 pictures, for mistakes in 100 would be too few to count


class Headline(NamedTuple):
    """One sentence, the range that its figure lies in, and the figure as so many of so many."""

    sentence: str
    range: str
    right: int
    total: int


def headline(facts: RunFacts) -> Headline:
    scores = facts.evaluation
    total = 1000 if scores.accuracy >= FINE else 100
    right = round(scores.accuracy * total)
    low, high = (total * end for end in scores.interval)
    between = f"{low:.1f} to {high:.1f}, with 95% confidence"
    if scores.multi_label:
        return Headline(
            f"Of {total:,} new pictures, about {right:,} get exactly the right labels", between, right, total
        )
    if scores.accuracy == 1:
        return Headline(
            f"It got all {scores.count:,} pictures right", f"{between}, of {total:,} new ones", right, total
        )
    if right == total:
        return Headline(f"It gets more than {total - 1:,} of {total:,} new pictures right", between, right, total)
    return Headline(f"Of {total:,} new pictures it gets about {right:,} right", between, right, total)


def summary(facts: RunFacts) -> str:
    """What the facts say of themselves; otherwise what the model does and what it was trained with."""
    if facts.summary:
        return facts.summary
    known = count(len(facts.classes), "label" if facts.multi_label else "class")
    does = f"It gives any of {known}" if facts.multi_label else f"It tells {known} apart"
    seconds, pictures = _seconds(facts), facts.data.pictures.get("train")
    trained = f", after {duration(seconds)} of training" if seconds else ""
    return f"{does}{trained}{f' on {pictures:,} pictures' if trained and pictures else ''}."


def opening(facts: RunFacts) -> str:
    """The top of the page."""
    said = headline(facts)
    alt = f"{said.right:,} of {said.total:,} panes of a window are in colour"
    return f"""<header>
  <div>
    <p class="kicker">Report of the run {text(facts.title)}</p>
    <h1>{text(said.sentence)}</h1>
    <p class="between">{text(said.range)}</p>
    <p class="summary">{text(summary(facts))}</p>
    <p class="note">Measured on {text(facts.measured_on)}.</p>
  </div>
  <div class="window">{charts.window(alt, said.right, said.total)}</div>
</header>
{tile_list(tiles(facts))}"""


class Tile(NamedTuple):
    name: str
    value: str
    words: str


def tiles(facts: RunFacts) -> list[Tile]:
    """The key figures: only those that make sense for this run."""
    scores = facts.evaluation
    low, high = scores.interval
    name = "Exactly the right labels" if scores.multi_label else "Accuracy"
    found = [Tile(name, percent(scores.accuracy), f"between {percent(low)} and {percent(high)}")]
    if scores.mean_average_precision is not None:
        found.append(Tile("Mean average precision", percent(scores.mean_average_precision), "over all labels"))
    if scores.top5 is not None:
        found.append(Tile("Among its first five", percent(scores.top5), f"of {len(facts.classes):,} classes"))
    if scores.balanced_accuracy is not None:
        found.append(Tile("Balanced accuracy", percent(scores.balanced_accuracy), "every class counts the same"))
    if scores.micro_f1 is not None:
        found.append(Tile("F1", percent(scores.micro_f1), "over all decisions"))
    found.append(Tile("Calibration error", percent(scores.ece), "between how sure and how often right"))
    if scores.known is not None:
        found.append(Tile("Answers", percent(scores.known), _about_known(scores.known_accuracy)))
    return [*found, *time_tiles(facts)]


def _about_known(accuracy: float | None) -> str:
    return "all is unknown to it" if accuracy is None else f"and is right in {percent(accuracy)} of those"


def time_tiles(facts: Story) -> list[Tile]:
    seconds = _seconds(facts)
    epochs = max((float(row["epoch"]) for row in facts.metrics if "epoch" in row), default=0.0)
    if not seconds:
        return []
    return [Tile("Training", duration(seconds), f"{epochs:.3g} passes over the data" if epochs else "")]


def _seconds(facts: Story) -> float:
    return max((float(row["seconds"]) for row in facts.metrics if "seconds" in row), default=0.0)


def tile_list(found: Sequence[Tile]) -> str:
    return f'<dl class="tiles">{"".join(map(_tile, found))}</dl>'


def _tile(tile: Tile) -> str:
    return f"<div><dt>{text(tile.name)}</dt><dd><b>{text(tile.value)}</b> <span>{text(tile.words)}</span></dd></div>"
