"""A training run small enough for a test: two blocks, 16 pixels, pictures in memory, no command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from vitrail.config import Preprocessing, ViTConfig
from vitrail.data.augment import Augmentation
from vitrail.data.examples import ArrayPictures, Examples
from vitrail.data.loader import TrainingLoader
from vitrail.methods.supervised import Regularisation, Supervised
from vitrail.model import build
from vitrail.train.budget import Pace, Steps
from vitrail.train.distributed import world
from vitrail.train.loop import Score, Trainer
from vitrail.train.optim import OptimSettings
from vitrail.train.run import Run
from vitrail.train.settings import Budget, TrainSettings

CLASSES = ("ant", "bee", "cat")


def settings(**changes: Any) -> TrainSettings:
    model = ViTConfig(
        image_size=16, patch_size=8, num_classes=3, dim=16, depth=2, heads=2, mlp_dim=32, dim_head=8, dropout=0.1
    )
    plain = TrainSettings(
        data="tiny",
        model=model,
        image=Preprocessing(size=16, mean=(0.5,) * 3, std=(0.5,) * 3),
        augment=Augmentation(flip=True),
        optim=OptimSettings(lr=1e-2),
        regularise=Regularisation(mixup=0.2, patch_dropout=0.25),
        budget=Budget(steps=12),
        batch_size=8,
        average=0.9,
        threads=1,
    )
    return plain.replace(**changes)


def examples(count: int = 40) -> Examples:
    pixels = np.random.default_rng(0).integers(0, 256, (count, 16, 16, 3)).astype(np.uint8)
    targets = np.arange(count) % 3
    splits = {"train": np.arange(count - 6), "val": np.arange(count - 6, count)}
    return Examples("tiny", ArrayPictures(pixels), targets, CLASSES, splits)


class Silent:
    """A watcher that remembers what it was told."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.steps: list[dict[str, Any]] = []
        self.validations: list[tuple[dict[str, Any], bool]] = []

    def step(self, row: dict[str, Any], steps_left: float) -> None:  # noqa: ARG002
        self.steps.append(row)

    def validated(self, row: dict[str, Any], best: bool) -> None:
        self.validations.append((row, best))

    def said(self, text: str) -> None:
        self.heard.append(text)


class Kept:
    """What a trainer kept as best, and how it validates: by the mean of the weights, so that every step differs."""

    def __init__(self) -> None:
        self.weights: list[dict[str, torch.Tensor]] = []

    def validate(self, module: torch.nn.Module) -> Score:
        value = float(sum(parameter.detach().sum() for parameter in module.parameters()))
        return Score(value, {"loss": value}, 0.0)

    def keep(self, module: torch.nn.Module) -> None:
        self.weights.append({name: tensor.clone() for name, tensor in module.state_dict().items()})


def trainer(
    folder: Path,
    chosen: TrainSettings | None = None,
    pace: Pace | None = None,
    pictures: Examples | None = None,
    method: torch.nn.Module | None = None,
    **parts: Any,
) -> Trainer:
    """A trainer on a new or an earlier run in `folder`. Close its run when done."""
    chosen = chosen or settings()
    torch.manual_seed(chosen.seed)
    folder.mkdir(parents=True, exist_ok=True)
    here = world()
    loader = TrainingLoader(
        pictures or examples(),
        "train",
        chosen.image,
        chosen.augment,
        batch_size=chosen.batch_size,
        channels=3,
        seed=chosen.seed,
        rank=here.rank,
        world=here.size,
    )
    method = method or Supervised(build(chosen.model), 3, chosen.regularise, chosen.seed, None)
    kept = Kept()
    usual = {"validate": kept.validate, "keep_best": kept.keep}
    budget = pace or Steps(chosen.budget.steps or 12)
    made = Trainer(chosen, method, loader, budget, Run(folder), Silent(), **(usual | parts))
    made.kept = kept
    return made
