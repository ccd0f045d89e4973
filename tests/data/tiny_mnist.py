"""A data set of twelve pictures in the form of MNIST, and its row for the catalog."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import numpy as np

from data.small_sets import idx
from vitrail.data.catalog import Entry
from vitrail.data.download import Origin
from vitrail.data.prepared import MNIST_FILES, ArraySet, read_mnist

PIXELS = np.random.default_rng(0).integers(0, 256, (12, 5, 4), np.uint8)
LABELS = np.array([0, 1, 2] * 4, np.uint8)
TRAIN = 8


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def write_mnist(folder: Path, pixels: np.ndarray = PIXELS, *, packed: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in zip(MNIST_FILES, (pixels[:TRAIN], LABELS[:TRAIN], pixels[TRAIN:], LABELS[TRAIN:]), strict=True):
        data = idx(array)
        (folder / (f"{name}.gz" if packed else name)).write_bytes(gzip.compress(data) if packed else data)
    return folder


def tiny_mnist(*origins: Origin) -> Entry:
    sums = {"images": sha256(PIXELS.tobytes()), "labels": sha256(LABELS.tobytes())}
    content = ArraySet(MNIST_FILES, read_mnist, {"train": TRAIN, "test": 12 - TRAIN}, sums)
    return Entry("tiny", "small things", "none", ("a", "b", "c"), content, origins)
