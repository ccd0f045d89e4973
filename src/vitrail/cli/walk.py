"""`vitrail walk [IMAGE]`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from vitrail.cli.output import console, print_json

if TYPE_CHECKING:
    from vitrail.explain.walk_parts import Walk
    from vitrail.explain.walk_scene import Scene


def command(
    image: Path | None = None,
    /,
    *,
    model: str | None = None,
    animal: Literal["cat", "dog"] = "cat",
    html: Path | None = None,
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Take one picture through a Vision Transformer step by step, with real shapes and real numbers.

    Without a picture it is the smallest example there is: a drawn cat or dog of 16 x 16 grey pixels, cut into patches
    of 4 x 4, in a model of width 8 that was trained to tell them apart.

    Parameters
    ----------
    image
        A picture; none: the worked example.
    model
        A model file or folder, hf-hub:owner/name, or a model by name with fresh weights. Default with a picture: Ti/16.
    animal
        What the worked example draws.
    html
        Write one self-contained page to this file instead of the terminal. It can be explored: click a patch to see
        where it looks in every block and head.
    overwrite
        Replace an existing page.
    json
        Print one JSON document: the steps with their shapes, and the answer.
    """
    from vitrail.explain.walk import describe_scene

    scene, name = _scene(image, model, animal)
    found = describe_scene(scene, name)
    if json:
        print_json(_describe(found))
    elif html is not None:
        _write_page(found, scene, html, overwrite)
    else:
        from vitrail.explain.walk_terminal import show

        show(found, console())


def _scene(image: Path | None, model: str | None, animal: str) -> tuple[Scene, str]:
    """The picture inside the model, and what the picture is called."""
    from vitrail.cli.models import open_model
    from vitrail.data.images import open_image, to_array
    from vitrail.errors import ConfigError
    from vitrail.explain.walk import scene_of
    from vitrail.explain.worked_example import PREPROCESSING, worked_example

    if image is None:
        if model is not None:
            raise ConfigError("--model needs a picture to walk through", fix="vitrail walk IMAGE --model MODEL")
        tiny, picture, classes = worked_example(animal)
        return scene_of(tiny, picture, classes, PREPROCESSING), f"a drawn {animal}"
    picture = to_array(open_image(image))
    artefact = open_model(model or "Ti/16")
    return scene_of(artefact.model, picture, artefact.classes, artefact.preprocessing), image.name


def _write_page(found: Walk, scene: Scene, target: Path, overwrite: bool) -> None:
    from vitrail.errors import FileError
    from vitrail.explain.walk_explore import explore
    from vitrail.explain.walk_html import page
    from vitrail.weights.durable import write_text

    if target.exists() and not overwrite:
        raise FileError("is already there", where=target, fix="choose another name, or pass --overwrite")
    write_text(target, page(found, explore(scene)))
    console().print(str(target), markup=False)


def _describe(found: Walk) -> dict[str, object]:
    steps = [{"title": step.title, "shape": step.shape} for step in found.steps]
    answer = [{"class": name, "probability": probability} for name, probability in found.ranking]
    return {"picture": found.name, "model": found.model, "steps": steps, "answer": answer}
