"""Smaller and faster models: what they promise holds, and they are saved, loaded and asked like any other."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F

from deploy.families import made
from deploy.test_onnx import engine_of
from vitrail import Predictor, load
from vitrail.deploy.onnx import onnx_bytes
from vitrail.deploy.parity import waves
from vitrail.deploy.prune import best, importance, pruned
from vitrail.deploy.quantize import quantised, sensitive
from vitrail.deploy.resample import at_size, resize_kernel, with_patches
from vitrail.errors import ConfigError

PICTURES = waves((32, 32), 3, 10)


def same(one, two) -> float:
    """Correlation of two tables of logits."""
    return float(np.corrcoef(one.ravel(), two.ravel())[0, 1])


@pytest.mark.parametrize("calibrated", [False, True], ids=["dynamic", "static"])
def test_int8_answers_nearly_the_same_from_fewer_bytes(calibrated):
    artefact = made("class token", dim=128, mlp_dim=512, dim_head=64)
    content = quantised(artefact, pictures=PICTURES if calibrated else None)
    plain = onnx_bytes(artefact)
    assert len(content) < 0.5 * len(plain)
    wanted, found = engine_of(plain)(PICTURES), engine_of(content)(PICTURES)
    assert 0 < np.abs(wanted - found).max() < 0.2
    assert same(wanted, found) > 0.99


@pytest.mark.parametrize("calibrated", [False, True], ids=["dynamic", "static"])
def test_all_products_are_rounded(calibrated, caplog):
    """Also those that read from an operator which is not of the standard."""
    content = quantised(made("mean"), pictures=PICTURES if calibrated else None)
    graph = onnx.load_from_string(content).graph
    weights = {tensor.name: tensor.data_type for tensor in graph.initializer if len(tensor.dims) == 2}
    floats = [name for name, kind in weights.items() if kind == onnx.TensorProto.FLOAT]
    assert floats == []
    assert len(weights) == 2 * 6 + 1
    assert caplog.messages == []


def test_roles_that_are_kept_stay_in_floats():
    assert products_in_floats(quantised(made("mean"), keep=("fc2", "head"))) == ["fc2", "fc2", "head"]


@pytest.mark.parametrize("calibrated", [False, True], ids=["dynamic", "static"])
def test_what_few_tokens_ask_of_all_stays_in_floats(calibrated):
    content = quantised(made("class token"), pictures=PICTURES if calibrated else None)
    assert products_in_floats(content) == ["few"] * 4


def products_in_floats(content):
    """The roles of an int8 graph's products that read no rounded numbers."""
    graph = onnx.load_from_string(content).graph
    rounded = {name for node in graph.node if node.op_type == "DequantizeLinear" for name in node.output}
    floats = [node for node in graph.node if node.op_type == "MatMul" and not rounded & set(node.input)]
    return sorted(node.name.split("_")[0] for node in floats)


def test_the_sensitive_role_is_measured():
    """One hidden unit is a thousand times as large as the others, which share its steps when they are rounded."""
    artefact = made("class token")
    with torch.no_grad():
        for block in artefact.model.blocks:
            block.mlp.fc1.weight[0] *= 1000
            block.mlp.fc2.weight[:, 0] /= 1000
    assert sensitive(artefact, PICTURES) == ("fc2",)


def test_a_resized_kernel_sees_in_a_resized_patch_what_it_saw_before():
    """FlexiViT's promise, exact where patches grow."""
    torch.manual_seed(0)
    kernel, patch = torch.randn(7, 3, 8, 8), torch.randn(5, 3, 8, 8)
    larger = F.interpolate(patch.double(), size=(16, 12), mode="bicubic", antialias=True)
    before = torch.einsum("bchw,dchw->bd", patch.double(), kernel.double())
    after = torch.einsum("bchw,dchw->bd", larger, resize_kernel(kernel, (16, 12)).double())
    assert torch.allclose(before, after, atol=1e-4)
    assert resize_kernel(kernel, (8, 8)) is kernel


