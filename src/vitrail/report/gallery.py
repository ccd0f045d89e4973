"""Pictures: the surest mistakes, what it is unsure of, what it gets right."""

from __future__ import annotations

import numpy as np

from vitrail.errors import VitrailError
from vitrail.page.document import text
from vitrail.page.pictures import img
from vitrail.report.facts import RunFacts
from vitrail.report.section import Section, bar
from vitrail.report.words import percent

MISTAKES, UNSURE, RIGHT = 10, 5, 10
SIDE = 240  # pixels across, enough for a card on a fine screen
CHOICES = 3  # classes shown for a picture it is unsure of


def mistake_section(facts: RunFacts) -> Section | None:
    """The mistakes it was surest of: what to look at first, for some of them are wrong labels."""
    cards = _label_mistakes(facts) if facts.multi_label else _class_mistakes(facts)
    if not cards:
        return None
    words = (
        "The wrong answers it was surest of. Look at them first: some may be wrong labels in the data rather than "
        "mistakes of the model."
    )
    return Section("Mistakes", "Where it is sure and wrong", words, _cards(cards))


def example_section(facts: RunFacts) -> Section | None:
    """What it is unsure of and what it gets right; for single labels, where those words have a meaning."""
    if facts.multi_label:
        return None
    unsure, right = _unsure(facts), _right(facts)
    body = f"<h3>Unsure</h3><p>The pictures it is least sure of, and what it hesitates between.</p>{_cards(unsure)}"
    if right:
        body += f"<h3>Right</h3><p>A sample over all classes.</p>{_cards(right)}"
    return Section("Examples", "What it hesitates over, and what it knows", "", body)


def _class_mistakes(facts: RunFacts) -> list[str]:
    said, sure = facts.probabilities.argmax(axis=1), facts.probabilities.max(axis=1)
    wrong = np.flatnonzero(said != facts.targets)
    chosen = wrong[np.argsort(-sure[wrong], kind="stable")][:MISTAKES]
    return [
        _card(
            facts,
            n,
            answer_line(facts, int(said[n]), float(sure[n]), "bad") + truth_line(facts.classes[facts.targets[n]]),
        )
        for n in chosen.tolist()
    ]


def _label_mistakes(facts: RunFacts) -> list[str]:
    """Labels that were given and are not there, or are there and were not given, the surest first; one a picture."""
    gap = np.abs(facts.probabilities - facts.targets)
    thresholds = np.array(facts.evaluation.thresholds)
    wrong = (facts.probabilities >= thresholds) != facts.targets.astype(bool)
    worst = np.where(wrong, gap, 0.0)
    pictures = np.argsort(-worst.max(axis=1), kind="stable")[:MISTAKES]
    cards = []
    for n in pictures[worst.max(axis=1)[pictures] > 0].tolist():
        k = int(worst[n].argmax())
        true = ", ".join(facts.classes[i] for i in np.flatnonzero(facts.targets[n])) or "no label"
        verb = "misses" if facts.targets[n, k] else "says"
        cards.append(
            _card(facts, n, answer_line(facts, k, float(facts.probabilities[n, k]), "bad", verb) + truth_line(true))
        )
    return cards


def _unsure(facts: RunFacts) -> list[str]:
    chosen = np.argsort(facts.probabilities.max(axis=1), kind="stable")[:UNSURE]
    return [
        _card(facts, n, _hesitation(facts, n) + truth_line(facts.classes[facts.targets[n]])) for n in chosen.tolist()
    ]


def _right(facts: RunFacts) -> list[str]:
    """Evenly over the pictures that it got right, in the order of their classes."""
    said, sure = facts.probabilities.argmax(axis=1), facts.probabilities.max(axis=1)
    right = np.flatnonzero(said == facts.targets)
    right = right[np.argsort(facts.targets[right], kind="stable")]
    chosen = right[np.unique(np.linspace(0, len(right) - 1, min(RIGHT, len(right))).round().astype(int))]
    return [_card(facts, n, answer_line(facts, int(said[n]), float(sure[n]), "good")) for n in chosen.tolist()]


# ---- a card -------------------------------------------------------------------------------------------------------


def _cards(cards: list[str]) -> str:
    return f'<ul class="cards">{"".join(cards)}</ul>'


def _card(facts: RunFacts, n: int, words: str) -> str:
    name = text(facts.names[n])
    short = text(facts.names[n].replace("\\", "/").rsplit("/", 1)[-1])
    return f'<li>{_picture(facts, n)}<div>{words}<p class="file" title="{name}">{short}</p></div></li>'


def _picture(facts: RunFacts, n: int) -> str:
    try:
        return f'<div class="frame">{img(facts.picture(n), SIDE, text(facts.names[n]))}</div>'
    except VitrailError as error:
        return f'<div class="frame"><p class="gone">cannot be shown: {text(error.what)}</p></div>'


def answer_line(facts: RunFacts, k: int, sure: float, kind: str, verb: str = "says") -> str:
    said = f"{verb} <b>{text(facts.classes[k])}</b>"
    return f'<p class="said {kind}"><span>{said}</span> <span>{percent(sure)}</span></p>'


def truth_line(label: str) -> str:
    return f'<p class="truth">is <b>{text(label)}</b></p>'


def _hesitation(facts: RunFacts, n: int) -> str:
    row = facts.probabilities[n]
    rows = "".join(
        f"<li><span>{text(facts.classes[k])}</span> {bar(float(row[k]))} <span>{percent(float(row[k]), 0)}</span></li>"
        for k in np.argsort(-row, kind="stable")[:CHOICES].tolist()
    )
    return f'<ol class="bars">{rows}</ol>'
