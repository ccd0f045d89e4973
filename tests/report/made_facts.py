"""Facts of runs that could be real: scikit-learn's digits with a linear model, made-up classes and labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from vitrail.evaluate.calibration import calibrated, fit_temperature
from vitrail.evaluate.evaluation import evaluate_predictions
from vitrail.evaluate.unknown import fit_unknown
from vitrail.report.facts import DataFacts, RunFacts

COMMANDS = (
    ("Predict", "vitrail predict runs/digits photo.jpg"),
    ("Evaluate", "vitrail evaluate runs/digits digits --split test"),
    ("Serve", "vitrail serve runs/digits"),
    ("Train on", "vitrail train --resume runs/digits"),
)
CONFIG = {
    "data": "digits",
    "model": {"kind": "vit", "image_size": (8, 8), "patch_size": (2, 2), "dim": 64, "depth": 6, "heads": 4},
    "optim": {"lr": 0.002, "betas": [0.9, 0.95], "schedule": "linear"},
    "budget": {"minutes": 4.0, "epochs": None},
    "batch_size": 256,
    "any_size": False,
}
REASONS = {
    "model": "64 wide and 6 deep: the largest that sees the data ten times in 4 minutes on this machine",
    "optim.lr": "0.002 at a batch of 256, what worked best on small pictures trained from nothing",
}

EVIL = '"><script>alert(1)</script><img src=x onerror=alert(2)>'


@cache
def digits(**changes: Any) -> RunFacts:
    """Ten classes, 8 x 8 grey pictures, about 80 of 100 right."""
    source = load_digits()
    pixels = (source.data.reshape(-1, 8, 8, 1) * 15.9).astype(np.uint8)
    noise = np.random.default_rng(0).normal(0, 4, source.data.shape)
    model = LogisticRegression(max_iter=60, C=0.5, tol=0.1).fit((source.data + noise)[:400], source.target[:400])
    logits = model.decision_function((source.data + noise)[400:]) * 1.7
    facts = from_logits(logits, source.target[400:], [f"digit {name}" for name in "0123456789"])
    return replace(
        facts,
        title="digits",
        picture=lambda n: pixels[400 + n],
        names=[f"digits/{digit}/{n:04}.png" for n, digit in enumerate(source.target[400:])],
        **changes,
    )


def from_logits(logits: np.ndarray, targets: np.ndarray, classes: Sequence[str], split: str = "test") -> RunFacts:
    """Facts around any answers; the pictures are plain grey."""
    temperature = fit_temperature(logits, targets)
    probabilities = calibrated(logits, temperature, multi_label=targets.ndim == 2)
    unknown = fit_unknown(probabilities, targets) if targets.ndim == 1 else None
    counts = np.bincount(targets, minlength=len(classes)) if targets.ndim == 1 else targets.sum(axis=0)
    return RunFacts(
        title="a run",
        summary="A small Vision Transformer, trained from nothing in 4 minutes on two cores.",
        metrics=metrics(),
        evaluation=evaluate_predictions(logits, targets, classes, temperature, unknown),
        split=split,
        probabilities=probabilities,
        targets=targets,
        classes=tuple(classes),
        names=[f"picture {n}.jpg" for n in range(len(targets))],
        picture=lambda n: np.full((28, 28, 1), n % 256, np.uint8),
        data=DataFacts(
            name="digits",
            pictures={"train": 5 * len(targets), split: len(targets)},
            counts={"train": (5 * counts).tolist(), split: counts.tolist()},
            sizes="8 × 8 pixels",
            channels=1,
            left_out=[("digits/3/broken.png", "the file is empty; copy or download it again, or leave it out")],
            notes=["a tenth of the training pictures was taken for validation"],
        ),
        config=CONFIG,
        reasons=REASONS,
        commands=COMMANDS,
    )


def metrics(steps: int = 2000, every: int = 5) -> list[dict[str, Any]]:
    """Curves as a run writes them: falling loss with noise, rising accuracy, a warm-up, a probe."""
    noise = np.random.default_rng(1).normal(0, 0.08, steps + 1)
    rows: list[dict[str, Any]] = [{"kind": "probe", "accuracy": 0.71, "seconds": 3.1}]
    for step in range(every, steps + 1, every):
        progress = step / steps
        common = {"step": step, "epoch": 12 * progress, "progress": progress, "seconds": 240 * progress}
        loss = 0.25 + 2.0 * np.exp(-6 * progress)
        rate = 0.002 * min(progress / 0.05, (1 - progress) / 0.95)
        speed = {"images_per_second": 5400.0, "waiting": 0.01}
        rows.append({"kind": "train", **common, "loss": loss + noise[step] * loss, "lr": rate, **speed})
        if step % (steps // 10) == 0:
            accuracy = 0.94 - 0.6 * np.exp(-5 * progress)
            shares = {"accuracy": accuracy, "balanced_accuracy": accuracy - 0.02}
            rows.append({"kind": "val", **common, "loss": loss + 0.05 + 0.1 * progress**4, **shares})
    return rows


def many_classes(classes: int, pictures: int = 2000, seed: int = 0) -> RunFacts:
    """Answers that are mostly right, with a few favourite mistakes."""
    generator = np.random.default_rng(seed)
    targets = generator.integers(0, classes, pictures)
    logits = generator.normal(0, 1, (pictures, classes))
    logits[np.arange(pictures), targets] += 4
    logits[np.arange(pictures), (targets * 7 + 3) % classes] += 2.5
    return from_logits(logits, targets, [f"class {k}" for k in range(classes)])


def several_labels(classes: int = 6, pictures: int = 300) -> RunFacts:
    generator = np.random.default_rng(0)
    targets = generator.integers(0, 2, (pictures, classes))
    return from_logits(
        generator.normal(0, 1.5, targets.shape) + 4 * targets - 2, targets, [f"label {k}" for k in range(classes)]
    )


def hostile() -> RunFacts:
    """Everything that comes from outside tries to be markup."""
    facts = digits()
    return replace(
        facts,
        title=EVIL,
        summary=EVIL,
        classes=tuple(f"{EVIL}{k}" for k in range(10)),
        evaluation=replace(
            facts.evaluation,
            classes=tuple(replace(c, name=f"{EVIL}{k}") for k, c in enumerate(facts.evaluation.classes)),
        ),
        names=[f"a/{EVIL}\x1b[2J\udcff{n}" for n in range(len(facts.names))],
        data=replace(facts.data, name=EVIL, left_out=[(EVIL, EVIL)], notes=[EVIL], sizes=EVIL),
        config={EVIL: EVIL, "a": {EVIL: [EVIL]}},
        reasons={EVIL: EVIL},
        commands=[(EVIL, EVIL)],
        split=EVIL,
    )
