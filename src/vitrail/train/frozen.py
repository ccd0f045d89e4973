"""How good frozen features are, where some pictures have labels: the progress of learning without them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from vitrail.data.examples import NO_LABEL, Indices
from vitrail.data.loader import EvaluationLoader
from vitrail.data.randomness import permutation
from vitrail.evaluate.fewshot import few_shot_accuracy
from vitrail.evaluate.knn import knn_accuracy
from vitrail.model import ViT
from vitrail.train.session import Plan, Session

MOST, LEAST = 2_000, 200  # pictures of a split that are looked at each time
# Of the pictures of a run, so that looking ten times costs less than a twentieth of it: a picture is looked at by
# three or four passes forward, and to learn from one costs two or more.
SHARE = 0.003
SHOTS = 10


class Measured(NamedTuple):
    features: NDArray[np.float32]  # N x F
    labels: NDArray[np.int64]


def can_follow(session: Session) -> bool:
    """Whether there are pictures with one label each in both splits."""
    if session.examples.multi_label or len(session.examples.classes) < 2:
        return False
    return all(len(_labelled(session, split)) for split in ("train", "val"))


def follow(session: Session, model: ViT) -> dict[str, float]:
    """The validation pictures told by their nearest training pictures, and by ten of each class."""
    train, val = measure(session, model, "train"), measure(session, model, "val")
    given = (train.features, train.labels, val.features, val.labels, len(session.examples.classes))
    return {
        "knn": knn_accuracy(*given),
        "few_shot": few_shot_accuracy(*given, shots=SHOTS, seed=session.settings.seed),
    }


@torch.inference_mode()
def measure(session: Session, model: ViT, split: str) -> Measured:
    """Features of some labelled pictures of a split."""
    device = session.settings.device
    loader = looked_at(session, _labelled(session, split))
    found = [(model.features(batch.images.to(device)).float().cpu(), batch.targets) for batch in loader]
    features, labels = (torch.cat(column).numpy() for column in zip(*found, strict=True))
    return Measured(features, labels)


def looked_at(session: Session, indices: Indices) -> EvaluationLoader:
    """As many of these pictures as the run can afford, chosen by the seed: the same every time."""
    chosen = indices[permutation(session.settings.seed, 0, len(indices))[: affordable(session)]]
    return EvaluationLoader(
        session.examples,
        chosen,
        session.settings.image,
        batch_size=256,
        channels=session.channels,
        workers=session.workers,
        unreadable=session.name_unreadable,
    )


def affordable(session: Plan | Session) -> int:
    """Pictures of a split to look at. Where the budget is a time, the loop sees to it how often that is."""
    settings, budget = session.settings, session.settings.budget
    if budget.minutes is not None:
        return MOST
    if budget.steps is not None:
        learned_from = budget.steps * settings.batch_size * settings.accumulate
    else:
        assert budget.epochs is not None
        learned_from = round(budget.epochs * len(session.examples.split("train")))
    return min(MOST, max(LEAST, round(SHARE * learned_from)))


def _labelled(session: Session, split: str) -> NDArray[np.int64]:
    indices = session.examples.split(split)
    return indices[session.examples.targets[indices] != NO_LABEL]
