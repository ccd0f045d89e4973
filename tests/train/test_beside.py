"""Runs are compared with those next to them that were measured on the same pictures, and with no others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vitrail.evaluate.evaluation import evaluate_predictions
from vitrail.train.beside import Other, best_other
from vitrail.train.finish import Outcome

COUNT = 200


def outcome(right: float, split: str = "test") -> Outcome:
    targets = np.arange(COUNT) % 2
    said = np.where(np.arange(COUNT) < right * COUNT, targets, 1 - targets)
    return Outcome(evaluate_predictions(4.0 * np.eye(2)[said], targets, ("a", "b")), split)


def write_run(folder: Path, right: float, split: str = "test", prefix: str = "", label: str = "a") -> Path:
    folder.mkdir()
    lines = [f"{prefix}{n}.png,{label},{split}," for n in range(COUNT)]
    (folder / "split.csv").write_text("\n".join(["path,label,split,group", *lines]) + "\n")
    found = {"split": split, **outcome(right, split).evaluation.to_dict()}
    (folder / "evaluation.json").write_text(json.dumps(found))
    return folder


def test_the_best_other_run_is_named(tmp_path: Path) -> None:
    ours = write_run(tmp_path / "ours", 0.9)
    write_run(tmp_path / "low", 0.5)
    better = write_run(tmp_path / "middle", 0.6)
    other = best_other(ours, outcome(0.9))
    assert other is not None
    assert (other.folder, other.accuracy) == (better, pytest.approx(0.6))


@pytest.mark.parametrize(
    ("theirs", "verdict"), [(0.5, "this run is better"), (0.78, "no sure difference"), (0.99, "this run is worse")]
)
def test_only_what_the_pictures_are_enough_for_is_said(theirs: float, verdict: str, tmp_path: Path) -> None:
    ours = write_run(tmp_path / "ours", 0.8)
    other = best_other(write_run(tmp_path / "theirs", theirs).parent / ours.name, outcome(0.8))
    assert other is not None
    assert other.words(outcome(0.8).evaluation.interval).endswith(f" of the same pictures: {verdict}")


@pytest.mark.parametrize("different", [{"split": "val"}, {"prefix": "other/"}, {"label": "b"}])
def test_other_pictures_are_not_compared(different: dict[str, Any], tmp_path: Path) -> None:
    ours = write_run(tmp_path / "ours", 0.8)
    write_run(tmp_path / "theirs", 0.5, **different)
    assert best_other(ours, outcome(0.8)) is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"split": "test"}', '{"split": "test", "count": 200}', "\x00"])
def test_damaged_and_unfinished_runs_are_left_out(content: str, tmp_path: Path) -> None:
    ours = write_run(tmp_path / "ours", 0.8)
    damaged = write_run(tmp_path / "damaged", 0.5)
    (damaged / "evaluation.json").write_text(content)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    assert best_other(ours, outcome(0.8)) is None


def test_the_words_name_run_and_share() -> None:
    said = Other(Path("runs/first"), 0.63, (0.61, 0.65)).words((0.77, 0.81))
    assert said == "runs/first has 63.0% of the same pictures: this run is better"
