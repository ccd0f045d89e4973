"""`vitrail inspect MODEL`."""

from __future__ import annotations

import csv as csv_
import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.text import Text

from vitrail.cli.models import open_model
from vitrail.cli.output import console, millions, print_json, table, times

if TYPE_CHECKING:
    from vitrail.data.examples import Pictures, Pixels
    from vitrail.explain.internals import Internals
    from vitrail.model.cost import Part
    from vitrail.predict.predictor import Predictor
    from vitrail.weights.artefact import Artefact


def command(
    model: str,
    /,
    *,
    images: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative="", show_default=False)] = (),
    out: Path | None = None,
    csv: Path | None = None,
    overwrite: bool = False,
    check: bool = True,
    heads: int | None = None,
    json: bool = False,
) -> None:
    """What is in a model: its shape, parts, weights, classes and preprocessing, and whether it still answers as saved.

    Also what it looks like inside: filters and positions; with pictures also attention distance and entropy, tokens,
    and what it would say after each block.

    Parameters
    ----------
    model
        A model file or folder in any known layout, a run, hf-hub:owner/name, or the name of a model (`vitrail models`).
    images
        Pictures to look inside with: files and patterns, or one folder, table or known data set, of which 128 pictures
        are taken evenly.
    out
        Write a page with all figures to this file.
    csv
        Write the numbers to this folder, one CSV table each.
    overwrite
        Replace an existing page or tables.
    check
        Compare the golden answers stored in the file with the model's.
    heads
        The number of heads, where foreign weights cannot tell.
    json
        Print one JSON document.
    """
    from vitrail.explain.internals import look_inside, to_dict
    from vitrail.model.cost import cost_table
    from vitrail.predict.predictor import Predictor

    _check_targets(out, csv, overwrite)
    artefact = open_model(model, heads)
    parts, predictor = cost_table(artefact.model), Predictor.of(artefact)
    inside = look_inside(predictor, _pictures(images, predictor))
    found = {**_describe(artefact, parts, check), "inside": to_dict(inside, predictor.classes)}
    if out is not None:
        _write_page(out, found, parts, predictor, inside)
    if csv is not None:
        _write_tables(csv, parts, inside)
    if json:
        print_json(found)
        return
    _show(found)
    for written in filter(None, (out, csv)):
        console().print(str(written), markup=False)


def _check_targets(out: Path | None, csv: Path | None, overwrite: bool) -> None:
    """Before any work is done."""
    from vitrail.errors import FileError

    there = (out is not None and out.exists(), csv is not None and csv.is_dir() and any(csv.glob("*.csv")))
    for target, is_there in zip((out, csv), there, strict=True):
        if is_there and not overwrite:
            raise FileError("is already there", where=target, fix="choose another name, or pass --overwrite")


def _pictures(words: tuple[str, ...], predictor: Predictor) -> Iterator[tuple[str, Pixels]]:
    """Names and pixels as the model takes them. Those that cannot be read are told and left out."""
    from vitrail.cli.answers import Complaints
    from vitrail.data.prepare import draft_size
    from vitrail.errors import FileError, ImageError
    from vitrail.explain.internals import MOST_PICTURES

    if not words:
        return
    complaints, given = Complaints(), 0
    source, chosen = _source(words)
    for index in chosen[: 2 * MOST_PICTURES]:
        try:
            pixels = source.read(index, channels=predictor.channels, draft=draft_size(predictor.preprocessing))
            yield source.name(index), predictor.read(pixels)
            given += 1
        except ImageError as error:
            complaints(error)
    if not given:
        raise FileError("none of the pictures can be read", where=words[0], fix="give other pictures")


