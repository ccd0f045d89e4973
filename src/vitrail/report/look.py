"""Gathers what the report shows of the inside of a model, in a few seconds, and never fails because of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from vitrail.data.examples import Pixels
from vitrail.errors import ImageError, one_line
from vitrail.evaluate.metrics import Floats, Ints
from vitrail.explain.internals import look_inside
from vitrail.explain.methods import DEFAULT, METHODS, as_input, explain_batch, methods_for
from vitrail.model import Model, ViT
from vitrail.model.cost import count_parameters
from vitrail.predict.predictor import Predictor
from vitrail.report.facts import InsideFacts, Look

MOST_LOOKS, MOST_PICTURES = 4, 32
LOOK_MACS, PICTURE_MACS = 40e9, 20e9  # multiply-adds for the explanations and for the internals: 2 to 3 seconds
EXPLAINED = 4  # times the cost of an answer: forward, with gradients, and back


class Effort(NamedTuple):
    """Pictures explained of the best and of the worst, and pictures taken through the internals."""

    looks: int
    pictures: int


def effort(model: Model) -> Effort:
    """By about what an answer costs, every weight once for each patch; at least one look each way."""
    rows, columns = model.config.image_size
    p, q = model.config.patch_size if isinstance(model, ViT) else (16, 16)
    macs = count_parameters(model) * (rows * columns) / (p * q)
    looks, pictures = round(LOOK_MACS / (2 * EXPLAINED * macs)), round(PICTURE_MACS / macs)
    return Effort(min(MOST_LOOKS, max(1, looks)), min(MOST_PICTURES, max(1, pictures)))


def gather_inside(
    predictor: Predictor, read: Callable[[int], Pixels], names: list[str], probabilities: Floats, targets: Ints
) -> InsideFacts:
    """From the N pictures of an evaluation; `read(n)` gives one as the model takes it. What goes wrong is a note."""
    try:
        spend = effort(predictor.model)
        order = np.argsort(_trouble(probabilities, targets), kind="stable")
        chosen = min(spend.looks, len(order) // 2)
        best, worst = order[:chosen].tolist(), order[::-1][:chosen].tolist()
        method = DEFAULT if DEFAULT in methods_for(predictor.model) else "gradcam"
        every = order[:: max(1, len(order) // spend.pictures)][: spend.pictures]
        return InsideFacts(
            best=_looks(predictor, read, best, method),
            worst=_looks(predictor, read, worst, method),
            method=METHODS[method].words,
            internals=look_inside(predictor, _named(read, names, every.tolist())),
        )
    except Exception as error:  # the run is done and good; no model is odd enough to lose it for a picture
        return InsideFacts(note=f"The inside of this model could not be shown: {one_line(str(error))}")


def _trouble(probabilities: Floats, targets: Ints) -> Floats:
    """How far each answer is from the truth (N), 0 to 1."""
    if targets.ndim == 2:
        return np.abs(probabilities - targets).max(axis=1)
    return 1 - probabilities[np.arange(len(targets)), targets]


def _looks(predictor: Predictor, read: Callable[[int], Pixels], chosen: list[int], method: str) -> tuple[Look, ...]:
    """One at a time: gradients of several large pictures would not fit. Pictures that are gone are left out."""
    looks = []
    for n in chosen:
        pixels = _try(read, n)
        if pixels is not None:
            (found,) = explain_batch(predictor.model, as_input(predictor, pixels), method)
            looks.append(Look(n, pixels, found.heat))
    return tuple(looks)


def _named(read: Callable[[int], Pixels], names: list[str], chosen: list[int]) -> Iterator[tuple[str, Pixels]]:
    for n in chosen:
        if (pixels := _try(read, n)) is not None:
            yield names[n], pixels


def _try(read: Callable[[int], Pixels], n: int) -> Pixels | None:
    try:
        return read(n)
    except ImageError:
        return None
