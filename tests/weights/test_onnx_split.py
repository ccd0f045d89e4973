"""The graph without its matrices, and the matrices: together the file, apart nothing that was not in it."""

from __future__ import annotations

import re
from contextlib import suppress

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from deploy.families import made
from vitrail import load
from vitrail.deploy.onnx import onnx_bytes
from vitrail.errors import VitrailError
from vitrail.weights.onnx_split import LARGE, split

WIDE = {"dim": 128, "mlp_dim": 512, "dim_head": 64}


@pytest.fixture(scope="module")
def content() -> bytes:
    return onnx_bytes(made("class token", **WIDE))


def test_nothing_is_lost_or_changed(content):
    graph, matrices = split(content)
    whole, rest = onnx.load_from_string(content), onnx.load_from_string(graph)
    assert len(graph) < 0.3 * len(content)
    kept = {tensor.name: tensor for tensor in rest.graph.initializer}
    for tensor in whole.graph.initializer:
        if tensor.name in matrices:
            assert np.array_equal(matrices[tensor.name], numpy_helper.to_array(tensor))
            assert list(kept[tensor.name].dims) == list(tensor.dims)
            assert not kept[tensor.name].raw_data
        else:
            assert kept[tensor.name] == tensor
    assert list(rest.graph.node) == list(whole.graph.node)
    assert rest.metadata_props == whole.metadata_props


def test_small_tensors_and_others_than_matrices_stay(content):
    _, matrices = split(content)
    sizes = {tuple(tensor.dims): len(tensor.raw_data) for tensor in onnx.load_from_string(content).graph.initializer}
    assert {matrix.shape for matrix in matrices.values()} == {
        shape for shape, size in sizes.items() if len(shape) == 2 and size >= LARGE
    }


def test_matrices_are_views_of_the_file(content):
    _, matrices = split(content)
    assert all(not matrix.flags.owndata and not matrix.flags.writeable for matrix in matrices.values())


@pytest.mark.parametrize("fault", ["too short", "no name", "twice", "no known numbers"])
def test_a_tensor_that_is_not_what_it_says_is_left_for_the_runtime_to_refuse(fault):
    tensor = numpy_helper.from_array(np.ones((256, 256), np.float32), "w")
    copies = [tensor]
    if fault == "too short":
        tensor.raw_data = tensor.raw_data[:-4]
    elif fault == "no name":
        tensor.name = ""
    elif fault == "no known numbers":
        tensor.data_type = TensorProto.INT32
    else:
        copies.append(tensor)
    graph = helper.make_graph([], "g", [], [], copies)
    made_of, matrices = split(helper.make_model(graph).SerializeToString())
    assert len(matrices) == len(copies) - 1
    assert onnx.load_from_string(made_of).graph.initializer[-1] == copies[-1]


@settings(max_examples=60)
@given(data=st.data())
def test_damage_ends_in_no_other_error_than_ours(content, tmp_path_factory, data):
    """Bytes changed around the beginning of a tensor, where its sides, type and name are."""
    starts = [found.start() for found in re.finditer(b"constant_", content)]
    place = data.draw(st.sampled_from(starts)) + data.draw(st.integers(-20, 20))
    path = tmp_path_factory.mktemp("damaged") / "model.onnx"
    path.write_bytes(content[:place] + data.draw(st.binary(min_size=1, max_size=3)) + content[place:][3:])
    with suppress(VitrailError):
        load(path)


def test_a_name_that_is_a_number_is_no_name():
    """As a whole number of bytes to make, it would be all of the memory."""
    sides_and_type, name = b"\x08\x80\x02\x08\x80\x02\x10\x01", b"\x40" + b"\xff" * 5 + b"\x0f"
    named = numpy_helper.from_array(np.ones((256, 256), np.float32), "w").SerializeToString()
    assert sides_and_type in named
    model = helper.make_model(helper.make_graph([], "g", [], [], [])).SerializeToString()
    tensor = sides_and_type + name + b"\x4a\x80\x80\x10" + bytes(2**18)
    size = len(tensor) + 4
    graph = b"\x2a" + varint(len(tensor)) + tensor
    assert len(graph) == size
    assert split(model + b"\x3a" + varint(size) + graph)[1] == {}
    good = tensor.replace(name, b"\x42\x01w")
    graph = b"\x2a" + varint(len(good)) + good
    assert list(split(model + b"\x3a" + varint(len(graph)) + graph)[1]) == ["w"]


def varint(number: int) -> bytes:
    assert 2**14 <= number < 2**21
    return bytes([number & 127 | 128, number >> 7 & 127 | 128, number >> 14])


def test_a_placeholder_without_its_matrix_reads_no_file(content, tmp_path, monkeypatch):
    """A file that happens to have the placeholder's name is not taken for the weights by our engine's graph alone."""
    graph, matrices = split(content)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Exception, match="in memory"):
        onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    assert matrices
