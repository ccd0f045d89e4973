"""A model as an ONNX file: batch free, one image size, everything that belongs to the model in its metadata."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from vitrail.config import Pair, Preprocessing
from vitrail.deploy.resample import at_size, steps_of
from vitrail.errors import ConfigError, MissingExtra
from vitrail.model import ResNet
from vitrail.predict.exported import Exported, read_exported
from vitrail.weights.artefact import Artefact
from vitrail.weights.description import KEY

MOST_WEIGHTS = 2**31 - 2**24  # and some room for the rest


def onnx_bytes(artefact: Artefact, *, size: Pair | None = None, pixels: bool = False, fused: bool = True) -> bytes:
    """The whole file. With `pixels` it takes them as decoded (B x rows x columns x channels, 0 to 255).

    `fused` uses an attention that ONNX Runtime has and others may not.
    """
    try:
        from vitrail.deploy.onnx_convnet import write_resnet
        from vitrail.deploy.onnx_graph import Graph
        from vitrail.deploy.onnx_merging import write_merging_vit
        from vitrail.deploy.onnx_vit import write_vit
    except ImportError:
        raise MissingExtra("onnx", "export") from None
    if sum(tensor.nbytes for tensor in artefact.model.state_dict().values()) > MOST_WEIGHTS:
        raise ConfigError("ONNX cannot hold more than 2 GiB in one file", fix="use --to torch")
    artefact = at_size(artefact, size)
    model, config = artefact.model, artefact.model.config
    steps = steps_of(artefact)
    graph = Graph(model, fused=fused)
    images = _normalised(graph, steps, config.channels) if pixels else "images"
    if isinstance(model, ResNet):
        last = write_resnet(graph, model, images, steps.size)
    else:
        last = (write_merging_vit if model.config.merge else write_vit)(graph, model, images, steps.size)
    shape = (*steps.size, config.channels) if pixels else (config.channels, *steps.size)
    outputs = config.num_classes or _features(artefact)
    proto = graph.proto(shape, np.uint8 if pixels else np.float32, outputs, last)
    entry = proto.metadata_props.add()
    entry.key, entry.value = KEY, json.dumps(describe(artefact, outputs, pixels), ensure_ascii=True)
    content: bytes = proto.SerializeToString()
    return content


def exported_of(content: bytes, source: str) -> Exported:
    """What a file of ours, still in memory, says about itself."""
    import onnx

    return read_exported({entry.key: entry.value for entry in onnx.load_from_string(content).metadata_props}, source)


def describe(artefact: Artefact, outputs: int, pixels: bool) -> dict[str, Any]:
    """What the file says about itself: all that the model's own file says, and what the graph takes and gives."""
    steps = steps_of(artefact)
    export = {
        "size": list(steps.size),
        "channels": artefact.model.config.channels,
        "outputs": outputs,
        "pixels": pixels,
    }
    return {**artefact.describe(), "preprocessing": steps.to_dict(), "export": export}


def _features(artefact: Artefact) -> int:
    config = artefact.model.config
    return artefact.model.norm.num_channels if isinstance(artefact.model, ResNet) else config.feature_dim  # type: ignore[union-attr]


def _normalised(graph: Any, steps: Preprocessing, channels: int) -> str:
    """Pixels (B H W C, 0 to 255) to B C H W: the same sums in the same order as data/prepare.py."""
    from vitrail.data.prepare import normalisation

    shift, scale = normalisation(steps, channels)
    planes = graph.op("Cast", graph.op("Transpose", "images", perm=[0, 3, 1, 2]), to=1)
    centred = graph.op("Sub", planes, graph.constant(shift))
    normed: str = graph.op("Mul", centred, graph.constant(scale))
    return normed
