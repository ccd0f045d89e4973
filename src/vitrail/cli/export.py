"""`vitrail export MODEL --to onnx|openvino|torch`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.text import Text

from vitrail.cli.answers import at_least_one
from vitrail.cli.output import console, print_json
from vitrail.errors import ConfigError

if TYPE_CHECKING:
    from vitrail.config import Pair

ENDINGS = {"onnx": ".onnx", "openvino": ".xml", "torch": ".pt2"}


def command(
    model: str,
    /,
    *,
    to: Literal["onnx", "openvino", "torch"] = "onnx",
    out: Path | None = None,
    sizes: str | None = None,
    data: str | None = None,
    pictures: int = 64,
    preprocess: bool = False,
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Write a model for another engine, once it is shown to give the same answers. Beside it: the certificate.

    Classes, calibration and preprocessing go with it: `vitrail predict model.onnx photo.jpg` needs nothing else, not
    even torch. The batch is free. What answers otherwise is not written.

    Parameters
    ----------
    model
        A model file or folder in any known layout, a run, or hf-hub:owner/name.
    to
        onnx (ONNX Runtime and others), openvino (.xml and .bin), or torch (torch.export's .pt2, for other programs).
    out
        The file to write. Left out: the model's name with the format's ending, here.
    sizes
        Image sizes such as 224,384 or 224x320: one file each, positions interpolated. Left out: the model's own.
    data
        Pictures of your own to compare on as well: a folder, table, shards, arrays or a known name.
    pictures
        How many of them.
    preprocess
        The graph takes uint8 pixels, batch x rows x columns x channels, and normalises them; it does not resize.
    overwrite
        Replace existing files.
    json
        Print one JSON document.
    """
    from vitrail.deploy.export import export
    from vitrail.deploy.resample import at_size, steps_of
    from vitrail.deploy.sample import sample_pictures
    from vitrail.predict.predictor import Predictor
    from vitrail.weights.load import load

    at_least_one(pictures=pictures)
    artefact = load(model)
    wanted = [steps_of(artefact).size] if sizes is None else read_sizes(sizes)
    targets = _targets(model, out, ENDINGS[to], wanted)
    found = []
    for size, target in zip(wanted, targets, strict=True):
        resized = at_size(artefact, size)
        sample = None if data is None else sample_pictures(Predictor.of(resized), data, pictures)
        found.append(export(resized, target, to, pixels=preprocess, sample=sample, overwrite=overwrite))
    if json:
        files = [{**one.to_dict(), "target": str(target)} for one, target in zip(found, targets, strict=True)]
        print_json({"model": model, "to": to, "files": files})
    else:
        words = [one.text() for one in found] + [f"{target}\n" for target in targets]
        console().print(Text("".join(words)), end="", soft_wrap=True)


def read_sizes(words: str) -> list[Pair]:
    """`224,384` or `224x320`: rows and columns of pixels."""
    found = [re.fullmatch(r"(\d+)(?:x(\d+))?", word.strip()) for word in words.split(",")]
    if not all(found):
        raise ConfigError(f"--sizes {words} names no sizes", fix="write 224, or 224,384, or 224x320")
    return [(int(side[1]), int(side[2] or side[1])) for side in found if side]


def _targets(model: str, out: Path | None, ending: str, sizes: list[Pair]) -> list[Path]:
    """One file each; with several, the size is part of the name."""
    if out is None:
        name = Path(model).stem if Path(model).suffix else Path(model).name
        out = Path((name or "model") + ending)
    if len(sizes) == 1:
        return [out]
    return [out.with_name(f"{out.stem}-{rows}x{columns}{out.suffix}") for rows, columns in sizes]
