"""A run without labels, from pictures to an encoder: what `vitrail pretrain` does.

method = METHODS["mae"](encoder)     a batch becomes a loss
Trainer(method).fit()                the one loop of all training
RUN/model.safetensors                the encoder, for `vitrail train --from RUN`
"""

from __future__ import annotations

import json
import shlex
import time
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from vitrail.config import ViTConfig
from vitrail.data.examples import Examples
from vitrail.data.loader import Batch
from vitrail.data.sources import open_data
from vitrail.data.split import write_split
from vitrail.errors import ConfigError, FileError
from vitrail.methods.base import SelfSupervised
from vitrail.methods.registry import METHODS, name_of
from vitrail.model import ViT
from vitrail.report.facts import DataFacts
from vitrail.report.pretraining import Pictures, PretrainFacts, write_pretraining_report
from vitrail.train import checkpoint, rehearsal
from vitrail.train.budget import Pace, Seconds
from vitrail.train.distributed import world
from vitrail.train.facts import best_device, gather, typical_size
from vitrail.train.frozen import can_follow, follow, looked_at
from vitrail.train.job import LAST_SECONDS, pace_of, with_validation
from vitrail.train.loggers import Logger
from vitrail.train.loop import Score, Trainer
from vitrail.train.memory import explained
from vitrail.train.pretraining_recipe import Choice, PretrainSettings, Start, choose
from vitrail.train.progress import Display
from vitrail.train.recipe import Facts
from vitrail.train.run import CONFIG, EVALUATION, REPORT, SPLIT, Run, new_folder, read_reasons, read_settings
from vitrail.train.session import Plan, Session
from vitrail.train.settings import change
from vitrail.train.transfer import start_model
from vitrail.train.wishes import RunWishes
from vitrail.weights.artefact import Artefact
from vitrail.weights.durable import write_text
from vitrail.weights.load import load

SHOWN = 8  # pictures in the report


@dataclass(frozen=True)
class Wishes(RunWishes):
    """What the user said; everything else is chosen."""

    method: str | None = None  # None: that of the settings
    labels: bool = True  # read them where there are any, to measure with

    IN_SETTINGS = (*RunWishes.IN_SETTINGS, "method")


class Pretrained(NamedTuple):
    folder: Path
    data: str
    method: str
    figures: dict[str, float]  # of the encoder that was kept, on validation pictures
    yardstick: float | None  # the loss of always giving the mean answer
    seconds: float


def plan(wishes: Wishes) -> Plan:
    """Open the pictures, with labels or without, and choose the settings."""
    before = wishes.again(PretrainSettings)
    labels, val, seed = (wishes.labels, wishes.val, wishes.seed)
    if before is not None:
        labels, val, seed = labels and before.labelled, before.val, before.seed
    examples = with_validation(open_pictures(wishes.data, labels), val, seed)
    facts = gather(examples, wishes.device or best_device())
    settings, reasons = _chosen(wishes, facts) if before is None else Choice(before, {})
    for key, value in wishes.changes.items():
        settings, reasons[key] = change(settings, key, value), "asked for"
    if settings.model.num_classes:
        raise ConfigError("an encoder has no classes", fix="leave model.num_classes out")
    return Plan(examples, settings.replace(val=val, labelled=bool(examples.classes)), reasons, facts.size)


def _chosen(wishes: Wishes, facts: Facts) -> Choice:
    assert wishes.method is not None
    if wishes.start is None:
        return choose(facts, wishes.method, wishes.budget, wishes.seed, model=wishes.model, size=wishes.size)
    if wishes.model is not None:
        raise ConfigError("the weights of --from bring their own model", fix="leave out --model")
    source = load(wishes.start)
    start = Start(wishes.start, source.model.config, source.preprocessing)
    return choose(facts, wishes.method, wishes.budget, wishes.seed, start=start, size=wishes.size)


def open_pictures(data: str, labels: bool) -> Examples:
    """The pictures, and their labels to measure with; where nothing says what is on them, the pictures alone."""
    if not labels:
        return open_data(data, labelled=False, val=0.0)
    try:
        return open_data(data, val=0.0)
    except (FileError, ConfigError) as error:
        examples = open_data(data, labelled=False, val=0.0)  # an error that has nothing to do with labels comes again
        return examples.replace(notes=(*examples.notes, f"taken without labels: {error.what}"))


