"""Our own file: complete, checkable, and never believed blindly."""

from __future__ import annotations

import json
import math

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from oracles import randomise
from vitrail import Artefact, Preprocessing, create_model
from vitrail.errors import CheckFailed, WeightsError
from vitrail.weights.artefact import KEY, golden_images
from vitrail.weights.durable import write_safetensors
from vitrail.weights.load import load


def tiny(**changes):
    return randomise(create_model("Ti/16", **{"image_size": 32, "depth": 1, "num_classes": 3, **changes}))


@pytest.fixture
def saved(tmp_path):
    steps = Preprocessing(size=32, mean=(0.5, 0.4, 0.3), std=(0.2, 0.2, 0.2), crop=0.9)
    artefact = Artefact(tiny(), ("cat", "dog", "æ\n<b>"), steps, temperature=1.3, data_fingerprint="abc")
    artefact.save(tmp_path / "model.safetensors")
    return artefact, tmp_path / "model.safetensors"


def rewritten(path, **changes):
    """The file again, with its description changed."""
    with safe_open(path, "pt") as file:
        described = json.loads(file.metadata()[KEY]) | changes
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    write_safetensors(path, tensors, {KEY: json.dumps(described)})
    return path


def test_everything_comes_back(saved):
    artefact, path = saved
    again = load(path, check=True)
    assert again.model.config == artefact.model.config
    assert again.classes == artefact.classes
    assert again.preprocessing == artefact.preprocessing
    assert (again.temperature, again.data_fingerprint) == (1.3, "abc")
    images = golden_images(artefact.model.config)
    with torch.no_grad():
        assert torch.equal(again.model(images), artefact.model(images))
    assert all(parameter.requires_grad for parameter in again.model.parameters())


def test_how_answers_are_decided_comes_back(tmp_path):
    path = tmp_path / "m.safetensors"
    Artefact(tiny(), temperature=0.7, unknown_below=0.3).save(path)
    again = load(path)
    assert (again.temperature, again.unknown_below, again.multi_label, again.thresholds) == (0.7, 0.3, False, None)
    Artefact(tiny(), multi_label=True, thresholds=(0.5, 0, 1)).save(path)
    again = load(path)
    assert (again.unknown_below, again.multi_label, again.thresholds) == (None, True, (0.5, 0.0, 1.0))
    assert load(path, image_size=64).multi_label


def test_a_file_from_before_these_were_stored_still_opens(saved):
    _, path = saved
    with safe_open(path, "pt") as file:
        described = json.loads(file.metadata()[KEY])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    for name in ("unknown_below", "multi_label", "thresholds"):
        del described[name]
    write_safetensors(path, tensors, {KEY: json.dumps(described)})
    again = load(path, check=True)
    assert (again.temperature, again.unknown_below, again.multi_label, again.thresholds) == (1.3, None, False, None)


@pytest.mark.parametrize(
    "parts",
    [
        {"pool": "attention", "positions": "rotary"},
        {"positions": "relative", "norm": "post", "registers": 2},
        {"stem": "conv", "pool": "mean", "positions": "sincos-2d"},
        {"head": "relu", "head_dim": 5, "positions": "learned-2d", "layer_scale": 0.1, "qk_norm": True},
        {"channels": 5, "image_size": (32, 64), "any_size": True},
    ],
)
def test_every_part_survives_the_file(parts, tmp_path):
    model = tiny(**parts)
    Artefact(model).save(tmp_path / "m.safetensors")
    again = load(tmp_path / "m.safetensors", check=True).model
    assert again.config == model.config


def test_a_resnet_survives_the_file(tmp_path):
    model = randomise(create_model("R18", image_size=32, num_classes=3, stem="small"))
    Artefact(model).save(tmp_path / "m.safetensors")
    assert load(tmp_path / "m.safetensors", check=True).model.config == model.config


