"""One run: the product's own training on the standard pictures, then what is measured on its model."""

from __future__ import annotations

import io
import platform
import shutil
import time
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from vitrail.lab.claim import SUPERVISED
from vitrail.lab.measures import measure
from vitrail.lab.records import Record
from vitrail.lab.standard import open_pictures, some
from vitrail.lab.task import Task
from vitrail.train import job
from vitrail.train.loop import TrainingFailed
from vitrail.train.pretraining import pretrain
from vitrail.train.pretraining_recipe import PretrainSettings
from vitrail.train.progress import Display
from vitrail.train.run import MODEL, Run
from vitrail.train.session import Plan
from vitrail.train.settings import TrainSettings
from vitrail.version import __version__
from vitrail.weights.load import load


class Quiet(Display):
    """Shows nothing: the lab tells of whole runs."""

    def __init__(self) -> None:
        super().__init__(Console(file=io.StringIO()))

    def stage(self, name: str, done: float, note: str = "") -> None:  # noqa: ARG002
        return


def run_task(task: Task, work: Path, start: Path | None, keep: Path | None) -> Record:
    """Train, measure, and say how it went. `start` has the weights to begin with, `keep` is where to put the best."""
    began, processor = time.monotonic(), time.process_time()
    planned = plan_task(task, start)
    try:
        figures = _train(task, planned, work / "run", keep)
    except TrainingFailed as error:
        figures = failed(error.what)
    seconds, spent = time.monotonic() - began, time.process_time() - processor
    return _record(task, figures, seconds, spent) | {"pictures": len(planned.examples.split("train"))}


def not_begun(task: Task) -> Record:
    """The record of a run whose starting weights could not be trained."""
    return _record(task, failed("the run it starts from failed"), 0.0, 0.0)


def failed(why: str) -> dict[str, Any]:
    return {"accuracy": 0.0, "validation": 0.0, "failed": why}


def _record(task: Task, figures: dict[str, Any], seconds: float, processor: float) -> Record:
    return {
        "claim": task.claim,
        "arm": task.arm,
        "seed": task.seed,
        **figures,
        "steps": task.steps,
        "seconds": round(seconds, 2),
        "processor_seconds": round(processor, 2),
        "settings": task.settings,
        "versions": versions(),
    }


def plan_task(task: Task, start: Path | None = None) -> Plan:
    """The pictures and settings of a run."""
    kind = TrainSettings if task.method == SUPERVISED else PretrainSettings
    settings = kind.from_dict(task.settings)
    if start is not None:
        settings = settings.replace(start=str(start))
    examples, _ = open_pictures(settings.data, max(settings.image.size))
    return Plan(some(examples, task.pictures, task.seed), settings, {}, settings.image.size)


def _train(task: Task, planned: Plan, folder: Path, keep: Path | None) -> dict[str, Any]:
    figures = _learn_alone(planned, folder) if task.method != SUPERVISED else _learn(planned, folder)
    if keep is not None:
        keep.parent.mkdir(parents=True, exist_ok=True)
        partial = keep.with_suffix(".partial")
        shutil.copyfile(folder / MODEL, partial)
        partial.replace(keep)
    if task.measures:
        model = load(folder / MODEL).model
        figures |= {name: measure(name, model, planned) for name in task.measures}
    return figures


def _learn(planned: Plan, folder: Path) -> dict[str, Any]:
    """From labels."""
    result = job.train(planned, folder, Quiet(), started=time.monotonic(), overwrite=True)
    validated = [row["accuracy"] for row in Run(folder).metrics() if row["kind"] == "val"]
    return {"accuracy": result.outcome.evaluation.accuracy, "validation": max(validated, default=0.0)}


def _learn_alone(planned: Plan, folder: Path) -> dict[str, Any]:
    """Without labels; they only measure how far its features are, by their nearest neighbours."""
    result = pretrain(planned, folder, Quiet(), started=time.monotonic(), overwrite=True)
    return {"accuracy": result.figures["knn"], "validation": result.figures["knn"], "loss": result.figures["loss"]}


def versions() -> dict[str, str]:
    return {"vitrail": __version__, "torch": torch.__version__, "python": platform.python_version()}
