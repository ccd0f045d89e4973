"""`vitrail optimize MODEL DATA`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cyclopts import Parameter
from rich.text import Text

from vitrail.cli.answers import at_least_one
from vitrail.cli.evaluate import open_with_splits
from vitrail.cli.output import console, print_json, table
from vitrail.errors import ConfigError, FileError

if TYPE_CHECKING:
    from vitrail.data.examples import Examples
    from vitrail.deploy.candidates import Change
    from vitrail.deploy.optimize import Measured, Search
    from vitrail.train.progress import Display


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """What can be said about a search.

    Parameters
    ----------
    max_drop
        Points of accuracy that may be lost, of 100, as well as the pictures can tell.
    max_ms
        Milliseconds that one picture may take.
    target
        What to be best at: the time of one picture, pictures a second in batches, or the size of the file.
    minutes
        Time to search. What is begun is finished; what comes first is most likely to help.
    recover_minutes
        Also take out half of the hidden units, and train on for this long, with the original as the teacher.
    pictures
        Labelled pictures to measure accuracy on, spread evenly over the split.
    out
        The folder to write. Left out: the model's name with -optimized.
    overwrite
        Write into an existing folder.
    json
        Print one JSON document.
    """

    max_drop: float = 0.5
    max_ms: float | None = None
    target: Literal["latency", "throughput", "size"] = "latency"
    minutes: float = 10.0
    recover_minutes: float | None = None
    pictures: int = 1000
    out: Path | None = None
    overwrite: bool = False
    json: bool = False


PLAIN = Options()


def command(model: str, data: str, /, *, options: Options = PLAIN) -> None:
    """Find a smaller or faster model on this machine: other engines, int8, fewer pixels, larger patches, pruning.

    Every candidate is measured beside the original, then the winners together; validation pictures choose, test
    pictures report. Written: `model.onnx` with its certificate, `frontier.html` and `frontier.json`. After Ctrl-C, the
    best until then is written.

    Parameters
    ----------
    model
        A model file or folder in any known layout, a run, or hf-hub:owner/name.
    data
        Labelled pictures of the model's classes, as for `vitrail evaluate`.
    """
    from vitrail.deploy.keep import keep
    from vitrail.deploy.optimize import Wanted, search
    from vitrail.predict.examples import match_classes
    from vitrail.predict.predictor import load
    from vitrail.train.progress import Display

    at_least_one(pictures=options.pictures)
    folder = _folder(options.out or Path(f"{Path(model).stem or 'model'}-optimized"), options.overwrite)
    predictor = load(model)
    examples = match_classes(open_with_splits(model, data), predictor)
    choosing = next(name for name in ("val", "test", "train") if name in examples.splits)
    wanted = Wanted(options.max_drop, options.max_ms, options.target)
    pace: dict[str, Any] = {"split": choosing, "pictures": options.pictures, "seconds": 60 * options.minutes}
    with Display() as display:
        recover = _recovery(model, examples, choosing, options.recover_minutes, display)
        begin, tell = partial(_begin, display), _silent if options.json else _tell
        found = search(predictor, examples, wanted, **pace, recover=recover, begin=begin, tell=tell)
        display.end_stage()
    document = keep(found, predictor, examples, folder, name=model, choosing=choosing)
    if options.json:
        print_json(document)
    else:
        _show(found, document, folder)


def _folder(folder: Path, overwrite: bool) -> Path:
    if folder.exists() and not overwrite:
        raise FileError("is already there", where=folder, fix="choose another --out, or pass --overwrite")
    return folder


def _begin(display: Display, name: str, done: float) -> None:
    display.stage("searching", min(1.0, done), name)


def _recovery(model: str, examples: Examples, choosing: str, minutes: float | None, display: Display) -> Change | None:
    """How a pruned model is trained on, where that is asked for."""
    if minutes is None:
        return None
    from vitrail.deploy.recover import recovered
    from vitrail.train.settings import Budget

    if choosing == "train":
        fix = "give data with a val or test split, or leave --recover-minutes out"
        raise ConfigError("all pictures are for training, so none are left to choose by", fix=fix)
    return lambda small: recovered(small, model, examples, Budget(minutes=minutes), display)


def _silent(one: Measured) -> None:
    """A program waits for the whole document."""


def _tell(one: Measured) -> None:
    said = f"{one.ms:8.1f} ms {one.pictures_a_second:8.1f} pictures/s {100 * one.accuracy:6.2f} %  {one.name}"
    console().print(Text(said), soft_wrap=True)


def _show(found: Search, document: dict[str, Any], folder: Path) -> None:
    chosen = found.chosen
    figures = table("\nChosen", "", "", right=())
    figures.show_header = False
    rows = {
        "model": chosen.name,
        "time of a picture": f"{chosen.ms:.1f} ms, {chosen.faster:.2f} times as fast",
        "in batches": f"{chosen.pictures_a_second:.1f} pictures a second, {chosen.throughput:.2f} times as many",
        "file": f"{chosen.bytes / 2**20:.1f} MB",
        "points lost": f"about {chosen.drop:.2f}, judged on {document['choosing']['split']}",
    }
    if report := document["report"]:
        rows["on test"] = f"{100 * report['accuracy']:.1f} % right, the original {100 * report['original']:.1f} %"
    for name, value in rows.items():
        figures.add_row(Text(name, style="dim"), Text(value))
    console().print(figures)
    console().print(str(folder), markup=False, soft_wrap=True)
