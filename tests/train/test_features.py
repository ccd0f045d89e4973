"""Features computed once: the right ones, from the cache only where nothing changed, and never too many files."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
from PIL import Image

from data.small_sets import class_folders
from oracles import randomise
from train import tiny
from vitrail import Artefact, Predictor, Preprocessing, create_model
from vitrail.data.examples import ArrayPictures
from vitrail.data.sources import open_data
from vitrail.train import features as module
from vitrail.train.features import Reading, features, logits


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("VITRAIL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "features"


def asked(name="Ti/16", seed=0, **words):
    steps = Preprocessing(size=32, mean=(0.5,) * 3, std=(0.3,) * 3)
    return Predictor.of(
        Artefact(randomise(create_model(name, image_size=32, num_classes=3, **words), seed), None, steps)
    )


class Counter:
    """A way of reading that counts the pictures the model really saw."""

    def __init__(self, monkeypatch):
        self.seen = 0
        real = module.stream_examples

        def counted(engine, predictor, examples, indices, **pace):
            self.seen += len(indices)
            return real(engine, predictor, examples, indices, **pace)

        monkeypatch.setattr(module, "stream_examples", counted)


@pytest.fixture
def counter(monkeypatch):
    return Counter(monkeypatch)


@pytest.mark.parametrize("name", ["Ti/16", "R18"])
def test_they_are_what_the_head_sees(name):
    predictor, examples = asked(name, **({"depth": 1} if name == "Ti/16" else {"width": 32})), tiny.examples(10)
    found = features(predictor, examples, np.arange(10), Reading(batch_size=4))
    assert found.indices.tolist() == list(range(10))
    with torch.inference_mode():
        answers = predictor.model.classify(torch.from_numpy(found.values)).numpy()
    np.testing.assert_allclose(answers, logits(predictor, examples, np.arange(10)).values, atol=1e-5)


def test_the_second_time_costs_nothing_and_is_the_same(counter, cache):
    predictor, examples = asked(depth=1), tiny.examples(10)
    first = features(predictor, examples, np.arange(7))
    told = []
    again = features(predictor, examples, np.arange(7), Reading(advance=told.append))
    assert (counter.seen, told, len(list(cache.iterdir()))) == (7, [7], 1)
    assert np.array_equal(first.values, again.values)


def test_whatever_changes_is_computed_anew(counter, tmp_path):
    examples = tiny.examples(6)
    features(asked(depth=1), examples, np.arange(6))
    features(asked(depth=1, seed=1), examples, np.arange(6))  # other weights
    features(asked(depth=1), examples, np.arange(5))  # other pictures
    logits(asked(depth=1), examples, np.arange(6))
    pixels = examples.pictures.pixels.copy()
    pixels[0, 0, 0, 0] ^= 255
    features(asked(depth=1), examples.replace(pictures=ArrayPictures(pixels)), np.arange(6))
    assert counter.seen == 6 + 6 + 5 + 6 + 6
    root = class_folders(tmp_path / "data", {"a": 2, "b": 2})
    for _ in range(2):
        features(asked(depth=1), open_data(root, val=0.0), np.arange(4))
    assert counter.seen == 29 + 4
    changed = sorted(root.rglob("*.png"))[0]
    Image.new("RGB", (8, 6), (9, 9, 9)).save(changed)
    os.utime(changed, ns=(1, 1))
    features(asked(depth=1), open_data(root, val=0.0), np.arange(4))
    assert counter.seen == 33 + 4


def test_a_damaged_file_of_the_cache_is_replaced(counter, cache):
    predictor, examples = asked(depth=1), tiny.examples(4)
    first = features(predictor, examples, np.arange(4))
    (path,) = cache.iterdir()
    path.write_bytes(path.read_bytes()[:-20])
    assert np.array_equal(features(predictor, examples, np.arange(4)).values, first.values)
    assert counter.seen == 8
    features(predictor, examples, np.arange(4))
    assert counter.seen == 8


def test_the_oldest_files_make_room(monkeypatch, cache):
    examples = tiny.examples(6)
    features(asked(depth=1), examples, np.arange(6))
    (oldest,) = cache.iterdir()
    os.utime(oldest, ns=(1, 1))
    monkeypatch.setattr(module, "LIMIT", int(2.5 * oldest.stat().st_size))
    for seed in (1, 2):
        features(asked(depth=1, seed=seed), examples, np.arange(6))
    assert len(list(cache.iterdir())) == 2
    assert not oldest.exists()


def test_a_cache_that_cannot_be_written_does_no_harm(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("VITRAIL_CACHE", str(tmp_path / "file"))
    assert len(features(asked(depth=1), tiny.examples(4), np.arange(4)).values) == 4


def test_pictures_that_cannot_be_read_are_told_and_left_out(tmp_path):
    root = class_folders(tmp_path / "data", {"a": 2, "b": 2})
    bad = sorted(root.rglob("*.png"))[1]
    bad.write_bytes(b"no picture")
    complaints = []
    examples = open_data(root, val=0.0)
    found = features(asked(depth=1), examples, np.arange(4), Reading(complaints.append))
    assert len(complaints) == 1
    assert str(bad) in str(complaints[0])
    assert str(bad) not in [examples.pictures.name(int(index)) for index in found.indices]


def test_a_models_stamp_tells_counters_and_weights_apart():
    """A convolutional stem has BatchNorm's counter, which is a tensor without dimensions."""
    model = asked(stem="conv", depth=1).model
    before = module.model_stamp(model)
    assert module.model_stamp(model) == before
    next(b for name, b in model.named_buffers() if name.endswith("num_batches_tracked")).add_(1)
    assert module.model_stamp(model) != before
