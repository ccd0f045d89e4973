"""Runs with a teacher: any model of the same classes, asked once or batch by batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from oracles import randomise
from train.test_transfer import told_apart
from vitrail import Artefact, Preprocessing, create_model, load
from vitrail.data.loader import Batch
from vitrail.data.prepare import normalise
from vitrail.errors import ConfigError
from vitrail.methods.distill import Distilled
from vitrail.train.distilling import Asked, Remembered, class_order, method_of
from vitrail.train.job import Wishes, plan, resume, train
from vitrail.train.progress import Display
from vitrail.train.run import Run
from vitrail.train.session import Session
from vitrail.train.settings import Budget

OTHER_ORDER = ("2", "0", "1")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("VITRAIL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def data(tmp_path):
    found = told_apart()
    np.savez(tmp_path / "tiny.npz", images=found.pictures.pixels, labels=found.targets)
    return tmp_path / "tiny.npz"


def teacher(tmp_path, name="R18", classes=OTHER_ORDER, size=24):
    small = {"width": 32} if name == "R18" else {"depth": 2}
    model = randomise(create_model(name, image_size=size, num_classes=len(classes), **small))
    steps = Preprocessing(size=size, mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4))
    path = tmp_path / f"{name.replace('/', '-')}.safetensors"
    Artefact(model, classes, steps).save(path)
    return path


def planned(data, path, **changes):
    wanted = {"threads": 1, "distill.teacher": str(path), "augment.crop": "none", "augment.flip": False, **changes}
    return plan(Wishes(str(data), Budget(steps=6), changes=wanted))


@pytest.fixture
def session(data, tmp_path):
    def made(path, **changes):
        run = Run.create(tmp_path / "run")
        runs.append(run)
        return Session(planned(data, path, **changes), run, Display())

    runs = []
    yield made
    for run in runs:
        run.close()


def training_batch(session):
    return next(session.training_loader().batches(0))


def in_our_order(session, path, indices):
    """What the teacher's own predictor answers to the pictures, with columns by the names of the classes."""
    predictor = load(path)
    pixels = np.stack([predictor.read(session.source.pictures.read(int(index))) for index in indices])
    columns = [predictor.classes.index(name) for name in session.examples.classes]
    return predictor.engine(pixels)[:, columns]


@pytest.mark.parametrize("name", ["R18", "Ti/8"])
def test_the_remembered_answers_are_the_teachers_by_the_names_of_classes(session, tmp_path, name):
    path = teacher(tmp_path, name)
    work = session(path)
    method = method_of(work, create_model("Ti/8", image_size=16, depth=1, num_classes=3))
    assert isinstance(method, Distilled)
    assert isinstance(method.teacher, Remembered)
    batch = training_batch(work)
    np.testing.assert_allclose(method.teacher(batch), in_our_order(work, path, batch.indices), atol=1e-4)


def test_a_teacher_that_is_asked_sees_the_same_pixels_in_its_own_scale(session, tmp_path):
    path = teacher(tmp_path, size=16)  # the pictures' own size, so nothing is resized
    work = session(path, **{"distill.cached": False})
    asked = method_of(work, create_model("Ti/8", image_size=16, depth=1, num_classes=3)).teacher
    assert isinstance(asked, Asked)
    batch = training_batch(work)
    np.testing.assert_allclose(asked(batch), in_our_order(work, path, batch.indices), atol=1e-3)


def test_a_teacher_that_is_asked_sees_pictures_at_its_own_size():
    predictor = load_in_memory(size=48)
    ours = Preprocessing(size=32, mean=(0.5,) * 3, std=(0.5,) * 3)
    seen = []
    asked = Asked(predictor, ours, 3, np.arange(3))
    asked.model.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    pixels = np.full((2, 32, 32, 3), 200, np.uint8)
    images = torch.from_numpy(normalise(pixels, ours))
    asked(Batch(images, torch.zeros(2).long(), torch.arange(2)))
    assert seen[0].shape == (2, 3, 48, 48)
    expected = torch.from_numpy(normalise(pixels, predictor.preprocessing))[:, :, :1, :1]
    torch.testing.assert_close(seen[0], expected.expand_as(seen[0]), atol=1e-4, rtol=0)


def load_in_memory(size):
    from vitrail import Predictor

    model = randomise(create_model("R18", image_size=size, num_classes=3, width=32))
    steps = Preprocessing(size=size, mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4))
    return Predictor.of(Artefact(model, ("0", "1", "2"), steps))


def test_other_classes_are_named(session, tmp_path):
    path = teacher(tmp_path, classes=("0", "1", "bee"))
    with pytest.raises(ConfigError, match=r"not the teacher's: only the teacher has '?bee'?, only the data have '?2'?"):
        method_of(session(path), create_model("Ti/8", image_size=16, depth=1, num_classes=3))


def test_pictures_with_several_labels_have_no_teacher():
    found = told_apart()
    several = found.replace(targets=np.eye(3, dtype=np.int64)[found.targets])
    with pytest.raises(ConfigError, match="one class a picture"):
        class_order(several, load_in_memory(16), "teacher")


@pytest.mark.parametrize("changes", [{"distill.kind": "soft"}, {"distill.token": True}], ids=["soft", "token"])
def test_a_run_with_a_teacher_goes_from_data_to_model_and_on(data, tmp_path, changes):
    result = train(planned(data, teacher(tmp_path), **changes), tmp_path / "run", Display(), started=0.0)
    kept = load(tmp_path / "run", check=True)
    assert kept.model.config.distill_token == ("distill.token" in changes)
    assert resume(tmp_path / "run", Display(), started=0.0).outcome.evaluation == result.outcome.evaluation


def test_a_token_needs_a_teacher_and_a_new_model(data, tmp_path):
    with pytest.raises(ConfigError, match="there is no teacher"):
        plan(Wishes(str(data), Budget(steps=1), changes={"distill.token": True}))
    path = teacher(tmp_path, "Ti/8")
    changes = {"distill.token": True, "distill.teacher": str(path)}
    with pytest.raises(ConfigError, match=r"distill\.token needs"):
        plan(Wishes(str(data), Budget(steps=1), start=str(path), changes=changes))
