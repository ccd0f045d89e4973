"""From logits to probabilities that mean what they say, and to decisions about labels.

A temperature divides the logits: above 1 it makes a model less sure of itself, and never changes its order of classes
(Guo et al. 2017). It is one number, fitted on pictures that the model was not trained on.
"""

from __future__ import annotations

import numpy as np

from vitrail.evaluate.metrics import Floats, Ints, precision_recall_steps

COLDEST, HOTTEST = 0.01, 100.0
STEPS = 100  # Newton takes about ten; halving alone would need fifty


def calibrated(logits: Floats, temperature: float = 1.0, *, multi_label: bool = False) -> Floats:
    """N x K probabilities in double precision: softmax, or a sigmoid for each label."""
    scaled = logits.astype(np.float64) / temperature
    return _sigmoid(scaled) if multi_label else np.exp(_log_softmax(scaled))


def fit_temperature(logits: Floats, targets: Ints) -> float:
    """The temperature of the least negative log-likelihood; of the least cross-entropy where `targets` is N x K.

    1 where no picture speaks against the model: with everything right, the least is at temperature 0, boundless
    trust, which a finite number of pictures cannot justify. Never worse than 1 on these pictures.
    """
    logits = logits.astype(np.float64)
    if logits.size == 0 or _separated(logits, targets):
        return 1.0
    temperature = 1 / _least(logits, targets)
    return temperature if _loss(logits / temperature, targets) < _loss(logits, targets) else 1.0


def fit_thresholds(probabilities: Floats, targets: Ints) -> Floats:
    """For each of K labels, the probability from which it is given: the one of the best F1; 0.5 where none is right."""
    return np.array([_best_threshold(p, t) for p, t in zip(probabilities.T, targets.T, strict=True)])


def _best_threshold(scores: Floats, targets: Ints) -> float:
    thresholds, reached, hits = precision_recall_steps(scores, targets)
    if not hits[-1]:
        return 0.5
    best = int(np.argmax(2 * hits / (reached + hits[-1])))
    below = float(thresholds[best + 1]) if best + 1 < len(thresholds) else 0.0
    return (float(thresholds[best]) + below) / 2  # midway to the next: as far as can be from both


def _separated(logits: Floats, targets: Ints) -> bool:
    """Is every picture right, so that more trust is always better?"""
    if targets.ndim == 2:
        return bool(np.all(np.where(targets == 1, logits > 0, logits < 0)))
    own = logits[np.arange(len(targets)), targets]
    others = logits.copy()
    others[np.arange(len(targets)), targets] = -np.inf
    return bool(np.all(own > others.max(axis=1)))


def _least(logits: Floats, targets: Ints) -> float:
    """The scale 1 / temperature of the least loss, which is convex in it: Newton, kept inside a shrinking bracket."""
    low, high, scale = 1 / HOTTEST, 1 / COLDEST, 1.0
    for _ in range(STEPS):
        slope, curvature = _derivatives(logits, targets, scale)
        if slope > 0:
            high = scale
        else:
            low = scale
        following = scale - slope / curvature if curvature > 0 else low
        if not low < following < high:
            following = float(np.sqrt(low * high))
        if abs(following - scale) <= 1e-10 * scale:
            break
        scale = following
    return scale


def _derivatives(logits: Floats, targets: Ints, scale: float) -> tuple[float, float]:
    """First and second derivative of the loss with respect to the scale."""
    if targets.ndim == 2:
        said = _sigmoid(scale * logits)
        return float(np.mean((said - targets) * logits)), float(np.mean(said * (1 - said) * logits**2))
    said = np.exp(_log_softmax(scale * logits))
    mean = np.sum(said * logits, axis=1)
    own = logits[np.arange(len(targets)), targets]
    return float(np.mean(mean - own)), float(np.mean(np.sum(said * (logits - mean[:, None]) ** 2, axis=1)))


def _loss(logits: Floats, targets: Ints) -> float:
    if targets.ndim == 2:
        return float(np.mean(np.logaddexp(0, logits) - targets * logits))
    return float(-np.mean(_log_softmax(logits)[np.arange(len(targets)), targets]))


def _log_softmax(logits: Floats) -> Floats:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))


def _sigmoid(logits: Floats) -> Floats:
    """Without overflow: exp only ever sees negative numbers."""
    small = np.exp(-np.abs(logits))
    return np.where(logits >= 0, 1, small) / (1 + small)
