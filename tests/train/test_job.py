"""A run from data to report, without the command line."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
import torch

from data.small_sets import class_folders
from train import tiny
from vitrail.errors import ConfigError, FileError, ImageError
from vitrail.train import checkpoint, job, session
from vitrail.train.loop import Interrupted
from vitrail.train.run import Run
from vitrail.train.session import Plan, class_weights, leave_out, sampling_weights
from vitrail.train.settings import Budget
from vitrail.weights.load import load


class Quiet(tiny.Silent):
    """A display that shows nothing."""

    def stage(self, name, done, note=""): ...

    def end_stage(self): ...


@pytest.fixture
def data(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (30, 16, 16, 3)).astype(np.uint8)
    np.savez(tmp_path / "x.npz", images=pixels, labels=np.arange(30) % 3)
    return str(tmp_path / "x.npz")


def wishes(data, **more):
    small = {"model.depth": 2, "model.dim": 16, "model.mlp_dim": 16, "model.heads": 2, "model.dim_head": 8}
    changes = {**small, "threads": 1, "batch_size": 8, **more.pop("changes", {})}
    return job.Wishes(data=data, budget=more.pop("budget", Budget(steps=3)), device="cpu", changes=changes, **more)


def train(planned, folder, **more):
    return job.train(planned, folder, Quiet(), started=time.monotonic(), **more)


def test_settings_of_an_earlier_run_are_taken_whole(data):
    first = job.plan(wishes(data, seed=5, val=0.2))
    again = job.plan(job.Wishes(data=data, budget=Budget(steps=7), settings=first.settings.to_dict(), device="cpu"))
    assert again.settings == first.settings.replace(budget={"steps": 7})
    assert all((again.examples.splits[name] == first.examples.splits[name]).all() for name in ("train", "val"))
    with pytest.raises(ConfigError, match="leave out --model"):
        job.plan(job.Wishes(data=data, budget=Budget(steps=7), settings=first.settings.to_dict(), model="S/16"))


def test_settings_are_there_before_the_pictures_are_read(data, tmp_path, monkeypatch):
    """Reading can take minutes; a run that is interrupted there must be one that can be resumed."""

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    planned = job.plan(wishes(data))
    monkeypatch.setattr(session, "fill_cache", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(planned, tmp_path / "run")
    monkeypatch.undo()
    result = job.resume(tmp_path / "run", Quiet(), started=time.monotonic())
    assert result.outcome.split == "val"


@pytest.mark.parametrize("share", [0.3, 0.0])
def test_a_picture_that_cannot_be_opened_is_named_once(share, tmp_path, monkeypatch):
    """Also where the pictures do not fit into memory, and are opened in every epoch."""
    class_folders(tmp_path / "photos", {"cat": 8, "dog": 8})
    (tmp_path / "photos" / "cat" / "torn.png").write_bytes(b"not a picture")
    monkeypatch.setattr(session, "CACHE_SHARE", share)
    display = Quiet()
    planned = job.plan(wishes(str(tmp_path / "photos"), budget=Budget(epochs=3), val=0.25))
    job.train(planned, tmp_path / "run", display, started=time.monotonic())
    told = [said for said in display.heard if said.startswith("left out")]
    assert len(told) == 1
    assert "torn.png" in told[0]


def last_step_again(run, share, monkeypatch):
    """Resume before the last step, with so much memory; what the weights come to, and what was said."""
    max((run / "checkpoints").iterdir(), key=lambda folder: folder.name).rename(run / "gone")
    monkeypatch.setattr(session, "CACHE_SHARE", share)
    display = Quiet()
    job.resume(run, display, started=time.monotonic())
    return load(run).model.state_dict()["blocks.0.mlp.fc1.weight"], " ".join(display.heard)


@pytest.mark.parametrize("share", [0.3, 0.0])
def test_pictures_are_read_in_the_way_the_run_began_with(share, tmp_path, monkeypatch):
    """A part that is cut out of a picture made smaller is another one to the last bit."""
    class_folders(tmp_path / "photos", {"cat": 8, "dog": 8})
    changes = {"augment.crop": "resized", "save_steps": 1, "workers": 0}
    monkeypatch.setattr(session, "CACHE_SHARE", share)
    planned = job.plan(wishes(str(tmp_path / "photos"), changes=changes, val=0.25, image_size=16))
    train(planned, tmp_path / "run")
    before = load(tmp_path / "run").model.state_dict()["blocks.0.mlp.fc1.weight"]
    after, said = last_step_again(tmp_path / "run", 0.3, monkeypatch)
    assert torch.equal(before, after)
    assert "as they are needed" not in said


def test_where_there_is_less_memory_than_before_it_is_said(tmp_path, monkeypatch):
    class_folders(tmp_path / "photos", {"cat": 8, "dog": 8})
    train(job.plan(wishes(str(tmp_path / "photos"), changes={"save_steps": 1}, val=0.25)), tmp_path / "run")
    _, said = last_step_again(tmp_path / "run", 0.0, monkeypatch)
    assert "read as they are needed" in said


def test_reasons_survive_a_resume(data, tmp_path):
    planned = job.plan(wishes(data))
    assert planned.reasons
    train(planned, tmp_path / "run")
    report = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    job.resume(tmp_path / "run", Quiet(), started=time.monotonic())
    again = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert report.count("asked for") == again.count("asked for") > 0


def test_the_run_is_free_after_an_error(data, tmp_path):
    planned = job.plan(wishes(data, changes={"accumulate": 50}))
    with pytest.raises(Exception, match="accumulate"):
        train(planned, tmp_path / "run")
    Run.open(tmp_path / "run").close()


@pytest.fixture
def transferred(data, tmp_path):
    train(job.plan(wishes(data)), tmp_path / "first")
    planned = job.plan(
        job.Wishes(
            data=data, budget=Budget(steps=2), device="cpu", start=str(tmp_path / "first"),
            changes={"threads": 1, "batch_size": 8, "save_steps": 1},
        )
    )  # fmt: skip
    train(planned, tmp_path / "second")
    return tmp_path / "second"


def kinds(run):
    return [json.loads(line)["kind"] for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_a_probe_stays_in_the_log(transferred):
    assert kinds(transferred)[0] == "probe"


def test_with_all_checkpoints_damaged_a_transfer_starts_from_its_weights_again(transferred, monkeypatch):
    before, rows = load(transferred).model.state_dict(), kinds(transferred)
    for folder in (transferred / "checkpoints").iterdir():
        (folder / "manifest.json").unlink()
    assert not checkpoint.has_whole(transferred / "checkpoints")
    probes = []
    plain = job.probe
    monkeypatch.setattr(job, "probe", lambda *given: (probes.append(given), plain(*given))[1])
    job.resume(transferred, Quiet(), started=time.monotonic())
    assert len(probes) == 1
    assert kinds(transferred) == rows
    after = load(transferred).model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_rehearsal_that_is_interrupted_offers_nothing_to_resume(data, monkeypatch):
    def interrupted(_):
        raise Interrupted("somewhere")

    monkeypatch.setattr(job.Trainer, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        job.rehearse(job.plan(wishes(data)), Quiet())
    assert not isinstance(caught.value, Interrupted)


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_a_split_of_which_nothing_can_be_opened(split):
    examples = tiny.examples()
    examples = examples.replace(splits={"train": np.arange(30), "val": np.arange(30, 35), "test": np.arange(35, 40)})
    bad = {int(index): ImageError("bad") for index in examples.splits[split]}
    with pytest.raises(FileError, match=f"no picture of the split '{split}'"):
        leave_out(examples, bad, Quiet())


def test_classes_count_alike():
    targets = np.array([0] * 30 + [1] * 8 + [2] * 2)
    examples = tiny.examples().replace(targets=targets, splits={"train": np.arange(40)})
    weights = class_weights(examples).numpy()
    assert np.allclose(weights * [30, 8, 2], 40 / 3)
    drawn = sampling_weights(examples)
    assert np.allclose([drawn[targets == label].sum() for label in (0, 1, 2)], 1.0)


def test_sampling_by_the_rarest_label():
    targets = np.zeros((40, 3), np.int64)
    targets[:, 0], targets[:4, 1] = 1, 1
    targets[39] = 0
    examples = tiny.examples().replace(targets=targets, splits={"train": np.arange(40)})
    drawn = sampling_weights(examples)
    assert (drawn[:4] == 1 / 4).all()
    assert (drawn > 0).all()


def test_more_epochs_are_more_steps(data):
    planned = job.plan(wishes(data, budget=Budget(epochs=2.5), changes={"accumulate": 3}))
    with_three = planned.settings
    run = Plan(planned.examples, with_three, {}, (16, 16))
    assert job.pace_of(type("S", (), {"settings": run.settings}), 12).total == 10
