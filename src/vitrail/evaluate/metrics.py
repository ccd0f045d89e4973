"""How good predictions are: pure functions of numpy arrays.

`probabilities` is N x K; `targets` is N class numbers, or N x K of 0 and 1 where a picture can have several labels.
The numbers are scikit-learn's and torchmetrics' where those agree. What is left to definition:

- Of equal probabilities, the first class wins, at every rank.
- A class with no picture has no recall, and does not count in balanced accuracy. One that is also never predicted says
  nothing about the model, and does not count in F1 averages. Where a single figure is 0 / 0, it is 0.
- The average precision of a label that no picture has is NaN, and does not count in the mean.
- The Brier score is summed over classes (0 to 2), as Brier defined it; over labels it is the mean square.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.integer[Any]]
Bools = NDArray[np.bool_]
Interval = tuple[float, float]

BINS = 15  # of the calibration error, as in Guo et al. 2017
SMALLEST = float(np.finfo(np.float64).eps)  # a probability of 0 costs 36 nats rather than everything
NORMAL_95 = 1.959963984540054  # two-sided 95 % of the normal distribution


# One label a picture


def predicted(probabilities: Floats) -> Ints:
    return probabilities.argmax(axis=1)


def accuracy(probabilities: Floats, targets: Ints) -> float:
    return float(np.mean(predicted(probabilities) == targets))


def top_k_accuracy(probabilities: Floats, targets: Ints, k: int) -> float:
    """The share of pictures whose class is among the k most probable; 1 where there are no more than k classes."""
    own = _of_target(probabilities, targets)[:, None]
    earlier = np.arange(probabilities.shape[1]) < targets[:, None]
    ahead = np.sum((probabilities > own) | ((probabilities == own) & earlier), axis=1)
    return float(np.mean(ahead < k))


def confusion_matrix(probabilities: Floats, targets: Ints) -> Ints:
    """K x K counts: the row is the true class, the column the predicted one."""
    classes = probabilities.shape[1]
    cells = targets.astype(np.int64) * classes + predicted(probabilities)
    return np.bincount(cells, minlength=classes * classes).reshape(classes, classes)


def negative_log_likelihood(probabilities: Floats, targets: Ints) -> float:
    """In nats, a picture."""
    return float(-np.mean(np.log(np.maximum(_of_target(probabilities, targets), SMALLEST))))


def brier_score(probabilities: Floats, targets: Ints) -> float:
    own = _of_target(probabilities, targets)
    return float(np.mean(np.sum(np.square(probabilities), axis=1) - 2 * own + 1))


def _of_target(probabilities: Floats, targets: Ints) -> Floats:
    own: Floats = probabilities[np.arange(len(targets)), targets]
    return own


# Classes


class Counts(NamedTuple):
    """For each of K classes or labels: predictions that are right, predictions, and pictures that have it."""

    hits: Ints
    predicted: Ints
    support: Ints

    @property
    def precision(self) -> Floats:
        return _ratio(self.hits, self.predicted)

    @property
    def recall(self) -> Floats:
        return _ratio(self.hits, self.support)

    @property
    def f1(self) -> Floats:
        return _ratio(2 * self.hits, self.predicted + self.support)


def class_counts(confusion: Ints) -> Counts:
    return Counts(np.diag(confusion), confusion.sum(axis=0), confusion.sum(axis=1))


def label_counts(chosen: Bools, targets: Ints) -> Counts:
    """From N x K decisions, for pictures that can have several labels."""
    true = targets.astype(bool)
    return Counts((chosen & true).sum(axis=0), chosen.sum(axis=0), true.sum(axis=0))


def balanced_accuracy(counts: Counts) -> float:
    """The mean recall of the classes that have pictures."""
    return _mean(counts.recall[counts.support > 0])


def macro_f1(counts: Counts) -> float:
    return _mean(counts.f1[counts.predicted + counts.support > 0])


def weighted_f1(counts: Counts) -> float:
    """The mean over classes, each as important as it has pictures."""
    return float(_ratio(counts.f1 @ counts.support, counts.support.sum()))


def micro_f1(counts: Counts) -> float:
    """Over all decisions; with one label a picture this is the accuracy."""
    return float(_ratio(2 * counts.hits.sum(), counts.predicted.sum() + counts.support.sum()))


# Several labels a picture


def average_precisions(probabilities: Floats, targets: Ints) -> Floats:
    """K areas under the precision-recall curve, as a sum of steps; equal probabilities are one step."""
    return np.array([_average_precision(p, t) for p, t in zip(probabilities.T, targets.T, strict=True)])


def mean_average_precision(areas: Floats) -> float:
    """Of `average_precisions`, those that there are; NaN where there are none."""
    there = areas[~np.isnan(areas)]
    return float(there.mean()) if there.size else float("nan")


def subset_accuracy(chosen: Bools, targets: Ints) -> float:
    """The share of pictures with exactly the right labels."""
    return float(np.mean(np.all(chosen == targets.astype(bool), axis=1)))


def binary_cross_entropy(probabilities: Floats, targets: Ints) -> float:
    """In nats, a label of a picture."""
    said = np.where(targets == 1, probabilities, 1 - probabilities)
    return float(-np.mean(np.log(np.maximum(said, SMALLEST))))


def label_brier_score(probabilities: Floats, targets: Ints) -> float:
    return float(np.mean(np.square(probabilities - targets)))


def precision_recall_steps(scores: Floats, targets: Ints) -> tuple[Floats, Ints, Ints]:
    """Thresholds, falling, and for each how many pictures reach it, and how many of those have the label."""
    order = np.argsort(-scores, kind="stable")
    ranked, hits = scores[order], np.cumsum(targets[order])
    last = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))  # of each run of equal scores
    return ranked[last], last + 1, hits[last]


def _average_precision(scores: Floats, targets: Ints) -> float:
    total = targets.sum()
    if total == 0:
        return float("nan")
    _, reached, hits = precision_recall_steps(scores, targets)
    return float(np.sum(np.diff(hits, prepend=0) / total * (hits / reached)))


# Can the probabilities be believed?


class Reliability(NamedTuple):
    """Bins of equal width, (0, 1/15], (1/15, 2/15] ...: mean confidence, share that was right (both 0 where empty)."""

    confidence: Floats
    accuracy: Floats
    size: Ints


def reliability_curve(confidence: Floats, right: Bools, bins: int = BINS) -> Reliability:
    """From any number of statements "this is so, with this confidence", and whether it was so."""
    edges = np.linspace(0, 1, bins + 1)
    place = np.searchsorted(edges[1:-1], confidence, side="left")
    size = np.bincount(place, minlength=bins)
    total = np.bincount(place, weights=confidence, minlength=bins)
    correct = np.bincount(place, weights=right, minlength=bins)
    return Reliability(_ratio(total, size), _ratio(correct, size), size)


def calibration_error(curve: Reliability) -> float:
    """ECE: the mean distance between confidence and accuracy, over all statements."""
    gaps = np.abs(curve.confidence - curve.accuracy)
    return float(_ratio(gaps @ curve.size, curve.size.sum()))


def expected_calibration_error(probabilities: Floats, targets: Ints, bins: int = BINS) -> float:
    """Of the most probable class."""
    right = predicted(probabilities) == targets
    return calibration_error(reliability_curve(probabilities.max(axis=1), right, bins))


class RiskCoverage(NamedTuple):
    """Answering only the surest pictures: for 1, 2 ... N of them, the least confidence and the share of errors."""

    coverage: Floats
    confidence: Floats
    risk: Floats

    @property
    def area(self) -> float:
        """AURC: the mean risk over all coverages; less is better."""
        return _mean(self.risk)


def risk_coverage(confidence: Floats, right: Bools) -> RiskCoverage:
    """Equally sure pictures come in no order: each of them carries the error rate of all of them."""
    ranked, place = np.unique(-confidence, return_inverse=True)
    share = np.bincount(place, weights=~right) / np.bincount(place)
    order = np.sort(place)
    answered = np.arange(1, len(confidence) + 1)
    return RiskCoverage(answered / len(confidence), -ranked[order], np.cumsum(share[order]) / answered)


# How sure a figure is


def wilson_interval(successes: int, count: int) -> Interval:
    """Where a share lies, with 95 % confidence. Right also for few pictures, and where all or none succeeded."""
    share, z2 = successes / count, NORMAL_95**2
    centre = share + z2 / (2 * count)
    spread = NORMAL_95 * np.sqrt(share * (1 - share) / count + z2 / (4 * count**2))
    low, high = (centre - spread) / (1 + z2 / count), (centre + spread) / (1 + z2 / count)
    return max(0.0, min(share, float(low))), min(1.0, max(share, float(high)))


def bootstrap_interval(
    kinds: Ints, statistic: Callable[[Ints], Floats], *, seed: int, rounds: int = 1000, level: float = 0.95
) -> Interval:
    """The percentile interval of a statistic of pictures drawn with replacement.

    Pictures that the statistic cannot tell apart are of one kind, and `kinds` says how many there are of each: to draw
    pictures is to draw from a multinomial. `statistic` takes rounds x kinds and gives a value for each round.
    """
    generator, total = np.random.default_rng(seed), int(kinds.sum())
    at_once = max(1, 4_000_000 // len(kinds))
    drawn = [
        statistic(generator.multinomial(total, kinds / total, size=min(at_once, rounds - start)))
        for start in range(0, rounds, at_once)
    ]
    low, high = np.quantile(np.concatenate(drawn), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def balanced_accuracy_interval(counts: Counts, *, seed: int, rounds: int = 1000, level: float = 0.95) -> Interval:
    """Bootstrap. All that counts of a picture is its class and whether it was recognised: 2 K kinds."""

    def statistic(drawn: Ints) -> Floats:
        right, wrong = np.split(drawn, 2, axis=1)
        there = (right + wrong) > 0
        mean: Floats = _ratio(right, right + wrong).sum(axis=1) / there.sum(axis=1)
        return mean

    kinds = np.concatenate([counts.hits, counts.support - counts.hits])
    return bootstrap_interval(kinds, statistic, seed=seed, rounds=rounds, level=level)


def _ratio(part: Any, whole: Any) -> Floats:
    """0 where the whole is 0."""
    part, whole = np.asarray(part, np.float64), np.asarray(whole, np.float64)
    return np.divide(part, whole, out=np.zeros(np.broadcast(part, whole).shape), where=whole != 0)


def _mean(values: Floats) -> float:
    """0 where there are none."""
    return float(values.mean()) if values.size else 0.0
