"""One training run, from data to report: what `vitrail train` and `ViTClassifier` do."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from vitrail.data.examples import Examples
from vitrail.data.sources import open_data
from vitrail.data.split import split_examples, write_split
from vitrail.errors import ConfigError
from vitrail.model import Model, ResNet, ViT, build
from vitrail.model.lora import add_lora, merged
from vitrail.train import checkpoint, paper, recipe, rehearsal
from vitrail.train.budget import Pace, Seconds, Steps
from vitrail.train.distilling import method_of
from vitrail.train.distributed import world
from vitrail.train.facts import best_device, gather, typical_size
from vitrail.train.finish import Outcome, artefact_of, finish
from vitrail.train.loggers import Logger
from vitrail.train.loop import Score, Trainer
from vitrail.train.memory import explained
from vitrail.train.probe import probe, set_head
from vitrail.train.progress import Display
from vitrail.train.rates import choose_rate
from vitrail.train.rations import VALIDATING, affordable
from vitrail.train.run import CONFIG, SPLIT, Run, new_folder, read_reasons, read_settings
from vitrail.train.session import Plan, Session
from vitrail.train.settings import TrainSettings, change
from vitrail.train.transfer import blocks_to_freeze, freeze, start_model
from vitrail.train.validate import answers, figures
from vitrail.train.wishes import RunWishes
from vitrail.weights.load import load

MOST_VALIDATION = 5_000  # pictures held back from a large training set
LAST_SECONDS = 5.5  # kept for calibration, files and the report, beside the pictures to evaluate


@dataclass(frozen=True)
class Wishes(RunWishes):
    """What the user said; everything else is chosen."""

    paper: bool = False

    IN_SETTINGS = (*RunWishes.IN_SETTINGS, "paper")


class Result(NamedTuple):
    folder: Path
    outcome: Outcome
    seconds: float


def plan(wishes: Wishes, examples: Examples | None = None) -> Plan:
    """Open the data, unless they are open already, and choose the settings."""
    if examples is None:
        examples = open_data(wishes.data, val=0.0)
    before = wishes.again(TrainSettings)
    val, seed = (wishes.val, wishes.seed) if before is None else (before.val, before.seed)
    examples = with_validation(examples, val, seed)
    facts = gather(examples, wishes.device or best_device())
    size = wishes.size
    reasons: dict[str, str]
    if before is not None:
        settings, reasons = before, {}
    elif wishes.start is None:
        settings, reasons = recipe.from_scratch(facts, wishes.budget, wishes.seed, model=wishes.model, image_size=size)
    else:
        source = load(wishes.start)
        config, image = source.model.config, source.preprocessing
        size = paper.papers_size(config) if size is None and wishes.paper else size
        settings, reasons = recipe.from_weights(facts, wishes.budget, wishes.seed, wishes.start, config, image, size)
    if wishes.paper:
        settings, reasons = paper.as_in_the_paper(recipe.Choice(settings, reasons), facts.pictures)
    if before is None:
        settings, reasons = recipe.beside_what_is_asked(recipe.Choice(settings, reasons), wishes.changes)
    for key, value in wishes.changes.items():
        settings, reasons[key] = change(settings, key, value), "asked for"
    settings = recipe.consistent(settings)
    return Plan(examples, settings.replace(val=val), reasons, facts.size)


def with_validation(examples: Examples, val: float | None, seed: int) -> Examples:
    """The pictures, with something to validate on: given, or a tenth of those to train on."""
    share = min(0.1, MOST_VALIDATION / max(1, len(examples.split("train")))) if val is None else val
    if share <= 0 and "val" not in examples.splits:
        raise ConfigError("nothing is left to validate on", fix="give --val 0.1")
    found = split_examples(examples, val=share, seed=seed)
    if not len(found.splits.get("val", ())):
        raise ConfigError(
            "no class has two pictures, so none can be held back to validate on",
            where=examples.name,
            fix="add pictures",
        )
    return found


def train(
    planned: Plan,
    folder: Path | None,
    display: Display,
    *,
    started: float,
    overwrite: bool = False,
    logger: Logger | None = None,
) -> Result:
    """A new run."""
    with closing(Run.create(folder or new_folder(Path(planned.settings.data).stem), overwrite=overwrite)) as run:
        write_split(run.folder / SPLIT, planned.examples)
        run.write_settings(planned.settings.to_dict(), planned.reasons)
        return _work(planned, run, display, started, logger)


def resume(folder: Path, display: Display, *, started: float, logger: Logger | None = None) -> Result:
    """Go on with a run that was interrupted, from its last checkpoint."""
    with closing(Run.open(folder)) as run:
        settings = TrainSettings.from_dict(read_settings(folder / CONFIG))
        examples = open_data(settings.data, split_file=folder / SPLIT)
        planned = Plan(examples, settings, read_reasons(folder / CONFIG), typical_size(examples))
        return _work(planned, run, display, started, logger)


def follow(display: Display, *, started: float) -> None:
    """What every process but the first does: train with it on the run that it opened, and leave the rest to it."""
    folder = world().tell(Path())
    with closing(Run.follow(folder)) as run:
        settings = TrainSettings.from_dict(read_settings(folder / CONFIG))
        examples = open_data(settings.data, split_file=folder / SPLIT)
        _fit(Session(Plan(examples, settings, {}, (0, 0)), run, display, started))


def rehearse(planned: Plan, display: Display) -> str:
    """One batch of everything, and what the run would need; nothing is kept."""
    return rehearsal.rehearse(
        planned,
        display,
        lambda session: _trainer(session, build(session.settings.model)),
        lambda session, _: finish(session),
    )


def _work(planned: Plan, run: Run, display: Display, started: float, logger: Logger | None) -> Result:
    if logger is not None:
        logger.start(run.folder, planned.settings.to_dict())
        run.logger = logger
    world().tell(run.folder.absolute())  # to those that follow
    with explained(planned.settings):
        session = Session(planned, run, display, started)
        _fit(session)
        outcome = finish(session)
    return Result(run.folder, outcome, session.elapsed())


def _fit(session: Session) -> None:
    """Every step, in as many processes as there are."""
    torch.manual_seed(session.settings.seed)
    model, reached = _first_model(session)
    trainer = _trainer(session, model)
    if not trainer.resume() and reached is not None:
        trainer.state.best = reached.value  # a run never ends below its probe
    trainer.fit()
    session.display.end_stage()


def _first_model(session: Session) -> tuple[Model, Score | None]:
    """The model before the first step, and what a probe reached with it. A checkpoint brings its own weights."""
    settings = session.settings
    begun = checkpoint.has_whole(session.run.checkpoints)
    if not begun:
        session.run.rewind_log(0)  # of a sitting that ended before its first checkpoint
    drawn = settings.start is None or begun
    model = (build(settings.model) if drawn else start_model(settings)).to(settings.device)
    _plan_asking(session, model, begun)
    if drawn:
        return model, None
    reached = None
    if settings.probe_first:
        frozen, reached = world().of_first(lambda: _probe(session, model))
        session.change(frozen_blocks=frozen)
    if settings.lr_grid:
        choose_rate(session, model, _trainer)
    return model, reached


def _plan_asking(session: Session, model: Model, begun: bool) -> None:
    """See how long a picture takes, and how many there is time to validate on, always the same ones."""
    if session.settings.budget.minutes is None:
        return

    def see() -> float:
        for _ in range(2):  # the first time is slow
            tell_some(session, model)
        assert session.telling is not None
        return session.telling

    session.note_telling(world().of_first(see))
    there = len(session.examples.split("val"))
    count = affordable(there, session.ration(VALIDATING), session.telling)
    if session.settings.validate_on is None and count < there and not begun:
        session.reasons["validate_on"] = f"as many of {there:,} as there is time for"
        session.change(validate_on=count)
        session.display.said(f"  validation on {count:,} of {there:,} pictures, as many as there is time for")


def tell_some(session: Session, model: Model) -> None:
    """What a few pictures show, to see how long that takes."""
    start = time.monotonic()
    batch = next(iter(session.evaluation_loader(session.asked("val"))))
    answers(model, [batch], session.settings.device)
    session.note_telling((time.monotonic() - start) / len(batch.targets))


def _probe(session: Session, model: Model) -> tuple[int | str, Score]:
    """Give a model the head of its probe, and keep it; how many blocks to freeze then, and what the probe reached."""
    probed = probe(session, model)
    set_head(model, probed.head)
    artefact_of(session, model).save(session.run.model)
    minutes = session.settings.budget.minutes
    left = None if minutes is None else minutes * 60 - session.elapsed() - _last_seconds(session)
    return blocks_to_freeze(session, probed, left), probed.score


def _trainer(session: Session, model: Model) -> Trainer:
    if session.settings.lora.rank:
        add_lora(model, session.settings.lora)
    freeze(model, session.settings.frozen_blocks)
    method, loader = method_of(session, model), session.training_loader()
    pace = pace_of(session, len(loader))
    return Trainer(
        session.settings,
        method.to(session.settings.device),
        loader,
        pace,
        session.run,
        session.display,
        validate=lambda module: _validate(session, merged(learned(module)), pace),
        keep_best=lambda module: _keep(session, merged(learned(module))),
        validation_seconds=session.seconds_to_validate(),
        glance=partial(glance, session, pace) if isinstance(pace, Seconds) and world().size == 1 else None,
    )


def pace_of(session: Session, batches: int) -> Pace:
    budget = session.settings.budget
    if budget.minutes is not None:
        pace = Seconds(budget.minutes * 60 - session.elapsed())
        pace.reserve(_last_seconds(session))
        return pace
    if budget.steps is not None:
        return Steps(budget.steps)
    assert budget.epochs is not None
    return Steps(max(1, round(budget.epochs * batches / session.settings.accumulate)))


def learned(method: nn.Module) -> Model:
    """The model inside a method."""
    model = method.model
    assert isinstance(model, ViT | ResNet)
    return model


def _validate(session: Session, model: Model, pace: Pace) -> Score:
    """Validate, and keep as much time for the last evaluation as it is known to take."""
    start = time.monotonic()
    session.told = answers(model, session.evaluation_loader(session.asked("val")), session.settings.device)
    found = figures(session.told)._replace(seconds=time.monotonic() - start)
    session.note_telling(found.seconds / max(1, session.how_many("val")))
    if isinstance(pace, Seconds):
        pace.reserve(_last_seconds(session))
    return found


def _keep(session: Session, model: Model) -> None:
    """The best weights so far, and what they said in validation."""
    artefact_of(session, model).save(session.run.model)
    session.best_told = session.told


def glance(session: Session, pace: Seconds, module: nn.Module) -> None:
    """See again how long a picture takes: other programs may have been busy when the time for the end was planned."""
    tell_some(session, learned(module))
    pace.reserve(_last_seconds(session))


def _last_seconds(session: Session) -> float:
    """For what follows the last step: a validation, the pictures to test with, and the rest."""
    return LAST_SECONDS + session.seconds_to_validate() + 1.05 * session.seconds_to_test()
