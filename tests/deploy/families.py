"""Every kind of model that can be exported, small, with random weights everywhere."""

from __future__ import annotations

from typing import Any

from oracles import randomise
from vitrail import Artefact, Preprocessing, create_model

CLASSES = ("ant", "bee", "cat", "dog", "elk")
SMALL: dict[str, Any] = {
    "image_size": 32,
    "patch_size": 8,
    "dim": 32,
    "depth": 2,
    "heads": 2,
    "dim_head": 16,
    "mlp_dim": 64,
    "num_classes": 5,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "class token": {},
    "mean": {"pool": "mean"},
    "mean beside an unread class token": {"pool": "mean", "class_token": True},
    "class and mean": {"pool": "cls+mean"},
    "class and distillation tokens": {"pool": "cls+distill", "registers": 1},
    "attention pool": {"pool": "attention"},
    "registers": {"registers": 3, "positions": "learned-patches", "layer_scale": 0.1},
    "rectangular": {"image_size": (32, 48), "patch_size": (8, 16)},
    "grey": {"channels": 1},
    "five channels": {"channels": 5},
    "hybrid": {"stem": "resnet", "stem_blocks": (1, 1), "patch_size": 16, "image_size": 64},
    "root alone": {"stem": "resnet", "stem_blocks": (), "patch_size": 8},
    "convolutional stem": {"stem": "conv"},
    "linear patches": {"patches": "linear", "patch_norm": True},
    "rotary": {"positions": "rotary"},
    "rotary, mean": {"positions": "rotary", "pool": "mean", "registers": 1},
    "relative": {"positions": "relative"},
    "relative, mean": {"positions": "relative", "pool": "mean"},
    "learned 2-D": {"positions": "learned-2d"},
    "sin-cos 1-D": {"positions": "sincos-1d"},
    "sin-cos 2-D": {"positions": "sincos-2d", "pool": "mean"},
    "no positions": {"positions": "none"},
    "post-norm": {"norm": "post"},
    "norm after pooling": {"final_norm": "pooled", "pool": "mean"},
    "query and key norm": {"qk_norm": True, "qkv_bias": False},
    "tanh head": {"head": "tanh", "head_dim": 24},
    "relu head": {"head": "relu"},
    "layers read together": {"read_layers": (1, 2), "pool": "cls+mean"},
    "narrow heads": {"dim_head": 4, "heads": 3},
}
RESNETS: dict[str, dict[str, Any]] = {
    "R18": {"image_size": 32, "num_classes": 5, "width": 32, "stem": "small"},
    "R50": {"image_size": 64, "num_classes": 5, "width": 32, "blocks": (1, 1, 1)},
}
NAMES = [*FAMILIES, *RESNETS]


def made(family: str, **changes: Any) -> Artefact:
    """A model of the family, ready to be used."""
    if family in RESNETS:
        model = create_model(family, **RESNETS[family], **changes)
    else:
        model = create_model("Ti/16", **{**SMALL, **FAMILIES[family], **changes})
    channels = model.config.channels
    steps = Preprocessing(
        size=model.config.image_size,
        mean=tuple(0.3 + 0.1 * c for c in range(channels)),
        std=tuple(0.2 + 0.05 * c for c in range(channels)),
    )
    classes = CLASSES if model.config.num_classes else None
    return Artefact(randomise(model), classes, steps, temperature=1.5, unknown_below=0.3, source=family)
