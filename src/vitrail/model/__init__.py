"""pixels -> patches -> tokens -> encoder -> head -> logits. Read `vit.py` first."""

from __future__ import annotations

from typing import Any

from vitrail.config import ViTConfig
from vitrail.model.merging import MergingViT
from vitrail.model.resnet import ResNet
from vitrail.model.sizes import ModelConfig, model_config
from vitrail.model.vit import ViT

Model = ViT | ResNet

__all__ = ["Model", "ResNet", "ViT", "build", "create_model"]


def create_model(name: str, **changes: Any) -> Model:
    """A model by the paper's or timm's name, freshly initialised: `create_model("B/16", num_classes=37)`."""
    return build(model_config(name, **changes))


def build(config: ModelConfig) -> Model:
    """The model that a configuration describes."""
    if not isinstance(config, ViTConfig):
        return ResNet(config)
    return (MergingViT if config.merge else ViT).from_config(config)
