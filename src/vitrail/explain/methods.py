"""`explain(model, image, method)`: which parts of a picture an answer comes from, by any of `METHODS`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from vitrail.config import Pair
from vitrail.data.prepare import normalise
from vitrail.errors import ConfigError, did_you_mean
from vitrail.explain.attention import last_attention
from vitrail.explain.gradcam import gradcam
from vitrail.explain.occlusion import occlusion
from vitrail.explain.relevance import attribution
from vitrail.explain.rollout import gradient_rollout, rollout
from vitrail.model import Model, ViT
from vitrail.predict.pictures import Source
from vitrail.predict.predictor import Predictor

Floats = NDArray[np.float32]
DEFAULT = "attribution"


class Method(NamedTuple):
    """`compute(model, images, targets)` gives a map for each image (B rows columns)."""

    compute: Callable[[Any, Tensor, Tensor], Tensor]
    words: str
    any_model: bool = False  # also one without attention


METHODS = {
    "attention": Method(last_attention, "where the last layer looks"),
    "rollout": Method(rollout, "attention followed through all layers"),
    "gradient-rollout": Method(gradient_rollout, "attention followed through all layers, where it helps the class"),
    "attribution": Method(attribution, "the class's score handed back through the model, share by share"),
    "gradcam": Method(gradcam, "the last feature maps that speak for the class", any_model=True),
    "occlusion": Method(occlusion, "how far the score falls where the picture is covered", any_model=True),
}


@dataclass(frozen=True)
class Explanation:
    """A map of one picture: how much each patch did for the class. Only its order and proportions mean something."""

    heat: Floats  # rows x columns of patches
    method: str
    target: int  # the class that is explained
    logits: Floats  # of all classes
    label: str | None = None  # the class's name, where the model has names

    def enlarged(self, size: Pair) -> Floats:
        """The map smoothly enlarged to rows x columns of pixels."""
        image = Image.fromarray(self.heat).resize(size[::-1], Image.Resampling.BILINEAR)
        return np.asarray(image)


def explain(
    model: Predictor | Model, image: Source | Tensor, method: str = DEFAULT, target: int | str | None = None
) -> Explanation:
    """Why `target`, or without one the most probable class.

    `model` is what `vitrail.load` gives, with a picture in any form that `predict` takes; or a model, with the picture
    as the model takes it (C x height x width, or 1 x C x height x width).
    """
    module, images, names = _opened(model, image)
    number = None if target is None else class_number(target, names, module.config.num_classes)
    return explain_batch(module, images, method, None if number is None else [number], names)[0]


def _opened(model: Predictor | Model, image: Source | Tensor) -> tuple[Model, Tensor, Sequence[str]]:
    """The model, the picture as it takes it (1 C height width), and the names of its classes."""
    if isinstance(model, Predictor):
        if isinstance(image, Tensor):
            raise ConfigError("a tensor goes with a model alone", fix="pass predictor.model, or a picture")
        return model.model, as_input(model, model.read(image)), model.classes
    if not isinstance(image, Tensor):
        raise ConfigError("a model alone takes a tensor", fix="use vitrail.load, which takes pictures")
    images = image[None] if image.dim() == 3 else image
    if images.dim() == 4 and images.shape[0] != 1:
        raise ConfigError(f"explain takes one picture, not {images.shape[0]}", fix="use explain_batch")
    return model, images, ()


def explain_batch(
    model: Model,
    images: Tensor,
    method: str = DEFAULT,
    targets: Sequence[int] | None = None,
    names: Sequence[str] = (),
) -> list[Explanation]:
    """One explanation for each of the images (B C height width)."""
    chosen = method_for(model, method)
    with torch.inference_mode(False), evaluating(model):
        images = images.detach().to(next(model.parameters())).clone()  # a tensor of inference mode knows no gradients
        with torch.no_grad():
            logits = model(images)
        wanted = logits.argmax(dim=1) if targets is None else torch.tensor(targets, device=logits.device)
        maps = chosen.compute(model, images, wanted)
    heat, scores = maps.float().cpu().numpy(), logits.float().cpu().numpy()
    return [
        Explanation(heat[i], method, target, scores[i], names[target] if names else None)
        for i, target in enumerate(wanted.tolist())
    ]


def method_for(model: Model, name: str) -> Method:
    """The method, where this model can be explained by it."""
    if name not in METHODS:
        raise ConfigError(f"there is no method {name!r}", fix=did_you_mean(name, METHODS))
    if model.config.num_classes == 0:
        raise ConfigError("the model has no classes to explain", fix="train a head for it")
    if not (METHODS[name].any_model or isinstance(model, ViT)):
        raise ConfigError(f"{name} looks at attention, which a ResNet has none of", fix="use gradcam or occlusion")
    return METHODS[name]


def methods_for(model: Model) -> list[str]:
    """The names of all methods that this model can be explained by."""
    return [name for name, method in METHODS.items() if method.any_model or isinstance(model, ViT)]


def class_number(target: int | str, names: Sequence[str], count: int) -> int:
    """A class by its name, or by its number."""
    if isinstance(target, str) and target in names:
        return list(names).index(target)
    if isinstance(target, str):
        raise ConfigError(f"there is no class {target!r}", fix=did_you_mean(target, names) or "see vitrail inspect")
    if not 0 <= target < count:
        raise ConfigError(f"there is no class {target}", fix=f"classes are 0 to {count - 1}")
    return target


def as_input(predictor: Predictor, pixels: NDArray[np.uint8]) -> Tensor:
    """A prepared picture (rows x columns x C) as the model takes it (1 C rows columns)."""
    ready = torch.from_numpy(normalise(pixels[None], predictor.preprocessing))
    return ready.to(next(predictor.model.parameters()))


def scaled(heat: Floats) -> Floats:
    """From 0, the least of a map, to 1, the most of it; a flat map is 0."""
    low, high = float(heat.min()), float(heat.max())
    return (heat - low) / (high - low) if high > low else np.zeros_like(heat)


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """Without dropout, and afterwards as before."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