def pretrain(
    planned: Plan,
    folder: Path | None,
    display: Display,
    *,
    started: float,
    overwrite: bool = False,
    logger: Logger | None = None,
) -> Pretrained:
    """A new run."""
    name = f"{Path(planned.settings.data).stem}-{name_of(_settings(planned).method)}"
    with closing(Run.create(folder or new_folder(name), overwrite=overwrite)) as run:
        write_split(run.folder / SPLIT, planned.examples)
        run.write_settings(planned.settings.to_dict(), planned.reasons)
        return _work(planned, run, display, started, logger)


def resume(folder: Path, display: Display, *, started: float, logger: Logger | None = None) -> Pretrained:
    """Go on with a run that was interrupted, from its last checkpoint."""
    with closing(Run.open(folder)) as run:
        return _work(_opened(folder), run, display, started, logger)


def follow_first(display: Display, *, started: float) -> None:
    """What every process but the first does: train with it on the run that it opened, and leave the rest to it."""
    folder = world().tell(Path())
    with closing(Run.follow(folder)) as run:
        _fit(Session(_opened(folder), run, display, started))


def rehearse(planned: Plan, display: Display) -> str:
    """One batch of everything, and what the run would need; nothing is kept."""
    return rehearsal.rehearse(
        planned,
        display,
        lambda session: _trainer(session, build_method(_settings(session))),
        lambda session, trainer: _finish(session, trainer, yardstick=None),
    )


def build_method(settings: PretrainSettings, encoder: ViT | None = None) -> SelfSupervised:
    """The method of the settings, around a fresh encoder if none is given."""
    assert isinstance(settings.model, ViTConfig)
    kind = METHODS[name_of(settings.method)]
    return kind.build(encoder or ViT.from_config(settings.model), settings.method, settings.image, settings.seed)


def _opened(folder: Path) -> Plan:
    """The pictures and settings of a run that is there."""
    settings = PretrainSettings.from_dict(read_settings(folder / CONFIG))
    examples = open_data(settings.data, labelled=settings.labelled, split_file=folder / SPLIT)
    return Plan(examples, settings, read_reasons(folder / CONFIG), typical_size(examples))


def _work(planned: Plan, run: Run, display: Display, started: float, logger: Logger | None) -> Pretrained:
    if logger is not None:
        logger.start(run.folder, planned.settings.to_dict())
        run.logger = logger
    world().tell(run.folder.absolute())  # to those that follow
    with explained(planned.settings):
        session = Session(planned, run, display, started)
        return _finish(session, *_fit(session))


def _fit(session: Session) -> tuple[Trainer, float | None]:
    """Every step, in as many processes as there are; and the yardstick."""
    settings = _settings(session)
    torch.manual_seed(settings.seed)
    begun = checkpoint.has_whole(session.run.checkpoints)
    if not begun:
        session.run.rewind_log(0)  # of a sitting that ended before its first checkpoint
    fresh = settings.start is None or begun  # a checkpoint brings its own weights
    trainer = _trainer(session, build_method(settings, None if fresh else _started_from(settings)))
    yardstick = _say_yardstick(session, _method(trainer.method))
    trainer.resume()
    trainer.fit()
    session.display.end_stage()
    return trainer, yardstick


def _started_from(settings: PretrainSettings) -> ViT:
    model = start_model(settings)
    assert isinstance(model, ViT)
    return model


def _trainer(session: Session, method: SelfSupervised) -> Trainer:
    loader = session.training_loader()
    pace = pace_of(session, len(loader))
    return Trainer(
        session.settings,
        method.to(session.settings.device),
        loader,
        pace,
        session.run,
        Watcher(session.display),
        validate=lambda module: _validate(session, _method(module), pace),
        keep_best=lambda module: _artefact(session, _method(module).model).save(session.run.model),
    )


def _artefact(session: Session, model: ViT) -> Artefact:
    return Artefact(model=model, preprocessing=session.settings.image, data_fingerprint=session.fingerprint)


# ---- measuring


def _validate(session: Session, method: SelfSupervised, pace: Pace) -> Score:
    """What frozen features are good for decides, where there are labels; else the loss, or simply the last."""
    start = time.monotonic()
    figures = _loss(session, method)
    if can_follow(session):
        figures |= follow(session, method.model)
        value = figures["knn"] + 1e-6 * pace.progress  # of equals the later
    else:
        value = -figures["loss"] if method.loss_compares else pace.progress
    if figures_say := method.warning(figures):
        session.display.said(f"  warning: {figures_say}")
        session.run.log({"kind": "warning", "said": figures_say})
    seconds = time.monotonic() - start
    if isinstance(pace, Seconds):
        pace.reserve(LAST_SECONDS + 1.2 * seconds)
    return Score(value, figures, seconds)


