"""A run with a teacher: opening it, and its answers to the training pictures, computed once or batch by batch."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from vitrail.config import Preprocessing
from vitrail.data.examples import Examples
from vitrail.data.loader import Batch
from vitrail.data.prepare import normalisation
from vitrail.errors import ConfigError, FileError
from vitrail.methods.distill import Distilled, Teacher
from vitrail.methods.supervised import Supervised
from vitrail.model import Model
from vitrail.predict.examples import match_classes
from vitrail.predict.predictor import Predictor, load
from vitrail.train.distributed import world
from vitrail.train.features import Reading, logits
from vitrail.train.session import Session


def method_of(session: Session, model: Model) -> Supervised:
    """What trains `model`: on the labels, and on a teacher's answers where there is one."""
    plain = session.method(model)
    if session.settings.distill.teacher is None:
        return plain
    teacher = open_teacher(session)
    weights, seed = plain.class_weights, session.settings.seed
    return Distilled(model, plain.classes, plain.settings, seed, weights, teacher, session.settings.distill)


def open_teacher(session: Session) -> Teacher:
    """The teacher of the settings; its classes must be those of the data."""
    name = session.settings.distill.teacher
    assert name is not None
    predictor = load(name)
    order = class_order(session.source, predictor, name)
    if not session.settings.distill.cached:
        return Asked(predictor, session.settings.image, session.channels, order)
    return Remembered(world().of_first(lambda: _answers(session, predictor))[:, order])


def class_order(examples: Examples, predictor: Predictor, name: str) -> NDArray[np.int64]:
    """Where the teacher has each of our classes."""
    if examples.multi_label:
        raise ConfigError("a teacher names one class a picture, and these have several", fix="train without --teacher")
    try:
        match_classes(examples, predictor)
    except FileError as error:
        fix = "give a teacher that was trained on these classes"
        raise ConfigError(error.what.replace("the model", "the teacher"), where=name, fix=fix) from error
    return np.array([predictor.classes.index(ours) for ours in examples.classes], np.int64)


def _answers(session: Session, predictor: Predictor) -> NDArray[np.float32]:
    """Of every training picture as it is, at its place among all pictures; others are never asked for."""
    examples = session.source
    indices = examples.split("train")
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        session.display.stage("asking the teacher", done / len(indices), f"{done:,} of {len(indices):,} pictures")

    said = logits(predictor, examples, indices, Reading(advance=advance))
    session.display.end_stage()
    table = np.zeros((len(examples), said.values.shape[1]), np.float32)
    table[said.indices] = said.values
    return table


class Remembered(Teacher):
    """A teacher that has seen every picture once, as it is; augmentation and mixing are not shown to it."""

    def __init__(self, table: NDArray[np.float32]) -> None:
        self.table = torch.from_numpy(table)  # pictures x K

    def __call__(self, batch: Batch) -> Tensor:
        return self.table[batch.indices.cpu()]


class Asked(Teacher):
    """A teacher that sees what the student sees, augmented, at its own size and scale."""

    def __init__(self, predictor: Predictor, image: Preprocessing, channels: int, order: NDArray[np.int64]) -> None:
        if channels != predictor.channels:
            raise ConfigError(
                f"the teacher sees {predictor.channels} channels and the student {channels}",
                fix="use distill.cached=true",
            )
        self.model, self.order, self.size = (
            predictor.model.eval(),
            torch.from_numpy(order),
            predictor.preprocessing.size,
        )
        shift, scale = map(torch.from_numpy, normalisation(image, channels))
        its_shift, its_scale = map(torch.from_numpy, normalisation(predictor.preprocessing, channels))
        # Pixels are x / scale + shift, and the teacher sees (pixels - its shift) * its scale.
        self.factor, self.offset = its_scale / scale, (shift - its_shift) * its_scale

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Tensor:
        self.model.to(batch.images.device)
        images = batch.images * self.factor.to(batch.images) + self.offset.to(batch.images)
        if images.shape[-2:] != self.size:
            images = F.interpolate(images, self.size, mode="bicubic", antialias=True)
        return self.model(images)[:, self.order.to(images.device)]
