"""Mixup (arXiv:1710.09412) and CutMix (arXiv:1905.04899): pictures and labels of a batch mixed with one another.

N pictures, C channels, H rows, W columns, K classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vitrail.config import Config
from vitrail.errors import ConfigError


@dataclass(frozen=True)
class Mixing(Config):
    """`mixup` and `cutmix` are the papers' alpha, 0 for never; with both, a batch gets the one or the other."""

    mixup: float = 0.0
    cutmix: float = 0.0
    probability: float = 1.0  # that a batch is mixed at all

    def __post_init__(self) -> None:
        if not (0 <= self.mixup < math.inf and 0 <= self.cutmix < math.inf):
            raise ConfigError(f"mixup={self.mixup} and cutmix={self.cutmix} must be at least 0")
        if not 0 <= self.probability <= 1:
            raise ConfigError(f"probability={self.probability} must lie in 0 to 1")

    @property
    def active(self) -> bool:
        return bool(self.probability and (self.mixup or self.cutmix))

    def __call__(self, images: Tensor, targets: Tensor, seed: int, epoch: int, step: int) -> tuple[Tensor, Tensor]:
        """Images (N x C x H x W) and soft targets (N x K), mixed; how is a function of (seed, epoch, step)."""
        random = np.random.default_rng([seed, epoch, step])
        if not self.active or random.random() >= self.probability:
            return images, targets
        cut = random.random() < 0.5 if self.mixup and self.cutmix else bool(self.cutmix)
        alpha = self.cutmix if cut else self.mixup
        kept = float(random.beta(alpha, alpha))  # the share of a picture itself; the rest is its partner's
        partner = torch.from_numpy(random.permutation(len(images))).to(images.device)
        if cut:
            images, kept = _paste(images, images[partner], kept, random)
        else:
            images = images.lerp(images[partner], 1 - kept)
        return images, targets.lerp(targets[partner], 1 - kept)


def _paste(images: Tensor, others: Tensor, kept: float, random: np.random.Generator) -> tuple[Tensor, float]:
    """A box of the others' pixels, and the share of the area that is left: the box may stick out of the picture."""
    height, width = images.shape[-2:]
    side = math.sqrt(1 - kept)
    top, bottom = _span(height, side, random)
    left, right = _span(width, side, random)
    pasted = images.clone()
    pasted[:, :, top:bottom, left:right] = others[:, :, top:bottom, left:right]
    return pasted, 1 - (bottom - top) * (right - left) / (height * width)


def _span(length: int, share: float, random: np.random.Generator) -> tuple[int, int]:
    """From and to: a share of a length around a random centre, cut at both ends."""
    half, centre = int(length * share) // 2, int(random.integers(length))
    return max(0, centre - half), min(length, centre + half)
