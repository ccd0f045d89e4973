"""Linear classifiers on fixed features, in closed form: ridge regression, and Fisher's discriminant.

N pictures, F features, K classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitrail.evaluate.metrics import Floats, Ints

STRENGTHS = (1e-4, 1e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0, 10.0)  # of the ridge, as a share of the features' mean square
SHRINKAGES = (0.03, 0.1, 0.3, 0.5)  # how much of the covariance within classes is replaced by the same for all features


class Linear(NamedTuple):
    """Logits are features @ weight.T + bias."""

    weight: Floats  # K x F
    bias: Floats  # K

    def __call__(self, features: NDArray[np.floating]) -> Floats:
        return features.astype(np.float64) @ self.weight.T + self.bias


def fit_ridges(features: NDArray[np.floating], targets: Ints, classes: int, strengths: Sequence[float]) -> list[Linear]:
    """One classifier for each strength. `targets` are N class numbers, or N x K of 0 and 1.

    Features are standardised first, and what that does is folded back into the weights; the bias is not shrunk.
    The smaller of the two equal systems is solved: F x F, or N x N.
    """
    x = features.astype(np.float64)
    mean, std = x.mean(axis=0), x.std(axis=0) + 1e-6
    x = (x - mean) / std
    hot = targets if targets.ndim == 2 else np.eye(classes)[targets]
    y = 2.0 * hot - 1.0
    offset = y.mean(axis=0)
    primal = x.shape[1] <= x.shape[0]
    gram = x.T @ x if primal else x @ x.T
    right = x.T @ (y - offset) if primal else y - offset
    found = []
    for strength in strengths:
        solved = np.linalg.solve(gram + strength * len(x) * np.eye(len(gram)), right)
        weight = (solved if primal else x.T @ solved).T / std  # K x F
        found.append(Linear(weight, offset - weight @ mean))
    return found


def fit_discriminants(
    features: NDArray[np.floating], targets: Ints, classes: int, shrinkages: Sequence[float]
) -> list[Linear]:
    """One classifier for each shrinkage: classes as clouds of one shape around their means, all equally likely.

    Where classes have few pictures each, this is often far better than a ridge: directions in which the pictures of a
    class differ among themselves count less. It needs pictures of every class, and one class a picture; without, none.
    """
    if targets.ndim == 2 or len(np.unique(targets)) < classes:
        return []
    x = features.astype(np.float64)
    mean, std = x.mean(axis=0), x.std(axis=0) + 1e-6
    x = (x - mean) / std
    hot = np.eye(classes)[targets]
    centres = (hot.T @ x) / hot.sum(axis=0)[:, None]  # K x F
    within = (x - centres[targets]).T @ (x - centres[targets]) / len(x)
    even = (np.trace(within) / len(within) + 1e-6) * np.eye(len(within))
    found = []
    for shrinkage in shrinkages:
        solved = np.linalg.solve((1 - shrinkage) * within + shrinkage * even, centres.T).T  # K x F
        weight = solved / std
        found.append(Linear(weight, -0.5 * (centres * solved).sum(axis=1) - weight @ mean))
    return found
