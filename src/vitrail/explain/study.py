"""Pictures explained by several methods, each map tried: what `vitrail explain` shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from vitrail.data.examples import Pixels
from vitrail.explain.methods import Explanation, as_input, class_number, evaluating, explain_batch
from vitrail.explain.trust import Judge, Trust, shuffled_weights
from vitrail.model import Model
from vitrail.predict.answers import Prediction
from vitrail.predict.predictor import Predictor

MOST_SHOWN = 24  # pictures on a page or a sheet


class Finding(NamedTuple):
    explanation: Explanation
    trust: Trust | None  # None: not tried


@dataclass(frozen=True)
class Study:
    """One picture (rows x columns x channels, as the model sees it), what it was taken for, and why."""

    name: str
    pixels: Pixels
    prediction: Prediction
    label: str  # the class that is explained
    probability: float
    findings: tuple[Finding, ...]

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        maps = [
            {
                "method": found.explanation.method,
                "heat": np.round(found.explanation.heat.astype(float), 7).tolist(),
                "trust": None if found.trust is None else found.trust.to_dict(),
            }
            for found in self.findings
        ]
        about = {"file": self.name, "label": self.prediction.label, "probability": self.prediction.probability}
        return {**about, "explained": {"label": self.label, "probability": self.probability}, "maps": maps}


class Examiner:
    """Explains pictures for one model. Its weights are shuffled once, to try the maps against."""

    def __init__(self, predictor: Predictor, methods: Sequence[str], target: str | None, *, trust: bool) -> None:
        self.predictor, self.methods = predictor, methods
        self.target = None if target is None else self._number(target)
        self._shuffled: Model | None = shuffled_weights(predictor.model) if trust else None

    def _number(self, target: str) -> int:
        return class_number(target, self.predictor.classes, len(self.predictor.classes))

    def study(self, name: str, pixels: Pixels) -> Study:
        """A picture as the predictor reads it."""
        decision = self.predictor.decision
        images = as_input(self.predictor, pixels)
        targets = None if self.target is None else [self.target]
        found = [explain_batch(self.predictor.model, images, m, targets, decision.classes)[0] for m in self.methods]
        logits, target = found[0].logits[None], found[0].target
        probabilities = decision.probabilities(logits)[0]
        return Study(
            name,
            pixels,
            decision.answers(logits)[0],
            decision.classes[target],
            float(probabilities[target]),
            tuple(map(Finding, found, self._trust(images, found))),
        )

    def _trust(self, images: Any, found: Sequence[Explanation]) -> list[Trust | None]:
        if self._shuffled is None:
            return [None] * len(found)
        target = found[0].target
        with evaluating(self.predictor.model):
            judge = Judge(self.predictor.model, images, target, self.predictor.decision.probabilities)
            others = [explain_batch(self._shuffled, images, one.method, [target])[0].heat for one in found]
            return [judge.trust(one.heat, other) for one, other in zip(found, others, strict=True)]


class Rank(NamedTuple):
    """How a method does on the pictures given."""

    method: str
    score: float  # mean
    trusted: int  # maps that are better than random
    pictures: int
    same_when_shuffled: float  # mean


def ranking(studies: Sequence[Study]) -> list[Rank]:
    """The methods, most faithful first."""
    tried: dict[str, list[Trust]] = {}
    for study in studies:
        for explanation, trust in study.findings:
            if trust is not None:
                tried.setdefault(explanation.method, []).append(trust)
    ranks = [
        Rank(
            method,
            float(np.mean([one.score for one in found])),
            sum(one.better_than_random for one in found),
            len(found),
            float(np.mean([one.same_when_shuffled or 0.0 for one in found])),
        )
        for method, found in tried.items()
    ]
    return sorted(ranks, key=lambda rank: -rank.score)
