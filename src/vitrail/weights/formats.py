"""All foreign formats, and which one a set of tensors is in."""

from __future__ import annotations

from vitrail.errors import WeightsError, did_you_mean
from vitrail.weights import google, huggingface, timm, torchvision, vit_pytorch
from vitrail.weights.format import Format
from vitrail.weights.tables import Shapes

FORMATS: dict[str, Format] = {
    module.FORMAT.name: module.FORMAT for module in (timm, huggingface, google, torchvision, vit_pytorch)
}


def detect(shapes: Shapes) -> Format:
    """The format whose names these are."""
    for known in FORMATS.values():
        if known.recognises(shapes):
            return known
    some = ", ".join(sorted(shapes)[:4])
    raise WeightsError(
        f"these tensors are of no layout known here (they begin {some})" if some else "there are no tensors",
        fix="known layouts: " + ", ".join(FORMATS),
    )


def format_named(name: str) -> Format:
    if name not in FORMATS:
        raise WeightsError(f"there is no format {name!r}", fix=did_you_mean(name, ["vitrail", *FORMATS]))
    return FORMATS[name]
