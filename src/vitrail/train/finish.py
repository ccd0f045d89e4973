"""The end of a run: the best weights calibrated, evaluated, saved with all they need, and reported."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any, NamedTuple

from vitrail.data.catalog import CATALOG
from vitrail.data.examples import Pixels
from vitrail.data.prepare import draft_size
from vitrail.evaluate.calibration import calibrated, fit_temperature, fit_thresholds
from vitrail.evaluate.evaluation import Evaluation, evaluate_predictions
from vitrail.evaluate.unknown import fit_unknown
from vitrail.model import Model
from vitrail.predict.predictor import Predictor
from vitrail.report.facts import DataFacts, InsideFacts, RunFacts
from vitrail.report.look import gather_inside
from vitrail.report.report import write_report
from vitrail.train.run import EVALUATION, REPORT
from vitrail.train.session import Session
from vitrail.train.validate import Answers, answers
from vitrail.weights.artefact import Artefact
from vitrail.weights.durable import write_text
from vitrail.weights.load import load


class Outcome(NamedTuple):
    """What a run came to, on pictures that it was not trained on."""

    evaluation: Evaluation
    split: str
    there: int | None = None  # pictures of the split, where there was no time for all of them

    @property
    def pictures(self) -> str:
        """How many of them, and of how many where it was a part."""
        return f"{self.evaluation.count:,}" + ("" if self.there is None else f" of {self.there:,}")

    def to_dict(self) -> dict[str, Any]:
        there = self.there or self.evaluation.count
        return {"split": self.split, "pictures_in_split": there, **self.evaluation.to_dict()}


def artefact_of(session: Session, model: Model) -> Artefact:
    """The model with what belongs to it; calibration comes at the end."""
    return Artefact(
        model=model,
        classes=session.examples.classes,
        preprocessing=session.settings.image,
        multi_label=session.examples.multi_label,
        data_fingerprint=session.fingerprint,
    )


def finish(session: Session) -> Outcome:
    """Calibrate the best weights on the validation pictures, evaluate on the test pictures where there are any."""
    artefact = load(session.run.model)
    artefact.model.to(session.settings.device)
    held_back = session.best_told or _answers(session, artefact, "val")
    artefact = calibrate(artefact, held_back)
    split = "test" if "test" in session.examples.splits else "val"
    found = held_back if split == "val" else _answers(session, artefact, split)
    evaluation = evaluate_predictions(
        found.logits,
        found.targets,
        session.examples.classes,
        artefact.temperature or 1.0,
        artefact.unknown_below,
        thresholds=artefact.thresholds,
    )
    artefact.save(session.run.model)
    there = len(session.examples.split(split))
    outcome = Outcome(evaluation, split, there if session.how_many(split) < there else None)
    write_text(session.run.folder / EVALUATION, json.dumps(outcome.to_dict(), indent=1))
    session.run.write_results()
    write_report(session.run.folder / REPORT, _facts(session, artefact, outcome, found))
    return outcome


def _answers(session: Session, artefact: Artefact, split: str) -> Answers:
    batches = session.shown(session.asked(split), f"evaluating on {split}")
    return answers(artefact.model, batches, session.settings.device)


def calibrate(artefact: Artefact, held_back: Answers) -> Artefact:
    """Temperature, and when to say 'unknown' or give a label, from pictures that did not train the weights."""
    logits, targets = held_back.logits, held_back.targets
    temperature = fit_temperature(logits, targets)
    said = calibrated(logits, temperature, multi_label=artefact.multi_label)
    if artefact.multi_label:
        artefact.thresholds = tuple(fit_thresholds(said, targets).tolist())
    else:
        artefact.unknown_below = fit_unknown(said, targets)
    artefact.temperature = temperature
    return artefact


def _facts(session: Session, artefact: Artefact, outcome: Outcome, found: Answers) -> RunFacts:
    examples, folder = session.examples, session.run.folder
    sizes = f"about {session.typical_size[0]} × {session.typical_size[1]} pixels"
    return RunFacts(
        title=folder.name,
        summary="",
        metrics=session.run.metrics(),
        evaluation=outcome.evaluation,
        split=outcome.split,
        there=outcome.there,
        probabilities=calibrated(found.logits, artefact.temperature or 1.0, multi_label=artefact.multi_label),
        targets=found.targets,
        classes=examples.classes,
        names=[examples.pictures.name(int(index)) for index in found.indices],
        picture=lambda n: examples.pictures.read(int(found.indices[n]), draft=(240, 240)),
        data=DataFacts.of(examples, sizes=sizes, channels=session.channels),
        config=session.settings.to_dict(),
        reasons=session.reasons,
        commands=commands(session),
        inside=_inside(session, artefact, found),
    )


def _inside(session: Session, artefact: Artefact, found: Answers) -> InsideFacts:
    predictor, pictures = Predictor.of(artefact), session.examples.pictures
    size = draft_size(predictor.preprocessing)

    def read(n: int) -> Pixels:
        return predictor.read(pictures.read(int(found.indices[n]), channels=predictor.channels, draft=size))

    names = [pictures.name(int(index)) for index in found.indices]
    said = predictor.decision.probabilities(found.logits)
    return gather_inside(predictor, read, names, said, found.targets)


def commands(session: Session) -> list[tuple[str, str]]:
    """What to type next."""
    folder, data = shlex.quote(str(session.run.folder)), session.settings.data
    found = [("Predict", f"vitrail predict {folder} PICTURE..."), ("Look inside", f"vitrail inspect {folder}")]
    if Path(data).exists() or data in CATALOG:  # arrays given in Python have no name that a command could take
        found.append(("Evaluate", f"vitrail evaluate {folder} {shlex.quote(data)}"))
        found.append(("Train on", f"vitrail train {shlex.quote(data)} --from {folder} --minutes 20"))
    return found
