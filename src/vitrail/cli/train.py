"""`vitrail train DATA`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from rich.text import Text

from vitrail.cli.output import console, print_json, table
from vitrail.errors import EXIT_INTERRUPTED, ConfigError

if TYPE_CHECKING:
    from vitrail.train.job import Result, Wishes
    from vitrail.train.progress import Display
    from vitrail.train.session import Plan

DEFAULT_MINUTES = 20.0


def command(
    data: str | None = None,
    /,
    *changes: str,
    model: str | None = None,
    start: Annotated[str | None, Parameter(name="--from")] = None,
    minutes: float | None = None,
    epochs: float | None = None,
    steps: int | None = None,
    image_size: int | None = None,
    batch_size: int | None = None,
    balance: Literal["auto", "none", "weights", "sampler"] = "auto",
    val: float | None = None,
    config: Path | None = None,
    resume: Path | None = None,
    out: Path | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    workers: int | None = None,
    device: str | None = None,
    seed: int = 0,
    json: bool = False,
) -> int | None:
    """From pictures to a classifier, in the minutes you have.

    Settings that have no option here are given by their names in config.yaml: `optim.lr=0.001` or `--optim.lr 0.001`.

    Parameters
    ----------
    data
        A folder of pictures in class folders, a CSV or Parquet table, tar shards, an .npz, or a known name such as
        fashion-mnist (`vitrail data`).
    changes
        Settings by name: key=value.
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
        Processes that read pictures.
    device
        cpu, cuda or mps; the best there is if not given.
    seed
        Of everything that is random.
    json
        Print one JSON document at the end.
    """
    started = time.monotonic()
    from vitrail.train.loop import Interrupted
    from vitrail.train.progress import Display

    options = {"batch_size": batch_size, "workers": workers, "balance": None if balance == "auto" else balance}
    stated = {name: value for name, value in options.items() if value is not None} | _parsed(changes)
    with Display() as display:
        try:
            if resume is not None:
                result: Result | None = _resume(resume, display, started)
            else:
                budget = {"minutes": minutes, "epochs": epochs, "steps": steps}
                choices = {"model": model, "start": start, "image_size": image_size, "val": val, "device": device}
                wishes = _wishes(data, config, budget, stated, {**choices, "seed": seed})
                result = _train(wishes, display, out, overwrite, dry_run, started)
        except Interrupted as interrupted:
            display.said(f"interrupted; everything is saved. Go on with: vitrail train --resume {interrupted}")
            return EXIT_INTERRUPTED
    if result is not None:
        _show(result, json)
    return None


def _parsed(changes: tuple[str, ...]) -> dict[str, str]:
    for change in changes:
        if "=" not in change:
            raise ConfigError(
                f"{change!r} is no setting", fix="give settings as key=value; paths with spaces in quotes"
            )
    return dict(change.split("=", 1) for change in changes)


def _wishes(
    data: str | None, config: Path | None, budget: dict[str, Any], changes: dict[str, Any], choices: dict[str, Any]
) -> Wishes:
    from vitrail.train.job import Wishes
    from vitrail.train.run import read_settings
    from vitrail.train.settings import Budget

    settings = None if config is None else read_settings(config)
    source = data if data is not None else (settings or {}).get("data")
    if source is None:
        raise ConfigError("no data to train on", fix="give a folder of pictures: vitrail train photos/")
    given = {name: value for name, value in budget.items() if value is not None}
    if settings is not None and not given:
        given = {name: value for name, value in settings["budget"].items() if value is not None}
    chosen = Budget(**(given or {"minutes": DEFAULT_MINUTES}))
    return Wishes(data=str(source), budget=chosen, settings=settings, changes=changes, **choices)


def _train(
    wishes: Wishes, display: Display, out: Path | None, overwrite: bool, dry_run: bool, started: float
) -> Result | None:
    from vitrail.train import job

    planned = job.plan(wishes)
    _show_plan(planned, display)
    if dry_run:
        display.said(job.rehearse(planned, display))
        return None
    return job.train(planned, out, display, overwrite=overwrite, started=started)


def _resume(folder: Path, display: Display, started: float) -> Result:
    from vitrail.train import job

    return job.resume(folder, display, started=started)


def _show_plan(planned: Plan, display: Display) -> None:
    """What was found and chosen, before anything happens."""
    examples, settings = planned.examples, planned.settings
    counts = ", ".join(f"{len(indices):,} {split}" for split, indices in examples.splits.items())
    display.said(f"{examples.name}: {len(examples.classes)} classes; {counts} pictures")
    for note in examples.notes:
        display.said(f"  {note}")
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
