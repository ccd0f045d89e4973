"""Writing other layouts: refused early, compared before it counts, all or nothing."""

from __future__ import annotations

import json

import pytest
import torch

from oracles import randomise
from vitrail import Artefact, Preprocessing, ViT, convert, create_model, load
from vitrail.errors import CheckFailed, ConfigError, FileError, WeightsError
from vitrail.weights import convert as convert_module
from vitrail.weights.convert import TARGETS

NAMES = {
    "vitrail": "m.safetensors",
    "timm": "m",
    "huggingface": "m",
    "google": "m.npz",
    "torchvision": "m.pth",
    "vit-pytorch": "m.safetensors",
}


def artefact(**changes):
    model = randomise(create_model("Ti/16", **{"image_size": 32, "depth": 1, "num_classes": 3, **changes}))
    steps = Preprocessing(size=32, mean=(0.5,) * 3, std=(0.25,) * 3)
    return Artefact(model, classes=("a", "b", "c"), preprocessing=steps)


def for_target(to):
    if to != "vit-pytorch":
        return artefact()
    return artefact(patches="linear", patch_norm=True, qkv_bias=False, norm_eps=1e-5)


@pytest.mark.parametrize("to", TARGETS)
def test_there_and_back(to, tmp_path):
    start = for_target(to)
    assert convert(start, tmp_path / NAMES[to], to) <= 1e-5
    again = load(tmp_path / NAMES[to])
    assert again.model.config == start.model.config
    if to in ("vitrail", "timm", "huggingface"):
        assert again.classes == ("a", "b", "c")
        assert again.preprocessing == start.preprocessing


@pytest.mark.parametrize("to", TARGETS)
def test_an_existing_target_is_kept_unless_asked(to, tmp_path):
    target = tmp_path / NAMES[to]
    target.write_text("mine")
    with pytest.raises(FileError, match=r"is already there.*--overwrite"):
        convert(for_target(to), target, to)
    assert target.read_text() == "mine"
    convert(for_target(to), target, to, overwrite=True)
    convert(for_target(to), target, to, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == [target.name]
    load(target)


REFUSED = [
    ("google", {"registers": 2}, "registers=2"),
    ("google", {"pool": "mean"}, "pool='mean'"),
    ("google", {"norm": "post"}, "norm='post'"),
    ("torchvision", {"positions": "rotary"}, "positions='rotary'"),
    ("huggingface", {"head": "tanh"}, "head='tanh'"),
    ("huggingface", {"image_size": (32, 64)}, "square images"),
    ("timm", {"positions": "relative"}, "positions='relative'"),
    ("timm", {"stem": "conv"}, "stem='conv'"),
    ("vit-pytorch", {}, "patches='conv'"),
]


@pytest.mark.parametrize(("to", "parts", "said"), REFUSED)
def test_what_a_layout_cannot_hold_is_refused_before_anything_is_written(to, parts, said, tmp_path):
    with pytest.raises(WeightsError, match=said):
        convert(artefact(**parts), tmp_path / NAMES[to], to)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_conversion_leaves_nothing(tmp_path, monkeypatch):
    """A table with a row too few answers otherwise when read back, and is not handed over."""
    true_load = convert_module.load

    def changed(*args, **kwargs):
        found = true_load(*args, **kwargs)
        with torch.no_grad():
            found.model.head.bias += 0.01
        return found

    monkeypatch.setattr(convert_module, "load", changed)
    for to in ("vitrail", "timm", "google"):
        with pytest.raises(CheckFailed, match="differ"):
            convert(artefact(), tmp_path / NAMES[to], to)
    assert list(tmp_path.iterdir()) == []


def test_wrong_names_and_places(tmp_path):
    with pytest.raises(ConfigError, match=r"'m.bin' should end in .npz"):
        convert(artefact(), tmp_path / "m.bin", "google")
    with pytest.raises(WeightsError, match="no format 'hugingface'; did you mean 'huggingface'"):
        convert(artefact(), tmp_path / "m", "hugingface")
    with pytest.raises(FileError, match="its folder does not exist; mkdir -p"):
        convert(artefact(), tmp_path / "nowhere" / "m.safetensors", "vitrail")


def test_huggingface_folder_is_plain_to_read(tmp_path):
    convert(artefact(), tmp_path / "m", "huggingface")
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    assert config["model_type"] == "vit"
    assert config["id2label"] == {"0": "a", "1": "b", "2": "c"}
    assert json.loads((tmp_path / "m" / "preprocessor_config.json").read_text())["image_mean"] == [0.5] * 3


def test_a_model_of_the_papers_words_goes_everywhere_but_vit_pytorch(tmp_path):
    words = {"image_size": 32, "patch_size": 8, "num_classes": 3, "dim": 64, "depth": 1, "heads": 4, "mlp_dim": 96}
    model = randomise(ViT(**words, dim_head=16))
    for to in ("timm", "huggingface", "google", "torchvision"):
        convert(Artefact(model), tmp_path / f"{to}{NAMES[to][1:]}", to)
