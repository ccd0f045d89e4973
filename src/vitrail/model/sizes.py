"""Names of models to configurations: the paper's ("B/16", "R50+B/16", "B/16@384") and timm's. No torch.

A new size is a row of `SIZES`, a new backbone a row of `STEM_BLOCKS`, a new ready-made model a row of `CATALOG`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from vitrail.config import ResNetConfig, ViTConfig
from vitrail.errors import ConfigError, did_you_mean

ModelConfig = ViTConfig | ResNetConfig


class Size(NamedTuple):
    dim: int
    depth: int
    heads: int
    mlp_dim: int


SIZES = {
    "Ti": Size(192, 12, 3, 768),  # DeiT
    "S": Size(384, 12, 6, 1536),  # DeiT
    "B": Size(768, 12, 12, 3072),  # Table 1
    "L": Size(1024, 24, 16, 4096),  # Table 1
    "H": Size(1280, 32, 16, 5120),  # Table 1
}

# Blocks per stage of the ResNetV2 in front of a hybrid, by its name and the pixels of a patch. At 16 pixels the
# paper removes stage 4 and moves its blocks to stage 3, which makes the sequence four times longer.
STEM_BLOCKS = {
    ("R", 32): (),
    ("R26", 32): (2, 2, 2, 2),
    ("R50", 32): (3, 4, 6, 3),
    ("R50", 16): (3, 4, 9),
}

RESNETS: dict[str, dict[str, Any]] = {
    "R18": {"blocks": (2, 2, 2, 2), "bottleneck": False},
    "R50": {"blocks": (3, 4, 6, 3), "bottleneck": True},
}


class Row(NamedTuple):
    """A ready-made model: the paper's name, timm's, and what differs from the paper's plain model at 224 pixels."""

    name: str
    timm: str
    parts: Mapping[str, Any] = MappingProxyType({})


_DINOV2: dict[str, Any] = {"layer_scale": 1e-5}
_DINOV2_REG: dict[str, Any] = {"layer_scale": 1e-5, "registers": 4, "positions": "learned-patches"}

CATALOG = [
    Row("Ti/16", "vit_tiny_patch16_224"),
    Row("Ti/16@384", "vit_tiny_patch16_384"),
    Row("S/8", "vit_small_patch8_224"),
    Row("S/16", "vit_small_patch16_224"),
    Row("S/16@384", "vit_small_patch16_384"),
    Row("S/32", "vit_small_patch32_224"),
    Row("S/32@384", "vit_small_patch32_384"),
    Row("B/8", "vit_base_patch8_224"),
    Row("B/16", "vit_base_patch16_224"),
    Row("B/16@384", "vit_base_patch16_384"),
    Row("B/32", "vit_base_patch32_224"),
    Row("B/32@384", "vit_base_patch32_384"),
    Row("L/16", "vit_large_patch16_224"),
    Row("L/16@384", "vit_large_patch16_384"),
    Row("L/32", "vit_large_patch32_224"),
    Row("L/32@384", "vit_large_patch32_384"),
    Row("H/14", "vit_huge_patch14_224"),
    Row("R+Ti/16", "vit_tiny_r_s16_p8_224"),
    Row("R+Ti/16@384", "vit_tiny_r_s16_p8_384"),
    Row("R26+S/32", "vit_small_r26_s32_224"),
    Row("R26+S/32@384", "vit_small_r26_s32_384"),
    Row("R50+B/16", "vit_base_r50_s16_224"),
    Row("R50+B/16@384", "vit_base_r50_s16_384"),
    Row("R50+B/32", ""),
    Row("R50+L/32", "vit_large_r50_s32_224"),
    Row("R50+L/32@384", "vit_large_r50_s32_384"),
    Row("S/14@518 DINOv2", "vit_small_patch14_dinov2", _DINOV2),
    Row("B/14@518 DINOv2", "vit_base_patch14_dinov2", _DINOV2),
    Row("L/14@518 DINOv2", "vit_large_patch14_dinov2", _DINOV2),
    Row("S/14@518 DINOv2+reg", "vit_small_patch14_reg4_dinov2", _DINOV2_REG),
    Row("B/14@518 DINOv2+reg", "vit_base_patch14_reg4_dinov2", _DINOV2_REG),
    Row("L/14@518 DINOv2+reg", "vit_large_patch14_reg4_dinov2", _DINOV2_REG),
    Row("R18", "resnetv2_18"),
    Row("R50", "resnetv2_50x1_bit"),
]

_VIT_NAME = re.compile(r"(?:(R\d*)\+)?([A-Za-z]+)/(\d+)(?:@(\d+))?(?: .*)?")


def model_config(name: str, **changes: Any) -> ModelConfig:
    """The configuration of a model by name, with `changes` on top: `model_config("S/16", num_classes=37)`."""
    row = _find(name)
    if row.name in RESNETS:
        return ResNetConfig.from_dict({"image_size": 224, "num_classes": 1000, **RESNETS[row.name], **changes})
    return ViTConfig.from_dict({**_vit_words(row), **changes})


def model_names() -> list[str]:
    """All names that `create_model` is sure to know; the paper's grammar admits any patch size beside these."""
    return [name for row in CATALOG for name in (row.name, row.timm) if name]


def _find(name: str) -> Row:
    bare = name.split(".")[0]  # timm appends the weights' tag: vit_base_patch16_224.augreg_in21k
    for row in CATALOG:
        if name == row.name or bare == row.timm != "":
            return row
    if (match := _VIT_NAME.fullmatch(name)) and match[2] in SIZES and not match[1]:
        return Row(name, "")
    remedy = did_you_mean(name, model_names()) or "see `vitrail models`"
    raise ConfigError(f"there is no model {name!r}", fix=remedy)


def _vit_words(row: Row) -> dict[str, Any]:
    match = _VIT_NAME.fullmatch(row.name)
    assert match is not None, row.name
    backbone, size, patch, image = match.groups()
    pixels = 32 if backbone == "R" else int(patch)  # R+Ti/16 has 8x8 patches of a 4 times smaller picture
    words: dict[str, Any] = {"image_size": int(image or 224), "patch_size": pixels, "num_classes": 1000}
    if backbone:
        words |= {"stem": "resnet", "stem_blocks": STEM_BLOCKS[backbone, pixels]}
    words |= SIZES[size]._asdict()
    return {**words, "dim_head": SIZES[size].dim // SIZES[size].heads, **row.parts}
