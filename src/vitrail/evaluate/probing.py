"""How good a model's features are, by three classifiers that leave the model as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitrail.evaluate.fewshot import few_shot_accuracy
from vitrail.evaluate.knn import knn_accuracy
from vitrail.evaluate.linear import STRENGTHS, fit_ridges
from vitrail.evaluate.metrics import Ints

HELD_BACK = 10  # every tenth training picture, where the strength must be chosen without a split for it


class Labelled(NamedTuple):
    """N pictures as the model's head sees them, with their classes."""

    features: NDArray[np.float32]  # N x F
    labels: Ints  # N


@dataclass(frozen=True)
class FewShot:
    """The accuracy with so many pictures of each class: of each seed, their mean and standard deviation."""

    shots: int
    accuracies: tuple[float, ...]
    mean: float
    spread: float


@dataclass(frozen=True)
class Probing:
    """Accuracies on pictures that no classifier saw."""

    few_shot: tuple[FewShot, ...]
    linear: float
    linear_strength: float
    knn: float
    k: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def probe_features(
    train: Labelled,
    test: Labelled,
    classes: int,
    *,
    val: Labelled | None = None,
    shots: Sequence[int],
    seeds: Sequence[int],
    k: int,
) -> Probing:
    """All three. The strength of the linear classifier is chosen on `val`, or on part of `train`."""
    strength = choose_strength(train, val, classes)
    (linear,) = fit_ridges(train.features, train.labels, classes, (strength,))
    given = (train.features, train.labels, test.features, test.labels, classes)
    return Probing(
        tuple(_few_shot(number, [few_shot_accuracy(*given, number, seed) for seed in seeds]) for number in shots),
        _accuracy(linear(test.features), test.labels),
        strength,
        knn_accuracy(*given, k=k),
        min(k, len(train.labels)),
    )


def choose_strength(train: Labelled, val: Labelled | None, classes: int) -> float:
    """Of the ridge, the one that does best on pictures it was not fitted to; the stronger one of equals."""
    if val is None:
        held = np.arange(len(train.labels)) % HELD_BACK == HELD_BACK - 1
        if not held.any():
            held[-1] = True
        train, val = (Labelled(train.features[part], train.labels[part]) for part in (~held, held))
    ridges = fit_ridges(train.features, train.labels, classes, STRENGTHS)
    scored = [(_accuracy(ridge(val.features), val.labels), s) for s, ridge in zip(STRENGTHS, ridges, strict=True)]
    return max(scored)[1]


def _few_shot(shots: int, found: list[float]) -> FewShot:
    return FewShot(shots, tuple(found), float(np.mean(found)), float(np.std(found)))


def _accuracy(logits: NDArray[np.floating], labels: Ints) -> float:
    return float((logits.argmax(axis=1) == labels).mean())
