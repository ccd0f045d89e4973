"""Every format of every family gives the model's answers, or is not written at all."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from deploy.families import NAMES, made
from vitrail import load
from vitrail.cli import export as cli
from vitrail.deploy.export import FORMATS, export
from vitrail.deploy.parity import Certificate, certify, waves
from vitrail.errors import CheckFailed, ConfigError, FileError, UnsafeFileError
from vitrail.predict.engines import TorchEngine

SHORT = ("class token", "relative, mean", "hybrid", "rectangular", "grey")


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("family", SHORT)
def test_openvino_gives_the_same_answers(family, tmp_path):
    certificate = export(made(family), tmp_path / "model.xml", "openvino")
    assert certificate.holds
    again = load(tmp_path / "model.xml")
    original = made(family)
    size, channels = original.model.config.image_size, original.model.config.channels
    picture = waves(size, channels, 1)[0]
    assert again.engine.name == "openvino"
    assert again.predict(picture).label == load_original(original, picture).label
    assert again.predict(picture).probability == pytest.approx(load_original(original, picture).probability, abs=1e-4)


def load_original(artefact, picture):
    from vitrail import Predictor

    return Predictor.of(artefact).predict(picture)


def test_a_torch_program_gives_the_same_answers_to_other_programs(tmp_path):
    artefact = made("class token")
    assert export(artefact, tmp_path / "model.pt2", "torch").holds
    extra = {"vitrail": ""}
    program = torch.export.load(tmp_path / "model.pt2", extra_files=extra)
    assert json.loads(extra["vitrail"])["classes"] == list(artefact.classes)
    images = torch.randn(3, 3, 32, 32)
    assert torch.allclose(program.module()(images), artefact.model(images), atol=1e-5)
    with pytest.raises(UnsafeFileError, match=r"torch\.export program"):
        load(tmp_path / "model.pt2")  # ours or not, such a file is not opened


@pytest.mark.full
@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("family", NAMES)
def test_every_format_of_every_family(family, to, tmp_path):
    """1,000 pictures, five batch sizes, three image sizes: no difference above 1e-4, no other label."""
    artefact = made(family)
    rows, columns = artefact.model.config.image_size
    for factor in (1, 2, 3):
        size = (factor * rows, factor * columns)
        noise = np.random.default_rng(0).integers(0, 256, (334, *size, artefact.model.config.channels), np.uint8)
        target = tmp_path / f"model{factor}{FORMATS[to].suffix}"
        found = export(artefact, target, to, size=size, sample=noise)
        assert found.holds
        assert found.same_label == 1.0


def test_what_is_written_is_whole_with_its_certificate(tmp_path):
    artefact = made("registers")
    sample = np.random.default_rng(0).integers(0, 256, (5, 32, 32, 3), np.uint8)
    certificate = export(artefact, tmp_path / "model.onnx", "onnx", sample=sample)
    assert names_in(tmp_path) == {"model.onnx", "model.onnx.certificate.json", "model.onnx.certificate.txt"}
    kept = json.loads((tmp_path / "model.onnx.certificate.json").read_text())
    assert kept == json.loads(json.dumps(certificate.to_dict()))
    assert (kept["pictures"], kept["own_pictures"], kept["same_label"]) == (13, 5, 1.0)
    assert "same answers" in (tmp_path / "model.onnx.certificate.txt").read_text()
    found = load(tmp_path / "model.onnx")
    assert found.classes == artefact.classes
    assert found.decision.temperature == 1.5
    assert found.decision.unknown_below == 0.3
    assert found.preprocessing == artefact.preprocessing


def test_what_differs_is_refused_and_leaves_nothing_behind(tmp_path):
    with pytest.raises(CheckFailed, match="differ"):
        export(made("class token"), tmp_path / "model.onnx", "onnx", tolerance=1e-12)
    assert names_in(tmp_path) == set()


def test_a_flipped_label_is_refused_however_small_the_difference():
    artefact = made("class token")
    engine = TorchEngine(artefact.model, artefact.preprocessing)

    def swapped(batch):
        return engine(batch)[:, ::-1]

    swapped.name = "swapped"
    with pytest.raises(CheckFailed):
        certify(engine, swapped, waves((32, 32), 3), source="", target="", tolerance=1e9)


def test_not_a_number_is_no_agreement():
    artefact = made("class token")
    engine = TorchEngine(artefact.model, artefact.preprocessing)

    def broken(batch):
        return engine(batch) * np.nan

    broken.name = "broken"
    found = certify(engine, broken, waves((32, 32), 3), source="", target="", exact=False)
    assert not found.holds


def test_existing_files_stay(tmp_path):
    (tmp_path / "model.onnx").write_text("mine")
    with pytest.raises(FileError, match="already there"):
        export(made("class token"), tmp_path / "model.onnx", "onnx")
    assert (tmp_path / "model.onnx").read_text() == "mine"
    export(made("class token"), tmp_path / "model.onnx", "onnx", overwrite=True)
    assert load(tmp_path / "model.onnx").classes


@pytest.mark.parametrize(("name", "to"), [("model.pt", "onnx"), ("model.onnx", "openvino")])
def test_a_wrong_ending_is_refused(name, to, tmp_path):
    with pytest.raises(ConfigError, match="should end in"):
        export(made("class token"), tmp_path / name, to)


def test_the_command_writes_a_file_a_size(tmp_path, capsys):
    made("class token").save(tmp_path / "model.safetensors")
    cli.command(
        str(tmp_path / "model.safetensors"), out=tmp_path / "small.onnx", sizes="32,40x48", preprocess=True, json=True
    )
    said = json.loads(capsys.readouterr().out)
    assert [Path(file["target"]).name for file in said["files"]] == ["small-32x32.onnx", "small-40x48.onnx"]
    assert all(file["holds"] for file in said["files"])
    wide = load(tmp_path / "small-40x48.onnx")
    assert wide.preprocessing.size == (40, 48)
    assert wide.engine.exported.pixels
    assert wide.predict(waves((90, 70), 3, 1)[0]).label in wide.classes


def test_the_command_compares_on_pictures_of_the_user(tmp_path, capsys):
    from data.small_sets import class_folders

    made("class token").save(tmp_path / "model.safetensors")
    class_folders(tmp_path / "photos", {"a": 3, "b": 2})
    target = tmp_path / "model.onnx"
    cli.command(str(tmp_path / "model.safetensors"), out=target, data=str(tmp_path / "photos"), pictures=4)
    assert "4 of them yours" in capsys.readouterr().out


@pytest.mark.parametrize("words", ["", "x", "224x", "224;384", "1x2x3"])
def test_sizes_that_are_none(words):
    with pytest.raises(ConfigError, match="names no sizes"):
        cli.read_sizes(words)


def test_a_certificate_says_whether_it_holds():
    values = {"largest_difference": 1e-5, "largest_logit": 3.0, "same_label": 1.0, "tolerance": 1e-5}
    rest = {"source": "a", "target": "b", "engine": "c", "pictures": 1, "own_pictures": 0, "batches": (1,)}
    assert Certificate(**values, **rest, exact=True, versions={}).holds
    assert not Certificate(**{**values, "largest_difference": 4e-5}, **rest, exact=True, versions={}).holds
    assert not Certificate(**{**values, "same_label": 0.9}, **rest, exact=True, versions={}).holds
