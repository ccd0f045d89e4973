"""The pixels of batches, made in whatever process this is called.

N pictures, H rows, W columns, C channels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from vitrail.config import Pair, Preprocessing
from vitrail.data.augment import Augmentation, augment_batch, cuts, read_training, training_draft
from vitrail.data.examples import Indices, Pictures, Pixels
from vitrail.data.quick_resize import resize_quickly
from vitrail.data.reading import read_or_why
from vitrail.errors import ImageError, VitrailError


class Job(NamedTuple):
    """Which pictures, for each of some batches: index + n * (number of pictures) where one comes for the n-th time."""

    draws: list[Indices]
    epoch: int
    size: Pair


class Made(NamedTuple):
    """What a batch became."""

    pixels: Tensor  # N x H x W x C, uint8
    indices: Tensor


class Done(NamedTuple):
    """What a job became. An error that ends the run comes as a value, to be raised where the user sees it whole."""

    batches: list[Made]
    bad: dict[int, ImageError]
    error: VitrailError | None = None


@dataclass(frozen=True)
class Maker:
    """Does jobs. The batches of a job are augmented together: many small pictures at once take the least time."""

    pictures: Pictures
    preprocessing: Preprocessing
    augmentation: Augmentation
    channels: int
    seed: int

    def __call__(self, job: Job) -> Done:
        try:
            return self._make(job)
        except VitrailError as error:
            return Done([], {}, error)

    def _make(self, job: Job) -> Done:
        wanted = np.concatenate(job.draws)
        pixels, good, bad = self._read(job, wanted)
        draws = wanted[good]
        pixels = augment_batch(pixels, self.augmentation, self.seed, job.epoch, draws)
        before = np.concatenate([[0], np.cumsum(good)])  # how many could be opened before each draw
        ends = before[np.cumsum([len(draws) for draws in job.draws])[:-1]]
        batches = zip(np.split(pixels, ends), np.split(draws % len(self.pictures), ends), strict=True)
        return Done([Made(*map(torch.from_numpy, batch)) for batch in batches], bad)

    def _read(self, job: Job, draws: Indices) -> tuple[Pixels, list[bool], dict[int, ImageError]]:
        """The pictures that can be opened, which draws these are, and why others cannot."""
        rule = self.preprocessing.replace(size=job.size)
        pixels = np.empty((len(draws), *job.size, self.channels), np.uint8)
        good: list[bool] = []
        bad: dict[int, ImageError] = {}
        count = 0
        for draw, cut in zip(draws.tolist(), cuts(self.augmentation, self.seed, job.epoch, draws), strict=True):
            draft, index = training_draft(self.augmentation, rule, cut), draw % len(self.pictures)
            picture = read_or_why(self.pictures, index, self.channels, draft)
            good.append(not isinstance(picture, ImageError))
            if isinstance(picture, ImageError):
                bad[index] = picture
            else:
                pixels[count] = read_training(picture, self.augmentation, rule, cut, resize_quickly)
                count += 1
        return pixels[:count], good, bad
