"""The Open Inference Protocol, driven by Triton's own client; lies about tensors are refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from serve.running import picture

INFER = "/v2/models/tiny/infer"


def tensor(**changes):
    pixels = {"name": "pixels", "datatype": "UINT8", "shape": [1, 32, 32, 3], "data": [7] * 3072}
    return {key: value for key, value in (pixels | changes).items() if value is not None}


@pytest.fixture(scope="module")
def triton(running):
    http = pytest.importorskip("tritonclient.http", reason="tritonclient is the oracle of this test")
    client = http.InferenceServerClient(f"127.0.0.1:{running.port}")
    yield http, client
    client.close()


@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False, None])
def test_tritons_client_gets_the_models_logits(triton, predictor, binary_in, binary_out):
    http, client = triton
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("tiny")
    batch = np.stack([predictor.read(picture(seed)) for seed in range(3)])
    pixels = http.InferInput("pixels", list(batch.shape), "UINT8")
    pixels.set_data_from_numpy(batch, binary_data=binary_in)
    names = ("logits", "probabilities")
    wanted = None if binary_out is None else [http.InferRequestedOutput(name, binary_data=binary_out) for name in names]
    answer = client.infer("tiny", [pixels], outputs=wanted, request_id="seven")
    np.testing.assert_allclose(answer.as_numpy("logits"), predictor.engine(batch), atol=1e-5)
    np.testing.assert_allclose(answer.as_numpy("probabilities"), predictor.probabilities(batch), atol=1e-5)
    assert answer.get_response()["id"] == "seven"


def test_tritons_client_reads_the_descriptions(triton):
    http, client = triton
    assert client.get_server_metadata()["extensions"] == ["binary_tensor_data"]
    model = client.get_model_metadata("tiny")
    assert model["inputs"] == [{"name": "pixels", "datatype": "UINT8", "shape": [-1, 32, 32, 3]}]
    assert [output["shape"] for output in model["outputs"]] == [[-1, 3], [-1, 3]]
    with pytest.raises(http.InferenceServerException, match="Not Found"):
        client.get_model_metadata("other")


def test_one_output_can_be_asked_for_and_data_may_be_nested(client, predictor):
    pixels = predictor.read(picture(9))[None]
    asked = {"inputs": [tensor(data=pixels.tolist())], "outputs": [{"name": "logits"}]}
    answer = client.post(INFER, json=asked).json()
    assert [output["name"] for output in answer["outputs"]] == ["logits"]
    np.testing.assert_allclose(answer["outputs"][0]["data"], predictor.engine(pixels)[0], atol=1e-5)


LIES = {
    "no inputs": {"inputs": []},
    "two inputs": {"inputs": [tensor(), tensor()]},
    "another name": {"inputs": [tensor(name="image")]},
    "another type": {"inputs": [tensor(datatype="FP32")]},
    "no shape": {"inputs": [tensor(shape=[])]},
    "too few sides": {"inputs": [tensor(shape=[3072])]},
    "other sides": {"inputs": [tensor(shape=[1, 3, 32, 32])]},
    "negative count": {"inputs": [tensor(shape=[-1, 32, 32, 3])]},
    "zero count": {"inputs": [tensor(shape=[0, 32, 32, 3], data=[])]},
    "count that overflows": {"inputs": [tensor(shape=[2**62, 32, 32, 3])]},
    "more than there is": {"inputs": [tensor(shape=[2, 32, 32, 3])]},
    "less than there is": {"inputs": [tensor(data=[7] * 3073)]},
    "too large values": {"inputs": [tensor(data=[256] * 3072)]},
    "negative values": {"inputs": [tensor(data=[-1] * 3072)]},
    "fractions": {"inputs": [tensor(data=[0.5] * 3072)]},
    "truths": {"inputs": [tensor(data=[True] * 3072)]},
    "words": {"inputs": [tensor(data=["a"] * 3072)]},
    "ragged": {"inputs": [tensor(data=[[1, 2], [3]])]},
    "nothing": {"inputs": [tensor(data=[None] * 3072)]},
    "no data": {"inputs": [tensor(data=None)]},
    "bytes that are not there": {"inputs": [tensor(data=None, parameters={"binary_data_size": 3072})]},
    "unknown output": {"inputs": [tensor()], "outputs": [{"name": "weights"}]},
    "a list": [],
    "a word": "infer",
}


@pytest.mark.parametrize("asked", LIES.values(), ids=LIES)
def test_lies_about_tensors_are_refused(client, asked):
    answer = client.post(INFER, json=asked)
    assert answer.status_code in (400, 413), answer.text
    assert answer.json()["error"]


@pytest.mark.parametrize("ends", ["-1", "x", "999999", "9" * 30, "１"])
def test_lies_about_where_the_json_ends_are_refused(client, ends):
    headers = {"Inference-Header-Content-Length": ends.encode()}
    assert client.post(INFER, content=json.dumps({"inputs": [tensor()]}), headers=headers).status_code == 400


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.binary(max_size=200) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_anything_else_is_refused_too(client, body):
    assert client.post(INFER, content=body).status_code == 400


def test_deep_json_is_refused(client):
    assert client.post(INFER, content=b'{"inputs":' + b"[" * 200_000).status_code == 400
