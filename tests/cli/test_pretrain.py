"""`vitrail pretrain` as a user meets it."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from vitrail.cli import train
from vitrail.cli.pretrain import Options, command
from vitrail.errors import ConfigError
from vitrail.train.run import read_settings
from vitrail.weights.load import load

SMALL = ("model.depth=1", "model.dim=32", "model.mlp_dim=32", "model.heads=1", "threads=1", "batch_size=8")


@pytest.fixture
def data(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (24, 16, 16, 1)).astype(np.uint8)
    np.savez(tmp_path / "x.npz", images=pixels, labels=np.arange(24) % 2)
    return str(tmp_path / "x.npz")


def test_one_document_for_programs(data, tmp_path, capsys):
    decoder = ("method.decoder_depth=1", "method.decoder_dim=32")
    options = Options(method="mae", steps=2, out=tmp_path / "run", device="cpu", json=True)
    assert command(data, *SMALL, *decoder, options=options) is None
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert found["run"] == str(tmp_path / "run")
    assert {"method", "loss", "knn", "few_shot", "yardstick", "seconds"} <= found.keys()
    assert "always the mean answer" in err
    assert "method      mae: mask 0.75" in err


def test_a_finished_run_is_shown_again_by_resume(data, tmp_path, capsys):
    options = Options(method="masked-patches", steps=2, out=tmp_path / "run", device="cpu")
    command(data, *SMALL, options=options)
    first = capsys.readouterr().out
    command(options=Options(resume=tmp_path / "run"))
    again = capsys.readouterr().out
    assert first.splitlines()[-1] == again.splitlines()[-1] == str(tmp_path / "run")
    assert "told by nearest neighbours" in first


def test_supervised_is_ordinary_training(data, tmp_path, capsys):
    options = Options(method="supervised", steps=1, out=tmp_path / "run", device="cpu", json=True)
    command(data, *SMALL, options=options)
    assert "accuracy" in json.loads(capsys.readouterr().out)
    with pytest.raises(ConfigError, match="--no-labels"):
        command(data, options=Options(method="supervised", labels=False))


def test_a_rehearsal_writes_nothing(data, tmp_path, capsys):
    options = Options(method="simmim", minutes=60, out=tmp_path / "run", device="cpu", dry_run=True)
    assert command(data, *SMALL, options=options) is None
    assert "everything works" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_the_settings_of_a_run_make_another(data, tmp_path, capsys):
    options = Options(method="masked-patches", steps=2, out=tmp_path / "run", device="cpu", seed=3)
    command(data, *SMALL, options=options)
    again = Options(config=tmp_path / "run" / "config.yaml", out=tmp_path / "again", device="cpu", json=True)
    capsys.readouterr()
    command(options=again)
    assert json.loads(capsys.readouterr().out)["method"] == "masked-patches"
    one, two = (read_settings(tmp_path / name / "config.yaml") for name in ("run", "again"))
    assert one == two
    weights = [load(tmp_path / name).model.state_dict() for name in ("run", "again")]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_each_command_names_the_one_that_resumes(data, tmp_path):
    shared = {"steps": 1, "device": "cpu"}
    command(data, *SMALL, options=Options(method="masked-patches", out=tmp_path / "without", **shared))
    command(data, *SMALL, options=Options(method="supervised", out=tmp_path / "with", **shared))
    with pytest.raises(ConfigError, match="vitrail train, with --resume"):
        command(options=Options(resume=tmp_path / "with"))
    with pytest.raises(ConfigError, match="vitrail pretrain, with --resume"):
        train.command(options=train.Options(resume=tmp_path / "without"))


def test_two_processes_learn_what_one_does(data, tmp_path):
    """Started by --nproc as a user would, and then gone on with by one."""
    words = [sys.executable, "-m", "vitrail.cli.main", "pretrain", data, *SMALL, "--method", "masked-patches"]
    words += ["--steps", "2", "--device", "cpu", "--json"]
    two = subprocess.run([*words, "--nproc", "2", "--out", tmp_path / "two"], check=True, capture_output=True)
    found = json.loads(two.stdout)
    command(data, *SMALL, options=Options(method="masked-patches", steps=2, device="cpu", out=tmp_path / "one"))
    expected = json.loads((tmp_path / "one" / "evaluation.json").read_text())
    assert found["loss"] == pytest.approx(expected["loss"], abs=1e-4)
    assert (tmp_path / "two" / "report.html").exists()
    one, other = (load(tmp_path / name).model.state_dict() for name in ("one", "two"))
    for name, tensor in one.items():
        assert torch.allclose(tensor, other[name], atol=1e-4), name
    assert command(options=Options(resume=tmp_path / "two")) is None


def test_wrong_use(data, tmp_path):
    with pytest.raises(ConfigError, match="give a folder of them"):
        command()
    with pytest.raises(ConfigError, match="leave the rest out"):
        command(data, options=Options(resume=tmp_path))
