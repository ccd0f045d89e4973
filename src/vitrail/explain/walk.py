"""A picture's way through a Vision Transformer, as a list of steps with the numbers that were really computed.

`walk` describes; `walk_terminal.show` and `walk_html.page` draw the same description, so that they cannot disagree.
The page can also be explored: `walk_explore.explore`.
"""

from __future__ import annotations

from collections.abc import Sequence

from vitrail.config import Pair, Preprocessing
from vitrail.data.prepare import prepare
from vitrail.errors import ConfigError
from vitrail.explain.walk_answer import ranking
from vitrail.explain.walk_parts import Picture, Pixels, Step, Walk
from vitrail.explain.walk_scene import Scene, displayable, with_channels
from vitrail.explain.walk_steps import all_steps
from vitrail.model import Model, ViT

__all__ = ["Step", "Walk", "describe_scene", "scene_of", "walk"]


def walk(
    model: Model,
    image: Pixels,
    classes: Sequence[str] | None,
    preprocessing: Preprocessing | None = None,
    name: str = "",
) -> Walk:
    """Take a picture (rows x columns x channels, 0 to 255) through the model and describe every step.

    Without `preprocessing` pixels are mapped to [-1, 1], as the paper's code does. Without `classes` they are numbered.
    """
    return describe_scene(scene_of(model, image, classes, preprocessing), name)


def scene_of(
    model: Model, image: Pixels, classes: Sequence[str] | None, preprocessing: Preprocessing | None = None
) -> Scene:
    """The picture inside the model: everything that was computed."""
    if not isinstance(model, ViT):
        raise ConfigError(f"there is no walk through a {type(model).__name__}", fix="give a Vision Transformer")
    if model.config.merge:
        raise ConfigError(
            "there is no walk through a model that merges patches on the way", fix="give the model it was made from"
        )
    labels = _labels(model, classes)
    rule = preprocessing or Preprocessing(model.config.image_size, (0.5,), (0.5,))
    pixels = prepare(with_channels(image, model.config.channels), rule.replace(size=_size(model, rule)))
    return Scene.of(model, pixels, rule, labels)


def describe_scene(scene: Scene, name: str = "") -> Walk:
    """Every step of it."""
    shown = Picture("what the model sees", displayable(scene.pixels))
    return Walk(name or "picture", describe(scene.model), shown, tuple(all_steps(scene)), ranking(scene))


def describe(model: ViT) -> str:
    c, weights = model.config, sum(parameter.numel() for parameter in model.parameters())
    blocks = "1 block" if c.depth == 1 else f"{c.depth} blocks"
    heads = "1 head" if c.heads == 1 else f"{c.heads} heads"
    return f"{blocks}, {heads}, width {c.dim}, patches of {c.patch_size[0]} × {c.patch_size[1]}, {weights:,} weights"


def _labels(model: ViT, classes: Sequence[str] | None) -> tuple[str, ...]:
    count = model.config.num_classes
    labels = tuple(f"class {i}" for i in range(count)) if classes is None else tuple(classes)
    if count and len(labels) != count:
        raise ConfigError(f"{len(labels)} class names for a model of {count} classes", fix=f"give {count} names")
    return labels


def _size(model: ViT, rule: Preprocessing) -> Pair:
    return rule.size if model.config.any_size else model.config.image_size
