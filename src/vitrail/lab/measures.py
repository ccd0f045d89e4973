"""What can be measured on a trained model beside its accuracy: one function for each name.

B batch, H heads, N patches.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitrail.data.loader import Batch, EvaluationLoader
from vitrail.evaluate.fewshot import few_shot_accuracy
from vitrail.explain.distance import attention_distance, patch_distances
from vitrail.explain.filters import embedding_filters
from vitrail.explain.similarity import PositionShape, position_similarity
from vitrail.model import Model, ViT, build
from vitrail.train.session import Plan
from vitrail.weights.load import load

PICTURES = 128  # of the paper's attention distance
SHOTS = 10
COMPONENTS = 8

Measure = Callable[[ViT, Plan], float]


@torch.inference_mode()
def measure(name: str, model: Model, planned: Plan) -> float:
    """The figure of that name; a ViT is looked at in evaluation mode."""
    assert isinstance(model, ViT)
    return MEASURES[name](model.eval(), planned)


def _first_distance(model: ViT, planned: Plan) -> float:
    return float(_distances(model, planned, 0).mean())


def _last_distance(model: ViT, planned: Plan) -> float:
    return float(_distances(model, planned, -1).mean())


def _first_spread(model: ViT, planned: Plan) -> float:
    heads = _distances(model, planned, 0)
    return float(heads.max() - heads.min())


def _distances(model: ViT, planned: Plan, layer: int) -> Tensor:
    """The mean attention distance of each head of a layer (H), in pixels."""
    (attention,) = model.attention(_first_test_pictures(planned), [layer])
    return attention_distance(attention, patch_distances(model.config.grid, model.config.patch_size)).mean(dim=0)


def _neighbours_minus_far(model: ViT, planned: Plan) -> float:  # noqa: ARG001
    shape = _shape(model)
    return _known(shape.neighbours) - _known(shape.far)


def _lines_minus_elsewhere(model: ViT, planned: Plan) -> float:  # noqa: ARG001
    shape = _shape(model)
    return (_known(shape.same_row) + _known(shape.same_column)) / 2 - _known(shape.elsewhere)


def _shape(model: ViT) -> PositionShape:
    return position_similarity(model).shape


def _known(value: float | None) -> float:
    assert value is not None, "the grid has such pairs"
    return value


def _first_components(model: ViT, planned: Plan) -> float:  # noqa: ARG001
    return sum(embedding_filters(model).variance[:COMPONENTS])


def _fresh_components(model: ViT, planned: Plan) -> float:
    """The same before training."""
    torch.manual_seed(planned.settings.seed)
    fresh = build(model.config)
    assert isinstance(fresh, ViT)
    return sum(embedding_filters(fresh).variance[:COMPONENTS])


def _few_shot(model: ViT, planned: Plan) -> float:  # noqa: ARG001
    """Of the weights that this run started from: ten pictures of each class, a linear classifier in closed form."""
    assert planned.settings.start is not None
    before = load(Path(planned.settings.start)).model.eval()
    (train, labels), (test, truth) = (_features(before, planned, split) for split in ("train", "test"))
    classes = len(planned.examples.classes)
    return few_shot_accuracy(train, labels, test, truth, classes, SHOTS, planned.settings.seed)


def _features(model: Model, planned: Plan, split: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    found = [(model.features(batch.images), batch.targets) for batch in _loader(planned, split)]
    features, targets = (torch.cat(column).numpy() for column in zip(*found, strict=True))
    return features, targets


def _first_test_pictures(planned: Plan) -> Tensor:
    batch: Batch = next(iter(_loader(planned, "test")))
    return batch.images


def _loader(planned: Plan, split: str) -> EvaluationLoader:
    settings, indices = planned.settings, planned.examples.split(split)
    return EvaluationLoader(
        planned.examples, indices, settings.image, batch_size=PICTURES, channels=settings.model.channels
    )


MEASURES: dict[str, Measure] = {
    "first_distance": _first_distance,
    "last_distance": _last_distance,
    "first_spread": _first_spread,
    "neighbours_minus_far": _neighbours_minus_far,
    "lines_minus_elsewhere": _lines_minus_elsewhere,
    "first_components": _first_components,
    "fresh_components": _fresh_components,
    "few_shot": _few_shot,
}
