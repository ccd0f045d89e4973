"""Variants of a training run, each with several seeds: done once, gone on with where they stopped, and summed up."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from vitrail.cli.main import main as vitrail

# The paper's plain patches, in a model as large as `vitrail train` takes for few minutes.
SMALL_VIT = (
    *("model.dim=96", "model.depth=2", "model.heads=3", "model.dim_head=32", "model.mlp_dim=192"),
    *("model.patch_size=4", "model.stem=none"),
)
VALIDATED = ("--val", "0.02")  # a thousand pictures, so that validating takes less time than learning


def accuracy(folder: Path, *words: str) -> float:
    """The accuracy of the run in `folder`, trained with these words of `vitrail train` unless it is there already."""
    result = folder / "evaluation.json"
    if not result.exists():
        begun = (folder / "config.yaml").exists()
        with redirect_stdout(sys.stderr):  # stdout is for the document at the end
            code = vitrail(["train", "--resume", str(folder)] if begun else ["train", *words, "--out", str(folder)])
        if code:
            raise SystemExit(code)
    return float(json.loads(result.read_text(encoding="utf-8"))["accuracy"])


def summary(found: dict[str, list[float]], against: str) -> dict[str, Any]:
    """Mean and spread of each variant, and of its difference, seed by seed, to one of them."""
    return {
        name: {
            "accuracies": values,
            "mean": mean(values),
            "spread": stdev(values) if len(values) > 1 else 0.0,
            f"more than {against}": mean(a - b for a, b in zip(values, found[against], strict=True)),
        }
        for name, values in found.items()
    }
