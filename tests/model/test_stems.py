"""The hybrid's stem against timm's, the convolutional stem against its definition."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, export

import vitrail.config
from oracles import randomise, timm
from vitrail.config import ViTConfig
from vitrail.model.stems import STEMS, ConvStem, ResNetStem


def config(**changes: Any) -> ViTConfig:
    words = {"image_size": 224, "patch_size": 32, "num_classes": 10, "dim": 96, "depth": 1, "heads": 2, "mlp_dim": 96}
    return ViTConfig.from_dict({**words, "stem": "resnet", **changes})


HYBRIDS = {
    "vit_small_r26_s32_224": ((2, 2, 2, 2), 2048, 32),
    "vit_base_r50_s16_224": ((3, 4, 9), 1024, 16),
    "vit_large_r50_s32_224": ((3, 4, 6, 3), 2048, 32),
    "vit_tiny_r_s16_p8_224": ((), 64, 4),
}


def timm_backbone(name: str, channels: int = 3) -> nn.Module:
    """The backbone alone: the transformer behind it would be large and is not compared here."""
    timm()
    from timm.models.vision_transformer_hybrid import _resnetv2

    return _resnetv2(HYBRIDS[name][0], in_chans=channels)


@pytest.mark.parametrize("name", HYBRIDS)
def test_feature_maps_are_timms(name):
    blocks, channels, stride = HYBRIDS[name]
    theirs = randomise(timm_backbone(name), seed=1)
    ours = ResNetStem(config(stem_blocks=blocks)).eval()
    ours.load_state_dict(theirs.state_dict(), strict=True)
    assert (ours.out_channels, ours.stride) == (channels, (stride, stride))
    for height, width in [(224, 224), (160, 256), (131, 97)]:
        images = torch.randn(2, 3, height, width, generator=torch.Generator().manual_seed(2))
        with torch.inference_mode():
            expected, maps = theirs(images), ours(images)
        assert maps.shape == (2, channels, -(-height // stride), -(-width // stride))
        torch.testing.assert_close(maps, expected, atol=1e-5, rtol=0)
        assert maps.std() > 0.1


def test_a_whole_hybrid_of_timm_holds_this_backbone():
    theirs = randomise(timm().create_model("vit_tiny_r_s16_p8_224"))
    ours = ResNetStem(config(stem_blocks=())).eval()
    ours.load_state_dict(theirs.patch_embed.backbone.state_dict(), strict=True)
    images = torch.randn(1, 3, 224, 224)
    with torch.inference_mode():
        torch.testing.assert_close(ours(images), theirs.patch_embed.backbone(images), atol=1e-5, rtol=0)


@pytest.mark.parametrize("blocks", [(), (1, 1)], ids=str)
def test_state_dict_loads_in_timm_with_any_channels(blocks):
    timm()
    from timm.models.vision_transformer_hybrid import _resnetv2

    ours = randomise(ResNetStem(config(stem_blocks=blocks, channels=5)))
    theirs = _resnetv2(blocks, in_chans=5).eval()
    theirs.load_state_dict(ours.state_dict(), strict=True)
    images = torch.randn(1, 5, 48, 33)
    torch.testing.assert_close(ours(images), theirs(images), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("patch", "dim", "widths"),
    [
        (4, 96, [3, 48, 96]),
        (16, 192, [3, 24, 48, 96, 192]),
        (2, 64, [3, 64]),
        (12, 96, [3, 48, 96]),
        (32, 192, [3, 24, 48, 96, 192]),
        (16, 4, [3, 1, 1, 2, 4]),
    ],
)
def test_convolutional_stem_halves_and_doubles(patch, dim, widths):
    settings = config(stem="conv", image_size=patch * 4, patch_size=patch, dim=dim)
    stem = ConvStem(settings)
    convs = [m for m in stem.modules() if isinstance(m, nn.Conv2d)]
    assert [(m.in_channels, m.out_channels) for m in convs] == list(pairwise(widths))
    size = patch * 4 // settings.stem_stride[0]
    assert stem(torch.randn(2, 3, patch * 4, patch * 4)).shape == (2, stem.out_channels, size, size)
    assert (stem.out_channels, stem.stride) == (widths[-1], settings.stem_stride)


def test_convolutional_stem_is_convolution_norm_relu():
    stem = randomise(ConvStem(config(stem="conv", patch_size=2, channels=1)))
    images = torch.randn(1, 1, 8, 8)
    conv, norm = stem[0].conv, stem[0].norm
    centred = nn.functional.conv2d(images, conv.weight, stride=2, padding=1) - norm.running_mean.view(-1, 1, 1)
    scale = norm.weight / (norm.running_var + norm.eps).sqrt()
    expected = (centred * scale.view(-1, 1, 1) + norm.bias.view(-1, 1, 1)).relu()
    torch.testing.assert_close(stem(images), expected)


def test_every_stem_of_the_configuration_is_in_the_table():
    assert {"none", *STEMS} == set(vitrail.config.STEMS)


STEM_CONFIGS = pytest.mark.parametrize(
    "settings",
    [config(stem_blocks=(1, 1)), config(stem_blocks=()), config(stem="conv", patch_size=4)],
    ids=["resnet", "root", "conv"],
)


@STEM_CONFIGS
def test_exports_with_any_batch_and_size(settings):
    stem = randomise(STEMS[settings.stem](settings))
    sizes = {0: Dim("batch"), 2: Dim("height", min=16), 3: Dim("width", min=16)}
    program = export(stem, (torch.randn(2, 3, 32, 48),), dynamic_shapes=(sizes,)).module()
    for size in [(32, 48), (37, 40), (64, 51)]:
        images = torch.randn(3, 3, *size)
        torch.testing.assert_close(program(images), stem(images))


@STEM_CONFIGS
def test_compiles_in_one_graph_at_any_size(settings):
    stem = randomise(STEMS[settings.stem](settings))
    compiled = torch.compile(stem, backend="eager", fullgraph=True, dynamic=True)
    for size in [(32, 48), (37, 40)]:
        images = torch.randn(2, 3, *size)
        with torch.no_grad():
            torch.testing.assert_close(compiled(images), stem(images))


@STEM_CONFIGS
def test_every_parameter_learns(settings):
    stem = randomise(STEMS[settings.stem](settings)).train()
    stem(torch.randn(2, 3, 32, 32)).square().mean().backward()
    for name, parameter in stem.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name
