"""The graph that is written part by part computes what the model computes, for every part there is."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from deploy.families import FAMILIES, NAMES, made
from vitrail.config import POOLS, POSITIONS
from vitrail.deploy.onnx import exported_of, onnx_bytes
from vitrail.deploy.parity import certify, in_batches, waves
from vitrail.errors import ConfigError
from vitrail.predict.engines import OnnxEngine, TorchEngine


def engine_of(content: bytes) -> OnnxEngine:
    return OnnxEngine(content, exported_of(content, "test"), "test", threads=1)


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "standard"])
@pytest.mark.parametrize("family", NAMES)
def test_every_part_computes_the_same(family, fused):
    artefact = made(family)
    content = onnx_bytes(artefact, fused=fused)
    onnx.checker.check_model(onnx.load_from_string(content))
    config = artefact.model.config
    pictures = waves(config.image_size, config.channels)
    original = TorchEngine(artefact.model, artefact.preprocessing)
    found = certify(original, engine_of(content), pictures, source="", target="", tolerance=1e-5)
    assert found.largest_logit > 0.1, "a model without answers would prove nothing"


def test_families_cover_what_there_is():
    chosen = [{"pool": "cls", "positions": "learned", **parts} for parts in FAMILIES.values()]
    assert {parts["pool"] for parts in chosen} == set(POOLS)
    assert {parts["positions"] for parts in chosen} == set(POSITIONS)


@pytest.mark.parametrize("size", [(32, 32), (64, 48), (24, 40)])
@pytest.mark.parametrize(
    "family", ["class token", "relative, mean", "sin-cos 2-D", "rotary, mean", "convolutional stem"]
)
def test_another_image_size_has_its_positions_inside(family, size):
    artefact = made(family, any_size=True)
    pictures = waves(size, 3)
    original = TorchEngine(artefact.model, artefact.preprocessing)
    made_engine = engine_of(onnx_bytes(artefact, size=size))
    certify(original, made_engine, pictures, source="", target="", tolerance=1e-5)


def test_pixels_go_in_as_they_are_decoded():
    artefact = made("rectangular")
    given = engine_of(onnx_bytes(artefact, pixels=True))
    assert given.session.get_inputs()[0].type == "tensor(uint8)"
    assert given.session.get_inputs()[0].shape == ["batch", 32, 48, 3]
    pictures = waves((32, 48), 3)
    assert np.allclose(given(pictures), engine_of(onnx_bytes(artefact))(pictures), atol=1e-6)


def test_features_of_a_model_without_a_head():
    artefact = made("class and mean", num_classes=0)
    pictures = waves((32, 32), 3, 3)
    found = in_batches(engine_of(onnx_bytes(artefact)), pictures, (2,))
    assert found.shape == (3, 64)
    assert np.allclose(found, TorchEngine(artefact.model, artefact.preprocessing)(pictures), atol=1e-5)


def test_the_last_block_computes_only_the_class_token():
    """The hidden layers of its MLPs are as long as the sequence in the first block, and one token in the last."""
    model = onnx.load_from_string(onnx_bytes(made("class token")))
    inside = [node.input[0] for node in model.graph.node if node.op_type == "Gelu"]
    for name in inside:
        model.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    hidden = session.run(inside, {"images": np.zeros((2, 3, 32, 32), np.float32)})
    assert [tokens.shape[1] for tokens in hidden] == [17, 1]


def test_a_part_without_a_place_in_the_graph_is_named():
    artefact = made("class token")
    artefact.model.novelty = torch.nn.Parameter(torch.ones(3))
    with pytest.raises(ConfigError, match="novelty"):
        onnx_bytes(artefact)


@pytest.mark.parametrize(("family", "adds"), [("mean", 1), ("rotary, mean", 2)])
def test_biases_that_change_no_answer_are_not_added(family, adds):
    """Of the queries alone; of the keys too where they are turned; of the values never."""
    graph = onnx.load_from_string(onnx_bytes(made(family))).graph
    products = {node.output[0] for node in graph.node if node.name.startswith("qkv")}
    added = [node for node in graph.node if node.op_type == "Add" and products & set(node.input)]
    assert len(products) == 3 * made(family).model.config.depth
    assert len(added) == adds * made(family).model.config.depth


ALL = 2 * 3


@pytest.mark.parametrize(
    ("family", "products"),
    [
        ("class token", 3 + 1),
        ("class and distillation tokens", 3 + 1),
        ("class and mean", ALL),
        ("rotary", ALL),
        ("query and key norm", ALL),
    ],
)
def test_no_keys_and_values_where_few_tokens_are_read(family, products):
    """The last of two blocks has queries alone, unless all its tokens are read or its keys are more than products."""
    graph = onnx.load_from_string(onnx_bytes(made(family))).graph
    assert sum(node.name.startswith("qkv") for node in graph.node) == products
