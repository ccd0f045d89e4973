"""From logits to an answer in words. N pictures, K classes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from vitrail.evaluate.calibration import calibrated
from vitrail.evaluate.metrics import Floats


@dataclass(frozen=True)
class Prediction:
    """What is on a picture.

    `labels` are those the model stands by: one, or none where the answer is `unknown`; any number where a picture can
    have several. `label` is the most probable in any case, `top` the most probable ones, surest first.
    """

    label: str
    probability: float
    top: tuple[tuple[str, float], ...]
    unknown: bool
    labels: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        top = [{"label": label, "probability": probability} for label, probability in self.top]
        return {**asdict(self), "labels": list(self.labels), "top": top}


@dataclass(frozen=True)
class Decision:
    """How a model's logits become answers: what a model file says besides its weights."""

    classes: tuple[str, ...]
    temperature: float = 1.0
    unknown_below: float | None = None
    multi_label: bool = False
    thresholds: tuple[float, ...] | None = None  # for several labels a picture; 0.5 unless told

    def probabilities(self, logits: Floats) -> Floats:
        """N x K, calibrated."""
        return calibrated(logits, self.temperature, multi_label=self.multi_label)

    def answers(self, logits: Floats, top: int = 5) -> list[Prediction]:
        """N predictions."""
        return [self._answer(row, top) for row in self.probabilities(logits)]

    def _answer(self, probabilities: Floats, top: int) -> Prediction:
        order = np.argsort(-probabilities, kind="stable")  # of equal ones, the first class, as everywhere
        best = int(order[0])
        labels = self._labels(probabilities, order)
        return Prediction(
            label=self.classes[best],
            probability=float(probabilities[best]),
            top=tuple((self.classes[i], float(probabilities[i])) for i in order[: max(1, top)]),
            unknown=not labels,
            labels=labels,
        )

    def _labels(self, probabilities: Floats, order: Any) -> tuple[str, ...]:
        if self.multi_label:
            reached = probabilities >= (0.5 if self.thresholds is None else np.array(self.thresholds))
            return tuple(self.classes[i] for i in order if reached[i])
        known = self.unknown_below is None or probabilities[order[0]] >= self.unknown_below
        return (self.classes[order[0]],) if known else ()
