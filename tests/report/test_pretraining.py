"""The page of a run without labels."""

from __future__ import annotations

import dataclasses

import numpy as np

from page.html_checker import Checker
from vitrail.report.facts import DataFacts
from vitrail.report.pretraining import Pictures, PretrainFacts, headline, page

FACTS = PretrainFacts(
    title="shoes <b>",
    method="mae",
    figures={"loss": 0.61, "knn": 0.7312, "few_shot": 0.6},
    yardstick=0.97,
    previews=[Pictures(*(np.full((8, 8, 3), value, np.uint8) for value in (10, 20, 30)))] * 3,
    metrics=[
        {"kind": "train", "step": 5, "seconds": 3.0, "loss": 0.9, "lr": 1e-3, "epoch": 0.5, "images_per_second": 9.0},
        {"kind": "val", "step": 5, "seconds": 4.0, "loss": 0.8, "knn": 0.5, "few_shot": 0.4, "epoch": 0.5},
        {"kind": "val", "step": 9, "seconds": 8.0, "loss": 0.61, "knn": 0.7312, "few_shot": 0.6, "epoch": 1.0},
    ],
    classes=("a", "b"),
    data=DataFacts("shoes", {"train": 1000, "val": 100}, {"train": [500, 500]}),
    config={"method": {"kind": "mae", "mask": 0.75}},
    reasons={"method": "as in its paper"},
    commands=[("Train", "vitrail train shoes --from runs/shoes")],
)


def words(facts):
    return " ".join(Checker(page(facts)).words)


def test_it_says_how_good_the_features_are():
    said = words(FACTS)
    assert "73.1%" in headline(FACTS)
    assert "where always giving the mean answer has 0.97" in said
    assert "by nearest neighbours" in said  # the curve
    assert "shoes <b>" in said
    assert page(FACTS).count("<img") == 9


def test_a_loss_that_is_no_better_than_the_mean_is_not_praised():
    assert "no better than" in words(dataclasses.replace(FACTS, yardstick=0.5))


def test_without_labels_and_pictures():
    plain = dataclasses.replace(
        FACTS, figures={"loss": 2.0}, yardstick=None, previews=[], metrics=[], classes=(),
        data=DataFacts("shoes", {"train": 1000}, {"train": []}),
    )  # fmt: skip
    assert headline(plain) == "It learned from 1,000 pictures without a label"
    assert "<img" not in page(plain)
