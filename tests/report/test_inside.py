"""The report's look inside: of the best and worst pictures, cheap, and never a reason to lose a run."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from oracles import randomise
from page.html_checker import Checker
from report.made_facts import from_logits, hostile
from vitrail.errors import ImageError
from vitrail.model import Model, create_model
from vitrail.model.vit import ViT
from vitrail.predict.predictor import Predictor
from vitrail.report.facts import InsideFacts, Look, RunFacts
from vitrail.report.look import MOST_LOOKS, MOST_PICTURES, effort, gather_inside
from vitrail.report.report import page
from vitrail.weights.artefact import Artefact

SHAPE = {"image_size": 16, "patch_size": 4, "num_classes": 3, "dim": 16, "depth": 2, "heads": 2, "mlp_dim": 24}


def run_of(model: Model, count: int = 20, **parts: Any) -> tuple[RunFacts, Predictor]:
    predictor = Predictor.of(Artefact(model, **parts))
    size, channels = model.config.image_size, model.config.channels
    pixels = np.random.default_rng(0).integers(0, 256, (count, *size, channels), dtype=np.uint8)
    targets = np.arange(count) % 3
    facts = from_logits(predictor.engine(pixels), np.eye(3, dtype=int)[targets] if parts else targets, "abc")
    facts = replace(facts, picture=lambda n: pixels[n])
    inside = gather_inside(predictor, facts.picture, list(facts.names), facts.probabilities, facts.targets)
    return replace(facts, inside=inside), predictor


def section(document: str) -> str:
    return document.split('id="inside"')[1].split("</section>")[0]


def test_the_best_and_the_worst_are_shown_with_their_maps() -> None:
    facts, _ = run_of(randomise(ViT(**SHAPE)))
    truth = facts.probabilities[np.arange(20), facts.targets]
    assert facts.inside is not None
    assert [look.n for look in facts.inside.best] == np.argsort(-truth, kind="stable")[:MOST_LOOKS].tolist()
    assert sorted(truth[[look.n for look in facts.inside.worst]]) == sorted(truth)[:MOST_LOOKS]
    part = section(page(facts))
    Checker(page(facts))
    names = re.findall('class="file" title="(.*?)"', part)
    assert names == [facts.names[look.n] for look in (*facts.inside.best, *facts.inside.worst)]
    assert part.count("<img") == 2 * 2 * MOST_LOOKS + 2  # and the filters and positions
    assert "Mean attention distance" in part


@pytest.mark.parametrize(("positions", "said"), [("learned", False), ("sincos-1d", True), ("sincos-2d", True)])
def test_positions_by_a_formula_are_not_called_learned(positions: str, said: bool) -> None:
    facts, _ = run_of(randomise(ViT(**SHAPE, positions=positions)), count=3)
    assert ("sines and cosines, not learned" in section(page(facts))) == said


def test_several_labels_and_small_evaluations() -> None:
    facts, _ = run_of(randomise(ViT(**SHAPE)), multi_label=True)
    assert len(facts.inside.best) == MOST_LOOKS
    Checker(page(facts))
    few, _ = run_of(randomise(ViT(**SHAPE)), count=3)
    assert [len(few.inside.best), len(few.inside.worst)] == [1, 1]


def test_a_resnet_shows_what_it_looks_at_and_says_the_rest() -> None:
    facts, _ = run_of(randomise(create_model("R18", image_size=32, num_classes=3)), count=4)
    assert facts.inside.note == ""
    assert section(page(facts)).count("<img") == 2 * 2 * 1 * 2
    assert "attention distance" not in section(page(facts))


def test_nothing_makes_a_run_fail() -> None:
    facts, predictor = run_of(randomise(ViT(**SHAPE)), count=4)

    def burns(n: int) -> np.ndarray:
        raise RuntimeError(f"out of <b>memory</b>\nat {n}")

    inside = gather_inside(predictor, burns, list(facts.names), facts.probabilities, facts.targets)
    assert "could not be shown: out of <b>memory</b>\\nat" in inside.note
    assert "out of &lt;b&gt;memory" in section(page(replace(facts, inside=inside)))


def test_pictures_that_are_gone_are_left_out() -> None:
    facts, predictor = run_of(randomise(ViT(**SHAPE)), count=12)

    def half(n: int) -> np.ndarray:
        if n % 2:
            raise ImageError("is gone")
        return facts.picture(n)

    inside = gather_inside(predictor, half, list(facts.names), facts.probabilities, facts.targets)
    assert all(look.n % 2 == 0 for look in (*inside.best, *inside.worst))
    assert inside.internals.pictures == 6


@pytest.mark.parametrize(("name", "looks"), [("Ti/16", 4), ("B/16", 1), ("L/16", 1)])
def test_large_models_are_asked_less(name: str, looks: int) -> None:
    import torch

    with torch.device("meta"):
        spend = effort(create_model(name))
    assert spend.looks == looks
    assert 1 <= spend.pictures <= MOST_PICTURES


def test_names_are_only_ever_text() -> None:
    look = Look(0, np.zeros((8, 8, 3), np.uint8), np.ones((2, 2), np.float32))
    document = page(replace(hostile(), inside=InsideFacts(best=[look], worst=[look], method="<b>", note="<i>")))
    assert Checker(document).tags.count("script") == 1
    assert "<b>." not in document


def test_no_look_no_section() -> None:
    assert 'id="inside"' not in page(hostile())
