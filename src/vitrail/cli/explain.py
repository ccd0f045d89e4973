"""`vitrail explain MODEL IMAGES...`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from cyclopts import Parameter
from rich.text import Text

from vitrail.cli.answers import TASK, Complaints, counting
from vitrail.cli.output import console, print_json, table
from vitrail.errors import EXIT_BAD_INPUT, EXIT_OK, ConfigError, FileError, ImageError

if TYPE_CHECKING:
    from vitrail.explain.study import Examiner, Rank, Study
    from vitrail.predict.predictor import Predictor

    Done = tuple[Study, list[str]]  # and the files written for it

PAGE, CONTACT_SHEET = "explain.html", "contact-sheet.png"


class Written(NamedTuple):
    """The files about all pictures together."""

    page: str
    contact_sheet: str | None


def command(
    model: str,
    /,
    *images: str,
    method: str = "attribution",
    class_: Annotated[str | None, Parameter(name="--class")] = None,
    out: Path = Path("explained"),
    overwrite: bool = False,
    compare: bool = False,
    all_heads: bool = False,
    trust: bool = True,
    json: bool = False,
) -> int:
    """Show which parts of pictures a model's answers come from, and whether that can be trusted.

    For each picture a PNG; for all of them a contact sheet, and one page where layers, heads and methods can be chosen
    and each patch asked what it attends to. Every map is tried: where the answer does not depend on what is hot in it
    more than on what is hot in a random map, it says so.

    Parameters
    ----------
    model
        A model file or folder in any known layout, a run, or hf-hub:owner/name.
    images
        Files, folders and 'patterns'. Bad pictures are named, and the rest is done.
    method
        attribution, gradient-rollout, rollout, attention, gradcam, occlusion, or all.
    class_
        Explain this class instead of the most probable one.
    out
        The folder to write to.
    overwrite
        Write into a folder that has files already.
    compare
        Rank all methods by how faithful their maps are for this model, over these pictures.
    all_heads
        Also a second PNG for each picture: what each head of each layer attends to.
    trust
        Try the maps. That is most of the work; without it, nothing is said about how good they are.
    json
        Print one JSON document.
    """
    _check(images, out, overwrite, compare, trust)
    from vitrail.predict.predictor import load

    predictor, complaints = load(model), Complaints()
    examiner = _examiner(predictor, "all" if compare else method, class_, trust)
    done = list(_explain(examiner, images, out, all_heads, complaints))
    if done:
        written = Written(_write_page(done, predictor, out / PAGE), _write_contact_sheet(done, predictor, out))
        _give(done, written, compare, predictor.notes, json)
    if complaints.count:
        print(f"vitrail: {len(done):,} explained, {complaints.count:,} could not be read", file=sys.stderr)
    return EXIT_OK if done else EXIT_BAD_INPUT


def _examiner(predictor: Predictor, method: str, target: str | None, trust: bool) -> Examiner:
    from vitrail.explain.methods import method_for, methods_for
    from vitrail.explain.study import Examiner

    methods = methods_for(predictor.model) if method == "all" else [method]
    method_for(predictor.model, methods[0])  # it may not be one, or not for this model
    return Examiner(predictor, methods, target, trust=trust)


def _explain(
    examiner: Examiner, images: tuple[str, ...], out: Path, all_heads: bool, complaints: Complaints
) -> Iterator[Done]:
    """Picture by picture; those that cannot be read are told and left out."""
    from vitrail.predict.find import find_pictures

    _make(out)
    with counting() as progress:
        for number, name in enumerate(find_pictures(images, complaints), 1):
            try:
                study = examiner.study(name, examiner.predictor.read(name))
            except ImageError as error:
                complaints(error)
                continue
            yield study, _write(study, out / f"{number:03d}-{_stem(name)}", examiner.predictor, all_heads)
            progress.advance(TASK)


def _check(images: tuple[str, ...], out: Path, overwrite: bool, compare: bool, trust: bool) -> None:
    if not images:
        raise ConfigError("no pictures given", fix="give files, folders or 'patterns' in quotes")
    for word in images:
        if word.startswith("-"):
            raise ConfigError(f"there is no option {word}", fix=f"write ./{word} if it is a file")
    if compare and not trust:
        raise ConfigError("--compare ranks by trust, which --no-trust leaves out", fix="leave out one of them")
    if out.is_file():
        raise FileError("is a file", where=out, fix="name a folder with --out")
    if out.is_dir() and any(out.iterdir()) and not overwrite:
        raise FileError("has files already", where=out, fix="name another folder with --out, or pass --overwrite")


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot be made ({error.strerror})", where=folder, fix="name another with --out") from error


def _stem(name: str) -> str:
    """What is plain in a file's name; two of the same name are told apart by their numbers."""
    return "".join(c if c.isalnum() or c in "-_" else "-" for c in Path(name).stem)[:60]


