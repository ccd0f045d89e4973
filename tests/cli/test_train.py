"""`vitrail train`: from pictures of any kind to a run that can be used, repeated and gone on with."""

from __future__ import annotations

import csv
import json
import time

import numpy as np
import pytest
from PIL import Image

from vitrail import load
from vitrail.cli.main import main
from vitrail.cli.train import Options, _wishes

QUICK = ("--device", "cpu", "threads=1", "model.depth=1", "model.dim=32", "model.heads=2", "model.dim_head=16")
STEPS = ("--steps", 3, *QUICK, "model.mlp_dim=32", "--batch-size", 8)
COLOURS = {"ant": (200, 30, 30), "bee": (30, 200, 30), "cât": (30, 30, 200)}


@pytest.fixture
def run(capfd):
    """`vitrail train ...`: exit code, stdout, stderr."""

    def command(*words):
        code = main(["train", *map(str, words)])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return command


@pytest.fixture
def photos(tmp_path):
    """Flat class folders, with files among them that are no pictures."""
    random = np.random.default_rng(0)
    for name, colour in COLOURS.items():
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(10):
            pixels = np.clip(random.normal(colour, 40, (20, 24, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png")
    (tmp_path / "photos" / "ant" / "text.jpg").write_text("hello")
    (tmp_path / "photos" / "bee" / "empty.png").write_bytes(b"")
    half = (tmp_path / "photos" / "cât" / "0.png").read_bytes()
    (tmp_path / "photos" / "cât" / "half.png").write_bytes(half[: len(half) // 2])
    return tmp_path / "photos"


def arrays(path, channels=3, count=30, **more):
    pixels = np.random.default_rng(0).integers(0, 256, (count, 16, 16, channels)).astype(np.uint8)
    np.savez(path, images=pixels[..., 0] if channels == 1 else pixels, **{"labels": np.arange(count) % 3, **more})
    return path


def files(folder):
    return {path.name for path in folder.iterdir()}


def test_a_folder_of_photos_becomes_a_run(run, photos, tmp_path):
    before = {path: path.read_bytes() for path in photos.rglob("*.*")}
    out = tmp_path / "runs" / "mine"
    code, said, err = run(photos, "--out", out, *STEPS)
    assert code == 0, err
    assert said.splitlines()[-1].strip() == str(out)
    for name in ("ant/text.jpg", "bee/empty.png", "cât/half.png"):
        assert f"left out: {photos / name}" in err
    assert files(out) >= {
        "config.yaml", "split.csv", "metrics.jsonl", "results.csv", "evaluation.json", "model.safetensors",
        "report.html", "model_card.md", "checkpoints",
    }  # fmt: skip
    assert {path: path.read_bytes() for path in photos.rglob("*.*")} == before
    predictor = load(out)
    assert predictor.classes == ("ant", "bee", "cât")
    assert predictor.predict(photos / "ant" / "1.png").label in COLOURS
    with (out / "split.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["split"] for row in rows} == {"train", "val"}
    assert len(rows) == 33
    evaluation = json.loads((out / "evaluation.json").read_text())
    assert evaluation["split"] == "val"
    assert "vitrail predict" in (out / "report.html").read_text(encoding="utf-8")
    assert (out / "results.csv").read_text().startswith("step,")


def test_its_config_repeats_it(run, photos, tmp_path):
    settings = ("--seed", 3, "--val", 0.3, "optim.lr=0.005")
    assert run(photos, "--out", tmp_path / "one", *STEPS, *settings)[0] == 0
    code, said, err = run("--config", tmp_path / "one" / "config.yaml", "--out", tmp_path / "two")
    assert code == 0, err
    assert "of the same pictures: no sure difference" in said
    assert (tmp_path / "two" / "split.csv").read_text() == (tmp_path / "one" / "split.csv").read_text()
    one, two = (load(tmp_path / name).artefact.model.state_dict() for name in ("one", "two"))
    assert all((one[name] == two[name]).all() for name in one)
    assert run("--config", tmp_path / "one" / "config.yaml", "--out", tmp_path / "three", "--steps", 2)[0] == 0
    assert "steps: 2" in (tmp_path / "three" / "config.yaml").read_text()


def test_an_existing_run_is_not_overwritten_unless_asked(run, tmp_path):
    data, out = arrays(tmp_path / "x.npz"), tmp_path / "run"
    assert run(data, "--out", out, *STEPS)[0] == 0
    model = (out / "model.safetensors").read_bytes()
    code, _, err = run(data, "--out", out, *STEPS)
    assert code == 2
    assert "--resume" in err.splitlines()[-1]
    assert (out / "model.safetensors").read_bytes() == model
    assert run(data, "--out", out, *STEPS, "--seed", 1, "--overwrite")[0] == 0
    assert (out / "model.safetensors").read_bytes() != model


def test_resuming_a_finished_run_changes_nothing(run, tmp_path):
    out = tmp_path / "run"
    assert run(arrays(tmp_path / "x.npz"), "--out", out, *STEPS)[0] == 0
    before, config = load(out).artefact.model.state_dict(), (out / "config.yaml").read_text()
    code, _, err = run("--resume", out)
    assert code == 0, err
    after = load(out).artefact.model.state_dict()
    assert all((before[name] == after[name]).all() for name in before)
    assert (out / "config.yaml").read_text() == config


def test_a_rehearsal_writes_nothing(run, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    code, _, err = run(arrays(tmp_path / "x.npz"), *STEPS, "--dry-run")
    assert code == 0, err
    assert "everything works" in err
    assert files(tmp_path / "here") == set()
    assert files(tmp_path) == {"here", "x.npz"}


def test_from_a_run_to_other_classes(run, tmp_path):
    assert run(arrays(tmp_path / "x.npz"), "--out", tmp_path / "one", *STEPS)[0] == 0
    labels = np.array([["up", "down"][i % 2] for i in range(30)])
    code, _, err = run(
        arrays(tmp_path / "y.npz", labels=labels), "--from", tmp_path / "one", "--out", tmp_path / "two",
        "--steps", 2, "--batch-size", 8, "threads=1", "--device", "cpu",
    )  # fmt: skip
    assert code == 0, err
    assert load(tmp_path / "two").classes == ("down", "up")
    rows = [json.loads(line) for line in (tmp_path / "two" / "metrics.jsonl").read_text().splitlines()]
    assert rows[0]["kind"] == "probe"
    assert json.loads((tmp_path / "two" / "evaluation.json").read_text())


@pytest.mark.parametrize("channels", [1, 5])
def test_pictures_of_other_channels(run, tmp_path, channels):
    code, _, err = run(arrays(tmp_path / "x.npz", channels), "--out", tmp_path / "run", *STEPS)
    assert code == 0, err
    assert load(tmp_path / "run").artefact.model.config.channels == channels


def test_several_labels_from_a_table(run, photos, tmp_path):
    names = sorted(path for path in photos.rglob("[0-9].png"))
    labels = ["red|warm", "green", "blue|cold", "green|cold"]
    lines = [f"{path.relative_to(tmp_path)},{labels[n % 4]}" for n, path in enumerate(names)]
    (tmp_path / "table.csv").write_text("\n".join(["path,labels", *lines]), encoding="utf-8")
    code, _, err = run(tmp_path / "table.csv", "--out", tmp_path / "run", *STEPS, "regularise.mixup=0.2")
    assert code == 0, err
    artefact = load(tmp_path / "run").artefact
    assert artefact.multi_label
    assert artefact.classes == ("blue", "cold", "green", "red", "warm")
    assert len(artefact.thresholds) == 5


@pytest.mark.parametrize("balance", ["weights", "sampler"])
def test_rare_classes(run, tmp_path, balance):
    data = arrays(tmp_path / "x.npz", labels=np.array([0] * 24 + [1] * 4 + [2] * 2))
    code, _, err = run(data, "--out", tmp_path / "run", *STEPS, "--balance", balance)
    assert code == 0, err
    assert f"balance: {balance}" in (tmp_path / "run" / "config.yaml").read_text()


def test_settings_by_name(run, tmp_path):
    data = arrays(tmp_path / "x.npz")
    assert run(data, "--out", tmp_path / "run", *STEPS, "--optim.lr", "1e-3", "--augment.flip=false")[0] == 0
    text = (tmp_path / "run" / "config.yaml").read_text()
    assert "lr: 0.001" in text
    assert "flip: false" in text


def test_options_of_transfer_are_settings():
    options = Options(freeze="3", lora=8, teacher="runs/teacher", distill="soft")
    changes = _wishes("photos", {}, options).changes
    assert changes == {"frozen_blocks": "3", "lora.rank": 8, "distill.teacher": "runs/teacher", "distill.kind": "soft"}


def test_one_json_document(run, tmp_path):
    code, out, _ = run(arrays(tmp_path / "x.npz"), "--out", tmp_path / "run", *STEPS, "--json")
    assert code == 0
    assert json.loads(out)["run"] == str(tmp_path / "run")


def test_minutes_are_kept(run, tmp_path):
    started = time.monotonic()
    code, _, err = run(arrays(tmp_path / "x.npz"), "--minutes", 0.2, "--out", tmp_path / "run", *QUICK)
    assert code == 0, err
    assert time.monotonic() - started < 12 + 5
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["progress"] > 0.9


WRONG = [
    (["optim.lrr=1"], 2, "did you mean 'optim.lr'"),
    (["--optim.lr", "fast"], 2, "optim.lr=fast cannot be used"),
    (["--steps", "0"], 2, "steps=0 must be more than 0"),
    (["--steps", "3", "--epochs", "2"], 2, "give one of"),
    (["--steps", "3", "model=S/16"], 2, "model.key=value"),
    (["--steps", "3", "oops"], 2, "key=value"),
    (["--steps", "3", "--val", "0"], 2, "nothing is left to validate on"),
    (["--steps", "3", "--val", "2"], 2, "not a part of the training pictures"),
    (["--config", "none.yaml"], 3, "none.yaml"),
]


@pytest.mark.parametrize(("words", "code", "said"), WRONG, ids=[" ".join(words) for words, _, _ in WRONG])
def test_wrong_use_is_one_line_with_the_remedy(run, tmp_path, words, code, said):
    found, out, err = run(arrays(tmp_path / "x.npz"), "--out", tmp_path / "run", *words)
    assert (found, out) == (code, "")
    assert said in err.splitlines()[-1]
    assert err.splitlines()[-1].startswith("vitrail: ")
    assert not (tmp_path / "run").exists()


def test_nothing_to_train_on(run, tmp_path):
    assert "no pictures to learn from" in run()[2]
    assert run("--resume", tmp_path)[0] == 3
    code, _, err = run(tmp_path / "none")
    assert code == 3
    assert err.count("\n") == 1
