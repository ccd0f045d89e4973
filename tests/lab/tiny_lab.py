"""A lab small enough for tests: made-up pictures in a file, a claim of two arms and a few steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from vitrail.lab.claim import Arm, Claim, Results
from vitrail.lab.verdict import Verdict, all_of, better


def pictures(path: Path, count: int = 90) -> Path:
    """Three classes that differ in brightness, with a test split, as an .npz."""
    random = np.random.default_rng(0)
    labels = np.arange(count) % 3
    images = np.clip(random.normal(60 + 60 * labels[:, None, None, None], 30, (count, 16, 16, 3)), 0, 255)
    half = count * 2 // 3
    images = images.astype(np.uint8)
    np.savez(path, x_train=images[:half], y_train=labels[:half], x_test=images[half:], y_test=labels[half:])
    return path


def judge(results: Results) -> Verdict:
    return all_of([better(results["accuracy"], "wide", "narrow")])


def claim(**changes: Any) -> Claim:
    plain: dict[str, Any] = {
        "name": "tiny",
        "title": "A wide model beats a narrow one",
        "hypothesis": "It does.",
        "paper": "No number.",
        "differs": "Everything.",
        "if_not": "Too few steps.",
        "arms": (Arm("narrow", {"model.dim": 8}), Arm("wide", {"model.dim": 16})),
        "judge": judge,
        "steps": 4,
        "minutes": 1,
        "base": {"model.depth": 1, "model.heads": 1, "model.mlp_dim": 16, "model.patch_size": 8, "batch_size": 16},
    }
    return Claim(**{**plain, **changes})
