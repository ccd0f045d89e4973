"""What a model answers to many pictures, and how good that is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from vitrail.data.examples import Indices
from vitrail.data.loader import Batch
from vitrail.evaluate import metrics
from vitrail.evaluate.calibration import calibrated
from vitrail.train.loop import Score


class Answers(NamedTuple):
    """N pictures in the order of `indices`, but for those that could not be read."""

    logits: NDArray[np.float32]  # N x classes
    targets: NDArray[np.int64]
    indices: Indices


@torch.inference_mode()
def answers(model: nn.Module, loader: Iterable[Batch], device: str = "cpu") -> Answers:
    """The logits of every picture, in evaluation mode."""
    was_training = model.training
    model.eval()
    parts = [(model(batch.images.to(device)).float().cpu(), batch.targets, batch.indices) for batch in loader]
    model.train(was_training)
    logits, targets, indices = (torch.cat(column).numpy() for column in zip(*parts, strict=True))
    return Answers(logits, targets, indices)


def figures(found: Answers) -> Score:
    """Accuracy decides, and the loss between equals; the mean average precision where pictures have several labels."""
    several = found.targets.ndim == 2
    named = label_figures(found) if several else class_figures(found)
    value = named["mean_average_precision" if several else "accuracy"]
    return Score(value - 1e-6 * min(named["loss"], 1e3), named, 0.0)


def class_figures(found: Answers) -> dict[str, float]:
    said = calibrated(found.logits)
    counts = metrics.class_counts(metrics.confusion_matrix(said, found.targets))
    return {
        "loss": metrics.negative_log_likelihood(said, found.targets),
        "accuracy": metrics.accuracy(said, found.targets),
        "balanced_accuracy": metrics.balanced_accuracy(counts),
    }


def label_figures(found: Answers) -> dict[str, float]:
    said = calibrated(found.logits, multi_label=True)
    return {
        "loss": metrics.binary_cross_entropy(said, found.targets),
        "accuracy": metrics.subset_accuracy(said >= 0.5, found.targets),
        "mean_average_precision": metrics.mean_average_precision(metrics.average_precisions(said, found.targets)),
    }
