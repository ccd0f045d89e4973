"""Whole numbers of eight bits instead of floats: a quarter of the bytes, and faster where matrices are the cost.

Dynamic: weights are rounded once, activations as they come; nothing to calibrate. Static: the ranges of activations
are measured on pictures beforehand. Answers change a little, so a quantised file is measured, not proven equal.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vitrail.data.examples import Pixels
from vitrail.data.prepare import normalise
from vitrail.deploy.onnx import exported_of, onnx_bytes
from vitrail.deploy.resample import steps_of
from vitrail.errors import MissingExtra
from vitrail.predict.engines import Logits, OnnxEngine
from vitrail.weights.artefact import Artefact

ROLES = ("qkv", "proj", "fc1", "fc2", "head")  # the products of a ViT, as their operators are named
CALIBRATION_BATCH = 8
# Weights of seven bits: processors without VNNI add products in pairs of 16 bits, which eight would overflow.
USUAL = {"op_types_to_quantize": ["MatMul"], "per_channel": True, "reduce_range": True}


def quantised(artefact: Artefact, *, pictures: Pixels | None = None, keep: Sequence[str] = ()) -> bytes:
    """An ONNX file whose products work in int8; with prepared `pictures`, calibrated on them (static).

    `keep` are the roles that stay in floats: which of them are sensitive is for a measurement to say.
    """
    try:
        import onnx
        from onnxruntime import quantization as tools

        from vitrail.deploy.onnx_graph import FUSED
        from vitrail.deploy.onnx_vit import FEW
    except ImportError:
        raise MissingExtra("onnx and onnxruntime", "export") from None
    model = onnx.load_from_string(onnx_bytes(artefact))
    model.metadata_props.add(key="onnx.quant.pre_process", value="onnxruntime.quant")  # nothing in it needs that
    floats = {"DefaultTensorType": onnx.TensorProto.FLOAT}
    for node in model.graph.node:  # the tool leaves alone what it does not know to be floats
        if node.domain == FUSED:
            said = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in node.output]
            model.graph.value_info.extend(said)
    usual = {**USUAL, "nodes_to_exclude": _named(model, (*keep, FEW)), "extra_options": floats}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tools', about each other
        target = Path(folder) / "int8.onnx"
        if pictures is None:
            tools.quantize_dynamic(model, target, weight_type=tools.QuantType.QInt8, **usual)
        else:
            reader = _calibration(tools, artefact, pictures)
            tools.quantize_static(model, target, reader, quant_format=tools.QuantFormat.QDQ, **usual)
        return target.read_bytes()


def sensitive(artefact: Artefact, pictures: Pixels) -> tuple[str, ...]:
    """The role, if any, whose rounding makes more of the error than all others together: better left in floats.

    Each is rounded alone, and the logits of prepared `pictures` are compared with those of the model in floats.
    """
    wanted = _logits(onnx_bytes(artefact), artefact, pictures)
    errors = {}
    for role in ROLES:
        alone = quantised(artefact, pictures=pictures, keep=[other for other in ROLES if other != role])
        errors[role] = float(np.square(_logits(alone, artefact, pictures) - wanted).sum())
    worst = max(errors, key=errors.__getitem__)
    return (worst,) if errors[worst] > 0.5 * sum(errors.values()) else ()


def _logits(content: bytes, artefact: Artefact, pictures: Pixels) -> Logits:
    return OnnxEngine(content, exported_of(content, artefact.source), artefact.source)(pictures)


def _named(model: Any, roles: Sequence[str]) -> list[str]:
    return [node.name for node in model.graph.node if node.name.rsplit("_", 1)[0] in roles]


def _calibration(tools: Any, artefact: Artefact, pictures: Pixels) -> Any:
    """The pictures in the form that the tool asks for: one call a batch, None at the end."""
    steps = steps_of(artefact)

    class Reader(tools.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.batches = self._batches()

        def _batches(self) -> Iterator[dict[str, Any]]:
            for start in range(0, len(pictures), CALIBRATION_BATCH):
                yield {"images": normalise(pictures[start : start + CALIBRATION_BATCH], steps)}

        def get_next(self) -> dict[str, Any] | None:
            return next(self.batches, None)

    return Reader()
