"""The same weights for another size, other classes, other channels."""

from __future__ import annotations

import pytest
import torch

from oracles import randomise, timm
from vitrail import Artefact, create_model
from vitrail.config import FORMULAS, POSITIONS
from vitrail.errors import ConfigError, WeightsError
from vitrail.model.positions import resize_positions
from vitrail.weights.load import load


def stored(tmp_path, name="Ti/16", **changes):
    words = {"image_size": 64, "num_classes": 3, **({} if name == "R18" else {"depth": 1}), **changes}
    model = randomise(create_model(name, **words))
    artefact = Artefact(model, classes=tuple("abc") if model.config.num_classes == 3 else None)
    artefact.save(tmp_path / "m.safetensors")
    return model, tmp_path / "m.safetensors"


@pytest.mark.parametrize("positions", POSITIONS)
def test_a_new_size_at_load_equals_the_same_size_at_run_time(positions, tmp_path):
    """Interpolating once and for all gives the logits that interpolating on the fly gives."""
    _, path = stored(tmp_path, positions=positions, any_size=True)
    images = torch.randn(2, 3, 48, 96, generator=torch.Generator().manual_seed(0))
    at_load, at_run = load(path, image_size=(48, 96)).model, load(path).model
    assert at_load.config.grid == (3, 6)
    with torch.no_grad():
        torch.testing.assert_close(at_load(images), at_run(images), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("positions", FORMULAS)
def test_formulas_go_on_counting_in_the_grid_they_were_trained_on(positions):
    config = create_model("Ti/16", image_size=64, depth=1, positions=positions).config
    bigger = config.at_size((96, 128))
    assert (bigger.grid, bigger.counted_grid, bigger.at_size((32, 32)).counted_grid) == ((6, 8), (4, 4), (4, 4))
    assert bigger.at_size((64, 64)) == config


def test_positions_are_moved_and_the_class_tokens_kept(tmp_path):
    model, path = stored(tmp_path)
    bigger = load(path, image_size=96).model
    assert torch.equal(bigger.pos_embed, resize_positions(model.pos_embed.detach(), (4, 4), (6, 6)))
    assert torch.equal(bigger.pos_embed[:, :1], model.pos_embed[:, :1])


def test_new_classes_get_a_zero_head_and_the_old_names_go(tmp_path):
    model, path = stored(tmp_path, head="tanh", head_dim=50)
    found = load(path, num_classes=7)
    assert found.classes is None
    assert found.model.config.head == "linear"
    assert found.model.head.weight.shape == (7, 192)
    assert found.model.head.weight.abs().sum() == 0
    assert torch.equal(found.model.blocks[0].attn.qkv.weight, model.blocks[0].attn.qkv.weight)
    assert load(path, num_classes=0).model(torch.randn(1, 3, 64, 64)).shape == (1, 192)


def test_the_same_classes_keep_head_and_names(tmp_path):
    model, path = stored(tmp_path)
    found = load(path, num_classes=3)
    assert found.classes == ("a", "b", "c")
    assert torch.equal(found.model.head.weight, model.head.weight)


@pytest.mark.parametrize("name", ["Ti/16", "R+Ti/16", "R18"])
@pytest.mark.parametrize("channels", [1, 2, 5, 6])
def test_channels_as_timm_does_it(name, channels, tmp_path):
    model, path = stored(tmp_path, name)
    adapted = load(path, channels=channels).model
    assert adapted.config.channels == channels
    kernel = {
        "Ti/16": "patch_embed.proj.weight",
        "R+Ti/16": "patch_embed.backbone.conv.weight",
        "R18": "stem.conv.weight",
    }
    expected = timm().models.adapt_input_conv(channels, model.state_dict()[kernel[name]])
    torch.testing.assert_close(adapted.state_dict()[kernel[name]], expected, atol=1e-6, rtol=0)


def test_grey_pictures_look_the_same_to_a_one_channel_model(tmp_path):
    model, path = stored(tmp_path)
    grey = torch.randn(2, 1, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(
            load(path, channels=1).model(grey), model(grey.expand(-1, 3, -1, -1)), atol=1e-5, rtol=1e-5
        )


def test_what_cannot_be_adapted_says_so(tmp_path):
    _, path = stored(tmp_path, patches="linear")
    with pytest.raises(WeightsError, match="channels of flattened patches"):
        load(path, channels=1)
    with pytest.raises(ConfigError, match="image_size=50 is not a multiple of patch_size=16; use 48 or 64"):
        load(path, image_size=50)
