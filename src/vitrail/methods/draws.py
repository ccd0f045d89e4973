"""Random numbers for methods: of each picture in an epoch its own, whatever the batch it comes in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from vitrail.data.randomness import uniform


class Draws(NamedTuple):
    """A function of (seed, epoch, picture), so that a resumed run draws the same and so do several processes."""

    seed: int
    epoch: int
    indices: Tensor  # B, which pictures these are

    def uniform(self, count: int, stream: str) -> Tensor:
        """`count` numbers in [0, 1) for each picture (B count); different streams are independent."""
        places = self.indices.cpu().numpy()[:, None] * count + np.arange(count)
        numbers = uniform(self.seed, self.epoch, places.ravel(), stream).reshape(places.shape)
        return torch.from_numpy(numbers).to(self.indices.device, torch.float32)
