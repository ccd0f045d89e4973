"""Pictures in, answers out: equal to the predictor's own, errors in place, nothing told that is not asked."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from PIL import Image

from serve.conftest import asking
from serve.running import CLASSES, picture, save_tiny
from vitrail import create_model, load
from vitrail.predict.predictor import Predictor
from vitrail.serve.look import attention_maps

PNG = {"Content-Type": "image/png"}


def test_an_answer_is_the_predictors(client, predictor):
    answer = client.post("/v1/predict?top=2", content=picture(3), headers=PNG)
    assert answer.status_code == 200
    expected = predictor.predict(picture(3), top=2).to_dict()
    found = answer.json()["predictions"][0]
    assert found["probability"] == pytest.approx(expected.pop("probability"), abs=1e-6)
    assert found["label"] == expected["label"]
    assert [choice["label"] for choice in found["top"]] == [choice["label"] for choice in expected["top"]]
    assert "file" not in found


@pytest.mark.parametrize("headers", [{}, {"Content-Type": "application/octet-stream"}, {"Content-Type": "image/x-odd"}])
def test_the_kind_is_decided_by_the_bytes(client, headers):
    assert client.post("/v1/predict", content=picture(1, "JPEG"), headers=headers).status_code == 200


def test_bad_pictures_are_named_in_their_place_and_the_rest_answered(client, predictor):
    data = [picture(1), b"no picture", picture(2), picture(3)[:200]]
    files = [("file", (f"{number}.png", each)) for number, each in enumerate(data)]
    answer = client.post("/v1/predict", files=files)
    found = answer.json()["predictions"]
    assert answer.status_code == 200
    assert [each["file"] for each in found] == ["0.png", "1.png", "2.png", "3.png"]
    assert ["error" in each for each in found] == [False, True, False, True]
    assert found[2]["label"] == predictor.predict(picture(2)).label


def test_no_picture_that_can_be_read_is_422_with_the_reason(client):
    answer = client.post("/v1/predict", content=b"just words", headers=PNG)
    assert answer.status_code == 422
    assert "text" in answer.json()["error"]
    assert "error" in answer.json()["predictions"][0]


@pytest.mark.parametrize(
    ("ask", "status", "words"),
    [
        ({"content": b""}, 422, "empty"),
        ({"content": b"{}", "headers": {"Content-Type": "application/json"}}, 415, "image/"),
        ({"files": [("other", ("a.png", b"x"))]}, 422, "field `file`"),
        ({"data": {"file": "http://example.com/a.png"}}, 415, "image/"),
        ({"files": [("file", ("a.png", b"x"))] * 65}, 413, "64 pictures"),
        ({"content": picture(), "params": {"top": "0"}}, 422, "top"),
        ({"content": picture(), "params": {"top": "many"}}, 422, "top"),
        ({"content": picture(), "params": {"explain": "magic"}}, 422, "choose from"),
        ({"content": b"x", "headers": {"Content-Type": "multipart/form-data"}}, 400, ""),
        ({"content": picture(), "headers": {"Content-Encoding": "gzip"}}, 415, "compressed"),
    ],
)
def test_wrong_questions_are_refused_in_one_line(client, ask, status, words):
    answer = client.post("/v1/predict", **ask)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["error"]
    assert "\n" not in answer.json()["error"]


def test_unknown_is_said(tmp_path):
    unsure = load(save_tiny(tmp_path / "m.safetensors", unknown_below=0.999))
    with asking(unsure) as client:
        found = client.post("/v1/predict", content=picture()).json()["predictions"][0]
        assert found["unknown"] is True
        assert found["labels"] == []
        assert 'vitrail_pictures_total{outcome="unknown"} 1.0' in client.get("/metrics").text


def test_attention_is_one_map_a_layer(client, predictor):
    found = client.post("/v1/attention", content=picture(4)).json()
    assert found["grid"] == [4, 4]
    assert np.shape(found["layers"]) == (2, 16)
    expected = attention_maps(predictor, predictor.read(picture(4)))
    np.testing.assert_allclose(found["layers"], expected.reshape(2, 16), atol=1e-5)
    assert client.post("/v1/attention", content=b"no picture").status_code == 422


def test_every_explanation_is_a_picture_of_the_models_size(client):
    methods = client.get("/v1/model").json()["explain"]
    assert "rollout" in methods
    for method in methods:
        found = client.post(f"/v1/predict?explain={method}", content=picture(5)).json()["predictions"][0]
        kind, _, data = found["overlay"].partition(",")
        assert kind == "data:image/png;base64"
        assert Image.open(io.BytesIO(base64.b64decode(data))).size == (32, 32)


def test_an_engine_without_weights_says_so(predictor):
    blind = Predictor(predictor.engine, predictor.decision, predictor.preprocessing, predictor.channels)
    with asking(blind) as client:
        facts = client.get("/v1/model").json()
        assert (facts["attention"], facts["explain"]) == (False, [])
        assert client.post("/v1/attention", content=picture()).status_code == 501
        assert client.post("/v1/predict?explain=rollout", content=picture()).status_code == 501
        assert client.post("/v1/predict", content=picture()).status_code == 200


def test_the_model_is_described(client):
    facts = client.get("/v1/model").json()
    assert facts["classes"] == list(CLASSES)
    assert (facts["size"], facts["channels"], facts["name"]) == ([32, 32], 3, "tiny")


def test_a_grey_model_has_an_overlay_too(tmp_path):
    from vitrail import Artefact

    model = create_model("Ti/16", image_size=32, channels=1, depth=1, dim=32, heads=1, mlp_dim=32, num_classes=2)
    Artefact(model).save(tmp_path / "grey.safetensors")
    with asking(load(tmp_path / "grey.safetensors")) as client:
        found = client.post("/v1/predict?explain=rollout", content=picture()).json()["predictions"][0]
        assert found["overlay"].startswith("data:image/png")
