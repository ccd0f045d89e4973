"""The worked example: a real model, shipped with the package, that tells drawn cats from drawn dogs."""

from __future__ import annotations

from importlib.resources import files

import numpy as np
import pytest
import torch

from vitrail.errors import ConfigError
from vitrail.explain.walk import walk
from vitrail.explain.worked_example import (
    CLASSES,
    PREPROCESSING,
    WEIGHTS,
    Pose,
    accuracy,
    draw,
    drawings,
    train,
    worked_example,
)


@pytest.mark.parametrize("animal", CLASSES)
def test_it_names_its_own_picture(animal: str) -> None:
    model, image, classes = worked_example(animal)
    assert image.shape == (16, 16, 1)
    assert image.dtype == np.uint8
    label, share = walk(model, image, classes, PREPROCESSING).ranking[0]
    assert label == animal
    assert share > 0.9


def test_it_is_the_example_of_the_text() -> None:
    config = worked_example()[0].config
    assert (config.grid, config.dim, config.channels, config.head, config.head_dim) == ((4, 4), 8, 1, "relu", 4)
    assert config.prefix_tokens == 1


@pytest.mark.parametrize("seed", [2, 1234])
def test_it_is_right_about_new_drawings(seed: int) -> None:
    assert accuracy(worked_example()[0], count=500, seed=seed) >= 0.9


def test_the_weights_are_small() -> None:
    assert len(files("vitrail.explain").joinpath(WEIGHTS).read_bytes()) < 20_000


def test_an_unknown_animal_is_refused() -> None:
    with pytest.raises(ConfigError, match="animal='cow' is not known"):
        worked_example("cow")


def test_drawings_differ_and_can_be_drawn_again() -> None:
    (images, labels), (again, _), (others, _) = drawings(20, seed=5), drawings(20, seed=5), drawings(20, seed=6)
    assert torch.equal(images, again)
    assert not torch.equal(images, others)
    assert set(labels.tolist()) == {0, 1}
    assert len(torch.unique(images, dim=0)) == 20


def test_only_the_ears_tell_them_apart_near_the_nose() -> None:
    cat, dog = (draw(animal, Pose()) for animal in CLASSES)
    assert np.array_equal(cat[9:13, 6:10], dog[9:13, 6:10])
    assert not np.array_equal(cat[:4], dog[:4])


def test_training_is_reproducible() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        first, second = (train(steps=3, pictures=64).state_dict() for _ in range(2))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(first[name], second[name]) for name in first)
