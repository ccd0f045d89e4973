"""What every method that learns without labels is: a module whose forward pass is the loss, around an encoder."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from vitrail.config import Preprocessing
from vitrail.data.loader import Batch
from vitrail.errors import ConfigError
from vitrail.model import ViT


class Preview(NamedTuple):
    """Some pictures as the method meets them, B x rows x columns x channels of uint8."""

    original: Tensor
    masked: Tensor
    rebuilt: Tensor


class SelfSupervised(nn.Module):
    """`model` is the encoder that is validated and kept; everything else is thrown away after pre-training."""

    loss_compares = True  # whether a lower loss means a better encoder, where nothing else can be measured

    def __init__(self, model: ViT, image: Preprocessing, seed: int) -> None:
        super().__init__()
        if model.config.num_classes:
            raise ConfigError(
                f"a head of {model.config.num_classes} classes learns nothing without labels", fix="use num_classes=0"
            )
        self.model, self.seed = model, seed
        self._mean: Tensor
        self._std: Tensor
        for name, values in (("_mean", image.mean), ("_std", image.std)):
            self.register_buffer(name, torch.tensor(values).view(1, -1, 1, 1), persistent=False)

    def forward(self, batch: Batch, epoch: int, step: int, progress: float) -> Tensor:
        """The mean loss of a batch."""
        raise NotImplementedError

    def yardstick(self, images: Tensor) -> float | None:
        """The loss of always giving the mean answer for these pictures, where that has a meaning."""
        del images
        return None

    def preview(self, batch: Batch) -> Preview | None:
        """What it makes of some pictures, where that can be shown."""
        del batch
        return None

    def health(self, images: Tensor) -> dict[str, float]:
        """Figures of how well learning goes, beside the loss."""
        del images
        return {}

    def warning(self, figures: dict[str, float]) -> str | None:
        """What is wrong, if these figures say that something is."""
        del figures
        return None

    def to_pixels(self, images: Tensor) -> Tensor:
        """Normalised images as they were, 0 to 255 in whole numbers."""
        return images.mul(self._std).add_(self._mean).mul_(255).round_().clamp_(0, 255)

    def from_pixels(self, pixels: Tensor) -> Tensor:
        """0 to 255, normalised as the encoder expects it."""
        return (pixels / 255 - self._mean) / self._std
