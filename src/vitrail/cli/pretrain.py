"""`vitrail pretrain DATA`."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from vitrail.cli import train as training
from vitrail.cli.output import console, print_json, show_end, table
from vitrail.cli.processes import in_processes
from vitrail.cli.run_options import RunOptions, only_resumed, parsed
from vitrail.errors import EXIT_INTERRUPTED, ConfigError

if TYPE_CHECKING:
    from vitrail.train.pretraining import Pretrained, Wishes
    from vitrail.train.progress import Display
    from vitrail.train.session import Plan


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Options(RunOptions):
    """What can be asked for; the rest is chosen.

    Parameters
    ----------
    method
        mae hides three quarters of the patches and rebuilds them; simmim hides squares; masked-patches is the ViT
        paper's own; dino compares views; supervised is `vitrail train`. mae if not given.
    labels
        Read the labels there are, to measure with; no method but supervised learns from them.
    """

    method: Literal["masked-patches", "mae", "simmim", "dino", "supervised"] | None = None
    labels: bool = True


PLAIN = Options()


def command(data: str | None = None, /, *changes: str, options: Options = PLAIN) -> int | None:
    """From pictures without labels to an encoder that `vitrail train --from` starts from.

    Settings that have no option here are given by their names in config.yaml: `method.mask=0.6` or `optim.lr=0.001`.

    Parameters
    ----------
    data
        A folder of pictures, in class folders or not, or any other data that `vitrail train` takes.
    changes
        Settings by name: key=value.
    """
    if options.method == "supervised":
        return _supervised(data, changes, options)
    started = time.monotonic()
    if (code := in_processes(options.nproc, alone=options.dry_run)) is not None:
        return code
    from vitrail.train import pretraining
    from vitrail.train.distributed import joined
    from vitrail.train.loop import Interrupted
    from vitrail.train.progress import Display

    with joined() as world, Display(None if world.first else Console(quiet=True)) as display:
        try:
            if not world.first:
                pretraining.follow_first(display, started=started)
                return None
            result = _run(data, parsed(changes), options, display, started)
        except Interrupted as interrupted:
            display.said(f"interrupted; everything is saved. Go on with: vitrail pretrain --resume {interrupted}")
            return EXIT_INTERRUPTED
    if result is not None:
        _show(result, options.json)
    return None


def _supervised(data: str | None, changes: tuple[str, ...], options: Options) -> int | None:
    """The ordinary training job, asked for by the same words."""
    if not options.labels:
        raise ConfigError("the method supervised learns from labels", fix="leave out --no-labels, or use --method mae")
    shared = {name: value for name, value in vars(options).items() if name not in ("method", "labels")}
    return training.command(data, *changes, options=training.Options(**shared))


def _run(
    data: str | None, changes: dict[str, Any], options: Options, display: Display, started: float
) -> Pretrained | None:
    from vitrail.train import pretraining
    from vitrail.train.loggers import open_logger

    if options.resume is not None:
        only_resumed(data, changes)
        return pretraining.resume(options.resume, display, started=started, logger=open_logger(options.log))
    planned = pretraining.plan(_wishes(data, changes, options))
    _show_plan(planned, display)
    if options.dry_run:
        display.said(pretraining.rehearse(planned, display))
        return None
    return pretraining.pretrain(
        planned, options.out, display, started=started, overwrite=options.overwrite, logger=open_logger(options.log)
    )


def _wishes(data: str | None, changes: dict[str, Any], options: Options) -> Wishes:
    from vitrail.train.pretraining import Wishes

    method = options.method or ("mae" if options.config is None else None)
    return Wishes(**options.wishes(data, changes), method=method, labels=options.labels)


def _show_plan(planned: Plan, display: Display) -> None:
    """What was found and chosen, before anything happens."""
    examples = planned.examples
    counts = ", ".join(f"{len(indices):,} {split}" for split, indices in examples.splits.items())
    known = f"labels of {len(examples.classes)} classes to measure with" if examples.classes else "no labels"
    display.said(f"{examples.name}: {counts} pictures; {known}")
    for note in examples.notes:
        display.said(f"  {note}")
    for name, value, why in planned.settings.summary(planned.reasons):
        display.said(f"  {name:<12}{value}" + (f"  ({why})" if why else ""))


def _show(result: Pretrained, json: bool) -> None:
    if json:
        print_json(
            {
                "run": str(result.folder),
                "method": result.method,
                "split": "val",
                "seconds": result.seconds,
                **result.figures,
                "yardstick": result.yardstick,
            }
        )
        return
    out = console()
    shown = table(f"The encoder, pre-trained by {result.method}", "", "")
    shown.show_header = False
    for name, value in _rows(result):
        shown.add_row(Text(name, style="dim"), value)
    out.print(shown)
    data, folder = shlex.quote(result.data), shlex.quote(str(result.folder))
    show_end(result.folder, result.seconds, f"vitrail train {data} --from {folder} --minutes 20")


def _rows(result: Pretrained) -> list[tuple[str, str]]:
    words = {"knn": "told by nearest neighbours", "few_shot": "told with ten labels a class"}
    rows = [(said, f"{result.figures[name]:.2%}") for name, said in words.items() if name in result.figures]
    against = "" if result.yardstick is None else f" (always the mean answer: {result.yardstick:.4f})"
    return [*rows, ("validation loss", f"{result.figures['loss']:.4f}{against}")]