def test_larger_patches_make_fewer_tokens_and_a_whole_model(tmp_path):
    changed = with_patches(made("registers"), (16, 16), (48, 48))
    assert changed.model.config.grid == (3, 3)
    assert changed.preprocessing.size == (48, 48)
    changed.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors", check=True)
    assert again.predict(PICTURES[0]).label in again.classes
    with pytest.raises(ConfigError, match="cut from the picture"):
        with_patches(made("convolutional stem"), (16, 16), (32, 32))


def test_another_size_keeps_calibration_and_classes():
    original = made("class token")
    changed = at_size(original, (24, 40))
    assert (changed.temperature, changed.unknown_below, changed.classes) == (1.5, 0.3, original.classes)
    assert changed.preprocessing.size == changed.model.config.image_size == (24, 40)
    assert at_size(original, (32, 32)) is original


@pytest.mark.parametrize("family", ["sin-cos 2-D", "rotary"])
def test_formulas_go_on_counting_in_the_patches_they_were_trained_on(family, tmp_path):
    changed = at_size(made(family), (48, 40))
    assert (changed.model.config.grid, changed.model.config.counted_grid) == ((6, 5), (4, 4))
    pictures = waves((48, 40), 3, 3)
    whole = made(family, any_size=True)
    wanted = Predictor.of(changed).engine(pictures)
    assert np.allclose(wanted, Predictor.of(whole).engine(pictures), atol=1e-6)
    changed.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors", check=True)
    assert again.preprocessing.size == (48, 40)
    assert np.allclose(again.engine(pictures), wanted, atol=1e-6)
    with pytest.raises(ConfigError, match="multiple"):
        at_size(made(family), (50, 40))


@pytest.mark.parametrize("family", ["class token", "registers", "query and key norm", "relative, mean", "post-norm"])
def test_units_that_do_nothing_are_the_first_to_go(family, tmp_path):
    """Silence a head and half of the hidden units: without them the answers are the same."""
    artefact = made(family)
    with torch.no_grad():
        for block in artefact.model.blocks:
            block.attn.proj.weight[:, 16:] = 0  # the second head
            block.mlp.fc2.weight[:, ::2] = 0
    small = pruned(artefact, PICTURES, heads=1, mlp_dim=32)
    assert (small.model.config.heads, small.model.config.mlp_dim) == (1, 32)
    wanted, found = Predictor.of(artefact).engine(PICTURES), Predictor.of(small).engine(PICTURES)
    assert np.abs(wanted - found).max() < 1e-5
    small.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors", check=True)
    assert np.allclose(engine_of(onnx_bytes(again.artefact))(PICTURES), found, atol=1e-5)


def test_importance_is_what_a_unit_writes():
    artefact = made("class token")
    heads, units = importance(artefact, PICTURES)
    assert heads.shape == (2, 2)
    assert units.shape == (2, 64)
    trace = artefact.model.trace(
        torch.from_numpy(Predictor.of(artefact).read(PICTURES[0])).permute(2, 0, 1)[None] / 255
    )
    assert trace["block.0.heads"].shape == (1, 2, 17, 16)
    assert best(torch.tensor([0.1, 0.9, 0.5]), 2).tolist() == [1, 2]


def test_what_cannot_be_pruned_says_so():
    with pytest.raises(ConfigError, match="cannot be kept"):
        pruned(made("class token"), PICTURES, heads=3)
    with pytest.raises(ConfigError, match="attention pooling"):
        pruned(made("attention pool"), PICTURES, heads=1)


def test_a_pruned_model_can_be_trained_on(tmp_path):
    """Recovery is a training run like any other, from the pruned file: the smaller shape stays."""
    from data.small_sets import class_folders
    from vitrail.train.job import Wishes, plan
    from vitrail.train.settings import Budget
    from vitrail.train.transfer import start_model

    pruned(made("class token"), PICTURES, heads=1, mlp_dim=40).save(tmp_path / "pruned.safetensors")
    photos = class_folders(tmp_path / "photos", {"a": 4, "b": 4})
    planned = plan(Wishes(str(photos), Budget(steps=2), start=str(tmp_path / "pruned.safetensors"), val=0.25))
    model = start_model(planned.settings)
    assert (model.config.heads, model.config.mlp_dim, model.config.num_classes) == (1, 40, 2)
