"""The learning rate that does best in short runs, as the paper chooses it for fine-tuning (table 4).

A fifth of the budget is divided evenly among the rates; each starts from the same weights, has a whole schedule of its
own, and is judged by its best validation. The full run then starts anew with the best rate and the rest of the budget.
"""

from __future__ import annotations

import copy
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import torch

from vitrail.errors import ConfigError
from vitrail.model import Model
from vitrail.train.distributed import world
from vitrail.train.loop import Interrupted, Trainer, TrainingFailed
from vitrail.train.run import Run
from vitrail.train.session import Session
from vitrail.train.settings import Budget

SHARE = 0.2  # of the budget, for all rates together

MakeTrainer = Callable[[Session, Model], Trainer]


def choose_rate(session: Session, model: Model, make_trainer: MakeTrainer) -> None:
    """Try every rate of `lr_grid`, and write the best one down with the budget that is left."""
    settings = session.settings
    if world().size > 1:
        raise ConfigError("several rates are tried by one process", fix="give one: lr_grid=[] optim.lr=0.01")
    budget, rest = _divided(settings.budget, session.elapsed(), len(settings.lr_grid))
    scores, failures = {}, []
    for rate in settings.lr_grid:
        try:
            scores[rate] = _try(session, model, rate, budget, make_trainer)
        except TrainingFailed as failed:
            failures.append(failed)
            session.display.said(f"  learning rate {rate:g}: {failed.what}")
            continue
        session.run.log({"kind": "rate", "lr": rate, "score": scores[rate]})
        session.display.said(f"  learning rate {rate:g}: validation {scores[rate]:.2%}")
    if not scores:
        raise failures[-1]
    best = max(scores, key=scores.__getitem__)
    session.reasons["optim.lr"] = "the best in short runs"
    session.change(optim=settings.optim.replace(lr=best), budget=rest, lr_grid=())
    torch.manual_seed(settings.seed)  # the full run does not depend on how many rates were tried


def _divided(budget: Budget, elapsed: float, rates: int) -> tuple[Budget, Budget]:
    """What each rate gets, and what is left after all of them. Minutes pass by themselves."""
    if budget.minutes is not None:
        return Budget(minutes=SHARE / rates * max(0.01, budget.minutes - elapsed / 60)), budget
    if budget.epochs is not None:
        return Budget(epochs=budget.epochs * SHARE / rates), Budget(epochs=budget.epochs * (1 - SHARE))
    assert budget.steps is not None
    each = max(1, round(budget.steps * SHARE / rates))
    return Budget(steps=each), Budget(steps=max(1, budget.steps - each * rates))


def _try(session: Session, model: Model, rate: float, budget: Budget, make_trainer: MakeTrainer) -> float:
    """The best validation of a short run in a folder of its own, of which nothing is kept."""
    trial = copy.copy(session)
    trial.started = time.monotonic()
    trial.settings = session.settings.replace(optim=session.settings.optim.replace(lr=rate), budget=budget)
    torch.manual_seed(session.settings.seed)
    with tempfile.TemporaryDirectory() as folder, closing(Run.create(Path(folder) / "run")) as trial.run:
        try:
            found = make_trainer(trial, copy.deepcopy(model)).fit()
        except Interrupted:
            raise Interrupted(session.run.folder) from None
    if not found.step:
        raise ConfigError("the budget is too small to try learning rates", fix="give more, or a rate: optim.lr=0.01")
    assert found.best is not None
    return found.best
