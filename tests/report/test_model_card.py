"""The model card: short, the same figures as the report, safe Markdown."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from report.made_facts import COMMANDS, digits, many_classes, several_labels
from vitrail.report.model_card import model_card, plain
from vitrail.report.words import percent


def test_it_says_what_the_report_says_in_a_page() -> None:
    facts = digits()
    card = model_card(facts)
    assert card.startswith("# digits\n")
    assert card.count("\n") < 60
    for share in (facts.evaluation.accuracy, facts.evaluation.balanced_accuracy, facts.evaluation.ece):
        assert percent(share) in card
    for _, command in COMMANDS:
        assert f"    {command}\n" in card
    worst = facts.evaluation.worst_classes(1)[0]
    assert f"{worst.name} \\({percent(worst.recall)}\\)" in card


def test_it_stays_short_with_many_classes() -> None:
    assert len(model_card(many_classes(500))) < 5000


def test_several_labels() -> None:
    card = model_card(several_labels())
    assert "any number of 6 labels" in card
    assert "Most frequent mistakes" not in card


@given(st.text())
def test_any_name_stays_on_its_line_and_is_no_markup(name: str) -> None:
    written = plain(name)
    assert len(written.splitlines()) <= 1
    for sign in "<>[]`*_|":
        assert written.count(f"\\{sign}") >= written.count(sign)


def test_hostile_names() -> None:
    evil = "<img src=x onerror=alert(1)>\n# heading | [x](javascript:y)"
    facts = digits()
    card = model_card(
        replace(facts, title=evil, summary=evil, split=evil, classes=tuple(f"{evil}{k}" for k in range(10)))
    )
    assert "<img" not in card.replace("\\<img", "")
    assert "\n# heading" not in card
    assert "](javascript" not in card.replace("\\]\\(javascript", "")
