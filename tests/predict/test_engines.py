"""Engines stand in for one another; exported files need no torch."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from vitrail import Predictor, load
from vitrail.deploy.engines import fastest, in_streams, load_with, race
from vitrail.deploy.export import export
from vitrail.errors import ConfigError
from vitrail.predict.engines import OnnxEngine


@pytest.fixture
def files(artefact, tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    artefact.save(folder / "model.safetensors")
    export(artefact, folder / "model.onnx", "onnx")
    return folder


@pytest.mark.parametrize("engine", ["torch", "onnx", "openvino", "auto"])
def test_engines_answer_alike(files, pictures, engine):
    plain = load(files / "model.safetensors")
    other = load_with(files / "model.safetensors", engine)
    assert engine in (other.engine.name, "auto")
    for path in pictures[:4]:
        one, two = plain.predict(path), other.predict(path)
        assert one.label == two.label
        assert two.probability == pytest.approx(one.probability, abs=1e-5)
    assert other.classes == plain.classes
    assert other.model is other.artefact.model


def test_mirrored_pictures_behind_any_engine(files, pictures):
    plain, mirrored = load(files / "model.onnx"), load(files / "model.onnx", mirror=True)
    batch = np.stack([plain.read(path) for path in pictures[:3]])
    both = (plain.engine(batch) + plain.engine(batch[:, :, ::-1])) / 2
    assert np.allclose(mirrored.engine(batch), both, atol=1e-6)


def test_many_pictures_through_an_exported_file(files, pictures):
    with_torch, without = load(files / "model.safetensors"), load(files / "model.onnx")
    assert isinstance(without.engine, OnnxEngine)
    told = [dict(predictor.predict_many(pictures, batch_size=5)) for predictor in (with_torch, without)]
    assert [p.label for p in told[0].values()] == [p.label for p in told[1].values()]


@pytest.mark.parametrize("engine", ["onnx", "openvino"])
def test_a_picture_alone_is_answered_as_among_others(files, pictures, engine):
    predictor = load_with(files / "model.safetensors", engine)
    batch = np.stack([predictor.read(path) for path in pictures[:5]])
    alone = np.concatenate([predictor.engine(batch[i : i + 1]) for i in range(5)])
    assert np.allclose(predictor.engine(batch), alone, atol=1e-5)


@pytest.mark.parametrize("engine", ["onnx", "openvino"])
def test_threads_may_ask_at_once(files, pictures, engine):
    predictor = load_with(files / "model.safetensors", engine)
    batches = [predictor.read(path)[None] for path in pictures]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(predictor.engine, batches))
    for batch, found in zip(batches, together, strict=True):
        assert np.allclose(found, predictor.engine(batch), atol=1e-6)


SIGNALLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
from vitrail.predict.engines import OpenVinoEngine

caught = []
signal.signal(signal.SIGTERM, lambda *_: caught.append(True))
first, second = (OpenVinoEngine.open(Path(sys.argv[1])) for _ in range(2))
for engine in (first, second):
    for count in (1, 2):
        engine(np.zeros((count, 32, 32, 3), np.uint8))
del engine, first, second
os.kill(os.getpid(), signal.SIGTERM)
assert caught
"""


def test_a_signal_reaches_a_process_whose_engines_are_gone(artefact, tmp_path):
    export(artefact, tmp_path / "model.xml", "openvino")
    done = subprocess.run([sys.executable, "-c", SIGNALLED, tmp_path / "model.xml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("name", "engine"), [("model.safetensors", "onnx"), ("model.safetensors", "openvino"), ("model.onnx", None)]
)
def test_streams_answer_as_the_engine_does(files, pictures, name, engine):
    predictor = load_with(files / name, engine)
    streams = in_streams(predictor, files / name, 2)
    assert streams is not None
    batches = [predictor.read(path)[None] for path in pictures[:8]]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(streams, batches))
    for batch, answer in zip(batches, answers, strict=True):
        assert np.allclose(answer, predictor.engine(batch), atol=1e-5)


