"""Batches for training and evaluation: the same whatever the number of workers, and after any interruption.

What is in a batch is a function of (seed, epoch, place in the epoch); pixels of (seed, epoch, index). Pictures travel
as uint8 and are normalised in the main process. A picture that cannot be opened is left out of its batch, never
replaced, and told to `unreadable`, each time.

N pictures, H rows, W columns, C channels, K classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitrail.config import Pair, Preprocessing
from vitrail.data.augment import Augmentation
from vitrail.data.examples import Examples, Indices
from vitrail.data.making import Done, Job, Made, Maker
from vitrail.data.prepare import normalisation
from vitrail.data.randomness import permutation, weighted
from vitrail.data.workers import Crew
from vitrail.errors import ConfigError, ImageError

VALUES_AT_ONCE, MOST_AT_ONCE = 3 * 2**20, 8  # values of pictures and batches that are made in one go (LOG.md)
Unreadable = Callable[[int, ImageError], object]  # the picture, and why


class Batch(NamedTuple):
    images: Tensor  # N x C x H x W, float32, normalised
    targets: Tensor  # N class numbers, or N x K of 0 and 1; int64
    indices: Tensor  # N, int64: which pictures of the examples these are


class TrainingLoader:
    """A split in a new order in every epoch, augmented.

    `batch_size` is that of all ranks together: rank r of `world` takes every world-th picture of each batch, from the
    r-th on, so that what a batch is made of does not depend on how many share it; a share can be empty. `in_memory`
    says that reading pictures takes no time: then several small batches are made at once, which is faster. With
    `balance`, one weight for each picture of the split, an epoch is as many pictures drawn with replacement.
    `drop_last` leaves out the rest of an epoch that is less than a batch, unless that would be all there is.
    """

    def __init__(
        self,
        examples: Examples,
        split: str,
        preprocessing: Preprocessing,
        augmentation: Augmentation,
        *,
        batch_size: int,
        channels: int,
        seed: int,
        workers: int = 0,
        in_memory: bool = False,
        balance: NDArray[np.float64] | None = None,
        rank: int = 0,
        world: int = 1,
        drop_last: bool = True,
        unreadable: Unreadable = lambda *_: None,
    ) -> None:
        if batch_size < world:
            raise ConfigError(
                f"batch_size={batch_size} cannot be shared by {world} processes", fix=f"use at least {world}"
            )
        self._examples, self._indices, self._balance = examples, examples.split(split), balance
        if not len(self._indices):
            raise ConfigError(f"{examples.name} has no pictures in its split {split!r}", fix="add some")
        assert balance is None or len(balance) == len(self._indices)
        self._preprocessing, self._seed, self._size = preprocessing, seed, batch_size
        self._rank, self._world, self._drop_last = rank, world, drop_last
        self._normalise = _Normalise(preprocessing, channels)
        self._channels, self._in_memory = channels, in_memory
        self._crew = Crew(Maker(examples.pictures, preprocessing, augmentation, channels, seed), workers)
        self._unreadable = unreadable
        self.position = 0  # where to start to go on after the batch that came last

    def __len__(self) -> int:
        """Batches in an epoch; one in which no picture can be opened is counted, but does not come."""
        whole, rest = divmod(len(self._indices), self._size)
        return whole if whole and self._drop_last else whole + bool(rest)

    def batches(self, epoch: int, start: int = 0, size: Pair | None = None) -> Iterator[Batch]:
        """The batches of an epoch, from `start` on; those before cost nothing. `size`: other than the usual."""
        draws, pixels = self._draws(epoch), size or self._preprocessing.size
        shares = []
        for position in range(start, len(self)):
            shared = draws[position * self._size : (position + 1) * self._size]
            shares.append(shared[self._rank :: self._world])
        count = self._at_once(pixels)
        jobs = [Job(shares[first : first + count], epoch, pixels) for first in range(0, len(shares), count)]
        for position, made in enumerate(_done(self._crew, jobs, self._unreadable), start + 1):
            self.position = position
            batch = _batch(made, self._examples, self._normalise)
            if len(batch.indices) or self._world > 1:
                yield batch

    def _at_once(self, size: Pair) -> int:
        """Batches to be made in one go: several where they are small, and none has to wait for another's files."""
        values = max(1, self._size // self._world) * math.prod(size) * self._channels
        return min(MOST_AT_ONCE, max(1, VALUES_AT_ONCE // values)) if self._in_memory else 1

    def _draws(self, epoch: int) -> Indices:
        """The pictures of an epoch in order, each as index + n * (number of pictures) where it comes for the n-th time.

        So a picture that is drawn often is augmented differently each time.
        """
        count = len(self._indices)
        if self._balance is None:
            return self._indices[permutation(self._seed, epoch, count)]
        drawn = self._indices[weighted(self._seed, epoch, count, self._balance)]
        return drawn + _times_before(drawn) * len(self._examples)


class EvaluationLoader:
    """Some pictures in the order given, as the model will see them when it is used."""

    def __init__(
        self,
        examples: Examples,
        indices: Indices,
        preprocessing: Preprocessing,
        *,
        batch_size: int,
        channels: int,
        workers: int = 0,
        unreadable: Unreadable = lambda *_: None,
    ) -> None:
        self._examples, self._normalise = examples, _Normalise(preprocessing, channels)
        starts = range(0, len(indices), batch_size)
        self._jobs = [Job([indices[start : start + batch_size]], 0, preprocessing.size) for start in starts]
        self._crew = Crew(Maker(examples.pictures, preprocessing, Augmentation(), channels, seed=0), workers)
        self._unreadable = unreadable

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[Batch]:
        for made in _done(self._crew, self._jobs, self._unreadable):
            batch = _batch(made, self._examples, self._normalise)
            if len(batch.indices):
                yield batch


def _times_before(values: Indices) -> Indices:
    """How often each value has come before."""
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    starts = np.searchsorted(ranked, ranked, side="left")
    before = np.empty_like(values)
    before[order] = np.arange(len(values)) - starts
    return before


class _Normalise:
    """`prepare.normalise` for tensors."""

    def __init__(self, preprocessing: Preprocessing, channels: int) -> None:
        self._shift, self._scale = map(torch.from_numpy, normalisation(preprocessing, channels))

    def __call__(self, pixels: Tensor) -> Tensor:
        """N x H x W x C of uint8 to N x C x H x W of float32; moved while it is small, which is the fastest order."""
        return pixels.permute(0, 3, 1, 2).contiguous().float().sub_(self._shift).mul_(self._scale)


def _done(crew: Crew[Job, Done], jobs: Sequence[Job], unreadable: Unreadable) -> Iterator[Made]:
    """The batches of all jobs; an error is raised, what cannot be opened is told."""
    for done in crew.run(jobs):
        if done.error is not None:
            raise done.error
        for index, error in done.bad.items():
            unreadable(index, error)
        yield from done.batches


def _batch(made: Made, examples: Examples, normalise: _Normalise) -> Batch:
    """The batch that was made; without pictures if none of them could be opened."""
    targets = torch.from_numpy(examples.targets[made.indices.numpy()])
    return Batch(normalise(made.pixels), targets, made.indices)
