"""`vitrail train DATA`."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from vitrail.cli.output import console, print_json, show_end, table
from vitrail.cli.processes import in_processes
from vitrail.cli.run_options import RunOptions, only_resumed, parsed
from vitrail.errors import EXIT_INTERRUPTED

if TYPE_CHECKING:
    from vitrail.train.job import Result, Wishes
    from vitrail.train.progress import Display
    from vitrail.train.session import Plan


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Options(RunOptions):
    """What can be asked for; the rest is chosen.

    Parameters
    ----------
    balance
        Rare classes: counted more (weights) or shown more often (sampler).
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
    """

    balance: Literal["auto", "none", "weights", "sampler"] = "auto"
    paper: bool = False
    freeze: str | None = None
    lora: int | None = None
    teacher: str | None = None
    distill: Literal["hard", "soft"] | None = None


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


def _run(
    data: str | None, changes: dict[str, Any], options: Options, display: Display, started: float
) -> Result | None:
    from vitrail.train import job
    from vitrail.train.loggers import open_logger

    if options.resume is not None:
        only_resumed(data, changes)
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

    own = {
        "balance": None if options.balance == "auto" else options.balance,
        "frozen_blocks": options.freeze,
        "lora.rank": options.lora,
        "distill.teacher": options.teacher,
        "distill.kind": options.distill,
    }
    return Wishes(**options.wishes(data, changes, **own), paper=options.paper)


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
    from vitrail.train.beside import best_other

    evaluation, split, there = result.outcome
    if json:
        print_json({"run": str(result.folder), "seconds": result.seconds, **result.outcome.to_dict()})
        return
    other = best_other(result.folder, result.outcome)
    out = console()
    shown = table(f"On {result.outcome.pictures} pictures of the {split} split", "", "")
    shown.show_header = False
    for name, value in evaluation.rows():
        shown.add_row(Text(name, style="dim"), value)
    out.print(shown)
    if there is not None:
        out.print(Text("drawn by chance, as many as there was time for; vitrail evaluate asks about all", style="dim"))
    if other is not None:
        out.print(Text(other.words(evaluation.interval)), soft_wrap=True)
    show_end(result.folder, result.seconds, f"vitrail predict {shlex.quote(str(result.folder))} PICTURE...")
