"""Randomness as a pure function: the same numbers on every machine, in any company and in any order.

A number is the hash of (seed, epoch, stream, index). Nothing is drawn from a state, so neither the number of workers,
nor the other pictures of a batch, nor an interruption can change it. A stream is the name of one decision ("flip");
decisions with different names are independent.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

# splitmix64's
_STEP, _FIRST, _SECOND = map(np.uint64, (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def uniform(seed: int, epoch: int, indices: ArrayLike, stream: str) -> NDArray[np.float64]:
    """One number in [0, 1) for each index."""
    return (_hashes(seed, epoch, indices, stream) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def integers(seed: int, epoch: int, indices: ArrayLike, stream: str, below: int) -> NDArray[np.int64]:
    """One whole number from 0 to `below` - 1 for each index."""
    return (uniform(seed, epoch, indices, stream) * below).astype(np.int64)


def noise(seed: int, epoch: int, indices: ArrayLike, stream: str, count: int) -> NDArray[np.uint8]:
    """`count` random bytes for each index; fewer would be the first ones of these."""
    words = np.arange(-(-count // 8), dtype=np.uint64) ^ _hashes(seed, epoch, indices, stream)[:, None]
    return _mix(words).astype("<u8").view(np.uint8)[:, :count]


def permutation(seed: int, epoch: int, count: int) -> NDArray[np.int64]:
    """The numbers 0 to `count` - 1 in the order of an epoch."""
    return np.argsort(_hashes(seed, epoch, np.arange(count), "order"), kind="stable")


def weighted(seed: int, epoch: int, count: int, weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """`count` places in `weights`, drawn with replacement, each as often as its weight says."""
    ends = np.cumsum(weights)
    places = np.searchsorted(ends, uniform(seed, epoch, np.arange(count), "draw") * ends[-1], side="right")
    return np.minimum(places, len(weights) - 1)  # a product rounded up to the very end


def _hashes(seed: int, epoch: int, indices: ArrayLike, stream: str) -> NDArray[np.uint64]:
    return _mix(np.atleast_1d(indices).astype(np.uint64) ^ _key(seed, epoch, stream))


@lru_cache(maxsize=1024)
def _key(seed: int, epoch: int, stream: str) -> np.uint64:
    text = f"{seed} {epoch} {stream}".encode()
    return np.uint64(int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little"))


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """splitmix64's last step: every bit of the input changes every bit of the output with probability 1/2."""
    words = words + _STEP
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return words ^ (words >> np.uint64(31))
