"""Every arm of every claim can be trained, measured and judged: on tiny pictures, for two steps."""

from __future__ import annotations

import dataclasses

import pytest

from lab import tiny_lab
from vitrail.lab.claims import NAMES, find
from vitrail.lab.planning import make_tasks
from vitrail.lab.trial import run_task
from vitrail.model import build
from vitrail.model.cost import cost_table
from vitrail.train.settings import TrainSettings


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return str(tiny_lab.pictures(tmp_path_factory.mktemp("data") / "p.npz"))


def here(claim, data):
    """The claim with its pictures replaced by those that are here."""
    arms = [
        dataclasses.replace(arm, changes={k: data if k == "data" else v for k, v in arm.changes.items()}, steps=1.0)
        for arm in claim.arms
    ]
    return dataclasses.replace(claim, arms=tuple(arms), base={**claim.base, "batch_size": 16})


@pytest.mark.parametrize(
    "name", [name for name in NAMES if find(name).measures or any(a.start for a in find(name).arms)]
)
def test_stages_and_measures(name, data, tmp_path):
    """The first arm that is judged, after the one it starts from, for two steps."""
    claim = here(find(name), data)
    tasks = {task.name: task for task in make_tasks(claim, data, 1, 2)}
    last = next(t for t in reversed(tasks.values()) if t.needs is not None or claim.measures)
    model = tmp_path / "before.safetensors"
    if last.needs is not None:
        before = run_task(tasks[last.needs], tmp_path, None, model)
        assert 0 <= before["accuracy"] <= 1
    record = run_task(last, tmp_path, model if last.needs else None, None)
    assert all(isinstance(record[measured], float) for measured in ("accuracy", "validation", *claim.measures))


def test_masked_patches_learn_without_labels(data, tmp_path):
    task = make_tasks(here(find("masked-patches"), data), data, 1, 2)[0]
    assert task.settings["method"]["kind"] == "masked-patches"
    assert run_task(task, tmp_path, None, tmp_path / "model.safetensors")["loss"] > 0


@pytest.mark.parametrize("name", NAMES)
def test_the_settings_of_every_arm_are_possible(name, data):
    claim = here(find(name), data)
    for task in make_tasks(claim, data, 1, 10):
        values = {key: value for key, value in task.settings.items() if key not in ("method", "labelled")}
        build(TrainSettings.from_dict(values).model)


def test_transformer_and_resnet_are_matched_in_work(data):
    work = {}
    for task in make_tasks(find("data-size"), data, 1, 10):
        work[task.arm] = cost_table(build(TrainSettings.from_dict(task.settings).model))[-1].macs
    for size in ("small", "large"):
        assert work[f"ViT {size} 500"] == pytest.approx(work[f"ResNet {size} 500"], rel=0.2)


def test_depth_and_width_cost_the_same(data):
    work = [
        cost_table(build(TrainSettings.from_dict(task.settings).model))[-1].macs
        for task in make_tasks(find("depth-width"), data, 1, 10)
    ]
    assert work[1] == pytest.approx(work[2], rel=0.15)
    assert work[1] > 2.5 * work[0]
