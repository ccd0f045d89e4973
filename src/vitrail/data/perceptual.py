"""Which pictures are copies of each other, though their bytes differ.

What counts: the same picture saved again, resized, brighter or darker, with more or less contrast, or cropped by a few
hundredths; and shots of one scene that hardly differ. What does not: mirrored or turned pictures, another colour.

Every picture becomes a small grey one, and that a vector whitened over the whole set: what all pictures share (a white
background, the outline of a shirt) counts little, what sets one apart counts much. Two pictures are near copies when
their vectors agree far more than those of the usual look-alikes in this set do, so that a set of look-alikes raises no
alarm. Candidates are found by hashing: the bits of a vector are the signs of its parts, and pictures that agree on a
random choice of bits, in any of many such choices, are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from vitrail.data.examples import Pixels

SIDE, TINT_SIDE = 32, 4
WIDTH = 256  # of a vector
NOISE = 1e-3  # part of the variance that saving or resizing can change, and is not trusted
SAMPLE = 20_000  # pictures to learn the whitening from
LOOK_ALIKES = 1_000  # pictures whose nearest others are sought
STRICTEST = 0.97  # likeness that is always a copy; 99 of 100 JPEGs of quality 60 reach it even at 28 x 28 pixels
SAME_TINT, TINT_PART = 4.0, 0.3  # mean difference of tints, in half levels and as part of the tint itself
FEW = 1_000  # pictures of which every pair is compared
TABLES, BITS = 40, 64  # choices of bits, and from how many
WINDOW = 64  # pictures compared at most, in each direction, with those of one bucket
CHUNK = 2048  # pairs compared at a time, whose vectors fit a cache

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


class NearPair(NamedTuple):
    """Two places in a list of pictures, the lesser first, and how alike they are (1: equal)."""

    first: int
    second: int
    likeness: float


def thumbnail(pixels: Pixels) -> tuple[Pixels, NDArray[np.int8]]:
    """A picture as 32 x 32 grey pixels, and its tint: red and blue less green, halved, 4 x 4 x 2."""
    seen = pixels[..., :3] if pixels.shape[2] >= 3 else pixels[..., 0]
    image = Image.fromarray(np.ascontiguousarray(seen)).resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    if image.mode == "L":
        return np.asarray(image), np.zeros((TINT_SIDE, TINT_SIDE, 2), np.int8)
    cell = SIDE // TINT_SIDE
    colour = np.asarray(image, np.float32).reshape(TINT_SIDE, cell, TINT_SIDE, cell, 3).mean((1, 3))
    tint = (colour[..., ::2] - colour[..., 1:2]) / 2
    return np.asarray(image.convert("L")), tint.round().astype(np.int8)


def near_pairs(grey: Pixels, tint: NDArray[np.int8]) -> list[NearPair]:
    """All near copies among N pictures, given by their thumbnails (N x 32 x 32 and N x 4 x 4 x 2), surest first."""
    if len(grey) < 2:
        return []
    vectors = whitened(grey)
    least = copy_likeness(vectors)
    found: dict[tuple[int, int], float] = {}
    for first, second in _candidates(vectors):
        likeness = np.einsum("nd,nd->n", vectors[first], vectors[second])
        kept = np.flatnonzero(likeness >= least)
        kept = kept[_same_tint(tint[first[kept]], tint[second[kept]])]
        pairs = zip(first[kept].tolist(), second[kept].tolist(), strict=True)
        found.update(zip(pairs, likeness[kept].tolist(), strict=True))
    return sorted((NearPair(*pair, likeness) for pair, likeness in found.items()), key=lambda p: (-p.likeness, p))


def whitened(grey: Pixels) -> Floats:
    """N x 256 unit vectors; brightness and contrast are gone from them."""
    flat = grey.reshape(len(grey), -1).astype(np.float32)
    flat -= flat.mean(axis=1, keepdims=True)
    flat = _unit(flat)
    sample = flat[:: -(-len(flat) // SAMPLE)]
    variance, directions = _main_directions(sample)
    # With few pictures, a direction may be no more than the difference of two copies: it must not be blown up.
    floor = variance.sum() * (NOISE + 1 / len(sample))
    return _unit(flat @ (directions / np.sqrt(variance + floor)))


def _main_directions(vectors: Floats) -> tuple[Floats, Floats]:
    """The largest variances of N x D vectors, at most 256, and the directions they have (D x as many)."""
    count, width = vectors.shape
    if count >= width:
        values, directions = np.linalg.eigh(vectors.T @ vectors / count)
        return np.maximum(values[::-1][:WIDTH], 0), directions[:, ::-1][:, :WIDTH]
    values, mixtures = np.linalg.eigh(vectors @ vectors.T / count)  # the same values, from a smaller matrix
    kept = np.flatnonzero(values > 1e-7 * values[-1])[::-1][:WIDTH]
    return values[kept], vectors.T @ mixtures[:, kept] / np.sqrt(count * values[kept])


def copy_likeness(vectors: Floats) -> float:
    """From which likeness on a pair is taken for a copy: the closer look-alikes come in this set, the stricter.

    Measured on phone photos, X-rays, traffic lights and clothes of 28 x 28 pixels, whose usual look-alikes agree to
    0.26, 0.46, 0.58 and 0.75.
    """
    chosen = np.unique(np.linspace(0, len(vectors) - 1, min(LOOK_ALIKES, len(vectors))).round().astype(np.int64))
    likeness = vectors[chosen] @ vectors.T
    likeness[np.arange(len(chosen)), chosen] = -1
    usual = float(np.median(likeness.max(axis=1)))
    return min(STRICTEST, 1 - 0.4 * (1 - usual) ** 2)


def _same_tint(one: NDArray[np.int8], other: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Of pairs of tints, N x 4 x 4 x 2 each; more contrast makes all colours stronger."""
    change = np.abs(one.astype(np.float32) - other).mean((1, 2, 3))
    strength = np.abs(one.astype(np.float32)).mean((1, 2, 3))
    same: NDArray[np.bool_] = change <= SAME_TINT + TINT_PART * strength
    return same


def _unit(vectors: Floats) -> Floats:
    lengths = np.sqrt(np.einsum("nd,nd->n", vectors, vectors))
    return vectors / np.maximum(lengths, np.float32(1e-9))[:, None]


def _candidates(vectors: Floats) -> Iterator[tuple[Ints, Ints]]:
    """Pairs worth comparing, first < second, a few thousand at a time; some come more than once."""
    count = len(vectors)
    if count <= FEW:
        yield from _chunks(*np.triu_indices(count, 1))
        return
    bits = vectors[:, :BITS] > np.median(vectors[:, :BITS], axis=0)
    length = (count - 1).bit_length()  # about one picture a bucket
    random = np.random.default_rng(0)
    for _ in range(TABLES):
        chosen = bits[:, random.permutation(BITS)[:length]]
        yield from _neighbours(chosen @ (1 << np.arange(length)))


def _neighbours(keys: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Pairs of equal keys; of a crowded bucket, only those within WINDOW of each other."""
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    for step in range(1, min(WINDOW, len(keys))):
        same = np.flatnonzero(keys[step:] == keys[:-step])
        if not len(same):
            return
        yield from _chunks(order[same], order[same + step])  # a stable sort keeps the lesser place first


def _chunks(first: Ints, second: Ints) -> Iterator[tuple[Ints, Ints]]:
    for start in range(0, len(first), CHUNK):
        yield first[start : start + CHUNK], second[start : start + CHUNK]
