"""Opening a model that `vitrail export` wrote, without torch: an .onnx file, or an OpenVINO .xml with its .bin.

What stands in a file is data to be checked, as in weights/artefact.py; a file from elsewhere, without our description,
is refused, since nobody can know what pictures it takes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, NamedTuple

from vitrail.config import Pair, Preprocessing, pair
from vitrail.errors import FileError, WeightsError
from vitrail.predict.answers import Decision
from vitrail.weights.description import (
    DAMAGE,
    KEY,
    check_decision,
    check_names,
    damaged,
    parse_description,
    read_answering,
)

Kind = Literal["onnx", "openvino"]
EXPORT = "export the model with `vitrail export`"
MOST_PIXELS, MOST_OUTPUTS = 2**26, 10**7  # of a picture; more is no model but an attack on memory


class Exported(NamedTuple):
    """What an exported file says about itself."""

    size: Pair
    channels: int
    outputs: int
    pixels: bool  # it takes pixels from 0 to 255, B x rows x columns x channels, and normalises them itself
    preprocessing: Preprocessing
    decision: Decision
    described: dict[str, Any]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of one picture, as the graph takes it."""
        return (*self.size, self.channels) if self.pixels else (self.channels, *self.size)


def kind_of(source: str | Path) -> Kind | None:
    """What the first bytes of a file say it is; None for anything that is not an exported model."""
    path = Path(source)
    try:
        if not path.is_file():  # a folder, a pipe, a hub name, nothing at all: others say so better
            return None
        with path.open("rb") as file:
            head = file.read(64)
    except (OSError, ValueError):
        return None
    if len(head) > 2 and head[0] == 0x08 and 1 <= head[1] < 64 and head[2] in b"\x12\x1a\x22\x28\x32\x3a\x42":
        return "onnx"
    return "openvino" if head.lstrip().startswith(b"<?xml") and b"<net" in head else None


def read_exported(metadata: dict[str, str], source: str) -> Exported:
    """The description in a file's metadata, every value checked."""
    if KEY not in metadata:
        raise WeightsError(
            "was not written by vitrail, so its pictures and classes are unknown", where=source, fix=EXPORT
        )
    described = parse_description(metadata, source)
    try:
        return _checked(described)
    except DAMAGE as error:
        raise damaged(error, source) from error


def _checked(described: dict[str, Any]) -> Exported:
    export, answering = described["export"], read_answering(described)
    size, channels, outputs = pair("size", export["size"]), _count(export, "channels"), _count(export, "outputs")
    if size[0] * size[1] * channels > MOST_PIXELS or outputs > MOST_OUTPUTS:
        raise WeightsError(f"a model of {size} pixels and {outputs} outputs cannot be", fix=EXPORT)
    classes = answering.classes or tuple(map(str, range(outputs)))
    check_names(classes, outputs)
    check_decision(answering.temperature, answering.unknown_below, answering.thresholds, outputs)
    steps = answering.preprocessing
    if steps is None or steps.size != size or len(steps.mean) not in (1, channels):
        raise WeightsError("its preprocessing does not make the pictures it takes", fix=EXPORT)
    decision = Decision(
        classes, answering.temperature or 1.0, answering.unknown_below, answering.multi_label, answering.thresholds
    )
    if not isinstance(export["pixels"], bool):
        raise WeightsError("pixels must be true or false", fix=EXPORT)
    return Exported(size, channels, outputs, export["pixels"], steps, decision, described)


def _count(values: dict[str, Any], name: str) -> int:
    value = values[name]
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise WeightsError(f"{name} must be a whole number of at least 1", fix=EXPORT)
    return value


def check_shapes(exported: Exported, takes: list[Any], gives: list[Any], source: str) -> None:
    """Whether the graph has the one input and output that its description speaks of; the batch is free."""
    if takes[1:] != list(exported.shape) or gives[1:] != [exported.outputs]:
        raise WeightsError("the graph is not the one that its description speaks of", where=source, fix=EXPORT)


def check_size(path: Path, most: int) -> None:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise FileError(f"cannot be read: {error.strerror}", where=path, fix="is the .bin beside the .xml?") from error
    if size > most:
        raise FileError(f"is larger than {most / 2**30:.0f} GiB", where=path, fix=EXPORT)
