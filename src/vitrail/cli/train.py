"""`vitrail train DATA`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from vitrail.cli.output import console, print_json, table
from vitrail.cli.processes import in_processes
from vitrail.errors import EXIT_INTERRUPTED, ConfigError

if TYPE_CHECKING:
    from vitrail.train.job import Result, Wishes
    from vitrail.train.progress import Display
    from vitrail.train.session import Plan
    from vitrail.train.settings import Budget

DEFAULT_MINUTES = 20.0


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Options:
    """What can be asked for; the rest is chosen.

    Parameters
    ----------
    model
        A model by name (`vitrail models`); chosen to fit the data and the budget if not given.
    start
        Weights to start from: a run, a model file, a folder in timm's or Hugging Face's layout, hf-hub:owner/name.
    minutes
        How long everything may take; 20 if no budget is given.
    epochs
        Instead: how often to go through the training pictures.
    steps
        Instead: how many steps to take.
    image_size
        Pixels a side that the model sees.
    batch_size
        Pictures a batch.
    balance
        Rare classes: counted more (weights) or shown more often (sampler).
    val
        The part of the training pictures to validate on, where the data has no such split.
    paper
        Train as in the paper: its plain model and Adam from scratch; from weights SGD with a new head at zero, at 384
        pixels, with the best of four learning rates.
    freeze
        From weights: how many blocks keep theirs, from the input on, or all-but-head; chosen by the time if not given.
    lora
        From weights: train adapters of this rank (8 is usual) in the place of the weights; they are merged when saved.
    teacher
        A model of the same classes to learn from as well.
    distill
        Learn the class that the teacher names (hard), or how sure it is of each (soft); hard if not given.
    config
        Settings of an earlier run, its config.yaml.
    resume
        Go on with an interrupted run, exactly where it was.
    out
        The folder of the run; runs/NAME if not given.
    overwrite
        Replace a run that is there.
    dry_run
        Do one batch of everything, show what would be done and how long it takes, and write nothing.
    workers
        Processes that read pictures; for each process that trains.
    nproc
        Processes that train together on this machine; a batch is shared by them.
    device
        cpu, cuda or mps; the best there is if not given.
    seed
        Of everything that is random; 0 if not given.
    log
        Also write curves for TensorBoard into the run, or send them to Weights & Biases.
    json
        Print one JSON document at the end.
    """

    model: str | None = None
    start: Annotated[str | None, Parameter(name="--from")] = None
    minutes: float | None = None
    epochs: float | None = None
    steps: int | None = None
    image_size: int | None = None
    batch_size: int | None = None
    balance: Literal["auto", "none", "weights", "sampler"] = "auto"
    val: float | None = None
    paper: bool = False
    freeze: str | None = None
    lora: int | None = None
    teacher: str | None = None
    distill: Literal["hard", "soft"] | None = None
    config: Path | None = None
    resume: Path | None = None
    out: Path | None = None
    overwrite: bool = False
    dry_run: bool = False
    workers: int | None = None
    nproc: int = 1
    device: str | None = None
    seed: int | None = None
    log: Literal["tensorboard", "wandb"] | None = None
    json: bool = False


PLAIN = Options()


def command(data: str | None = None, /, *changes: str, options: Options = PLAIN) -> int | None:
    """From pictures to a classifier, in the minutes you have.

    Settings that have no option here are given by their names in config.yaml: `optim.lr=0.001` or `--optim.lr 0.001`.

    Parameters
    ----------
    data
        A folder of pictures in class folders, a CSV or Parquet table, tar shards, an .npz, or a known name such as
        fashion-mnist (`vitrail data`).
    changes
        Settings by name: key=value.
    """
    started = time.monotonic()
    if (code := in_processes(options.nproc, alone=options.dry_run)) is not None:
        return code
    from vitrail.train import job
    from vitrail.train.distributed import joined
    from vitrail.train.loop import Interrupted
    from vitrail.train.progress import Display

    with joined() as world, Display(None if world.first else Console(quiet=True)) as display:
        try:
            if not world.first:
                job.follow(display, started=started)
                return None
            result = _run(data, parsed(changes), options, display, started)
        except Interrupted as interrupted:
            display.said(f"interrupted; everything is saved. Go on with: vitrail train --resume {interrupted}")
            return EXIT_INTERRUPTED
    if result is not None:
        _show(result, options.json)
    return None


def parsed(changes: tuple[str, ...]) -> dict[str, Any]:
    for change in changes:
        if "=" not in change:
            raise ConfigError(f"{change!r} is no setting", fix="give key=value; a path with spaces in quotes")
    return dict(change.split("=", 1) for change in changes)


def _run(
    data: str | None, changes: dict[str, Any], options: Options, display: Display, started: float
) -> Result | None:
    from vitrail.train import job
    from vitrail.train.loggers import open_logger

    if options.resume is not None:
        if data is not None or changes:
            raise ConfigError("--resume goes on with the run's own data and settings", fix="leave the rest out")
        return job.resume(options.resume, display, started=started, logger=open_logger(options.log))
    planned = job.plan(_wishes(data, changes, options))
    _show_plan(planned, display)
    if options.dry_run:
        display.said(job.rehearse(planned, display))
        return None
    return job.train(
        planned, options.out, display, overwrite=options.overwrite, started=started, logger=open_logger(options.log)
    )


def _wishes(data: str | None, changes: dict[str, Any], options: Options) -> Wishes:
    from vitrail.train.job import Wishes

    settings, source, budget = asked(
        data, options.config, minutes=options.minutes, epochs=options.epochs, steps=options.steps
    )
    if source is None:
        raise ConfigError("no data to train on", fix="give a folder of pictures: vitrail train photos/")
    balance = None if options.balance == "auto" else options.balance
    stated = {
        "batch_size": options.batch_size,
        "workers": options.workers,
        "balance": balance,
        "seed": options.seed,
        "frozen_blocks": options.freeze,
        "lora.rank": options.lora,
        "distill.teacher": options.teacher,
        "distill.kind": options.distill,
    }
    return Wishes(
        data=source,
        budget=budget,
        settings=settings,
        model=options.model,
        start=options.start,
        image_size=options.image_size,
        val=options.val,
        device=options.device,
        paper=options.paper,
        seed=options.seed or 0,
        changes={name: value for name, value in stated.items() if value is not None} | changes,
    )


def asked(
    data: str | None, config: Path | None, **budget: float | None
) -> tuple[dict[str, Any] | None, str | None, Budget]:
    """The settings of --config, the data and the budget: those given, else those of the settings."""
    from vitrail.train.run import read_settings
    from vitrail.train.settings import Budget

    settings = None if config is None else read_settings(config)
    source = data if data is not None else (settings or {}).get("data")
    if settings is not None and not any(budget.values()):
        budget = settings.get("budget", {})
    given = {name: value for name, value in budget.items() if value is not None}
    found = Budget.from_dict(given or {"minutes": DEFAULT_MINUTES})
    return settings, None if source is None else str(source), found


def _show_plan(planned: Plan, display: Display) -> None:
    """What was found and chosen, before anything happens."""
    from vitrail.data.doctor import examine

    examples, settings = planned.examples, planned.settings
    counts = ", ".join(f"{len(indices):,} {split}" for split, indices in examples.splits.items())
    display.said(f"{examples.name}: {len(examples.classes)} classes; {counts} pictures")
    for note in examples.notes:
        display.said(f"  {note}")
    for finding in examine(examples, quick=True).findings:
        if finding.severity != "note":
            display.said(f"  {finding.severity}: {finding.what}; {finding.fix}")
    for name, value, why in settings.summary(planned.reasons):
        display.said(f"  {name:<12}{value}" + (f"  ({why})" if why else ""))


def _show(result: Result, json: bool) -> None:
    evaluation, split = result.outcome
    if json:
        print_json({"run": str(result.folder), "split": split, "seconds": result.seconds, **evaluation.to_dict()})
        return
    out = console()
    shown = table(f"On {evaluation.count:,} pictures of the {split} split", "", "")
    shown.show_header = False
    for name, value in evaluation.rows():
        shown.add_row(Text(name, style="dim"), value)
    out.print(shown)
    out.print(Text(f"took {result.seconds / 60:.1f} minutes; report: {result.folder / 'report.html'}"))
    out.print(Text(f"next: vitrail predict {result.folder} PICTURE..."))
    out.print(Text(str(result.folder)))
