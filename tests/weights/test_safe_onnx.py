"""No ONNX file leads anywhere but to its own graph: everything else is refused before a library opens it."""

from __future__ import annotations

import json
import os
from contextlib import suppress

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from deploy.families import made
from vitrail import load
from vitrail.deploy.onnx import onnx_bytes
from vitrail.errors import FileError, UnsafeFileError, VitrailError, WeightsError
from vitrail.weights.description import KEY
from vitrail.weights.safe_onnx import read_onnx


@pytest.fixture(scope="module")
def good() -> bytes:
    return onnx_bytes(made("class token"))


def placed(tmp_path, model):
    path = tmp_path / "model.onnx"
    path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    return path


def external(location: str, **more: str) -> TensorProto:
    """A tensor whose numbers are in another file."""
    tensor = numpy_helper.from_array(np.zeros(4, np.float32), "w")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **more}.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    return tensor


TRICKS = {
    "beside": {"location": "weights.bin"},
    "escape": {"location": "../../secret"},
    "absolute": {"location": "/etc/passwd"},
    "link": {"location": "link"},
    "huge offset": {"location": "weights.bin", "offset": str(2**62)},
    "huge length": {"location": "weights.bin", "length": str(2**62)},
}


@pytest.mark.parametrize("place", ["initializer", "constant node", "sparse", "subgraph"])
@pytest.mark.parametrize("trick", TRICKS)
def test_weights_in_another_file_are_refused_unread(good, tmp_path, trick, place):
    secret = tmp_path / "secret"
    secret.write_bytes(b"\0" * 64)
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "link").symlink_to(secret)
    model, tensor = onnx.load_from_string(good), external(**TRICKS[trick])
    if place == "initializer":
        model.graph.initializer.append(tensor)
    elif place == "constant node":
        model.graph.node.append(helper.make_node("Constant", [], ["extra"], value=tensor))
    elif place == "sparse":
        model.graph.sparse_initializer.add().values.CopyFrom(tensor)
    else:
        inner = helper.make_graph([], "inner", [], [], [tensor])
        model.graph.node.append(helper.make_node("If", ["c"], ["d"], then_branch=inner, else_branch=inner))
    with pytest.raises(UnsafeFileError, match="another file"):
        load(placed(tmp_path / "inside", model))


def test_the_mark_alone_is_enough(good, tmp_path):
    """Location set, no file named; or a file named, location not set."""
    model = onnx.load_from_string(good)
    model.graph.initializer[0].data_location = TensorProto.EXTERNAL
    with pytest.raises(UnsafeFileError):
        read_onnx(placed(tmp_path, model))
    model = onnx.load_from_string(good)
    model.graph.initializer[0].external_data.add().key = "location"
    with pytest.raises(UnsafeFileError):
        read_onnx(placed(tmp_path, model))


@pytest.mark.parametrize("how", ["node", "import", "function", "training"])
def test_other_code_is_refused(good, tmp_path, how):
    model = onnx.load_from_string(good)
    if how == "node":
        model.graph.node[0].domain = "evil.ops"
    elif how == "import":
        model.opset_import.append(helper.make_opsetid("evil.ops", 1))
    elif how == "function":
        model.functions.add().name = "f"
    else:
        model.training_info.add()
    with pytest.raises(UnsafeFileError):
        load(placed(tmp_path, model))


def test_a_graph_from_elsewhere_says_what_to_do(good, tmp_path):
    model = onnx.load_from_string(good)
    del model.metadata_props[:]
    with pytest.raises(WeightsError, match="not written by vitrail"):
        load(placed(tmp_path, model))


LIES = {
    "another size": {"export": {"size": [64, 64]}},
    "more outputs": {"export": {"outputs": 6}},
    "no number": {"export": {"channels": "3"}},
    "enormous": {"export": {"size": [2**20, 2**20]}},
    "pixels": {"export": {"pixels": 1}},
    "too few names": {"classes": ["a"]},
    "names alike": {"classes": ["a", "a", "b", "c", "d"]},
    "names of a kind": {"classes": [1, 2, 3, 4, 5]},
    "temperature": {"temperature": 0},
    "infinite": {"temperature": "inf"},
    "threshold": {"unknown_below": 7},
    "preprocessing": {"preprocessing": None},
    "a setting of code": {"preprocessing": {"size": [32, 32], "mean": [0.5], "std": [0.5], "import": "os"}},
    "format": {"format": 2},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_description_that_lies_is_refused(good, tmp_path, lie):
    model = onnx.load_from_string(good)
    entry = next(entry for entry in model.metadata_props if entry.key == KEY)
    described = json.loads(entry.value)
    change = LIES[lie]
    entry.value = json.dumps({**described, **change, "export": {**described["export"], **change.get("export", {})}})
    with pytest.raises(WeightsError):
        load(placed(tmp_path, model))


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000, "null"])
def test_a_description_that_is_none_is_refused(good, tmp_path, text):
    model = onnx.load_from_string(good)
    next(entry for entry in model.metadata_props if entry.key == KEY).value = text
    with pytest.raises(WeightsError):
        load(placed(tmp_path, model))


@settings(max_examples=60)
@given(data=st.data())
def test_damage_is_an_error_of_ours_or_does_no_harm(good, tmp_path_factory, data):
    """Cut anywhere, or any byte changed: opened as it is, or one line that says so."""
    cut = data.draw(st.booleans())
    place = data.draw(st.integers(0, len(good) - 1))
    damaged = good[:place] if cut else good[:place] + bytes([data.draw(st.integers(0, 255))]) + good[place + 1 :]
    path = tmp_path_factory.mktemp("damaged") / "model.onnx"
    path.write_bytes(damaged)
    with suppress(VitrailError):  # anything else is a fault
        read_onnx(path)


def test_deep_nesting_is_refused(good, tmp_path):
    inner = helper.make_graph([], "inner", [], [])
    for _ in range(20):
        node = helper.make_node("If", ["c"], ["d"], then_branch=inner)
        inner = helper.make_graph([node], "inner", [], [])
    model = onnx.load_from_string(good)
    model.graph.node.append(helper.make_node("If", ["c"], ["d"], then_branch=inner))
    with pytest.raises(UnsafeFileError, match="nested"):
        read_onnx(placed(tmp_path, model))


def test_a_file_made_to_be_read_for_ever_is_given_up(good, tmp_path):
    with pytest.raises(UnsafeFileError, match="too many pieces"):
        read_onnx(placed(tmp_path, good + b"\x28\x01" * 600_000))  # model_version, again and again


def test_a_pipe_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "model.onnx")
    with pytest.raises(FileError):
        read_onnx(tmp_path / "model.onnx")
    with pytest.raises(FileError):
        load(tmp_path / "model.onnx")


def test_a_graph_of_ours_passes(good, tmp_path):
    content, metadata = read_onnx(placed(tmp_path, good))
    assert content == good
    assert json.loads(metadata[KEY])["classes"] == ["ant", "bee", "cat", "dog", "elk"]
