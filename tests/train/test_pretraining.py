"""A run without labels, from pictures to an encoder, a report, and a classifier that starts from it."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from data.small_sets import write_picture
from page.html_checker import Checker
from train import tiny
from vitrail.config import ResNetConfig
from vitrail.errors import ConfigError, FileError
from vitrail.methods.registry import METHODS
from vitrail.model import ViT, build
from vitrail.train import job, pretraining
from vitrail.train.frozen import affordable
from vitrail.train.pretraining import Wishes
from vitrail.train.pretraining_recipe import PretrainSettings, Start, choose
from vitrail.train.recipe import Facts
from vitrail.train.settings import Budget, TrainSettings, change
from vitrail.weights.artefact import Artefact
from vitrail.weights.load import load

SMALL = {"model.depth": 1, "model.dim": 32, "model.mlp_dim": 32, "model.heads": 1, "threads": 1, "batch_size": 8}
OF_METHOD = {
    "mae": {"method.decoder_depth": 1, "method.decoder_dim": 32},
    "dino": {"method.outputs": 16, "method.hidden": 16, "method.bottleneck": 8, "method.small_views": 1},
}


class Quiet(tiny.Silent):
    """A display that shows nothing."""

    def stage(self, name, done, note=""): ...

    def end_stage(self): ...


@pytest.fixture
def labelled(tmp_path):
    """Two kinds of pictures that anyone could tell apart: dark and bright."""
    random = np.random.default_rng(0)
    labels = np.arange(48) % 2
    pixels = (random.integers(0, 100, (48, 16, 16, 3)) + 150 * labels[:, None, None, None]).astype(np.uint8)
    np.savez(tmp_path / "x.npz", images=pixels, labels=labels)
    return str(tmp_path / "x.npz")


@pytest.fixture
def flat(tmp_path):
    """A folder of pictures that says nothing of what is on them."""
    for number in range(24):
        write_picture(tmp_path / "photos" / ("a" if number % 2 else ".") / f"{number}.png", 10 * number)
    return str(tmp_path / "photos")


def wishes(data, method, **more):
    changes = {**SMALL, **OF_METHOD.get(method, {}), **more.pop("changes", {})}
    return Wishes(data, more.pop("budget", Budget(steps=3)), method=method, device="cpu", changes=changes, **more)


def save(model, folder):
    folder.mkdir()
    Artefact(model=model, preprocessing=None).save(folder / "model.safetensors")


def run(planned, folder):
    display = Quiet()
    return pretraining.pretrain(planned, folder, display, started=time.monotonic()), display


@pytest.mark.parametrize("method", METHODS)
def test_from_pictures_to_an_encoder_to_a_classifier(method, labelled, tmp_path):
    result, display = run(pretraining.plan(wishes(labelled, method)), tmp_path / "run")
    assert result.figures["knn"] > 0.9
    assert {"loss", "few_shot"} <= result.figures.keys()
    assert (result.yardstick is None) == (method == "dino")
    model = load(tmp_path / "run").model
    assert isinstance(model, ViT)
    assert model.config.num_classes == 0
    written = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    assert written["method"] == method
    assert any("k-NN" in line for line in display.heard)
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert all(r.startswith(("#", "data:")) for r in Checker(page).references)
    assert ("rebuilt" in page) == (method != "dino")
    classifier = job.plan(
        job.Wishes(
            data=labelled, budget=Budget(steps=1), device="cpu", start=str(tmp_path / "run"),
            changes={"threads": 1, "batch_size": 8},
        )
    )  # fmt: skip
    outcome = job.train(classifier, tmp_path / "next", Quiet(), started=time.monotonic()).outcome
    assert outcome.evaluation.accuracy > 0.9


def test_the_encoder_of_a_classifier_is_the_one_that_was_kept(labelled, tmp_path):
    run(pretraining.plan(wishes(labelled, "mae")), tmp_path / "run")
    planned = job.plan(job.Wishes(data=labelled, budget=Budget(steps=1), device="cpu", start=str(tmp_path / "run")))
    model, kept = job.start_model(planned.settings), load(tmp_path / "run").model
    images = torch.randn(2, 3, *kept.config.image_size)
    assert torch.allclose(model.eval().encode(*model.embed(images)), kept.encode(*kept.embed(images)), atol=1e-6)


@pytest.mark.parametrize("labels", [True, False])
def test_a_folder_without_meaning(flat, tmp_path, labels):
    planned = pretraining.plan(wishes(flat, "simmim", labels=labels, image_size=16))
    assert planned.examples.classes == ()
    assert any("without labels" in note for note in planned.examples.notes) == labels
    result, display = run(planned, tmp_path / "run")
    assert "knn" not in result.figures
    assert not any("k-NN" in line for line in display.heard)
    again = pretraining.resume(tmp_path / "run", Quiet(), started=time.monotonic())
    assert again.figures == result.figures


# ---- what a run starts from


@pytest.mark.parametrize("classes", [0, 3])
@pytest.mark.parametrize("method", METHODS)
def test_from_an_encoder_or_a_classifier(labelled, tmp_path, method, classes):
    """One step too small to be seen: what is kept is what was given."""
    given = ViT(
        image_size=16, patch_size=4, num_classes=classes, dim=16, depth=1, heads=1, mlp_dim=16, dim_head=16, pool="mean"
    )
    save(given, tmp_path / "given")
    asked = wishes(labelled, method, start=str(tmp_path / "given"), budget=Budget(steps=1))
    asked = replace(asked, changes={"threads": 1, "batch_size": 8, "optim.lr": 1e-12, **OF_METHOD.get(method, {})})
    planned = pretraining.plan(asked)
    assert "the encoder of" in planned.reasons["model"]
    run(planned, tmp_path / "run")
    kept = load(tmp_path / "run").model
    assert kept.config.num_classes == 0
    images = torch.randn(2, 3, 16, 16)
    assert torch.allclose(kept.features(images), given.eval().features(images), atol=1e-5)
    (tmp_path / "given" / "model.safetensors").unlink()
    pretraining.resume(tmp_path / "run", Quiet(), started=time.monotonic())  # which needs them no more


def test_weights_at_another_size_and_with_other_channels(labelled, tmp_path):
    given = ViT(image_size=8, patch_size=4, num_classes=0, dim=16, depth=1, heads=1, mlp_dim=16, channels=1)
    save(given, tmp_path / "given")
    planned = pretraining.plan(
        Wishes(labelled, Budget(steps=1), method="mae", device="cpu", start=str(tmp_path / "given"), image_size=16)
    )
    assert planned.settings.model.image_size == planned.settings.image.size == (16, 16)
    assert planned.settings.model.channels == len(planned.settings.image.mean) == 3
    run(planned._replace(settings=change(planned.settings, "threads", 1)), tmp_path / "run")


def test_what_weights_cannot_be(labelled, tmp_path):
    with pytest.raises(ConfigError, match="leave out --model"):
        pretraining.plan(wishes(labelled, "mae", start="x", model="Ti/16"))
    save(build(ResNetConfig(image_size=16, blocks=(1,), width=32, num_classes=2)), tmp_path / "given")
    with pytest.raises(ConfigError, match="not made of patches"):
        pretraining.plan(wishes(labelled, "mae", start=str(tmp_path / "given")))


def test_settings_of_an_earlier_run_are_taken_whole(labelled):
    first = pretraining.plan(wishes(labelled, "simmim", seed=5, val=0.2))
    asked = Wishes(labelled, Budget(steps=7), settings=first.settings.to_dict(), device="cpu")
    again = pretraining.plan(asked)
    assert again.settings == first.settings.replace(budget={"steps": 7})
    assert all((again.examples.splits[name] == first.examples.splits[name]).all() for name in ("train", "val"))
    assert pretraining.plan(replace(asked, labels=False)).settings.labelled is False
    with pytest.raises(ConfigError, match="leave out --method"):
        pretraining.plan(replace(asked, method="mae"))


def test_settings_of_the_other_command_are_told_apart(labelled):
    with_labels = job.plan(job.Wishes(labelled, Budget(steps=1), device="cpu")).settings
    without = pretraining.plan(wishes(labelled, "mae")).settings
    with pytest.raises(ConfigError, match="use vitrail train"):
        PretrainSettings.from_dict(with_labels.to_dict())
    with pytest.raises(ConfigError, match="use vitrail pretrain"):
        TrainSettings.from_dict(without.to_dict())


def test_a_rehearsal_leaves_nothing(labelled, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())
    said = pretraining.rehearse(pretraining.plan(wishes(labelled, "dino")), Quiet())
    assert "everything works" in said
    assert set(tmp_path.iterdir()) == before


# ---- what is looked at


@pytest.mark.parametrize(
    ("budget", "most"),
    [
        (Budget(minutes=5), 2000),
        (Budget(steps=10), 200),
        (Budget(steps=4000), 1536),
        (Budget(epochs=1), 200),
        (Budget(epochs=1e6), 2000),
    ],
)
def test_following_costs_little(labelled, budget, most):
    planned = pretraining.plan(wishes(labelled, "mae", budget=budget, changes={"batch_size": 128}))
    assert affordable(planned) == most


def test_labels_can_be_left_alone(labelled):
    assert pretraining.plan(wishes(labelled, "mae", labels=False)).examples.classes == ()


def test_an_error_that_has_nothing_to_do_with_labels_is_said(tmp_path):
    with pytest.raises(FileError, match="no such folder"):
        pretraining.plan(wishes(str(tmp_path / "nothing"), "mae"))


def test_settings_come_back_from_a_file_whole(labelled):
    settings = pretraining.plan(wishes(labelled, "dino", seed=4, changes={"method.momentum": 0.5})).settings
    again = PretrainSettings.from_dict(settings.to_dict())
    assert again == settings
    assert again.method.momentum == 0.5
    assert change(again, "optim.lr", "0.01").method == settings.method


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"method.maks": 0.5}, "mask"),
        ({"method.mask": 2}, "between 0 and 1"),
        ({"model.num_classes": 3}, "num_classes"),
        ({"method": "dino"}, "method.key=value"),
    ],
)
def test_changes_that_cannot_work(labelled, tmp_path, changes, said):
    with pytest.raises(ConfigError, match=said):
        run(pretraining.plan(wishes(labelled, "mae", changes=changes)), tmp_path / "run")


def facts(**changes):
    plain = {"data": "x", "pictures": 60_000, "classes": ("coat", "bag"), "channels": 1, "size": (28, 28)}
    return Facts(**{**plain, "mean": (0.3,), "std": (0.3,), "cores": 2, **changes})


@pytest.mark.parametrize("size", [(28, 28), (32, 32), (64, 64), (64, 48)])
def test_the_grid_is_about_eight(size):
    grid = choose(facts(size=size), "mae", Budget(minutes=10), 0).settings.model.grid
    assert all(6 <= side <= 9 for side in grid)


def test_choices_follow_the_method_and_the_minutes():
    short, long = (choose(facts(), "mae", Budget(minutes=m), 0).settings for m in (5, 200))
    assert (short.model.dim, long.model.dim) == (96, 192)
    assert short.model.depth < long.model.depth
    decoders = [(each.method.decoder_depth, each.method.decoder_dim) for each in (short, long)]
    assert decoders == [(1, 64), (2, 128)]
    assert (short.optim.name, short.batch_size) == ("muon", 32)  # LOG.md
    assert choose(facts(device="cuda"), "mae", Budget(minutes=5), 0).settings.batch_size == 128
    dino = choose(facts(classes=tuple("0123456789")), "dino", Budget(minutes=5), 0).settings
    assert dino.model.any_size
    assert not dino.method.flip  # of digits
    assert dino.method.small_views == 0  # of pictures that are small themselves
    photos = choose(facts(size=(480, 640), device="cuda"), "dino", Budget(minutes=5), 0).settings
    assert photos.method.small_views > 0


def test_weights_that_know_something_take_the_small_steps_of_the_papers():
    start = Start("w", choose(facts(), "mae", Budget(minutes=5), 0).settings.model, None)
    chosen = choose(facts(), "mae", Budget(minutes=5), 0, start=start).settings
    assert (chosen.optim.name, chosen.optim.betas) == ("adamw", (0.9, 0.95))
    assert chosen.optim.lr == pytest.approx(1e-3 * chosen.batch_size / 256)


def test_a_model_by_name_must_be_made_of_patches():
    assert choose(facts(), "mae", Budget(steps=1), 0, model="Ti/16", size=(32, 32)).settings.model.dim == 192
    with pytest.raises(ConfigError, match="not made of patches"):
        choose(facts(), "mae", Budget(steps=1), 0, model="R18", size=(32, 32))
    with pytest.raises(ConfigError, match="mae"):
        choose(facts(), "mea", Budget(steps=1), 0)


def test_a_collapse_is_said_and_logged(labelled, tmp_path, monkeypatch):
    """A teacher that was flattened by hand."""
    planned = pretraining.plan(wishes(labelled, "dino", changes={"optim.lr": 1e-12}))
    build = pretraining.build_method

    def collapsed(settings, encoder):
        made = build(settings, encoder)
        for model in (made.model, made.student):
            torch.nn.init.zeros_(model.norm.weight)
            torch.nn.init.ones_(model.norm.bias)
        return made

    monkeypatch.setattr(pretraining, "build_method", collapsed)
    _, display = run(planned, tmp_path / "run")
    assert any("collapsed" in line for line in display.heard)
    assert "collapsed" in (tmp_path / "run" / "metrics.jsonl").read_text()
