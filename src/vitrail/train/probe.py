"""The first answer when training starts from weights: a linear classifier on features that are computed once.

The probe's classifier becomes the model's head, so whatever follows starts where the probe ended, and a run never
ends below it.
"""

from __future__ import annotations

import math
import time
from contextlib import nullcontext
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from vitrail.data.examples import Indices
from vitrail.data.randomness import permutation
from vitrail.evaluate.calibration import fit_temperature
from vitrail.evaluate.linear import SHRINKAGES, STRENGTHS, Linear, fit_discriminants, fit_ridges
from vitrail.methods.supervised import shrink
from vitrail.model import Model, ViT
from vitrail.train.loop import Score, in_precision
from vitrail.train.rations import LEAST, PROBING
from vitrail.train.session import Session
from vitrail.train.validate import Answers, figures


class Features(NamedTuple):
    """N pictures as the model's head sees them."""

    values: NDArray[np.float32]  # N x F
    targets: NDArray[np.int64]


class Probed(NamedTuple):
    head: Linear
    score: Score
    a_pass: float  # seconds a picture: a forward pass as training begins


class Timed(NamedTuple):
    features: Features
    a_picture: float  # seconds, in the faster batches: the first are slow, and some while another program is busy


@torch.inference_mode()
def features(
    session: Session,
    model: Model,
    indices: Indices,
    what: str,
    *,
    as_in_training: bool = False,
    seconds: float = math.inf,
) -> Timed:
    """Of these pictures, as when the model is used, or in the size and numbers that training begins with; of as many as
    there is time for."""
    share = session.settings.regularise.small_images if as_in_training else 1.0
    found, moments, done = [], [time.monotonic()], 0
    for batch in session.shown(indices, f"features of {what}"):
        images = shrink(batch.images.to(session.settings.device), share, model)
        with in_precision(session.settings) if as_in_training else nullcontext():
            found.append((model.features(images).float().cpu(), batch.targets))
        moments.append(time.monotonic())
        done += len(batch.targets)
        if done >= LEAST and moments[-1] - moments[0] >= seconds:
            break
    values, targets = (torch.cat(column).numpy() for column in zip(*found, strict=True))
    paces = np.diff(moments) / [len(batch) for _, batch in found]
    return Timed(Features(values, targets), float(np.quantile(paces, 0.25)))


def probe(session: Session, model: Model) -> Probed:
    """The linear head on the model's features that does best in validation, in closed form.

    Where training begins with small pictures, it is fitted to such: an answer sooner, and a start that suits them.
    """
    start = time.monotonic()
    val = features(session, model.eval(), session.asked("val"), "val").features
    indices, left = session.examples.split("train"), session.ration(PROBING) - (time.monotonic() - start)
    drawn = indices[permutation(session.settings.seed, 0, len(indices))]
    train, a_pass = features(session, model, drawn, "train", as_in_training=True, seconds=left)
    classes = len(session.examples.classes)
    fitted = fit_ridges(train.values, train.targets, classes, STRENGTHS)
    fitted += fit_discriminants(train.values, train.targets, classes, SHRINKAGES)
    head, best = _best([_scaled(linear, val) for linear in fitted], val, start)
    _say(session, best, len(train.targets))
    return Probed(head, best, a_pass)


def set_head(model: Model, head: Linear) -> None:
    """The probe's classifier in the place of the model's last layer."""
    last = model.head if isinstance(model, ViT) else model.head.fc
    assert isinstance(last, nn.Linear | nn.Conv2d)
    assert last.bias is not None
    with torch.no_grad():
        last.weight.copy_(torch.from_numpy(head.weight).view_as(last.weight))
        last.bias.copy_(torch.from_numpy(head.bias))


def _best(heads: list[Linear], val: Features, start: float) -> tuple[Linear, Score]:
    scored = []
    for head in heads:
        found = figures(Answers(head(val.values).astype(np.float32), val.targets, np.arange(len(val.targets))))
        scored.append((found.value, head, found))
    _, head, found = max(scored, key=lambda row: row[0])
    return head, Score(found.value, found.figures, time.monotonic() - start)


def _scaled(linear: Linear, val: Features) -> Linear:
    """As logits: of size one, then by the temperature that suits best.

    A ridge answers between -1 and 1; a discriminant where classes lie apart is so sure that training from it would find
    no error left to learn from. Pictures that are all told apart ask for no temperature, so the size comes first.
    """
    answers = linear(val.values)
    size = float((answers - answers.mean(axis=1, keepdims=True)).std()) or 1.0
    scale = 1 / (size * fit_temperature(answers / size, val.targets))
    return Linear(linear.weight * scale, linear.bias * scale)


def _say(session: Session, score: Score, pictures: int) -> None:
    session.run.log({"kind": "probe", "seconds": round(score.seconds, 2), "pictures": pictures, **score.figures})
    there = len(session.examples.split("train"))
    some = "" if pictures == there else f" of {pictures:,} of {there:,} pictures"
    said = f"validation {score.figures['accuracy']:.2%} after {score.seconds:.0f} s"
    session.display.said(f"  closed-form probe{some}: {said}")
