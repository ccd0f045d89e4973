"""Training that starts from weights: a linear probe first, then as many blocks as the time allows."""

from __future__ import annotations

import torch

from vitrail.config import ViTConfig
from vitrail.errors import ConfigError
from vitrail.model import Model
from vitrail.model.init import rule_for
from vitrail.train.optim import layer_of
from vitrail.train.probe import Probed
from vitrail.train.session import Session
from vitrail.train.settings import ALL_BUT_HEAD, TrainSettings
from vitrail.weights.adapt import build_with, new_task
from vitrail.weights.load import load

ENOUGH_EPOCHS = 1.0  # fewer are not worth training more blocks for (LOG.md)


def start_model(settings: TrainSettings) -> Model:
    """The model of the settings with the weights it starts from, and a head at zero."""
    assert settings.start is not None
    source = load(settings.start)
    wanted = settings.model
    keep = ("pool", "read_layers", "drop_path", "dropout", "any_size") if isinstance(wanted, ViTConfig) else ()
    config, state = new_task(
        source.model.config,
        source.model.state_dict(),
        image_size=wanted.image_size,
        num_classes=wanted.num_classes,
        channels=wanted.channels,
        **{name: getattr(wanted, name) for name in keep},
    )
    model = build_with(config, state)
    if settings.positions == "fresh":
        draw_positions(model)
    return model


@torch.no_grad()
def draw_positions(model: Model) -> None:
    """What a model learned about places forgotten, to see what it was worth."""
    for name, parameter in model.named_parameters():
        if name == "pos_embed" or name.endswith("attn.positions.table"):
            rule_for(name)(parameter)


def freeze(model: Model, blocks: int | str | None) -> None:
    """No gradients for the first blocks and what stands before them, or for all but the head."""
    depth = model.config.depth if isinstance(model.config, ViTConfig) else 0
    if isinstance(blocks, int) and blocks > depth:
        raise ConfigError(
            f"the model has {depth} blocks of a Transformer, not {blocks} to freeze",
            fix=f"freeze {depth} or fewer, or {ALL_BUT_HEAD}",
        )
    for name, parameter in model.named_parameters():
        if _is_frozen(name, blocks or 0):
            parameter.requires_grad_(False)


def _is_frozen(name: str, blocks: int | str) -> bool:
    if blocks == ALL_BUT_HEAD:
        return not name.startswith("head.")
    assert isinstance(blocks, int)
    layer = layer_of(name)
    return bool(blocks) and layer is not None and layer <= blocks


def blocks_to_freeze(session: Session, probed: Probed, seconds: float | None) -> int | str:
    """What was asked for; else as few as leave time for enough epochs.

    A step costs a forward pass, and twice the part that is trained.
    """
    asked = session.settings.frozen_blocks
    depth = session.settings.model.depth if isinstance(session.settings.model, ViTConfig) else 0
    if asked is not None or seconds is None or not depth:
        return asked or 0
    regularise = session.settings.regularise
    cheap, whole = 1 - regularise.patch_dropout, 1 / regularise.small_images**2
    seen = regularise.cheap_until * cheap + (1 - regularise.cheap_until) * whole
    one_pass = probed.a_pass * seen * len(session.examples.split("train"))
    for trained in range(depth, 1, -1):
        if seconds / (one_pass * (1 + 2 * trained / depth)) >= ENOUGH_EPOCHS:
            return depth - trained
    return depth - 2