def _write(study: Study, path: Path, predictor: Predictor, all_heads: bool) -> list[str]:
    """The PNG files of one picture."""
    from vitrail.explain.attention import heads
    from vitrail.explain.methods import as_input, evaluating
    from vitrail.explain.plots import write_heads, write_overlay
    from vitrail.model import ViT

    written = []
    for found in study.findings:
        written.append(path.with_name(f"{path.name}-{found.explanation.method}.png"))
        write_overlay(written[-1], study, found)
    if all_heads and isinstance(predictor.model, ViT):
        written.append(path.with_name(f"{path.name}-heads.png"))
        with evaluating(predictor.model):
            seen = heads(predictor.model, as_input(predictor, study.pixels))[0].float().cpu().numpy()
        write_heads(written[-1], seen, f"{Path(study.name).name}: what each head reads")
    return [str(file) for file in written]


def _write_page(done: list[Done], predictor: Predictor, path: Path) -> str:
    from vitrail.explain.explain_page import page
    from vitrail.weights.durable import write_text

    write_text(path, page([study for study, _ in done], predictor))
    return str(path)


def _write_contact_sheet(done: list[Done], predictor: Predictor, out: Path) -> str | None:
    """One picture has its own PNG and needs no sheet."""
    from vitrail.explain.plots import write_contact_sheet

    if len(done) < 2:
        return None
    write_contact_sheet(out / CONTACT_SHEET, [study for study, _ in done], predictor.source)
    return str(out / CONTACT_SHEET)


def _give(done: list[Done], written: Written, compare: bool, notes: tuple[str, ...], as_json: bool) -> None:
    from vitrail.explain.study import ranking

    ranks = ranking([study for study, _ in done]) if compare else []
    if as_json:
        pictures = [{**study.to_dict(), "files": files} for study, files in done]
        ranked = {"ranking": [rank._asdict() for rank in ranks]} if compare else {}
        print_json({**written._asdict(), "notes": list(notes), "pictures": pictures, **ranked})
        return
    out = console()
    shown = table("", "picture", "class", "probability", "method", "score", "map", right=("probability", "score"))
    for study, _ in done:
        for explanation, trust in study.findings:
            tried = (f"{trust.score:+.2f}", trust.words) if trust else ("", "not tried")
            about = (Text(Path(study.name).name), Text(study.label), f"{100 * study.probability:.1f} %")
            shown.add_row(*about, explanation.method, *tried)
    out.print(shown)
    if compare:
        _show_ranking(ranks)
    for note in notes:
        out.print(Text(note, style="dim"))
    for file in filter(None, (written.contact_sheet, written.page)):
        out.print(Text(file), soft_wrap=True)


def _show_ranking(ranks: list[Rank]) -> None:
    order = table("\nMost faithful first", "method", "mean score", "better than random", right=("mean score",))
    for rank in ranks:
        order.add_row(rank.method, f"{rank.score:+.3f}", f"{rank.trusted} of {rank.pictures}")
    console().print(order)
