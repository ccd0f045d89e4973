"""The paper's few-shot evaluation: a linear classifier from a few pictures of each class, in closed form.

Regularised least squares from frozen features to targets of -1 and 1, as in the paper's code: features standardised,
a constant of 100 beside them (so large that the bias is hardly shrunk), and the same strength for every model.

N pictures, F features, K classes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vitrail.evaluate.linear import Linear
from vitrail.evaluate.metrics import Ints

SHOTS = (1, 5, 10, 25)
STRENGTH = 2.0**10
CONSTANT = 100.0
LEAST_SPREAD = 1e-5


def few_shot_accuracy(
    train: NDArray[np.floating],
    train_labels: Ints,
    test: NDArray[np.floating],
    test_labels: Ints,
    classes: int,
    shots: int,
    seed: int,
    l2: float = STRENGTH,
) -> float:
    """The share of test features (N x F) told right by the classifier that saw `shots` of each class."""
    chosen = few_of_each(train_labels, classes, shots, seed)
    found = fit_few_shot(train[chosen], train_labels[chosen], classes, l2)
    return float((found(test).argmax(axis=1) == test_labels).mean())


def few_of_each(labels: Ints, classes: int, shots: int, seed: int) -> Ints:
    """Indices of `shots` pictures of each class, or of all where there are fewer.

    Those of one seed are nested: the five of five shots are among the ten of ten.
    """
    random = np.random.default_rng(seed)
    return np.concatenate([random.permutation(np.flatnonzero(labels == k))[:shots] for k in range(classes)])


def fit_few_shot(features: NDArray[np.floating], labels: Ints, classes: int, l2: float = STRENGTH) -> Linear:
    """The classifier (K x F), with the standardisation folded into it. The smaller of two equal systems is solved."""
    x = features.astype(np.float64)
    mean, spread = x.mean(axis=0), x.std(axis=0) + LEAST_SPREAD
    x = np.column_stack([(x - mean) / spread, np.full(len(x), CONSTANT)])
    y = 2.0 * np.eye(classes)[labels] - 1.0
    if x.shape[1] <= len(x):
        solved = np.linalg.solve(x.T @ x + l2 * np.eye(x.shape[1]), x.T @ y)
    else:
        solved = x.T @ np.linalg.solve(x @ x.T + l2 * np.eye(len(x)), y)
    weight = solved[:-1].T / spread  # K x F
    return Linear(weight, solved[-1] * CONSTANT - weight @ mean)
