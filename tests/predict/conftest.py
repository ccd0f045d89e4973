"""A small model with all that a file can say, and pictures of every colour."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from oracles import randomise
from vitrail import Artefact, Predictor, Preprocessing, create_model

CLASSES = ("ant", "bee", "cat")


@pytest.fixture(scope="module")
def artefact():
    model = randomise(create_model("Ti/16", image_size=32, depth=1, num_classes=3))
    steps = Preprocessing(size=32, mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4), crop=0.9)
    return Artefact(model, CLASSES, steps, temperature=1.7, unknown_below=0.45)


@pytest.fixture
def predictor(artefact):
    return Predictor.of(artefact)


@pytest.fixture
def pictures(tmp_path):
    """Twelve files, each of its own noise."""
    generator = np.random.default_rng(0)
    for number in range(12):
        rows, columns = generator.integers(20, 90, 2)
        noise = generator.integers(0, 256, (rows, columns, 3), np.uint8)
        Image.fromarray(noise).save(tmp_path / f"{number:02}.png")
    return sorted(tmp_path.glob("*.png"))
