"""Labels that a model's features speak against: a finding for the doctor."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from vitrail.data.doctor_parts import Finding
from vitrail.data.examples import NO_LABEL, Examples, Pixels
from vitrail.data.labels import count
from vitrail.data.prepare import normalise
from vitrail.errors import ConfigError, ImageError
from vitrail.evaluate.suspects import FOLDS, likely_wrong, out_of_fold
from vitrail.predict.examples import stream_examples
from vitrail.predict.predictor import Predictor


class _Features:
    """An engine whose answers are the model's features instead of its logits."""

    name = "features"

    def __init__(self, predictor: Predictor) -> None:
        self.model, self.preprocessing = predictor.model.eval(), predictor.preprocessing

    def __call__(self, batch: Pixels) -> NDArray[np.float32]:
        import torch

        with torch.inference_mode():
            images = torch.from_numpy(normalise(batch, self.preprocessing)).to(next(self.model.parameters()))
            features: NDArray[np.float32] = self.model.features(images).float().cpu().numpy()
        return features


def suspect_labels(
    examples: Examples, predictor: Predictor, *, threads: int = 2, advance: Callable[[], None] = lambda: None
) -> list[Finding]:
    """At most one finding: pictures that probes on the model's features, trained on the others, put elsewhere.

    Classes with fewer pictures than folds are left alone: a probe would have to judge them without having seen them.
    """
    if examples.multi_label:
        fix = "leave --model out: which label of several is wrong is not told"
        raise ConfigError("pictures with several labels cannot be checked with a model", where=examples.name, fix=fix)
    indices, features = _features(examples, predictor, _judged(examples), threads, advance)
    if not indices:
        return []
    targets = examples.targets[indices]
    suspects = likely_wrong(out_of_fold(features, targets, len(examples.classes)), targets)
    if not suspects:
        return []
    names = examples.classes
    details = tuple(
        f"labelled {names[targets[place]]!r}, looks like {names[suggested]!r} ({probability:.0%} against {own:.0%})"
        for place, suggested, probability, own in suspects
    )
    what = f"{count(len(suspects), 'picture')} of {len(indices):,} may have a wrong label"
    fix = "look at them, surest first, and correct those that are wrong"
    places = tuple(indices[suspect.place] for suspect in suspects)
    return [Finding("suspect-labels", "warning", what, fix, places, details)]


def _judged(examples: Examples) -> list[int]:
    """Labelled pictures of some split, of classes with enough of them."""
    used = np.sort(np.concatenate(list(examples.splits.values())))
    used = used[examples.targets[used] != NO_LABEL]
    enough = np.bincount(examples.targets[used], minlength=len(examples.classes)) >= FOLDS
    kept: list[int] = used[enough[examples.targets[used]]].tolist()
    return kept


def _features(
    examples: Examples, predictor: Predictor, indices: list[int], threads: int, advance: Callable[[], None]
) -> tuple[list[int], NDArray[np.float32]]:
    """Of the pictures that can be opened: which they are, and N x D."""
    kept, found = list[int](), list[NDArray[np.float32]]()
    answers = stream_examples(_Features(predictor), predictor, examples, indices, threads=threads)
    for index, features in answers:
        if not isinstance(features, ImageError):
            kept.append(index)
            found.append(features)
        advance()
    return kept, np.stack(found) if found else np.empty((0, 0), np.float32)
