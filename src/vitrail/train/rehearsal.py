"""Before a long run: a few steps of it, to see that everything works and how fast it is."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from vitrail.data.examples import Examples
from vitrail.model import build
from vitrail.model.cost import count_parameters
from vitrail.train.loop import Interrupted, Trainer
from vitrail.train.memory import explained
from vitrail.train.progress import Display
from vitrail.train.run import Run
from vitrail.train.session import Plan, Session
from vitrail.train.settings import Budget

STEPS, PICTURES = 3, 512


def rehearse(
    planned: Plan, display: Display, make: Callable[[Session], Trainer], finish: Callable[[Session, Trainer], object]
) -> str:
    """One batch of everything, and what the run would need; nothing is kept. `finish` is what follows the steps."""
    settings = planned.settings.replace(budget=Budget(steps=STEPS), start=None)
    few = planned._replace(settings=settings, examples=_few(planned.examples))
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(Run.create(Path(folder) / "run")) as run,
        explained(settings),
    ):
        session = Session(few, run, display)
        trainer = make(session)
        start = time.monotonic()
        try:
            trainer.fit()
        except Interrupted:  # nothing of it is there to be resumed
            raise KeyboardInterrupt from None
        pictures = trainer.state.pictures / max(1e-9, time.monotonic() - start)
        finish(session, trainer)
    an_epoch = len(planned.examples.split("train")) / pictures
    return (
        f"rehearsed, and everything works: {count_parameters(build(planned.settings.model)):,} weights, about "
        f"{pictures:,.0f} pictures a second, an epoch in {an_epoch / 60:.1f} minutes"
    )


def _few(examples: Examples) -> Examples:
    return examples.replace(splits={split: indices[:PICTURES] for split, indices in examples.splits.items()})
