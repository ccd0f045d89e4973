"""Labelled pictures to a loss: cross-entropy for one label a picture, binary cross-entropy for several."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from vitrail.config import Config
from vitrail.data.loader import Batch
from vitrail.data.mixing import Mixing
from vitrail.errors import ConfigError
from vitrail.model import Model, ViT


@dataclass(frozen=True)
class Regularisation(Config):
    """What makes learning harder so that it generalises, or cheaper so that there is more of it."""

    label_smoothing: float = 0.0
    mixup: float = 0.0  # parameter of the Beta distribution; 0: off
    cutmix: float = 0.0
    patch_dropout: float = 0.0  # share of patches that the encoder does not see
    small_images: float = 1.0  # side of the pictures, as a share of the full one
    cheap_until: float = 0.8  # progress at which all patches and the full size come back

    def __post_init__(self) -> None:
        for name in ("label_smoothing", "patch_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"regularise.{name}={getattr(self, name)} must lie in [0, 1)")
        if not 0 < self.small_images <= 1:
            raise ConfigError(f"regularise.small_images={self.small_images} must lie in (0, 1]")


class Supervised(nn.Module):
    """Wraps the model that learns, so that whatever runs a forward pass (DDP, compile) runs the loss with it."""

    def __init__(self, model: Model, classes: int, settings: Regularisation, seed: int, weights: Tensor | None) -> None:
        super().__init__()
        self.model, self.classes, self.settings, self.seed = model, classes, settings, seed
        self.mixing = Mixing(mixup=settings.mixup, cutmix=settings.cutmix)
        self.class_weights: Tensor | None
        self.register_buffer("class_weights", weights, persistent=False)

    def forward(self, batch: Batch, epoch: int, step: int, progress: float) -> Tensor:
        """The mean loss of a batch."""
        images, targets = batch.images, self._targets(batch.targets)
        if self.mixing.active:
            images, targets = self.mixing(images, targets, self.seed, epoch, step)
        return self._loss(self._logits(images, progress), targets, several=batch.targets.ndim == 2)

    def mean_over(self, batch: Batch) -> float:
        """What the mean loss of a batch is divided by: its pictures, or their weights where classes have some."""
        weights = self.class_weights
        if weights is None or batch.targets.ndim == 2 or self.mixing.active:
            return float(len(batch.targets))
        return float(weights[batch.targets.to(weights.device)].sum())

    def _targets(self, targets: Tensor) -> Tensor:
        """Class numbers as they are while each picture has one; B x classes where labels are soft or several."""
        if targets.ndim == 1 and self.mixing.active:
            return F.one_hot(targets, self.classes).float()
        return targets.float() if targets.ndim == 2 else targets

    def _logits(self, images: Tensor, progress: float) -> Tensor:
        return self.model.classify(self._features(images, progress))

    def _features(self, images: Tensor, progress: float) -> Tensor:
        cheap = progress < self.settings.cheap_until
        if cheap:
            images = shrink(images, self.settings.small_images, self.model)
        if not cheap or not self.settings.patch_dropout or not isinstance(self.model, ViT):
            return self.model.features(images)
        return self.model.some_features(images, 1 - self.settings.patch_dropout)

    def _loss(self, logits: Tensor, targets: Tensor, several: bool) -> Tensor:
        logits, weights = logits.float(), self.class_weights
        if several:  # labels of a picture, mixed or not; one label a picture is soft after mixing, and still one
            return F.binary_cross_entropy_with_logits(logits, targets, pos_weight=weights)
        return F.cross_entropy(logits, targets, weight=weights, label_smoothing=self.settings.label_smoothing)


def shrink(images: Tensor, share: float, model: Model) -> Tensor:
    """Pictures with sides of `share` of the full ones, in whole patches of the model."""
    if share == 1:
        return images
    patch = model.config.patch_size if isinstance(model, ViT) else (1, 1)
    size = [max(p, round(side * share / p) * p) for side, p in zip(images.shape[-2:], patch, strict=True)]
    return F.interpolate(images, size, mode="bilinear", antialias=True)
