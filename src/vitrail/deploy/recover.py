"""Training on after pruning, for a short while, with the original as the teacher."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from vitrail.data.examples import Examples
from vitrail.deploy.resample import steps_of
from vitrail.errors import ConfigError
from vitrail.train.job import Wishes, plan, train
from vitrail.train.progress import Display
from vitrail.train.settings import Budget
from vitrail.weights.artefact import Artefact
from vitrail.weights.load import load


def recovered(small: Artefact, teacher: str, examples: Examples, budget: Budget, display: Display) -> Artefact:
    """`small`, fine-tuned on the training pictures of `examples`; `teacher` names the model it was made from."""
    if "train" not in examples.splits:
        raise ConfigError("there are no training pictures to recover on", fix="leave --recover-minutes out")
    rows, columns = steps_of(small).size
    with tempfile.TemporaryDirectory(prefix="vitrail-") as workshop:
        start, run = Path(workshop) / "pruned.safetensors", Path(workshop) / "run"
        small.save(start)
        wishes = Wishes(
            data=examples.name,
            budget=budget,
            start=str(start),
            image_size=rows if rows == columns else None,
            changes={} if examples.multi_label else {"distill.teacher": teacher, "distill.kind": "soft"},
        )
        train(plan(wishes, examples), run, display, started=time.monotonic())
        return load(run)