def test_changed_weights_fail_the_golden_check(saved):
    artefact, path = saved
    state = artefact.model.state_dict()
    state["head.bias"] = state["head.bias"] + 0.01
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    save_file(state, path, metadata)
    assert load(path).classes is not None
    with pytest.raises(CheckFailed, match=r"differ from the stored ones by 0\.01"):
        load(path, check=True)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": 99}, "format 99 is not known"),
        ({"model": "os.system"}, "description is damaged"),
        ({"config": {"image_size": 32}}, "description is damaged"),
        ({"config": "eval"}, "must be named values"),
        ({"classes": ["a"]}, "1 class names for 3 outputs"),
        ({"classes": ["a", "a", "b"]}, "two classes are called 'a'"),
        ({"classes": [1, 2, 3]}, "must be a list of words"),
        ({"temperature": 0}, r"temperature=0\.0 must be positive"),
        ({"temperature": float("nan")}, "temperature=nan must be positive"),
        ({"temperature": 10**400}, "description is damaged"),
        ({"temperature": "1"}, "temperature must be a number"),
        ({"unknown_below": 1.5}, r"unknown_below of 1\.5 is no probability"),
        ({"unknown_below": True}, "unknown_below must be a number"),
        ({"unknown_below": [0.5]}, "unknown_below must be a number"),
        ({"multi_label": "yes"}, "multi_label must be true or false"),
        ({"thresholds": 0.5}, "thresholds must be a list"),
        ({"thresholds": [0.5]}, "1 thresholds for 3 outputs"),
        ({"thresholds": [0.5, None, 0.5]}, "a threshold must be a number"),
        ({"thresholds": [0.5, float("nan"), 0.5]}, "a threshold of nan is no probability"),
        ({"data_fingerprint": 3}, "data_fingerprint must be a word"),
        ({"golden": "eval"}, "golden answers must be rows of numbers"),
        ({"golden": {"answers": 3}}, "golden answers must be rows of numbers"),
        ({"golden": {"answers": [[0], [0, 1]]}}, "golden answers must be rows of numbers"),
        ({"golden": {"answers": [["x"]]}}, "a golden answer must be a number"),
        ({"preprocessing": {"size": 32, "mean": [0.5], "std": [0]}}, "must be positive"),
        ({"preprocessing": {"trust_remote_code": True}}, "unknown setting 'trust_remote_code'"),
    ],
)
def test_a_bad_description_is_one_line(saved, changes, said):
    _, path = saved
    with pytest.raises(WeightsError, match=said) as caught:
        load(rewritten(path, **changes))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("answers", [[], [[]], [[1, 2, 3]], [[float("nan")] * 3] * 2, [[float("inf")] * 3] * 2])
def test_other_golden_answers_fail_the_check(saved, answers):
    _, path = saved
    with pytest.raises(CheckFailed):
        load(rewritten(path, golden={"answers": answers}), check=True)


def test_weights_that_do_not_fit_are_all_named(saved):
    artefact, path = saved
    state = artefact.model.state_dict()
    del state["norm.bias"]
    state["extra"] = torch.zeros(1)
    state["head.weight"] = torch.zeros(4, 192)
    with safe_open(path, "pt") as file:
        save_file(state, path, file.metadata())
    with pytest.raises(WeightsError) as caught:
        load(path)
    for said in ("missing norm.bias", "unexpected extra", "head.weight is 4x192, expected 3x192"):
        assert said in str(caught.value)


def test_golden_pictures_never_change():
    """They are a contract with every file ever written."""
    images = golden_images(create_model("Ti/16", image_size=16, depth=1).config)
    assert images.shape == (2, 3, 16, 16)
    found = [images[0, 0, 0, 0], images[1, 1, 0, 0], images[0, 1, 3, 3], images[1, 2, 15, 15]]
    angles = [0.0, 2.0, 0.33 + 0.42 + 1, 3.3 + 3.15 + 3]
    assert [x.item() for x in found] == pytest.approx([math.sin(angle) for angle in angles], abs=1e-6)
