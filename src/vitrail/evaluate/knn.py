"""What the nearest pictures are: a classifier without any training, on frozen features."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vitrail.evaluate.metrics import Ints

AT_ONCE = 2**23  # similarities in memory, whatever the number of pictures


def knn_accuracy(
    train: NDArray[np.floating],
    train_labels: Ints,
    test: NDArray[np.floating],
    test_labels: Ints,
    classes: int,
    k: int = 20,
    temperature: float = 0.07,
) -> float:
    """The share of test features (M x F) told right by the `k` most similar training features (N x F).

    Similar is the cosine, and each of the `k` votes with exp(similarity / temperature), as in DINO's evaluation.
    """
    found = knn_answers(train, train_labels, test, classes, k, temperature)
    return float((found == test_labels).mean())


def knn_answers(
    train: NDArray[np.floating],
    train_labels: Ints,
    test: NDArray[np.floating],
    classes: int,
    k: int = 20,
    temperature: float = 0.07,
) -> Ints:
    """The class of each test feature (M), a block of them at a time."""
    k = min(k, len(train))
    known, asked = _unit(train), _unit(test)
    block = max(1, AT_ONCE // len(train))
    found: list[Ints] = [np.zeros(0, np.int64)]
    for start in range(0, len(asked), block):
        similar = asked[start : start + block] @ known.T  # rows x N
        nearest = np.argpartition(-similar, k - 1, axis=1)[:, :k]
        # The largest cosine is 1: less that, no vote overflows, and the order of the sums is the same.
        votes = np.exp((np.take_along_axis(similar, nearest, axis=1) - 1) / temperature)
        found.append(_most_votes(train_labels[nearest], votes, classes))
    return np.concatenate(found)


def _most_votes(labels: Ints, votes: NDArray[np.floating], classes: int) -> Ints:
    """The class with the largest sum of votes in each row (rows x k both)."""
    rows = np.arange(len(labels))[:, None]
    cells = (rows * classes + labels).ravel()
    sums = np.bincount(cells, weights=votes.ravel(), minlength=len(labels) * classes)
    return sums.reshape(len(labels), classes).argmax(axis=1)


def _unit(features: NDArray[np.floating]) -> NDArray[np.float32]:
    """Rows of length 1; a row of zeros stays one."""
    x = features.astype(np.float32)
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), np.float32(1e-12))
