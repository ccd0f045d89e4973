"""`vitrail probe`: the numbers are those of the classifiers, whatever the splits, and the page holds them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import save_file

from oracles import randomise
from page.html_checker import Checker
from vitrail import Artefact, Preprocessing, create_model
from vitrail.cli.probe import command
from vitrail.errors import ConfigError

COLOURS = {"red": (200, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 200)}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("VITRAIL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def model(tmp_path):
    """Of five other classes: what it would answer does not matter."""
    made = randomise(create_model("Ti/16", image_size=32, depth=1, num_classes=5))
    Artefact(made, None, Preprocessing(size=32, mean=(0.5,) * 3, std=(0.5,) * 3)).save(tmp_path / "model.safetensors")
    return str(tmp_path / "model.safetensors")


def photos(root, splits):
    generator = np.random.default_rng(0)
    for split, count in splits.items():
        for name, colour in COLOURS.items():
            folder = root / split / name
            folder.mkdir(parents=True)
            for number in range(count):
                pixels = np.clip(generator.normal(colour, 40, (32, 32, 3)), 0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(folder / f"{number}.png")
    return str(root)


def probed(capsys, *words, **options):
    command(*words, json=True, **options)
    return json.loads(capsys.readouterr().out)


def test_it_tells_colours_apart_and_says_where(model, tmp_path, capsys):
    data = photos(tmp_path / "photos", {"train": 8, "val": 3, "test": 4})
    found = probed(capsys, model, data, shots="1,4", seeds=2, k=3)
    assert found["split"] == "test"
    assert found["pictures"] == {"train": 24, "val": 9, "test": 12}
    assert [few["shots"] for few in found["few_shot"]] == [1, 4]
    assert all(len(few["accuracies"]) == 2 for few in found["few_shot"])
    assert (found["linear"], found["knn"], found["few_shot"][1]["mean"]) == (1.0, 1.0, 1.0)
    assert probed(capsys, model, data, shots="1,4", seeds=2, k=3) == found  # now from the cache


@pytest.mark.parametrize(
    ("splits", "on", "train"),
    [({"train": 6, "val": 3}, "val", 18), ({"train": 6, "test": 3}, "test", 18), ({"": 10}, "val", 24)],
)
def test_the_splits_there_are_decide(model, tmp_path, capsys, splits, on, train):
    found = probed(capsys, model, photos(tmp_path / "photos", splits), shots="2")
    assert (found["split"], found["pictures"]["train"]) == (on, train)


def test_foreign_weights_are_probed_too(tmp_path, capsys):
    theirs = randomise(create_model("Ti/16", image_size=32, depth=1, num_classes=7))
    save_file(theirs.state_dict(), tmp_path / "theirs.safetensors")  # without anything that is ours
    data = photos(tmp_path / "photos", {"train": 4, "val": 2})
    found = probed(capsys, str(tmp_path / "theirs.safetensors"), data, shots="3")
    assert found["linear"] == 1.0


def test_too_few_pictures_are_said(model, tmp_path, capsys):
    found = probed(capsys, model, photos(tmp_path / "photos", {"train": 3, "val": 2}), shots="1,5")
    assert "3 classes have fewer than 5 training pictures; all there are were taken" in found["notes"]


@pytest.mark.parametrize("name", ["probe.html", "folder"])
def test_the_page_holds_the_numbers_and_nothing_from_elsewhere(model, tmp_path, capsys, name):
    data = photos(tmp_path / "<b>photos", {"train": 4, "val": 2})
    command(model, data, shots="1,3", out=tmp_path / name)
    out = capsys.readouterr().out
    path = tmp_path / name if name.endswith(".html") else tmp_path / name / "probe.html"
    page = Checker(path.read_text())
    assert page.references == []
    assert "svg" in page.tags
    said = " ".join(page.words)
    for line in ("3 of each class", "nearest neighbours", "linear, all pictures"):
        assert line in said
        assert line in out
    if name == "folder":
        assert json.loads((tmp_path / name / "probe.json").read_text())["split"] == "val"


@pytest.mark.parametrize("shots", ["", "one", "0", "5,-1"])
def test_shots_that_are_no_numbers(model, tmp_path, shots):
    with pytest.raises(ConfigError, match="no numbers of pictures"):
        command(model, str(tmp_path), shots=shots)
