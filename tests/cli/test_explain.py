"""`vitrail explain`: a PNG a picture, one page for all, and what can be trusted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from oracles import randomise
from vitrail import Artefact, Preprocessing, ResNet, ResNetConfig, create_model
from vitrail.cli.explain import command
from vitrail.errors import VitrailError
from vitrail.explain.methods import METHODS

CLASSES = ("ant", "$10 [bold]bee", "<b>cat")


@pytest.fixture
def model(tmp_path):
    steps = Preprocessing(size=32, mean=(0.5,) * 3, std=(0.3,) * 3)
    made = randomise(create_model("Ti/16", image_size=32, patch_size=8, depth=2, num_classes=3))
    Artefact(made, CLASSES, steps).save(tmp_path / "model.safetensors")
    return str(tmp_path / "model.safetensors")


@pytest.fixture
def photos(tmp_path):
    generator = np.random.default_rng(0)
    for name in ("1.png", "deep/1.png"):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(generator.integers(0, 256, (40, 30, 3), np.uint8)).save(path)
    return str(tmp_path / "photos")


def test_pictures_a_page_and_lines(model, photos, tmp_path, capsys):
    out = tmp_path / "out"
    assert command(model, photos, out=out, all_heads=True) == 0
    said = capsys.readouterr().out
    files = sorted(path.name for path in out.iterdir())
    each = [f"00{i}-1-{kind}.png" for i in (1, 2) for kind in ("attribution", "heads")]
    assert files == [*each, "contact-sheet.png", "explain.html"]
    assert said.splitlines()[-2:] == [str(out / "contact-sheet.png"), str(out / "explain.html")]
    assert said.count("than random") == 2
    for path in out.glob("*.png"):
        with Image.open(path) as picture:
            picture.load()
            assert min(picture.size) > 200


def test_json_with_every_method_ranked(model, photos, tmp_path, capsys):
    command(model, photos + "/1.png", out=tmp_path / "out", compare=True, json=True)
    document = json.loads(capsys.readouterr().out)
    (picture,) = document["pictures"]
    assert [found["method"] for found in picture["maps"]] == list(METHODS)
    assert {rank["method"] for rank in document["ranking"]} == set(METHODS)
    assert document["ranking"] == sorted(document["ranking"], key=lambda rank: -rank["score"])
    for found in picture["maps"]:
        assert np.array(found["heat"]).shape == (4, 4)
        assert found["trust"]["verdict"].endswith("than random") or "hardly" in found["trust"]["verdict"]
        assert -1 <= found["trust"]["same_when_shuffled"] <= 1
    assert all(Path(file).is_file() for file in [*picture["files"], document["page"]])
    assert document["contact_sheet"] is None  # one picture needs none


def test_several_pictures_have_a_contact_sheet(model, photos, tmp_path, capsys):
    command(model, photos, out=tmp_path / "out", trust=False, json=True)
    document = json.loads(capsys.readouterr().out)
    assert document["contact_sheet"] == str(tmp_path / "out/contact-sheet.png")
    assert Path(document["contact_sheet"]).is_file()


def test_a_class_can_be_named(model, photos, tmp_path, capsys):
    command(model, photos + "/1.png", out=tmp_path / "out", class_="ant", trust=False, json=True)
    (picture,) = json.loads(capsys.readouterr().out)["pictures"]
    assert picture["explained"]["label"] == "ant"
    assert picture["maps"][0]["trust"] is None


def test_bad_pictures_are_named_and_the_rest_done(model, photos, tmp_path, capsys):
    (Path(photos) / "bad.jpg").write_text("hello")
    assert command(model, photos, "gone.png", out=tmp_path / "out", trust=False) == 0
    said = capsys.readouterr()
    assert "bad.jpg" in said.err
    assert "gone.png" in said.err
    assert "2 explained, 2 could not be read" in said.err
    assert command(model, "gone.png", out=tmp_path / "none", trust=False) == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"method": "grad-cam"}, "there is no method 'grad-cam'; did you mean 'gradcam'"),
        ({"class_": "aunt"}, "there is no class 'aunt'; did you mean 'ant'"),
        ({"compare": True, "trust": False}, "--compare ranks by trust"),
        ({"images": ("--methd",)}, "there is no option --methd"),
    ],
)
def test_wrong_use_is_said(model, photos, tmp_path, arguments, words):
    with pytest.raises(VitrailError, match=words):
        command(model, photos, *arguments.pop("images", ()), out=tmp_path / "out", **arguments)
    assert not (tmp_path / "out").exists()


def test_nothing_is_overwritten_unless_asked(model, photos, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine.txt").write_text("mine")
    with pytest.raises(VitrailError, match="has files already"):
        command(model, photos, out=tmp_path / "out")
    assert command(model, photos, out=tmp_path / "out", overwrite=True, trust=False) == 0
    assert (tmp_path / "out/mine.txt").read_text() == "mine"
    with pytest.raises(VitrailError, match="no pictures given"):
        command(model, out=tmp_path / "other")


def test_a_resnet_has_its_two_methods(photos, tmp_path, capsys):
    made = randomise(ResNet(ResNetConfig(image_size=32, num_classes=3, blocks=(1,), bottleneck=False, width=32)))
    Artefact(made, CLASSES).save(tmp_path / "resnet.safetensors")
    words = str(tmp_path / "resnet.safetensors"), photos + "/1.png"
    command(*words, out=tmp_path / "out", method="all", trust=False, json=True, all_heads=True)
    (picture,) = json.loads(capsys.readouterr().out)["pictures"]
    assert [found["method"] for found in picture["maps"]] == ["gradcam", "occlusion"]
    with pytest.raises(VitrailError, match="use gradcam or occlusion"):
        command(*words, out=tmp_path / "other")
