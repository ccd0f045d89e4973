"""Sources of all kinds, good and bad."""

from __future__ import annotations

import json
import os

import pytest
import torch
from safetensors.torch import load_file, save_file

from oracles import randomise
from vitrail import Artefact, convert, create_model, load
from vitrail.errors import FileError, VitrailError, WeightsError


@pytest.fixture
def tiny():
    return randomise(create_model("Ti/16", image_size=32, depth=1, num_classes=3))


def test_a_run_folder(tiny, tmp_path):
    Artefact(tiny, classes=("a", "b", "c")).save(tmp_path / "model.safetensors")
    (tmp_path / "config.yaml").write_text("of a run")
    assert load(tmp_path).classes == ("a", "b", "c")
    assert load(f"local-dir:{tmp_path}").classes == ("a", "b", "c")


def test_a_timm_folder_with_its_names_and_preprocessing(tiny, tmp_path):
    save_file(tiny.state_dict(), tmp_path / "model.safetensors")
    described = {"architecture": "vit_tiny_patch16_224", "label_names": ["x", "y", "z"]}
    described["pretrained_cfg"] = {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5], "crop_pct": 0.9}
    (tmp_path / "config.json").write_text(json.dumps(described))
    found = load(tmp_path)
    assert found.classes == ("x", "y", "z")
    assert found.preprocessing.crop == 0.9
    assert found.preprocessing.size == (32, 32)


def test_a_timm_folder_tells_what_its_tensors_cannot(tmp_path):
    """Mean pooling after the norm with a class token, a rectangle, and an odd number of heads: all in config.json."""
    words = {
        "image_size": (32, 64),
        "depth": 1,
        "dim": 96,
        "heads": 8,
        "dim_head": 12,
        "pool": "mean",
        "class_token": True,
    }
    model = randomise(create_model("Ti/16", **words))
    convert(Artefact(model), tmp_path / "m", to="timm")
    assert load(tmp_path / "m").model.config == model.config


def test_heads_from_the_user_where_weights_cannot_tell(tmp_path):
    model = randomise(create_model("Ti/16", image_size=32, depth=1, dim=96, heads=8, dim_head=12))
    save_file(model.state_dict(), tmp_path / "m.safetensors")
    with pytest.raises(WeightsError, match=r"the number of heads of width 96 cannot be told.*give heads="):
        load(tmp_path / "m.safetensors")
    images = torch.randn(1, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(load(tmp_path / "m.safetensors", heads=8).model(images), model(images))


def test_a_rectangle_is_never_guessed(tmp_path):
    model = randomise(create_model("Ti/16", image_size=(32, 64), depth=1))
    save_file(model.state_dict(), tmp_path / "m.safetensors")
    with pytest.raises(WeightsError, match=r"8 positions are not a square grid.*give image_size="):
        load(tmp_path / "m.safetensors")
    assert load(tmp_path / "m.safetensors", image_size=(32, 64)).model.config.grid == (2, 4)


def test_196_tokens_without_a_class_token_are_14_by_14(tmp_path):
    model = randomise(create_model("Ti/16", depth=1, pool="mean"))
    save_file(model.state_dict(), tmp_path / "m.safetensors")
    config = load(tmp_path / "m.safetensors").model.config
    assert (config.grid, config.class_token, config.pool) == ((14, 14), False, "mean")


def broken(kind, tiny, folder):
    path = folder / "m.safetensors"
    if kind == "missing":
        save_file(tiny.state_dict(), folder / "n.safetensors")
    elif kind == "folder without weights":
        path.mkdir()
    elif kind == "cut in half":
        save_file(tiny.state_dict(), path)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "no tensors":
        save_file({}, path)
    elif kind == "another model":
        save_file({"embeddings.word.weight": torch.zeros(3, 3)}, path)
    elif kind == "a tensor too many":
        save_file({**tiny.state_dict(), "surprise": torch.zeros(2)}, path)
    elif kind == "a tensor too few":
        state = tiny.state_dict()
        del state["blocks.0.norm2.bias"]
        save_file(state, path)
    elif kind == "half a block":
        save_file({name: x for name, x in tiny.state_dict().items() if "mlp" not in name}, path)
    elif kind == "bad config.json":
        path.mkdir()
        save_file(tiny.state_dict(), path / "model.safetensors")
        (path / "config.json").write_text("{not json")
    elif kind == "config.json is a list":
        path.mkdir()
        save_file(tiny.state_dict(), path / "model.safetensors")
        (path / "config.json").write_text("[1, 2]")
    return path


BROKEN = {
    "missing": "no such file; did you mean 'n.safetensors'",
    "folder without weights": "no weights in this folder",
    "cut in half": "",
    "empty": "",
    "no tensors": "there are no tensors",
    "another model": "of no layout known here",
    "a tensor too many": "unexpected surprise",
    "a tensor too few": "missing blocks.0.norm2.bias",
    "half a block": "mlp.fc1.weight",
    "bad config.json": "cannot be read as JSON",
    "config.json is a list": "is not a JSON object",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_source_is_one_line_with_its_name(kind, tiny, tmp_path):
    path = broken(kind, tiny, tmp_path)
    with pytest.raises(VitrailError) as caught:
        load(path)
    assert BROKEN[kind] in str(caught.value)
    assert "m.safetensors" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nothing_is_written_by_loading(tiny, tmp_path):
    Artefact(tiny).save(tmp_path / "m.safetensors")
    before = {entry.name: entry.stat().st_mtime_ns for entry in os.scandir(tmp_path)}
    load(tmp_path / "m.safetensors", check=True, image_size=64)
    assert {entry.name: entry.stat().st_mtime_ns for entry in os.scandir(tmp_path)} == before


def test_strict_tables_name_what_no_row_knows(tmp_path):
    convert(Artefact(randomise(create_model("Ti/16", image_size=32, depth=1))), tmp_path / "hf", to="huggingface")
    tensors = load_file(tmp_path / "hf" / "model.safetensors")
    tensors["vit.surprise"] = torch.zeros(1)
    del tensors["vit.layernorm.bias"]
    save_file(tensors, tmp_path / "hf" / "model.safetensors")
    with pytest.raises(FileError, match=r"missing layernorm.bias; unexpected surprise"):
        load(tmp_path / "hf")
