"""The setting that all claims start from: small pictures, a small model, one thread, everything else plain."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from vitrail.config import Preprocessing, ViTConfig
from vitrail.data.augment import Augmentation
from vitrail.data.examples import ArrayPictures, Examples
from vitrail.data.prepare import prepare
from vitrail.data.sources import open_data
from vitrail.data.split import split_examples
from vitrail.errors import ConfigError
from vitrail.methods.supervised import Regularisation
from vitrail.train.facts import gather
from vitrail.train.optim import OptimSettings
from vitrail.train.pretraining_recipe import PretrainSettings
from vitrail.train.recipe import Facts, can_flip
from vitrail.train.settings import Budget, TrainSettings, change

VALIDATION = 1_000  # pictures held back to choose weights and learning rates by, at most a tenth
SPLIT_SEED = 0  # every run is tested on the same pictures
BATCH = 32  # for the same pictures twice the steps of 64, which brings small models farther


@lru_cache(maxsize=2)
def open_pictures(data: str, side: int) -> tuple[Examples, Facts]:
    """All pictures of a data set, resized once and kept in memory, in train, val and test."""
    examples = open_data(data, val=0.0, test=0.2)
    if examples.multi_label:
        raise ConfigError("the lab compares models of one label a picture", where=data, fix="choose other data")
    count = len(examples.split("train"))
    examples = split_examples(examples, val=min(0.1, VALIDATION / count), seed=SPLIT_SEED)
    facts = gather(examples, "cpu")
    rule = Preprocessing(size=(side, side), mean=facts.mean, std=facts.std)
    numbers = range(len(examples))
    pixels = np.stack([prepare(examples.pictures.read(i, channels=facts.channels), rule) for i in numbers])
    return examples.replace(pictures=ArrayPictures(pixels, label=data)), facts


def some(examples: Examples, count: int | None, seed: int) -> Examples:
    """So many of the training pictures, drawn by seed; a smaller number is part of a larger one."""
    if count is None:
        return examples
    train = examples.split("train")
    drawn = np.random.default_rng(seed).permutation(train)[:count]
    return examples.replace(splits={**examples.splits, "train": np.sort(drawn)})


def looked_at(examples: Examples) -> int:
    """Pictures that a run looks at without learning: some ten validations, and the evaluation at the end."""
    return 11 * len(examples.split("val")) + sum(len(examples.splits.get(name, ())) for name in ("val", "test"))


def standard_settings(facts: Facts, data: str, side: int, steps: int, seed: int) -> TrainSettings:
    """The paper's model and recipe, as small as a core can train in a minute or two."""
    return TrainSettings(
        data=data,
        model=ViTConfig(
            image_size=(side, side),
            patch_size=(4, 4),
            num_classes=len(facts.classes),
            channels=facts.channels,
            dim=64,
            depth=4,
            heads=4,
            dim_head=16,
            mlp_dim=128,
        ),
        image=Preprocessing(size=(side, side), mean=facts.mean, std=facts.std),
        augment=Augmentation(crop="shift", shift=max(1, side // 8), flip=can_flip(facts.classes)),
        optim=OptimSettings(name="adamw", lr=2e-3, schedule="cosine", warmup=0.05, weight_decay=0.05),
        regularise=Regularisation(),
        budget=Budget(steps=steps),
        batch_size=BATCH,
        threads=1,  # so that the bits do not depend on the machine's other work
        seed=seed,
    )


def without_labels(settings: TrainSettings, method: str) -> PretrainSettings:
    """The same setting, to learn by a method of `vitrail pretrain`."""
    model = {**settings.to_dict()["model"], "num_classes": 0}
    return PretrainSettings.from_dict({**settings.to_dict(), "model": model, "method": {"kind": method}})


def changed(settings: TrainSettings, changes: Mapping[str, Any]) -> TrainSettings:
    """The settings with these changes; a model given whole need not repeat what the data say."""
    for key, value in changes.items():
        if key == "model":
            given = {"image_size": settings.image.size, "num_classes": settings.model.num_classes}
            value = {**given, "channels": settings.model.channels, **value}
        settings = change(settings, key, value)
    return settings
