"""Labels that are likely wrong: pictures that a model which never saw them puts elsewhere, with confidence.

N pictures, D numbers a picture, K classes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vitrail.evaluate.calibration import calibrated, fit_temperature
from vitrail.evaluate.metrics import Floats, Ints

FOLDS = 5
PENALTIES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)  # of the ridge, in units of the mean variance of a feature


class Suspect(NamedTuple):
    """A place in the list of pictures, the class it seems to be of, and the probabilities of that and of its label."""

    place: int
    suggested: int
    probability: float
    own: float


def likely_wrong(probabilities: Floats, targets: Ints) -> list[Suspect]:
    """Pictures whose label is likely wrong, surest first, from N x K probabilities by a model that never saw them.

    A picture is suspected when another class reaches the mean probability that pictures labelled with that class have
    for it, and is more probable than its own label (Northcutt et al. 2021). Each class so has a bar of its own: one
    that is hard to tell needs less confidence.
    """
    rows = np.arange(len(targets))
    own = probabilities[rows, targets]
    counts = np.bincount(targets, minlength=probabilities.shape[1])
    sums = np.bincount(targets, weights=own, minlength=probabilities.shape[1])
    bars = np.where(counts > 0, sums / np.maximum(counts, 1), np.inf)
    rivals = np.where((probabilities >= bars) & (probabilities > own[:, None]), probabilities, -np.inf)
    rivals[rows, targets] = -np.inf
    best = rivals.argmax(axis=1)
    margin = rivals[rows, best] - own
    order = np.argsort(-margin, kind="stable")
    chosen = order[np.isfinite(margin[order])]
    return [Suspect(n, int(best[n]), float(probabilities[n, best[n]]), float(own[n])) for n in chosen.tolist()]


def out_of_fold(features: Floats, targets: Ints, classes: int, *, folds: int = FOLDS, seed: int = 0) -> Floats:
    """N x K calibrated probabilities, each by a ridge probe on features (N x D) of the other folds' pictures.

    The folds are even in every class. Of several penalties, the one that is right most often is taken.
    """
    fold = _folds(targets, folds, seed)
    wanted = np.eye(classes)[targets]
    scores = np.empty((len(PENALTIES), len(targets), classes))
    for number in range(folds):
        held = fold == number
        if held.any():
            scores[:, held] = _ridge(features[~held], wanted[~held], features[held])
    right = (scores.argmax(axis=2) == targets).mean(axis=1)
    best = scores[int(right.argmax())]
    return calibrated(best, fit_temperature(best, targets))


def _folds(targets: Ints, folds: int, seed: int) -> Ints:
    order = np.random.default_rng(seed).permutation(len(targets))
    order = order[np.argsort(targets[order], kind="stable")]
    fold = np.empty(len(targets), np.int64)
    fold[order] = np.arange(len(targets)) % folds
    return fold


def _ridge(features: Floats, wanted: Floats, held: Floats) -> Floats:
    """Penalties x held x K scores, in closed form; one decomposition serves all penalties."""
    mean, spread = features.mean(axis=0, dtype=np.float64), features.std(axis=0, dtype=np.float64)
    scale = 1 / np.maximum(spread, 1e-6)
    inputs, level = (features - mean) * scale, wanted.mean(axis=0)
    values, directions = np.linalg.eigh(inputs.T @ inputs / len(inputs))
    seen = directions.T @ (inputs.T @ (wanted - level)) / len(inputs)
    turned = ((held - mean) * scale) @ directions
    return np.stack([turned @ (seen / (np.maximum(values, 0) + p)[:, None]) + level for p in PENALTIES])
