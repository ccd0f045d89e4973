"""The page of a model's inside: well-formed, needs nothing, complete, and every name in it is only ever text."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from oracles import randomise
from page.html_checker import Checker
from report.made_facts import EVIL
from vitrail.explain.internals import Internals, look_inside
from vitrail.model.cost import cost_table
from vitrail.model.vit import ViT
from vitrail.predict.predictor import Predictor
from vitrail.report.inspect_page import Inspected, page
from vitrail.weights.artefact import Artefact

SHAPE = {"image_size": (24, 16), "patch_size": 4, "num_classes": 3, "dim": 16, "depth": 3, "heads": 2, "mlp_dim": 24}


def inspected(pictures: int = 3, **parts: Any) -> Inspected:
    model = randomise(ViT(**{**SHAPE, **parts}))
    classes = tuple(f"{EVIL}{k}" for k in range(model.config.num_classes))
    predictor = Predictor.of(Artefact(model, classes))
    size, channels = model.config.image_size, model.config.channels
    pixels = np.random.default_rng(0).integers(0, 256, (pictures, *size, channels), dtype=np.uint8)
    inside = look_inside(predictor, [(f"a/{EVIL}{n}", one) for n, one in enumerate(pixels)])
    return Inspected("ViT", EVIL, {"weights": EVIL}, cost_table(model), {"dim": 16, EVIL: EVIL}, classes, inside)


def sections(document: str) -> list[str]:
    return re.findall('<section class="part" id="([a-z-]+)"', document)


def test_every_part_is_there() -> None:
    document = page(inspected(registers=1))
    checked = Checker(document)
    assert sections(document) == ["filters", "positions", "attention", "tokens", "answers", "parts"]
    assert all(reference.startswith(("data:", "#")) for reference in checked.references)
    assert checked.tags.count("script") == 1
    assert document.count('class="head"') == 3 * 3 * 2  # three charts of three blocks of two heads
    assert document.count("data:image/") == 2 + 2 * 3


@pytest.mark.parametrize(
    ("parts", "gone", "said"),
    [
        ({"stem": "conv"}, "filters", "conv stem"),
        ({"positions": "rotary"}, "positions", "rotary positions act inside"),
        ({"num_classes": 0}, "answers", "no head"),
    ],
)
def test_what_is_not_there_is_said(parts: dict[str, Any], gone: str, said: str) -> None:
    document = page(inspected(**parts))
    Checker(document)
    assert gone not in sections(document)
    assert said in document


def test_without_pictures_only_the_weights_are_shown() -> None:
    document = page(inspected(pictures=0))
    assert sections(document) == ["filters", "positions", "parts"]
    assert "need pictures" in document


def test_odd_shapes() -> None:
    for parts in ({"image_size": (4, 4)}, {"image_size": (4, 24)}, {"channels": 5}, {"depth": 1}, {"channels": 1}):
        Checker(page(inspected(**parts)))


def test_a_model_of_which_nothing_can_be_shown() -> None:
    nothing = Inspected("ResNet", "R18", {}, [], {}, (), Internals(notes=("a ResNet has no patches",)))
    assert sections(page(nothing)) == ["parts"]


def test_large_grids_show_some_of_their_places() -> None:
    document = page(inspected(pictures=0, image_size=160))
    assert "one patch in 3 each way" in document
