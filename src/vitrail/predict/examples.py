"""A model asked about labelled pictures, in the same way as about any others: evaluating is predicting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from vitrail.data.examples import NO_LABEL, Examples, Pixels
from vitrail.data.labels import fit_classes, listed
from vitrail.data.prepare import draft_size, prepare
from vitrail.errors import ConfigError, FileError, ImageError
from vitrail.evaluate.evaluation import Evaluation, evaluate_predictions
from vitrail.evaluate.metrics import Floats, Ints
from vitrail.predict.engines import Engine
from vitrail.predict.many import BATCH_SIZE, THREADS, Logits, stream_logits
from vitrail.predict.predictor import Predictor


def match_classes(examples: Examples, predictor: Predictor) -> Examples:
    """The same with the model's class numbers. Another set of classes is an error that says how they differ."""
    ours, theirs = set(predictor.classes), set(examples.classes)
    differences = {"only the model has": ours - theirs, "only the data have": theirs - ours}
    said = [f"{who} {listed(sorted(names))}" for who, names in differences.items() if names]
    if said:
        fix = "evaluate on pictures of the model's classes"
        raise FileError("the classes are not the model's: " + ", ".join(said), where=examples.name, fix=fix)
    if examples.multi_label and not predictor.decision.multi_label:
        fix = "train a model on data with several labels a picture"
        raise ConfigError("the pictures have several labels, and the model gives one", where=examples.name, fix=fix)
    return fit_classes(examples, predictor.classes)


class Asked(NamedTuple):
    """What a model answers to N labelled pictures of a split, and what is right."""

    logits: Floats  # N x K
    targets: Ints  # N, or N x K of 0 and 1 where a picture can have several labels


def evaluation_of(predictor: Predictor, asked: Asked, seed: int = 0) -> Evaluation:
    """How good the answers are."""
    decision = predictor.decision
    return evaluate_predictions(
        asked.logits,
        asked.targets,
        predictor.classes,
        decision.temperature,
        decision.unknown_below,
        seed,
        decision.thresholds,
    )


def ask_examples(
    predictor: Predictor,
    examples: Examples,
    split: str,
    complain: Callable[[ImageError], None],
    advance: Callable[[], None],
    *,
    batch_size: int = BATCH_SIZE,
    threads: int = THREADS,
) -> Asked:
    """What a model says to the labelled pictures of a split, whose classes are the model's.

    Those that cannot be read are left out, and `complain` is told why; `advance` is called after each picture.
    """
    indices = examples.split(split)
    if not examples.multi_label:
        indices = indices[examples.targets[indices] != NO_LABEL]
    logits, kept = [], []
    for index, found in stream_examples(
        predictor.engine, predictor, examples, indices.tolist(), batch_size=batch_size, threads=threads
    ):
        if isinstance(found, ImageError):
            complain(found)
        else:
            logits.append(found)
            kept.append(index)
        advance()
    if not kept:
        fix = "choose a split with labelled pictures"
        raise FileError("there is no picture that could be evaluated", where=examples.name, fix=fix)
    targets = examples.targets[kept]
    if predictor.decision.multi_label and not examples.multi_label:
        targets = np.eye(len(predictor.classes), dtype=np.int64)[targets]
    return Asked(np.stack(logits), targets)


def stream_examples(
    engine: Engine,
    predictor: Predictor,
    examples: Examples,
    indices: list[int],
    *,
    threads: int,
    batch_size: int = BATCH_SIZE,
) -> Iterator[tuple[int, Logits | ImageError]]:
    """What an engine answers to some of the examples, read as the predictor reads pictures, in order."""
    steps = predictor.preprocessing

    def read(index: int) -> Pixels:
        return prepare(examples.pictures.read(index, channels=predictor.channels, draft=draft_size(steps)), steps)

    return stream_logits(engine, read, indices, batch_size=batch_size, threads=threads)
