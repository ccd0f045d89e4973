"""How long a step takes, measured by the training loop itself on a few steps of each kind of run."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from torch import nn

from vitrail.lab.task import Task
from vitrail.lab.trial import Quiet, plan_task
from vitrail.model import build
from vitrail.train.budget import Steps
from vitrail.train.loop import Trainer
from vitrail.train.pretraining import build_method
from vitrail.train.pretraining_recipe import PretrainSettings
from vitrail.train.run import Run
from vitrail.train.session import Session
from vitrail.train.settings import TrainSettings

WARM_UP, TIMED = 3, 8
HARMLESS = 1e-6
NO_MATTER = ("seed", "budget", "optim", "regularise", "start", "val")  # settings that hardly change the speed

Clock = Callable[[], float]


class Stopwatch(Quiet):
    """Notes when each step ended."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock, self.times = clock, list[float]()

    def step(self, row: dict[str, Any], steps_left: float) -> None:  # noqa: ARG002
        self.times.append(self.clock())


def measure_speeds(tasks: Sequence[Task], clock: Clock = time.monotonic) -> dict[str, float]:
    """Seconds a step by arm; arms of one shape are measured once."""
    known: dict[str, float] = {}
    found = {}
    for task in tasks:
        shape = json.dumps({key: value for key, value in task.settings.items() if key not in NO_MATTER})
        if shape not in known:
            known[shape] = seconds_a_step(task, clock)
        found[task.arm] = known[shape]
    return found


def seconds_a_step(task: Task, clock: Clock) -> float:
    """The median of a few steps."""
    planned, watch = plan_task(task), Stopwatch(clock)
    optim = planned.settings.optim.replace(lr=HARMLESS)  # an arm may be there to diverge
    settings = planned.settings.replace(optim=optim)
    few = {split: indices[: 2 * settings.batch_size] for split, indices in planned.examples.splits.items()}
    planned = planned._replace(settings=settings, examples=planned.examples.replace(splits=few))
    with tempfile.TemporaryDirectory() as folder, closing(Run.create(Path(folder) / "run")) as run:
        session = Session(planned, run, watch)
        method = _method(session, settings)
        Trainer(settings, method, session.training_loader(), Steps(WARM_UP + TIMED), run, watch).fit()
    return median(after - before for before, after in pairwise(watch.times[WARM_UP - 1 :]))


def _method(session: Session, settings: TrainSettings) -> nn.Module:
    if isinstance(settings, PretrainSettings):
        return build_method(settings)
    return session.method(build(settings.model))
