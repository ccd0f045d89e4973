"""The model card: the same facts as the report, short, in Markdown, to travel with the model."""

from __future__ import annotations

import re

from vitrail.errors import one_line
from vitrail.report.classes import worst_in_words
from vitrail.report.facts import RunFacts
from vitrail.report.headline import headline, summary, tiles
from vitrail.report.setup import shown
from vitrail.report.words import count, listed, percent

NAMED_CLASSES = 30
MODEL_SETTINGS = ("kind", "image_size", "patch_size", "dim", "depth", "heads", "channels")


def model_card(facts: RunFacts) -> str:
    """A Markdown document."""
    said = headline(facts)
    parts = [
        f"# {plain(facts.title)}",
        f"{plain(said.sentence)} ({said.range}). {plain(summary(facts))}",
        f"## What it does\n\n{_purpose(facts)}",
        f"## How good it is\n\n{_figures(facts)}",
        f"## Where it fails\n\n{_limits(facts)}",
        f"## What it learned from\n\n{_data(facts)}",
        _commands(facts),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def plain(words: str) -> str:
    """Any string as text of a Markdown document, on one line: no markup, no HTML, no link."""
    return re.sub(r"([\\`*_{}\[\]<>()#+!|~&$-])", r"\\\1", one_line(words))


def _purpose(facts: RunFacts) -> str:
    model = facts.config.get("model")
    settings = [f"{name} {shown(model[name])}" for name in MODEL_SETTINGS if name in model] if model else []
    built = f" ({plain(', '.join(settings))})" if settings else ""
    several = "any number of" if facts.multi_label else "one of"
    names = ", ".join(map(plain, facts.classes[:NAMED_CLASSES]))
    more = f" and {len(facts.classes) - NAMED_CLASSES:,} more" if len(facts.classes) > NAMED_CLASSES else ""
    thing = "label" if facts.multi_label else "class"
    return f"A picture in; {several} {count(len(facts.classes), thing)} out{built}: {names}{more}."


def _figures(facts: RunFacts) -> str:
    rows = "".join(f"| {tile.name} | {tile.value} | {tile.words} |\n" for tile in tiles(facts))
    return f"Measured on {plain(facts.measured_on)}.\n\n| figure | value | |\n|---|---|---|\n{rows}".rstrip()


def _limits(facts: RunFacts) -> str:
    scores = facts.evaluation
    lines = [f"It knows only the {count(len(facts.classes), 'class')} above; anything else is taken for one of them"]
    if scores.unknown_below is not None:
        lines[0] += f", or called unknown where it is less than {percent(scores.unknown_below)} sure"
    if worst := worst_in_words(scores):
        lines.append(f"Weakest classes: {plain(worst)}")
    if confusions := scores.confusions(3):
        pairs = listed([f"{c.true} taken for {c.predicted} ({c.count:,} times)" for c in confusions])
        lines.append(f"Most frequent mistakes: {plain(pairs)}")
    lines.append("Pictures of another kind than those it learned from (camera, light, place) were not measured")
    return "\n".join(f"- {line}." for line in lines)


def _data(facts: RunFacts) -> str:
    data = facts.data
    lines = [
        f"{plain(data.name)}: {listed([f'{split} {number:,}' for split, number in data.pictures.items()])} pictures"
    ]
    lines += [plain(note).removesuffix(".") for note in data.notes]
    if data.left_out:
        lines.append(f"{count(len(data.left_out), 'file')} left out, named in report.html")
    return "\n".join(f"- {line}." for line in lines)


def _commands(facts: RunFacts) -> str:
    if not facts.commands:
        return ""
    lines = "\n".join(f"    {one_line(line)}" for _, line in facts.commands)  # indented: no fence to break out of
    return f"## How to use it\n\n{lines}"
