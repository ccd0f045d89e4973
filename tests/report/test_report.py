"""The page says what the evaluation says, for every kind of run, and the names in it are only ever text."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from page.html_checker import Checker
from report.made_facts import EVIL, digits, from_logits, hostile, many_classes, metrics, several_labels
from vitrail.data.examples import ArrayPictures, Examples, LeftOut
from vitrail.errors import FileError, ImageError
from vitrail.report.facts import DataFacts
from vitrail.report.headline import headline
from vitrail.report.report import page, write_report
from vitrail.report.words import percent


def words(document: str) -> str:
    return re.sub(r"\s+", " ", " ".join(Checker(document).words))


def sections(document: str) -> list[str]:
    return re.findall('<section class="part" id="([a-z-]+)"', document)


def test_every_part_is_there_and_in_the_contents() -> None:
    document = page(digits())
    every = ["mistakes", "classes", "confusions", "confidence", "examples", "training", "data", "settings", "use-it"]
    assert sections(document) == every
    assert re.findall("<nav.*?</nav>", document, re.DOTALL)[0].count("<a ") == len(every)


def test_the_figures_are_those_of_the_evaluation() -> None:
    facts = digits()
    scores, said = facts.evaluation, words(page(facts))
    for share in (scores.accuracy, *scores.interval, scores.balanced_accuracy, scores.ece, scores.known):
        assert percent(share) in said
    for row in scores.classes:
        assert f"{row.name} {row.support:,} {percent(row.recall)} {percent(row.precision)} {percent(row.f1)}" in said
    cells = re.findall(r'<td class="(?:right|wrong|none)"[^>]*>([\d·]+)</td>', page(facts))
    assert [int(cell.replace("·", "0")) for cell in cells] == [n for row in scores.confusion for n in row]


def test_the_surest_mistakes_come_first_with_their_pictures() -> None:
    facts = digits()
    part = page(facts).split('id="mistakes"')[1].split("</section>")[0]
    shown = re.findall(r'says <b>(.*?)</b></span> <span>(.*?)</span>.*?is <b>(.*?)</b>.*?title="(.*?)"', part)
    sure, answers = facts.probabilities.max(axis=1), facts.probabilities.argmax(axis=1)
    wrong = [n for n in np.argsort(-sure, kind="stable") if answers[n] != facts.targets[n]][: len(shown)]
    assert len(shown) == part.count("data:image/png") == 10
    assert shown == [
        (facts.classes[answers[n]], percent(sure[n]), facts.classes[facts.targets[n]], facts.names[n]) for n in wrong
    ]


@pytest.mark.parametrize("make", [digits, several_labels, lambda: many_classes(81)], ids=["10", "labels", "81"])
def test_the_page_is_well_formed_and_needs_nothing(make: Any) -> None:
    document = page(make())
    assert all(reference.startswith(("data:image/", "#")) for reference in Checker(document).references)
    without_data = re.sub(r'"data:image/[a-z]+;base64,[A-Za-z0-9+/=]*"', '""', document)
    for outside in ("http:", "https:", "@import", "url(", 'src="h'):
        assert outside not in without_data


def test_headings_go_down_one_level_at_a_time() -> None:
    levels = [int(tag[1]) for tag in Checker(page(digits())).tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_every_picture_and_chart_has_words_for_it() -> None:
    document = page(digits())
    assert document.count("<img") == len(re.findall(r'<img[^>]* alt="[^"]+">', document))
    assert document.count("<svg") == len(re.findall(r'<svg[^>]*role="img" aria-label="[^"]+"', document))


def test_a_thousand_classes_fit() -> None:
    document = page(many_classes(1000, pictures=3000))
    assert len(document.encode()) < 3_000_000
    assert "confusions" in sections(document)


def test_more_classes_than_a_map_can_show() -> None:
    document = page(many_classes(1200, pictures=1500))
    assert "confusions" not in sections(document)
    assert "The 200 best classes are not shown" in document


def test_several_labels_a_picture() -> None:
    facts = several_labels()
    document = page(facts)
    assert {"confusions", "examples"}.isdisjoint(sections(document))
    assert "Average precision" in document
    assert "Among its first five" not in document
    assert percent(facts.evaluation.mean_average_precision) in document
    assert percent(facts.evaluation.classes[0].average_precision) in document
    assert {"says", "misses"} == set(re.findall(r"(says|misses) <b>", document))


def test_a_run_that_was_only_evaluated() -> None:
    facts = replace(digits(), metrics=[], config={}, reasons={}, commands=(), summary="", data=DataFacts("x", {}, {}))
    assert sections(page(facts)) == ["mistakes", "classes", "confusions", "confidence", "examples", "data"]


def test_a_run_with_a_single_row_and_one_that_diverged() -> None:
    assert "training" in sections(page(replace(digits(), metrics=[metrics()[1]])))
    broken = [{**row, "loss": float("nan")} for row in metrics()]
    document = page(replace(digits(), metrics=broken))
    assert "Loss while training" not in document
    assert not re.search(r"""[\s",>]nan[\s",<%]""", document.split("<main>")[1].split("</main>")[0])


def test_a_summary_is_made_where_there_is_none() -> None:
    silent = replace(digits(), summary="")
    assert "It tells 10 classes apart, after 4 minutes of training on 6,985 pictures." in page(silent)
    assert "It tells 10 classes apart." in page(replace(silent, metrics=[]))
    assert "It gives any of 6 labels, after 4 minutes" in page(replace(several_labels(), summary=""))


def test_it_says_what_the_figures_were_measured_on() -> None:
    assert "1,397 pictures of the test split" in page(digits())
    assert "1,397 validation pictures: not trained on, but used to choose" in page(replace(digits(), split="val"))


def test_everything_right() -> None:
    targets = np.arange(40) % 4
    document = page(from_logits(np.eye(4)[targets] * 9, targets, "abcd"))
    assert "It got all 40 pictures right" in document
    assert "mistakes" not in sections(document)
    assert "It takes no class for another" in document


def test_nothing_right_and_absent_classes() -> None:
    targets = np.zeros(30, int)
    document = page(from_logits(np.roll(np.eye(3), 1, axis=1)[targets], targets, "abc"))
    assert "it gets about 0 right" in document
    assert "2 classes had no picture" in document


@pytest.mark.parametrize(
    ("right", "count", "sentence"),
    [
        (913, 1000, "Of 100 new pictures it gets about 91 right"),
        (9871, 10_000, "Of 1,000 new pictures it gets about 987 right"),
        (29_999, 30_000, "It gets more than 999 of 1,000 new pictures right"),
        (50, 50, "It got all 50 pictures right"),
    ],
)
def test_the_headline_is_true(right: int, count: int, sentence: str) -> None:
    targets = np.zeros(count, int)
    answers = np.where(np.arange(count) < right, 0, 1)
    said = headline(from_logits(np.eye(2)[answers] * 3, targets, "ab"))
    assert said.sentence == sentence
    low, high = map(float, re.match("([0-9.]+) to ([0-9.]+),", said.range).groups())
    assert low <= said.total * right / count <= high


def test_names_are_shown_as_text(tmp_path: Path) -> None:
    write_report(tmp_path / "report.html", hostile())
    document = (tmp_path / "report.html").read_text(encoding="utf-8")
    tags = Checker(document).tags
    assert tags.count("script") == 1
    assert tags.count("img") == page(digits()).count("<img")
    assert html.escape(EVIL) in document
    assert "\x1b" not in document


def test_a_picture_that_is_gone_leaves_its_place() -> None:
    def gone(n: int) -> np.ndarray:
        if n % 2:
            raise ImageError("this is <b>gone</b>", where="x.png")
        return np.zeros((300, 200, 3), np.uint8)

    document = page(replace(digits(), picture=gone))
    assert "cannot be shown: this is &lt;b&gt;gone&lt;/b&gt;" in document
    assert "data:image/jpeg" in document


def test_both_files_are_written_whole_or_not_at_all(tmp_path: Path) -> None:
    write_report(tmp_path / "report.html", digits())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model_card.md", "report.html"]
    with pytest.raises(FileError, match="cannot be written"):
        write_report(tmp_path / "nowhere" / "report.html", digits())


def test_the_settings_are_complete_and_reasons_stand_beside_them() -> None:
    said = words(page(digits()))
    assert "optim.lr 0.002 0.002 at a batch of 256" in said
    for setting in ("model.patch_size 2, 2", "optim.betas 0.9, 0.95", "budget.epochs none", "any_size no"):
        assert setting in said


def test_the_facts_of_examples() -> None:
    examples = Examples(
        name="toys",
        pictures=ArrayPictures(np.zeros((6, 4, 4, 1), np.uint8)),
        targets=np.array([0, 1, 1, 0, 2, 1]),
        classes=("a", "b", "c"),
        splits={"train": np.array([0, 1, 2]), "val": np.array([3, 4, 5])},
        left_out=(LeftOut("x.png", "empty"),),
    )
    facts = DataFacts.of(examples, channels=1)
    assert facts.pictures == {"train": 3, "val": 3}
    assert facts.counts == {"train": [1, 2, 0], "val": [1, 1, 1]}
    assert facts.left_out == (("x.png", "empty"),)
    labels = examples.replace(targets=np.eye(6, 3, dtype=np.int64))
    assert DataFacts.of(labels).counts == {"train": [1, 1, 1], "val": [0, 0, 0]}
