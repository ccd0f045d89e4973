"""All that is known about how good a model is on some pictures, as plain data that can be kept, shown and compared."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vitrail.errors import CheckFailed, ConfigError
from vitrail.evaluate import metrics
from vitrail.evaluate.calibration import calibrated
from vitrail.evaluate.metrics import Bools, Floats, Interval, Ints, Reliability

CURVE_POINTS = 100
TOP = 5


@dataclass(frozen=True)
class ClassScore:
    """One class or label. `average_precision` is for several labels a picture; None where no picture has the label."""

    name: str
    precision: float
    recall: float
    f1: float
    support: int
    average_precision: float | None = None


@dataclass(frozen=True)
class Bin:
    """Answers of about the same confidence: how sure they were, how many of them were right (0 and 0 where empty)."""

    confidence: float
    accuracy: float
    count: int


@dataclass(frozen=True)
class CoveragePoint:
    """Answering only the share `coverage` of the pictures, those with at least this confidence."""

    coverage: float
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Confusion:
    """How many pictures of one class were taken for another."""

    true: str
    predicted: str
    count: int


@dataclass(frozen=True)
class Evaluation:
    """Figures from 0 to 1. Those of probabilities are after calibration, but for the `raw_` ones.

    Where a picture can have several labels, `accuracy` is the share with exactly the right ones, `nll`, `brier`, `ece`
    and the bins are over all labels of all pictures, and what makes no sense is None or empty.
    """

    count: int
    multi_label: bool
    accuracy: float
    interval: Interval  # of the accuracy, 95 %
    macro_f1: float
    nll: float
    brier: float
    ece: float
    raw_nll: float
    raw_ece: float
    temperature: float
    classes: tuple[ClassScore, ...]
    reliability: tuple[Bin, ...]
    raw_reliability: tuple[Bin, ...]
    # One label a picture
    top5: float | None = None  # None for five classes or fewer
    balanced_accuracy: float | None = None
    balanced_interval: Interval | None = None
    weighted_f1: float | None = None
    aurc: float | None = None
    coverage: tuple[CoveragePoint, ...] = ()
    unknown_below: float | None = None
    known: float | None = None  # the share of pictures that are not 'unknown'
    known_accuracy: float | None = None  # None where none are
    confusion: tuple[tuple[int, ...], ...] = ()  # K x K: rows are true classes, columns predicted ones
    # Several labels a picture
    mean_average_precision: float | None = None
    micro_f1: float | None = None
    thresholds: tuple[float, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: no NaN, no numpy."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Evaluation:
        """What `to_dict` gave, also by way of JSON."""
        parts = {name: tuple(make(**row) for row in values[name]) for name, make in _PARTS.items()}
        confusion = tuple(map(tuple, values["confusion"]))
        pairs = {name: None if values[name] is None else tuple(values[name]) for name in _TUPLES}
        return cls(**{**values, **parts, **pairs, "confusion": confusion})

    def worst_classes(self, count: int = 5) -> tuple[ClassScore, ...]:
        """Those with pictures that are least often recognised; of equals, the larger first."""
        there = [score for score in self.classes if score.support]
        return tuple(sorted(there, key=lambda score: (score.recall, -score.support))[:count])

    def confusions(self, count: int = 5) -> tuple[Confusion, ...]:
        """The most frequent mistakes, most frequent first."""
        matrix = np.array(self.confusion, dtype=np.int64).reshape(len(self.confusion), len(self.confusion))
        np.fill_diagonal(matrix, 0)
        order = np.argsort(-matrix, axis=None, kind="stable")[:count]
        cells = [(int(cell) // len(matrix), int(cell) % len(matrix)) for cell in order]
        found = (Confusion(self.classes[i].name, self.classes[j].name, int(matrix[i, j])) for i, j in cells)
        return tuple(confusion for confusion in found if confusion.count)

    def rows(self) -> list[tuple[str, str]]:
        """The figures in a few lines for people, names and values."""
        named = [
            ("pictures", f"{self.count:,}"),
            ("all labels right" if self.multi_label else "accuracy", _percent(self.accuracy, self.interval)),
            ("top-5 accuracy", _percent(self.top5)),
            ("balanced accuracy", _percent(self.balanced_accuracy, self.balanced_interval)),
            ("mean average precision", _percent(self.mean_average_precision)),
            ("F1, mean of classes", _percent(self.macro_f1)),
            ("F1, all labels", _percent(self.micro_f1)),
            ("calibration error", _percent(self.ece)),
            ("negative log-likelihood", f"{self.nll:.4f}"),
            ("not 'unknown'", _percent(self.known)),
            ("accuracy of those", _percent(self.known_accuracy)),
        ]
        return [(name, value) for name, value in named if value]


_PARTS = {"classes": ClassScore, "reliability": Bin, "raw_reliability": Bin, "coverage": CoveragePoint}
_TUPLES = ("interval", "balanced_interval", "thresholds")


def evaluate_predictions(
    logits: Floats,
    targets: Ints,
    classes: Sequence[str],
    temperature: float = 1.0,
    unknown_below: float | None = None,
    seed: int = 0,
    thresholds: Sequence[float] | None = None,
) -> Evaluation:
    """All figures from N x K `logits` and the truth: N class numbers, all known, or N x K of 0 and 1 for labels.

    `thresholds` are the probabilities from which labels are given, 0.5 unless told. `seed` is for the bootstrap.
    """
    assert logits.shape == (len(targets), len(classes))
    if not len(targets):
        raise ConfigError("there are no pictures to evaluate on", fix="choose a split that has some")
    if not np.isfinite(logits).all():
        bad = int(np.sum(~np.isfinite(logits).all(axis=1)))
        fix = "its weights are damaged, or its training diverged"
        raise CheckFailed(f"the model's answers to {bad} of {len(targets)} pictures are not finite numbers", fix=fix)
    if targets.ndim == 2:
        return _evaluate_labels(logits, targets, classes, temperature, thresholds)
    return _evaluate_classes(logits, targets, classes, temperature, unknown_below, seed)


def _evaluate_classes(
    logits: Floats, targets: Ints, classes: Sequence[str], temperature: float, unknown_below: float | None, seed: int
) -> Evaluation:
    raw, said = calibrated(logits), calibrated(logits, temperature)
    confidence, right = said.max(axis=1), metrics.predicted(said) == targets
    confusion = metrics.confusion_matrix(said, targets)
    counts = metrics.class_counts(confusion)
    before, after = metrics.reliability_curve(raw.max(axis=1), right), metrics.reliability_curve(confidence, right)
    curve = metrics.risk_coverage(confidence, right)
    return Evaluation(
        count=len(targets),
        multi_label=False,
        accuracy=float(right.mean()),
        interval=metrics.wilson_interval(int(right.sum()), len(right)),
        macro_f1=metrics.macro_f1(counts),
        nll=metrics.negative_log_likelihood(said, targets),
        brier=metrics.brier_score(said, targets),
        ece=metrics.calibration_error(after),
        raw_nll=metrics.negative_log_likelihood(raw, targets),
        raw_ece=metrics.calibration_error(before),
        temperature=temperature,
        classes=_class_scores(classes, counts),
        reliability=_bins(after),
        raw_reliability=_bins(before),
        top5=metrics.top_k_accuracy(said, targets, TOP) if len(classes) > TOP else None,
        balanced_accuracy=metrics.balanced_accuracy(counts),
        balanced_interval=metrics.balanced_accuracy_interval(counts, seed=seed),
        weighted_f1=metrics.weighted_f1(counts),
        aurc=curve.area,
        coverage=_points(curve),
        confusion=tuple(map(tuple, confusion.tolist())),
        **_known(confidence, right, unknown_below),
    )


def _evaluate_labels(
    logits: Floats, targets: Ints, classes: Sequence[str], temperature: float, thresholds: Sequence[float] | None
) -> Evaluation:
    raw, said = calibrated(logits, multi_label=True), calibrated(logits, temperature, multi_label=True)
    given = tuple(thresholds) if thresholds is not None else (0.5,) * len(classes)
    chosen = said >= np.array(given)
    counts = metrics.label_counts(chosen, targets)
    has = targets.astype(bool).ravel()
    before, after = metrics.reliability_curve(raw.ravel(), has), metrics.reliability_curve(said.ravel(), has)
    areas = metrics.average_precisions(said, targets)
    accuracy = metrics.subset_accuracy(chosen, targets)
    return Evaluation(
        count=len(targets),
        multi_label=True,
        accuracy=accuracy,
        interval=metrics.wilson_interval(round(accuracy * len(targets)), len(targets)),
        macro_f1=metrics.macro_f1(counts),
        nll=metrics.binary_cross_entropy(said, targets),
        brier=metrics.label_brier_score(said, targets),
        ece=metrics.calibration_error(after),
        raw_nll=metrics.binary_cross_entropy(raw, targets),
        raw_ece=metrics.calibration_error(before),
        temperature=temperature,
        classes=_class_scores(classes, counts, areas),
        reliability=_bins(after),
        raw_reliability=_bins(before),
        mean_average_precision=_or_none(metrics.mean_average_precision(areas)),
        micro_f1=metrics.micro_f1(counts),
        thresholds=given,
    )


def _class_scores(names: Sequence[str], counts: metrics.Counts, areas: Floats | None = None) -> tuple[ClassScore, ...]:
    columns = (counts.precision.tolist(), counts.recall.tolist(), counts.f1.tolist(), counts.support.tolist())
    found = [None] * len(names) if areas is None else list(map(_or_none, areas.tolist()))
    return tuple(ClassScore(*row) for row in zip(names, *columns, found, strict=True))


def _bins(curve: Reliability) -> tuple[Bin, ...]:
    columns = curve.confidence.tolist(), curve.accuracy.tolist(), curve.size.tolist()
    return tuple(Bin(*row) for row in zip(*columns, strict=True))


def _points(curve: metrics.RiskCoverage) -> tuple[CoveragePoint, ...]:
    """At most a hundred points of the curve, the last one of which is full coverage."""
    count = len(curve.coverage)
    chosen = np.unique(np.linspace(0, count - 1, min(count, CURVE_POINTS)).round().astype(int))
    columns = curve.coverage[chosen].tolist(), curve.confidence[chosen].tolist(), (1 - curve.risk[chosen]).tolist()
    return tuple(CoveragePoint(*row) for row in zip(*columns, strict=True))


def _known(confidence: Floats, right: Bools, unknown_below: float | None) -> dict[str, Any]:
    if unknown_below is None:
        return {}
    known = confidence >= unknown_below
    known_accuracy = float(right[known].mean()) if known.any() else None
    return {"unknown_below": unknown_below, "known": float(known.mean()), "known_accuracy": known_accuracy}


def _or_none(value: float) -> float | None:
    """JSON has no NaN."""
    return None if np.isnan(value) else value


def _percent(share: float | None, interval: Interval | None = None) -> str:
    if share is None:
        return ""
    between = f" ({100 * interval[0]:.1f} to {100 * interval[1]:.1f})" if interval else ""
    return f"{100 * share:.1f} %{between}"
