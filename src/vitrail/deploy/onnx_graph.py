"""An ONNX graph in the making. A value of the graph is its name; shapes are in the comments of those who build.

The graph is written part by part instead of traced: it takes a second where tracing takes a minute, and attention is
one fused operator. That the graph computes the same is not assumed: every export is compared (see parity.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from vitrail.errors import ConfigError

OPSET, IR_VERSION = 20, 10  # the first with Gelu; read by ONNX Runtime from 1.18
FUSED = "com.microsoft"  # operators that ONNX Runtime has built in beside the standard ones
NODE_TYPES = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.uint8): TensorProto.UINT8}


class Graph:
    """`op` adds an operator, `constant` a value, `weight` takes a parameter of the model: each of them must be used."""

    def __init__(self, model: nn.Module, *, fused: bool) -> None:
        self.fused = fused
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[TensorProto] = []
        self._left = {id(parameter): name for name, parameter in model.named_parameters()}

    def op(self, kind: str, *inputs: str, role: str = "", domain: str = "", **attributes: Any) -> str:
        """The one output of an operator. An input that is left out is ''; its `role` is part of its name."""
        return self.ops(kind, 1, *inputs, role=role, domain=domain, **attributes)[0]

    def ops(
        self, kind: str, outputs: int, *inputs: str, role: str = "", domain: str = "", **attributes: Any
    ) -> list[str]:
        name = f"{role or kind}_{len(self.nodes)}"
        names = [f"{name}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, name=name, domain=domain, **attributes))
        return names

    def constant(self, value: NDArray[Any] | Tensor | Sequence[int]) -> str:
        """Whole numbers where a list is given, as shapes and axes are."""
        if isinstance(value, Tensor):
            value = value.detach().cpu().numpy()
        array = value if isinstance(value, np.ndarray) else np.array(value, np.int64)
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def weight(self, parameter: Tensor) -> NDArray[np.float32]:
        """A parameter's numbers, which counts as having used it."""
        self._left.pop(id(parameter), None)
        numbers: NDArray[np.float32] = parameter.detach().float().cpu().numpy()
        return numbers

    def proto(self, shape: Sequence[int], dtype: type, outputs: int, last: str) -> onnx.ModelProto:
        """The whole graph from `images` (batch x shape) to `logits` (batch x outputs)."""
        if self._left:
            names = ", ".join(sorted(self._left.values())[:4])
            raise ConfigError(f"the ONNX graph has no place for {names}", fix="this part cannot be exported")
        self.nodes.append(helper.make_node("Identity", [last], ["logits"], name="logits"))
        images = helper.make_tensor_value_info("images", NODE_TYPES[np.dtype(dtype)], ["batch", *shape])
        logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", outputs])
        graph = helper.make_graph(self.nodes, "vitrail", [images], [logits], self.constants)
        domains = [helper.make_opsetid("", OPSET), *([helper.make_opsetid(FUSED, 1)] if self.fused else [])]
        return helper.make_model(graph, opset_imports=domains, ir_version=IR_VERSION, producer_name="vitrail")


# ---- what all parts need ------------------------------------------------------------------------------------------


def reshape(g: Graph, x: str, *shape: int) -> str:
    """0 keeps a side as it is, -1 is what remains."""
    return g.op("Reshape", x, g.constant(shape))


def first(g: Graph, x: str, count: int | None, axis: int = 1, start: int = 0) -> str:
    """x[:, start:count]; None: to the end."""
    if count is None and start == 0:
        return x
    stop = np.iinfo(np.int64).max if count is None else count
    return g.op("Slice", x, g.constant([start]), g.constant([stop]), g.constant([axis]))


def expand_batch(g: Graph, value: str, like: str, *shape: int) -> str:
    """A constant (1 x shape), once for each picture of `like`."""
    batch = g.op("Shape", like, start=0, end=1)
    return g.op("Expand", value, g.op("Concat", batch, g.constant(shape), axis=0))


def matmul(g: Graph, x: str, weight: NDArray[np.float32], bias: NDArray[np.float32] | None, role: str = "") -> str:
    """x W^T + b, with W as torch keeps it (outputs x inputs)."""
    product = g.op("MatMul", x, g.constant(weight.T), role=role)
    return product if bias is None else g.op("Add", product, g.constant(bias))


def dense(g: Graph, x: str, layer: nn.Linear, role: str = "") -> str:
    return matmul(g, x, g.weight(layer.weight), None if layer.bias is None else g.weight(layer.bias), role)


def layer_norm(g: Graph, x: str, norm: nn.Module) -> str:
    """Over the last axis; an Identity leaves x as it is."""
    if isinstance(norm, nn.Identity):
        return x
    assert isinstance(norm, nn.LayerNorm)
    scale, shift = g.constant(g.weight(norm.weight)), g.constant(g.weight(norm.bias))
    return g.op("LayerNormalization", x, scale, shift, axis=-1, epsilon=norm.eps)
