"""Training that starts from weights: a linear probe first, then as many blocks as the time allows."""

from __future__ import annotations

from vitrail.config import ViTConfig
from vitrail.model import Model
from vitrail.train.optim import layer_of
from vitrail.train.probe import Probed
from vitrail.train.session import Session
from vitrail.train.settings import TrainSettings
from vitrail.weights.adapt import build_with, new_task
from vitrail.weights.load import load

ENOUGH_EPOCHS = 4.0  # fewer are not worth training more blocks for


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
    return build_with(config, state)


def freeze(model: Model, blocks: int) -> None:
    """No gradients for the first blocks and what stands before them."""
    if not blocks:
        return
    for name, parameter in model.named_parameters():
        layer = layer_of(name)
        parameter.requires_grad_(layer is None or layer > blocks)


def blocks_to_freeze(session: Session, probed: Probed, seconds: float | None) -> int:
    """As few as leave time for enough epochs. A step costs a forward pass, and twice the part that is trained."""
    depth = session.settings.model.depth if isinstance(session.settings.model, ViTConfig) else 0
    if seconds is None or not depth:
        return session.settings.frozen_blocks
    seen = 1 - session.settings.regularise.patch_dropout * session.settings.regularise.cheap_until
    one_pass = probed.seconds_a_picture * seen * len(session.examples.split("train"))
    for trained in range(depth, 1, -1):
        if seconds / (one_pass * (1 + 2 * trained / depth)) >= ENOUGH_EPOCHS:
            return depth - trained
    return depth - 2
