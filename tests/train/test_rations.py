"""However many pictures there are, minutes are enough: less is asked about, and that is said."""

from __future__ import annotations

import json
import time
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from train import tiny
from train.test_job import Quiet
from vitrail import Artefact, create_model
from vitrail.data.examples import ArrayPictures
from vitrail.train.job import Wishes, plan, train
from vitrail.train.rations import LEAST, affordable
from vitrail.train.run import Run, read_reasons, read_settings
from vitrail.train.session import Session
from vitrail.train.settings import Budget

SPLITS = {"train": 1500, "val": 500, "test": 2000}
A_PICTURE = 0.005  # seconds to read it


@given(st.integers(0, 10**6), st.floats(0, 1e4), st.floats(1e-6, 10))
def test_no_more_than_there_is_time_for_but_enough_to_say_something(pictures, seconds, a_picture):
    found = affordable(pictures, seconds, a_picture)
    assert min(pictures, LEAST) <= found <= pictures
    assert found <= LEAST or found * a_picture <= seconds * (1 + 1e-9)
    assert found == pictures or (found + 1) * a_picture > seconds


def test_all_where_the_time_is_endless_or_not_known():
    assert affordable(10**6, float("inf"), 10.0) == affordable(10**6, 0.0, None) == 10**6


class SlowPictures(ArrayPictures):
    """As if they were large, or came over a network."""

    def read(self, *given, **more):
        time.sleep(A_PICTURE)
        return super().read(*given, **more)


def slow_examples():
    ends = np.cumsum([0, *SPLITS.values()])
    splits = {name: np.arange(ends[i], ends[i + 1]) for i, name in enumerate(SPLITS)}
    many = tiny.examples(int(ends[-1]))
    return many.replace(pictures=SlowPictures(many.pictures.pixels), splits=splits)


def planned(weights, budget, **changes):
    wishes = Wishes("tiny", budget, start=str(weights), changes={"threads": 1, **changes})
    return plan(wishes, slow_examples())


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    small = {"image_size": 16, "depth": 2, "dim": 16, "heads": 2, "dim_head": 8, "mlp_dim": 16}
    path = tmp_path_factory.mktemp("start") / "weights.safetensors"
    Artefact(create_model("Ti/8", num_classes=5, **small)).save(path)
    return path


@pytest.fixture(scope="module")
def hurried(weights, tmp_path_factory):
    """Twelve seconds, where reading every picture once would take twenty."""
    folder, display = tmp_path_factory.mktemp("runs") / "run", Quiet()
    run = planned(weights, Budget(minutes=0.2), workers=0)
    return train(run, folder, display, started=time.monotonic()), display.heard


def test_pictures_that_take_too_long_are_read_as_they_are_needed(hurried):
    assert any("4,000 pictures are read as they are needed" in said for said in hurried[1])


def test_a_part_is_validated_on_and_a_resumed_run_keeps_to_it(hurried):
    settings, reasons = (read(hurried[0].folder / "config.yaml") for read in (read_settings, read_reasons))
    assert LEAST <= settings["validate_on"] < SPLITS["val"]
    assert reasons["validate_on"] == "as many of 500 as there is time for"


def test_the_probe_learns_from_a_part(hurried):
    rows = (json.loads(line) for line in (hurried[0].folder / "metrics.jsonl").read_text().splitlines())
    (probe,) = [row for row in rows if row["kind"] == "probe"]
    assert LEAST <= probe["pictures"] < SPLITS["train"]
    assert any(f"probe of {probe['pictures']:,} of 1,500 pictures" in said for said in hurried[1])


def test_a_part_is_tested_on_and_everybody_is_told(hurried):
    result, _ = hurried
    count = result.outcome.evaluation.count
    assert LEAST <= count < result.outcome.there == SPLITS["test"]
    written = json.loads((result.folder / "evaluation.json").read_text())
    assert (written["count"], written["pictures_in_split"]) == (count, 2000)
    assert f"{count:,} of 2,000 pictures of the test split" in (result.folder / "report.html").read_text()


@pytest.fixture
def session(weights, tmp_path):
    with closing(Run.create(tmp_path / "run")) as run:
        yield Session(planned(weights, Budget(minutes=0.2)), run, Quiet())


def test_what_is_not_in_memory_is_read_by_processes_of_its_own(session):
    assert session.settings.workers is None
    assert session.workers > 0


def test_a_part_is_the_same_for_the_same_number_and_within_a_larger_one(session):
    session.note_telling(0.01)
    few, again = session.asked("test"), session.asked("test")
    session.note_telling(0.005)
    more = session.asked("test")
    assert (few == again).all()
    assert len(few) < len(more) < 2000
    assert set(few) < set(more) < set(session.examples.split("test"))


def test_steps_are_followed_by_everything_in_full(session):
    session.note_telling(100.0)
    session.settings = session.settings.replace(budget=Budget(steps=3))
    assert {split: len(session.asked(split)) for split in ("val", "test")} == {"val": 500, "test": 2000}
