"""What it saves not to look at every patch: MAE's encoder at 75 % masking, and patch dropout, beside the full step.

    python benchmarks/masked_speed.py [--model S/16] [--batch 8] [--rounds 5] [--threads 2]

A step is forward and backward. The ways take turns, so that a busy machine slows all of them alike. Times are medians
of seconds; `ratio` is how many times faster than the full step. Prints one JSON document.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from vitrail.model import ViT, create_model
from vitrail.model.vit import keep_some


def full(model: ViT, images: Tensor) -> Tensor:
    return model.encode(*model.embed(images))


def masked_75(model: ViT, images: Tensor) -> Tensor:
    return model.encode(*keep_some(*model.embed(images), 0.25))


def features(model: ViT, images: Tensor) -> Tensor:
    return model.features(images)


def dropped_50(model: ViT, images: Tensor) -> Tensor:
    return model.some_features(images, 0.5)


WAYS: list[Callable[[ViT, Tensor], Tensor]] = [full, masked_75, features, dropped_50]
BESIDE = {"masked_75": "full", "dropped_50": "features"}


def measure(name: str, batch: int, rounds: int) -> dict[str, object]:
    torch.manual_seed(0)
    model = create_model(name, num_classes=0)
    assert isinstance(model, ViT)
    images = torch.randn(batch, 3, *model.config.image_size)
    times: dict[str, list[float]] = {way.__name__: [] for way in WAYS}
    for turn in range(rounds + 1):
        for way in WAYS:
            start = time.perf_counter()
            way(model, images).mean().backward()
            if turn:  # the first turn warms up
                times[way.__name__].append(time.perf_counter() - start)
            model.zero_grad()
    medians = {way: statistics.median(found) for way, found in times.items()}
    return {
        "model": name,
        "batch": batch,
        "rounds": rounds,
        "threads": torch.get_num_threads(),
        "seconds": {way: round(found, 4) for way, found in medians.items()},
        "ratio": {way: round(medians[other] / medians[way], 2) for way, other in BESIDE.items()},
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Steps that leave patches out, beside full ones.")
    parser.add_argument("--model", default="S/16")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    print(json.dumps(measure(chosen.model, chosen.batch, chosen.rounds), indent=2))
