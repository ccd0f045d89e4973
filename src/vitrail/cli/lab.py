"""`vitrail lab [CLAIM]`, `vitrail lab --all`, `vitrail lab --report`, `vitrail lab scale`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.text import Text

from vitrail.cli.output import console, print_json, table
from vitrail.errors import ConfigError

if TYPE_CHECKING:
    from vitrail.lab.here import Here
    from vitrail.lab.outcome import Outcome
    from vitrail.lab.scale import Scale

SCALE = Parameter(group="vitrail lab scale")


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """What can be said about a sitting in the lab.

    Parameters
    ----------
    all
        Run every claim; `--minutes` is for all together.
    report
        Write lab.html from what has been run.
    minutes
        About how long it may take, turned into steps once and kept. By default each claim has its own number of steps.
    seeds
        Runs of each setting.
    data
        Other data than the claim's: a name of `vitrail data`, or a path.
    jobs
        Processes that share the runs, one thread each.
    out
        The lab's folder.
    json
        Print one JSON document.
    model
        A model by name; by default L/16, or Ti/16 with `--here`.
    images
        Training pictures, such as 1.28M or 300M.
    epochs
        How often each is seen.
    hardware
        How many of what, such as 8xA100, 1xH100, 512xTPUv3.
    utilisation
        The share of its peak that the hardware reaches; by default as the paper's own runs, 0.38.
    here
        Measure this machine instead: matrix products, and one training step beside its prediction.
    """

    all: bool = False
    report: bool = False
    minutes: float | None = None
    seeds: int = 3
    data: str | None = None
    jobs: int = 1
    out: Path = Path("runs/lab")
    json: bool = False
    model: Annotated[str | None, SCALE] = None
    images: Annotated[str, SCALE] = "300M"
    epochs: Annotated[float, SCALE] = 7
    hardware: Annotated[str, SCALE] = "8xA100"
    utilisation: Annotated[float | None, SCALE] = None
    here: Annotated[bool, SCALE] = False


PLAIN = Options()


def command(claim: str | None = None, /, *, options: Options = PLAIN) -> None:
    """The paper's claims, one by one, at a scale that a small machine can run; without a claim, the list of them.

    A run that is done is never done again: an interrupted lab goes on where it was.

    Parameters
    ----------
    claim
        A claim of the list, or `scale`: what training a model of the paper takes.
    """
    if claim == "scale":
        _scale(options)
        return
    outcomes = _run(claim, options)
    if options.json:
        print_json([outcome.to_dict() for outcome in outcomes])
    elif claim is None and not options.report:
        _list(outcomes)
    else:
        _show(outcomes)
    if options.report and not options.json:
        console().print(Text(str(options.out / "lab.html")))


def _scale(asked: Options) -> None:
    from vitrail.lab.here import look_here
    from vitrail.lab.scale import scale

    found: Here | Scale
    if asked.here:
        found = look_here(asked.model or "Ti/16")
    else:
        found = scale(asked.model or "L/16", asked.images, asked.epochs, asked.hardware, asked.utilisation)
    if asked.json:
        print_json(found.to_dict())
        return
    for line in found.lines():
        console().print(Text(line))


def _run(name: str | None, asked: Options) -> list[Outcome]:
    """Run what was asked for, and read what there is."""
    from vitrail.lab.claims import all_claims, find
    from vitrail.lab.outcome import read_outcome

    if asked.jobs < 1 or (asked.minutes is not None and asked.minutes <= 0):
        raise ConfigError("--jobs and --minutes must be more than 0")
    chosen = [find(name)] if name is not None else all_claims()
    if name is not None or asked.all:
        from vitrail.lab import runner

        sitting = runner.Options(asked.out, asked.seeds, asked.minutes, asked.data, asked.jobs)
        runner.run_claims(chosen, sitting, _say)
    outcomes = [read_outcome(claim, asked.out) for claim in chosen]
    if asked.report:
        from vitrail.lab.page import write_page

        write_page(asked.out, outcomes)
    return outcomes


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _list(outcomes: Sequence[Outcome]) -> None:
    rows = table("Claims", "claim", "says", "core-minutes", "verdict", right=("core-minutes",))
    for outcome in outcomes:
        claim = outcome.claim
        rows.add_row(claim.name, Text(claim.title), f"{claim.minutes:.0f}", outcome.verdict.word)
    console().print(rows)
    total = sum(outcome.claim.minutes for outcome in outcomes)
    console().print(f"vitrail lab CLAIM runs one, vitrail lab --all everything: {total / 60:.1f} hours of one core.")


def _show(outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        console().print(Text(f"{outcome.claim.name}: {outcome.verdict.word}", style="bold"))
        for finding in outcome.verdict.findings:
            console().print(Text(f"  {finding}"))
        if outcome.figure is not None:
            console().print(Text(f"  {outcome.figure}"))