def _source(words: tuple[str, ...]) -> tuple[Pictures, list[int]]:
    """The pictures of a data set, evenly taken; or files, in the order given."""
    from vitrail.cli.answers import Complaints
    from vitrail.data.examples import FilePictures
    from vitrail.data.labels import PICTURE_SUFFIXES
    from vitrail.data.sources import open_data
    from vitrail.explain.internals import MOST_PICTURES
    from vitrail.predict.find import find_pictures

    if len(words) == 1 and Path(words[0]).suffix.lower() not in PICTURE_SUFFIXES:
        pictures = open_data(words[0], labelled=False).pictures
        step = max(1, len(pictures) // MOST_PICTURES)
        return pictures, list(range(0, len(pictures), step))
    found = FilePictures([Path(path) for path in find_pictures(words, Complaints())])
    return found, list(range(len(found)))


def _describe(artefact: Artefact, parts: list[Part], check: bool) -> dict[str, Any]:
    return {
        "source": artefact.source,
        "kind": type(artefact.model).__name__,
        "config": artefact.model.config.to_dict(),
        "parameters": parts[-1].parameters,
        "macs": parts[-1].macs,
        "parts": [part._asdict() for part in parts],
        "classes": artefact.classes,
        "preprocessing": artefact.preprocessing.to_dict() if artefact.preprocessing else None,
        "golden_difference": artefact.check() if check and artefact.golden else None,
    }


# ---- files --------------------------------------------------------------------------------------------------------


def _write_page(
    target: Path, found: dict[str, Any], parts: list[Part], predictor: Predictor, inside: Internals
) -> None:
    from vitrail.report.inspect_page import Inspected, page
    from vitrail.weights.durable import write_text

    shown = Inspected(
        kind=found["kind"],
        source=found["source"],
        facts=_facts(found),
        parts=parts,
        settings=found["config"],
        classes=predictor.classes,
        inside=inside,
    )
    write_text(target, page(shown))


def _write_tables(folder: Path, parts: list[Part], inside: Internals) -> None:
    from vitrail.errors import FileError
    from vitrail.explain.internals import to_tables
    from vitrail.weights.durable import write_text

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot be made ({error.strerror})", where=folder, fix="choose another folder") from error
    costs: list[list[Any]] = [["part", "weights", "multiply_adds"], *map(list, parts)]
    tables = {"parts": costs, **to_tables(inside)}
    for name, rows in tables.items():
        text = io.StringIO()
        csv_.writer(text, lineterminator="\n").writerows(rows)
        write_text(folder / f"{name}.csv", text.getvalue())


# ---- the terminal -------------------------------------------------------------------------------------------------


def _show(found: dict[str, Any]) -> None:
    config = found["config"]
    out = console()
    out.print(Text(f"{found['kind']}  {found['source']}", style="bold"))
    facts = table("", "", "")
    facts.show_header = False
    for name, value in _facts(found).items():
        facts.add_row(Text(name, style="dim"), Text(value))
    out.print(facts)
    parts = table("Parts", "part", "weights", "M multiply-adds", right=("weights", "M multiply-adds"))
    for part in found["parts"]:
        parts.add_row(part["name"], f"{part['parameters']:,}", f"{part['macs'] / 1e6:,.1f}")
    out.print(parts)
    settings = table("Settings", "setting", "value")
    for name, value in config.items():
        settings.add_row(name, Text(str(value)))
    out.print(settings)
    _show_inside(found["inside"])


def _show_inside(inside: dict[str, Any]) -> None:
    out = console()
    columns = ("block", "distance", "least", "most", "entropy", "alike", "norm", "largest", "answer", "same")
    if inside["blocks"]:
        title = f"Inside, over {inside['pictures']} pictures (distances in pixels, entropy in bits)"
        blocks = table(title, *columns, right=columns)
        for row in inside["blocks"]:
            blocks.add_row(*_block_cells(row))
        out.print(blocks)
    for note in inside["notes"]:
        out.print(Text(note, style="dim"))


def _block_cells(row: dict[str, Any]) -> list[str]:
    distance, plain = row["distance"], (row["similarity"], row["norm"], row["largest_norm"])
    figures = [distance["mean"], distance["least"], distance["most"], row["entropy"]["mean"]]
    shown = [f"{value:.1f}" for value in figures]
    shown += ["" if value is None else f"{value:.2f}" for value in plain]
    shown += ["" if value is None else f"{100 * value:.0f} %" for value in (row["answer"], row["agreement"])]
    return [str(row["block"]), *shown]


def _facts(found: dict[str, Any]) -> dict[str, str]:
    config, classes, steps = found["config"], found["classes"], found["preprocessing"]
    facts = {
        "weights": f"{millions(found['parameters'])} ({found['parameters']:,})",
        "multiply-adds": f"{found['macs'] / 1e9:.2f} G a picture",
        "input": f"{config['channels']} x {times(config['image_size'])}",
        "classes": _listed(classes) if classes else f"{config['num_classes']} without names",
        "preprocessing": f"mean {steps['mean']}, std {steps['std']}, crop {steps['crop']}" if steps else "not stored",
    }
    if (positions := found["inside"]["positions"]) is not None and positions["neighbours"] is not None:
        further = [f"{n} steps {positions['by_steps'][n - 1]:.2f}" for n in (2, 4) if n <= len(positions["by_steps"])]
        alike = [f"neighbours {positions['neighbours']:.2f}", *further, f"far apart {positions['far']:.2f}"]
        facts["positions alike"] = f"{', '.join(alike)} (cosine)"
    if found["golden_difference"] is not None:
        facts["golden answers"] = f"hold (largest difference {found['golden_difference']:.1e})"
    return facts


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:8])
    return f"{len(names)}: {shown}" + (" ..." if len(names) > 8 else "")