@torch.inference_mode()
def _loss(session: Session, method: SelfSupervised) -> dict[str, float]:
    """The mean loss over validation pictures, with the same masks or views every time; and other figures."""
    total, count, health = 0.0, 0, dict[str, float]()
    for batch in looked_at(session, session.examples.split("val")):
        batch = _moved(batch, session.settings.device)
        total += method(batch, 0, 0, 1.0).item() * len(batch.indices)
        count += len(batch.indices)
        health = health or method.health(batch.images)
    return {"loss": total / max(1, count), **health}


def _say_yardstick(session: Session, method: SelfSupervised) -> float | None:
    """The loss that learning nothing but the mean reaches: training that stays above it has not begun."""
    batch = next(iter(session.evaluation_loader(session.asked("val"))))
    found = method.yardstick(batch.images.to(session.settings.device))
    if found is not None:
        session.display.said(f"  always the mean answer would have a loss of {found:.4f}")
    return found


class Watcher:
    """Shows the figures of pre-training where a display would look for an accuracy."""

    def __init__(self, display: Display) -> None:
        self.display, self.said = display, display.said

    def step(self, row: dict[str, Any], steps_left: float) -> None:
        self.display.step(row, steps_left)

    def validated(self, row: dict[str, Any], best: bool) -> None:
        names = {"loss": "loss {:.4f}", "knn": "k-NN {:.2%}", "few_shot": "few-shot {:.2%}"}
        found = ", ".join(words.format(row[name]) for name, words in names.items() if name in row)
        star = " (best so far)" if best else ""
        self.said(f"  {row['progress']:4.0%}  epoch {row['epoch']:.1f}  {row['seconds']:.0f} s  {found}{star}")


# ---- the end


def _finish(session: Session, trainer: Trainer, yardstick: float | None) -> Pretrained:
    """Check that the encoder opens, and report."""
    load(session.run.model)
    settings = _settings(session)
    kept = [row for row in session.run.metrics() if row["kind"] == "val" and row["step"] == trainer.state.best_step]
    names = ("loss", "knn", "few_shot", "feature_spread", "teacher_entropy")
    figures = {name: kept[-1][name] for name in names if name in kept[-1]}
    found = {"method": name_of(settings.method), "split": "val", **figures, "yardstick": yardstick}
    write_text(session.run.folder / EVALUATION, json.dumps(found, indent=1))
    session.run.write_results()
    method = _method(trainer.best_module())
    facts = _facts(session, method, found["method"], figures, yardstick)
    write_pretraining_report(session.run.folder / REPORT, facts)
    return Pretrained(session.run.folder, settings.data, found["method"], figures, yardstick, session.elapsed())


def _facts(
    session: Session, method: SelfSupervised, name: str, figures: dict[str, float], yardstick: float | None
) -> PretrainFacts:
    batches = islice(session.evaluation_loader(session.asked("val")), 1)
    few = Batch(*(part[:SHOWN].to(session.settings.device) for part in next(batches)))
    preview = method.eval().preview(few)
    shown = [] if preview is None else [Pictures(*(part.numpy() for part in row)) for row in zip(*preview, strict=True)]
    sizes = f"about {session.typical_size[0]} × {session.typical_size[1]} pixels"
    folder, data = shlex.quote(str(session.run.folder)), shlex.quote(session.settings.data)
    return PretrainFacts(
        title=session.run.folder.name,
        method=name,
        figures=figures,
        yardstick=yardstick,
        previews=shown,
        metrics=session.run.metrics(),
        classes=session.examples.classes,
        data=DataFacts.of(session.examples, sizes=sizes, channels=session.channels),
        config=session.settings.to_dict(),
        reasons=session.reasons,
        commands=[
            ("Train", f"vitrail train {data} --from {folder} --minutes 20"),
            ("Look", f"vitrail inspect {folder}"),
        ],
    )


def _settings(of: Plan | Session) -> PretrainSettings:
    assert isinstance(of.settings, PretrainSettings)
    return of.settings


def _method(module: nn.Module) -> SelfSupervised:
    assert isinstance(module, SelfSupervised)
    return module


def _moved(batch: Batch, device: str) -> Batch:
    return Batch(*(part.to(device) for part in batch))
