"""The end of a run: its report looks inside the model that was trained."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from page.html_checker import Checker
from train import tiny
from train.test_job import Quiet, wishes
from vitrail import load
from vitrail.data.examples import Examples
from vitrail.train import job

RESNET = {"model": "R18", "changes": {"model.blocks": (1,), "model.width": 32, "threads": 1, "batch_size": 8}}


@pytest.mark.parametrize(
    ("chosen", "there"),
    [({}, "Mean attention distance"), (RESNET, "where the answer to")],
    ids=["vit", "resnet"],
)
def test_the_report_looks_inside(chosen: dict[str, Any], there: str, tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (30, 16, 16, 3)).astype(np.uint8)
    np.savez(tmp_path / "x.npz", images=pixels, labels=np.arange(30) % 3)
    wished = wishes(str(tmp_path / "x.npz"))
    planned = job.plan(job.Wishes(**{**vars(wished), **chosen}))
    job.train(planned, tmp_path / "run", Quiet(), started=time.monotonic())
    document = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    Checker(document)
    assert 'id="inside"' in document
    assert there in document
    assert "could not be shown" not in document


def test_pictures_are_fingerprinted_once_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads every name, and each of the best weights is saved with it."""
    asked: list[str] = []
    plain = Examples.fingerprint
    monkeypatch.setattr(Examples, "fingerprint", lambda examples: asked.append("once") or plain(examples))
    pixels = np.random.default_rng(0).integers(0, 256, (30, 16, 16, 3)).astype(np.uint8)
    np.savez(tmp_path / "x.npz", images=pixels, labels=np.arange(30) % 3)
    job.train(job.plan(wishes(str(tmp_path / "x.npz"))), tmp_path / "run", Quiet(), started=time.monotonic())
    assert asked == ["once"]


def test_the_last_evaluation_is_seen_to_advance(tmp_path: Path) -> None:
    """Of many pictures on a processor it takes longer than anybody likes to look at a screen that stands still."""
    seen: list[tuple[str, float]] = []

    class Watching(Quiet):
        def stage(self, name: str, done: float, note: str = "") -> None:  # noqa: ARG002
            seen.append((name, done))

    examples = tiny.examples(80)
    splits = {"train": np.arange(40), "val": np.arange(40, 50), "test": np.arange(50, 80)}
    planned = job.plan(wishes("tiny"), examples.replace(splits=splits))
    job.train(planned, tmp_path / "run", Watching(), started=time.monotonic())
    shares = [done for name, done in seen if name == "evaluating on test"]
    assert len(shares) > 1
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_answers_kept_from_validation_are_those_of_a_run_that_asks_again(tmp_path: Path) -> None:
    """As one has to that was interrupted after its last step."""
    pixels = np.random.default_rng(0).integers(0, 256, (60, 16, 16, 3)).astype(np.uint8)
    np.savez(tmp_path / "x.npz", images=pixels, labels=np.arange(60) % 3)
    run = tmp_path / "run"
    job.train(job.plan(wishes(str(tmp_path / "x.npz"))), run, Quiet(), started=time.monotonic())

    def outcome() -> tuple[str, float | None, float | None]:
        kept = load(run).artefact
        return (run / "evaluation.json").read_text(encoding="utf-8"), kept.temperature, kept.unknown_below

    before = outcome()
    job.resume(run, Quiet(), started=time.monotonic())
    assert outcome() == before
