"""Token merging as another model of the same weights. What it does is said in model/merging.py."""

from __future__ import annotations

import dataclasses

from vitrail.config import ViTConfig
from vitrail.errors import ConfigError
from vitrail.weights.adapt import build_with
from vitrail.weights.artefact import Artefact


def merging(artefact: Artefact, count: int) -> Artefact:
    """The model, merging `count` patches in every block; 0 is the model without merging."""
    config = artefact.model.config
    if not isinstance(config, ViTConfig):
        raise ConfigError("only a ViT has tokens to merge", fix="use lower resolution instead")
    model = build_with(config.replace(merge=count), dict(artefact.model.state_dict()))
    return dataclasses.replace(artefact, model=model, golden=None)
