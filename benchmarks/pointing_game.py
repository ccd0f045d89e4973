"""Do the maps of `vitrail explain` point at what decides the class? On pictures where that place is known.

    python benchmarks/pointing_game.py [--pictures 100] [--seed 3] [--keep FILE | --model FILE]

Trains a small ViT, with the usual training job, on pictures whose class is decided by one small object at a random
place. Then, for each method: how often the hottest patch touches the object, beside a patch chosen by chance; and how
often the map is said to be no better than random, with the trained weights and with the same weights shuffled. Prints
one JSON document; exits with 1 where a promise does not hold.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vitrail import Predictor, load
from vitrail.data.examples import ArrayPictures, Examples
from vitrail.data.prepare import normalise
from vitrail.explain.methods import METHODS, evaluating, explain_batch
from vitrail.explain.trust import Judge, shuffled_weights
from vitrail.model import Model
from vitrail.train import job
from vitrail.train.progress import Display
from vitrail.train.settings import Budget

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from explain.planted import CLASSES, Planted, planted, touched

TRAINING, TEST, STEPS = 16_000, 1_000, 250
SHAPE = {"dim": 64, "depth": 4, "heads": 2, "dim_head": 32, "mlp_dim": 128}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--pictures", type=int, default=100)
    options.add_argument("--seed", type=int, default=3, help="of the pictures that are explained; 1 and 2 are taken")
    options.add_argument("--keep", type=Path, help="where to keep the trained model")
    options.add_argument("--model", type=Path, help="a model that an earlier call kept, instead of training")
    chosen = options.parse_args()
    predictor = load(chosen.model) if chosen.model else train(chosen.keep)
    found = play(predictor, chosen.pictures, chosen.seed)
    good = promises(found)
    print(json.dumps({**found, "promises": good}, indent=1))
    return 0 if all(good.values()) else 1


def train(keep: Path | None) -> Predictor:
    data = planted(TRAINING, seed=1)
    splits = {"train": np.arange(TRAINING)}
    examples = Examples("planted", ArrayPictures(data.pixels), data.classes, CLASSES, splits)
    # No patch is left out and none erased: the object has few.
    plain = {"regularise.patch_dropout": 0.0, "augment.erase": 0.0}
    changes = {**plain, **{f"model.{name}": value for name, value in SHAPE.items()}}
    planned = job.plan(job.Wishes(data="planted", budget=Budget(steps=STEPS), changes=changes), examples)
    with tempfile.TemporaryDirectory() as folder, Display() as display:
        result = job.train(planned, Path(folder) / "run", display, started=time.monotonic())
        predictor = load(result.folder)
    if keep is not None:
        predictor.save(keep)
    return predictor


def play(predictor: Predictor, count: int, seed: int) -> dict[str, Any]:
    test, shown = planted(TEST, seed=2), planted(count, seed=seed, classes=CLASSES[:-1])
    images = torch.from_numpy(normalise(shown.pixels, predictor.preprocessing))
    model, shuffled = predictor.model, shuffled_weights(predictor.model)
    pointing = {name: pointed(model, images, name, shown) for name in METHODS}
    trained, random = untrusted(predictor, model, images), untrusted(predictor, shuffled, images)
    return {
        "accuracy": float((predictor.probabilities(test.pixels).argmax(axis=1) == test.classes).mean()),
        "pictures": count,
        "pointing by chance": float(np.mean([touched(corner, model.config.grid).mean() for corner in shown.corners])),
        "methods": {
            name: {
                "pointing": pointing[name],
                "untrusted": trained[name],
                "untrusted, weights shuffled": random[name],
            }
            for name in METHODS
        },
    }


def pointed(model: Model, images: torch.Tensor, name: str, shown: Planted) -> float:
    """The share of maps whose hottest patch touches the object."""
    maps = [one.heat for one in explain_batch(model, images, name)]
    hits = [touched(corner, heat.shape).flat[heat.argmax()] for heat, corner in zip(maps, shown.corners, strict=True)]
    return float(np.mean(hits))


def untrusted(predictor: Predictor, model: Model, images: torch.Tensor) -> dict[str, float]:
    """The share of maps that are said to be no better than random."""
    found = {name: explain_batch(model, images, name) for name in METHODS}
    doubted = dict.fromkeys(METHODS, 0)
    with evaluating(model):
        for i, image in enumerate(images):
            judge = Judge(model, image[None], found["attribution"][i].target, predictor.decision.probabilities, seed=i)
            for name in METHODS:
                doubted[name] += not judge.trust(found[name][i].heat).better_than_random
    return {name: count / len(images) for name, count in doubted.items()}


def promises(found: dict[str, Any]) -> dict[str, bool]:
    rows, best = found["methods"], found["methods"]["attribution"]
    return {
        "the model is right in 95 of 100": found["accuracy"] >= 0.95,
        "attribution points at the object in 90 of 100": best["pointing"] >= 0.9,
        "its map is trusted in 95 of 100": best["untrusted"] <= 0.05,
        "no method's is with shuffled weights": min(r["untrusted, weights shuffled"] for r in rows.values()) >= 0.95,
    }


if __name__ == "__main__":
    sys.exit(main())
