"""`vitrail doctor DATA`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from vitrail.cli.answers import at_least_one, counting
from vitrail.cli.output import console, print_json, table
from vitrail.errors import EXIT_CHECK_FAILED, EXIT_OK, FileError, VitrailError, one_line

if TYPE_CHECKING:
    from vitrail.data.doctor_parts import Diagnosis, Finding
    from vitrail.data.examples import Examples

STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}
NAMED = 3  # pictures, sets or lines of a finding


def command(
    data: str,
    /,
    *,
    model: str | None = None,
    quick: bool = False,
    html: Path | None = None,
    overwrite: bool = False,
    strict: bool = False,
    json: bool = False,
    threads: int = 2,
) -> int:
    """What is wrong with a set of pictures, worst first, and what to do about it. It only looks: no file is changed.

    Unreadable, odd and blank pictures; copies and near copies, above all across splits and classes; empty, small and
    uneven classes; names that tell of torn series; with a model, labels that are likely wrong. Near copies are the same
    picture saved again, resized, brighter, darker or slightly cropped, and shots of one scene that hardly differ.

    The exit code is 0 whatever is found, unless --strict is given.

    Parameters
    ----------
    data
        A folder with a folder for each class, a CSV or Parquet table, tar shards, arrays, or a known name.
    model
        Also look for wrong labels, with the features of this model: a run, a model file or folder, hf-hub:owner/name.
    quick
        Only what can be told without opening the pictures.
    html
        Write one self-contained page with the pictures side by side to this file.
    overwrite
        Replace an existing page.
    strict
        Exit with 1 if there are errors or warnings.
    json
        Print one JSON document.
    threads
        Threads that read pictures.
    """
    at_least_one(threads=threads)
    if html is not None and html.exists() and not overwrite:
        raise FileError("is already there", where=html, fix="choose another name, or pass --overwrite")
    diagnosis = _examine(data, model, quick, threads)
    if html is not None:
        _write_page(diagnosis, html)
    if json:
        print_json(diagnosis.to_dict())
    else:
        _show(diagnosis, console(), told_labels=model is not None, page=html)
    return EXIT_CHECK_FAILED if strict and diagnosis.worst in ("error", "warning") else EXIT_OK


def _examine(data: str, model: str | None, quick: bool, threads: int) -> Diagnosis:
    from vitrail.data.doctor import examine

    examples, faults = _open(data)
    with counting(len(examples), hidden=quick) as progress:
        task = progress.task_ids[0]
        diagnosis = examine(
            examples, quick=quick, threads=threads, progress=lambda done, _: progress.update(task, completed=done)
        )
    diagnosis = diagnosis.also(*faults)
    return diagnosis if model is None or faults else diagnosis.also(*_suspects(examples, model, threads))


def _open(data: str) -> tuple[Examples, list[Finding]]:
    """The set; where training would refuse it, its pictures without labels, and why."""
    from vitrail.data.doctor_parts import Finding
    from vitrail.data.sources import open_data

    try:
        return open_data(data), []
    except VitrailError as error:
        try:
            pictures = open_data(data, labelled=False, val=0.0)
        except VitrailError:
            raise error from None  # not even its pictures can be found
        where = "" if str(error.where) in ("None", data) else f"{error.where}: "
        what = f"training would refuse this set, and labels could not be examined: {where}{error.what}"
        return pictures, [Finding("refused", "error", what, error.fix or "correct it and try again")]


def _suspects(examples: Examples, model: str, threads: int) -> list[Finding]:
    from vitrail.predict.predictor import load
    from vitrail.predict.suspects import suspect_labels

    with counting(len(examples)) as progress:
        return suspect_labels(
            examples, load(model), threads=threads, advance=lambda: progress.advance(progress.task_ids[0])
        )


def _write_page(diagnosis: Diagnosis, target: Path) -> None:
    from vitrail.report.doctor_page import page
    from vitrail.weights.durable import write_text

    write_text(target, page(diagnosis))


def _show(diagnosis: Diagnosis, out: Console, *, told_labels: bool, page: Path | None) -> None:
    examples = diagnosis.examples
    splits = ", ".join(f"{len(indices):,} {split}" for split, indices in examples.splits.items())
    out.print(Text(one_line(diagnosis.name), style="bold"), soft_wrap=True)
    out.print(f"{len(examples):,} pictures ({splits}), {len(examples.classes):,} classes")
    for note in examples.notes:
        out.print(Text(one_line(note), style="dim"))
    shown = table("", "", "")
    shown.show_header = False
    for finding in diagnosis.findings:
        shown.add_row(Text(finding.severity, style=STYLES[finding.severity]), _words(finding, examples))
    out.print(shown if diagnosis.findings else Text("\nNothing wrong was found.", style="green"))
    if not told_labels and examples.classes:
        out.print(Text("\nLabels that are likely wrong are found with --model RUN.", style="dim"))
    if page is not None:
        out.print(Text(f"\n{page}"), soft_wrap=True)


def _words(finding: Finding, examples: Examples) -> Text:
    words = Text(one_line(finding.what))
    words.append(f"\n{finding.fix}", style="italic")
    lines = _lines(finding, examples)
    for line in lines[:NAMED]:
        words.append(f"\n  {one_line(line)}", style="dim")
    if len(lines) > NAMED:
        words.append(f"\n  and {len(lines) - NAMED:,} more", style="dim")
    return words


def _lines(finding: Finding, examples: Examples) -> list[str]:
    """What stands for a finding's pictures: sets of copies, names with what is said of each, or the details alone."""

    def name(index: int) -> str:
        return examples.pictures.name(index).removeprefix(f"{examples.name}/")

    if finding.groups:
        alike = "  ~  " if finding.kind.startswith("near") else "  =  "
        return [alike.join(name(index) for index in group[:NAMED]) for group in finding.groups]
    if finding.kind == "unreadable" or not finding.indices:
        return list(finding.details)
    said = [f": {detail}" for detail in finding.details] or [""] * len(finding.indices)
    return [name(index) + words for index, words in zip(finding.indices, said, strict=True)]