def test_torch_has_no_streams_and_one_core_needs_none(files):
    assert in_streams(load(files / "model.safetensors"), files / "model.safetensors", 2) is None
    assert in_streams(load(files / "model.onnx"), files / "model.onnx", 1) is None


def test_an_exported_file_has_one_engine(files):
    with pytest.raises(ConfigError, match="made for the onnx engine"):
        load_with(files / "model.onnx", "torch")
    with pytest.raises(ConfigError, match="no settings to change"):
        load(files / "model.onnx", image_size=64)
    with pytest.raises(ConfigError, match="shows no weights"):
        _ = load(files / "model.onnx").model


def test_an_unknown_engine_is_named(files):
    with pytest.raises(ConfigError, match="engine='onx'"):
        load_with(files / "model.safetensors", "onx")


def test_the_fastest_is_the_one_that_was_measured_to_be(artefact):
    """Torch is made to wait, then not: what was measured decides."""
    plain = Predictor.of(artefact)
    assert fastest(waiting(plain)).name in ("onnx", "openvino")
    assert fastest(plain).name in ("torch", "onnx", "openvino")


def test_engines_that_say_something_else_than_torch_are_not_taken(artefact):
    plain = Predictor.of(artefact)
    assert fastest(waiting(plain, adding=0.1)).name == "torch"


def waiting(plain, adding=0.0):
    engine = Waiting(plain, adding)
    return Predictor(engine, plain.decision, plain.preprocessing, plain.channels, artefact=plain.artefact)


class Waiting:
    """Torch on a very slow machine, and, where something is added, with other answers than its weights give."""

    name = "torch"

    def __init__(self, plain, adding):
        self.plain, self.adding = plain, adding

    def __call__(self, batch):
        time.sleep(0.5)
        return self.plain.engine(batch) + np.float32(self.adding)


@pytest.mark.full  # the compiler takes its time
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's compiler still calls what torch deprecates
@pytest.mark.skipif(shutil.which("c++") is None, reason="torch.compile needs a C++ compiler")
def test_a_compiled_model_answers_alike(files, pictures):
    plain, compiled = load(files / "model.safetensors"), load_with(files / "model.safetensors", "compile")
    assert compiled.engine.name == "compile"
    for count in (1, 3):
        batch = np.stack([plain.read(path) for path in pictures[:count]])
        assert np.allclose(compiled.engine(batch), plain.engine(batch), atol=1e-4)


def test_all_take_turns_in_a_race():
    calls = []
    seconds = race([lambda: calls.append("a"), lambda: calls.append("b")], rounds=3)
    assert [len(kept) for kept in seconds] == [3, 3]
    assert calls == ["a", "b"] * 4


PROGRAM = """
import json, resource, subprocess, sys
from vitrail.cli.main import main
code = main(["predict", sys.argv[1], sys.argv[2], "--json", "--out", sys.argv[3]])
usage = resource.getrusage(resource.RUSAGE_SELF)
tools = "import numpy, PIL.Image, onnxruntime"
subprocess.run([sys.executable, "-c", tools], check=True)
least = resource.getrusage(resource.RUSAGE_CHILDREN)
loaded = [name for name in ("torch", "onnx", "timm", "matplotlib") if name in sys.modules]
times = (usage.ru_utime + usage.ru_stime) / (least.ru_utime + least.ru_stime)
print(json.dumps({"code": code, "times": times, "loaded": loaded}))
"""


def test_predicting_with_an_onnx_file_needs_no_torch(files, pictures, tmp_path):
    words = [str(files / "model.onnx"), str(pictures[0]), str(tmp_path / "answer.json")]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    assert said["code"] == 0
    assert said["loaded"] == []
    assert said["times"] < 6, "processor time of an answer, by that of importing its three libraries"
    found = json.loads((tmp_path / "answer.json").read_text())
    assert found[0]["label"] == load(files / "model.safetensors").predict(pictures[0]).label
