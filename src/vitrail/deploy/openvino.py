"""A model for OpenVINO: an .xml with its .bin, in full precision, its description in the runtime information."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from vitrail.config import Pair
from vitrail.deploy.onnx import exported_of, onnx_bytes
from vitrail.predict.engines import import_openvino, openvino_core
from vitrail.predict.exported import Exported
from vitrail.weights.artefact import Artefact
from vitrail.weights.description import KEY


def openvino_model(artefact: Artefact, *, size: Pair | None = None, pixels: bool = False) -> tuple[Any, Exported]:
    """OpenVINO's own model, made from our graph of standard operators, and what it says about itself."""
    core = openvino_core()  # before the graph is made: it may be missing
    content = onnx_bytes(artefact, size=size, pixels=pixels, fused=False)
    exported = exported_of(content, artefact.source)
    model = core.read_model(model=content, weights=b"")
    model.set_rt_info(json.dumps(exported.described, ensure_ascii=True), [KEY])
    return model, exported


def write_openvino(artefact: Artefact, path: Path, *, size: Pair | None = None, pixels: bool = False) -> None:
    """`path` is the .xml; the weights go beside it."""
    model, _ = openvino_model(artefact, size=size, pixels=pixels)
    import_openvino().save_model(model, path, compress_to_fp16=False)
