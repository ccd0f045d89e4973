"""Writing what a search found: the chosen file with its certificate, and the page and numbers of all that was tried."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from vitrail.data.examples import Examples
from vitrail.deploy.export import put_in_place
from vitrail.deploy.frontier import page
from vitrail.deploy.optimize import Search, frontier
from vitrail.deploy.parity import BATCHES, Certificate, compare, in_batches
from vitrail.deploy.sample import read_some
from vitrail.errors import FileError, ImageError
from vitrail.evaluate.evaluation import Evaluation
from vitrail.predict.engines import OnnxEngine
from vitrail.predict.examples import ask_examples, evaluation_of
from vitrail.predict.predictor import Predictor
from vitrail.weights.durable import write_text

COMPARED = 64  # pictures of the user's in the certificate


def keep(
    found: Search, predictor: Predictor, examples: Examples, folder: Path, *, name: str, choosing: str
) -> dict[str, Any]:
    """Fill `folder`: model.onnx, its certificate, frontier.json and frontier.html. The document, as it is in JSON."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot be made: {error.strerror}", where=folder, fix="choose another --out") from error
    report = None
    with tempfile.TemporaryDirectory(prefix=".vitrail-", dir=folder) as workshop:
        draft = Path(workshop) / "model.onnx"
        draft.write_bytes(found.content)
        made = Predictor.of_exported(OnnxEngine.open(draft))
        if choosing == "val" and "test" in examples.splits:
            report = {"split": "test", **_reported(predictor, made, examples)}
        certificate = _compare(found, predictor, made, examples, name, choosing)
        put_in_place(draft, folder / "model.onnx", certificate)
    document: dict[str, Any] = {
        "model": name,
        "choosing": {"split": choosing, "pictures": len(examples.split(choosing))},
        "chosen": found.chosen.to_dict(),
        "report": report,
        "measured": [one.to_dict() for one in found.measured],
        "frontier": [one.name for one in frontier(found.measured)],
        "failed": found.failed,
        "processors": os.cpu_count(),
    }
    write_text(folder / "frontier.json", json.dumps(document, indent=1) + "\n")
    write_text(folder / "frontier.html", page(Path(name).name, found, _sentences(document)))
    return document


def _reported(original: Predictor, made: Predictor, examples: Examples) -> dict[str, Any]:
    """Both on the test pictures, which chose nothing."""
    before, after = (_evaluate(predictor, examples) for predictor in (original, made))
    return {
        "accuracy": after.accuracy,
        "interval": after.interval,
        "original": before.accuracy,
        "pictures": after.count,
    }


def _evaluate(predictor: Predictor, examples: Examples) -> Evaluation:
    def pass_over(_: ImageError) -> None:
        """Left out for both alike."""

    return evaluation_of(predictor, ask_examples(predictor, examples, "test", pass_over, lambda: None))


def _compare(
    found: Search, original: Predictor, made: Predictor, examples: Examples, name: str, choosing: str
) -> Certificate:
    """Answers beside the original's: equal where that is promised, otherwise written down as they are."""
    exact = found.candidate.exact
    wanted, given = (
        in_batches(predictor.engine, read_some(predictor, examples, examples.split(choosing), COMPARED), BATCHES)
        for predictor in (original, made)
    )
    lost = f"{found.chosen.name}: about {found.chosen.drop:.2f} points of accuracy lost, judged on {choosing}"
    return compare(
        wanted,
        given,
        source=name,
        target="model.onnx",
        engine=made.engine.name,
        batches=BATCHES,
        own_pictures=len(wanted),
        exact=exact,
        notes=() if exact else (lost,),
    )


def _sentences(document: dict[str, Any]) -> list[str]:
    choosing = document["choosing"]
    said = [
        f"Accuracy is of up to {choosing['pictures']:,} pictures of the split {choosing['split']}, which chose.",
        "Points lost are judged by the labels and by how likely the original finds what else a candidate says.",
    ]
    if report := document["report"]:
        said.append(
            f"On {report['pictures']:,} test pictures, which chose nothing, {report['accuracy']:.1%} are right; "
            f"with the original {report['original']:.1%}."
        )
    said.append(f"Times are medians, taken in turns with the original, on {document['processors']} processors.")
    return said
