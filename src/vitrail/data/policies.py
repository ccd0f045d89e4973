"""Published augmentation policies as tables: RandAugment, TrivialAugment, 3-Augment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitrail.data.examples import Indices, Pixels
from vitrail.data.operations import operate
from vitrail.data.randomness import integers, uniform

_STEPS = 30  # magnitudes are 0 to 30


class Range(NamedTuple):
    """The amount at the least and at the largest magnitude, and whether it goes both ways."""

    least: float = 0.0
    most: float = 0.0
    signed: bool = False

    def amount(self, level: float, minus: bool) -> float:
        amount = self.least + (self.most - self.least) * level
        return -amount if self.signed and minus else amount


class Policy(NamedTuple):
    operations: Mapping[str, Range]
    levels: str  # the magnitude is "given", or drawn from "steps", or from "any" number in between


_NO_AMOUNT = {name: Range() for name in ("identity", "auto-contrast", "equalize")}
_ENHANCE = ("saturation", "contrast", "brightness", "sharpness")

POLICIES: Mapping[str, Policy] = {
    "rand-augment": Policy(  # arXiv:1909.13719, ranges as in its appendix
        {
            **_NO_AMOUNT,
            **{name: Range(0, 0.9, signed=True) for name in _ENHANCE},
            "rotate": Range(0, 30, signed=True),
            "solarize": Range(1, 0),
            "posterize": Range(8, 4),
            "shear-x": Range(0, 0.3, signed=True),
            "shear-y": Range(0, 0.3, signed=True),
            "slide-x": Range(0, 150 / 331, signed=True),
            "slide-y": Range(0, 150 / 331, signed=True),
        },
        "given",
    ),
    "trivial-augment": Policy(  # arXiv:2103.10158, table 1, "wide"
        {
            **_NO_AMOUNT,
            **{name: Range(0, 0.99, signed=True) for name in _ENHANCE},
            "rotate": Range(0, 135, signed=True),
            "solarize": Range(1, 0),
            "posterize": Range(8, 2),
            "shear-x": Range(0, 0.99, signed=True),
            "shear-y": Range(0, 0.99, signed=True),
            "translate-x": Range(0, 32, signed=True),
            "translate-y": Range(0, 32, signed=True),
        },
        "steps",
    ),
    "three-augment": Policy(  # DeiT III, arXiv:2204.07118, section 3; its colour jitter is `Augmentation.jitter`
        {"grey": Range(), "solarize": Range(128 / 255, 128 / 255), "blur": Range(0.1, 2.0)}, "any"
    ),
}


def apply_policy(
    batch: Pixels, policy: str, magnitude: int, number: int, seed: int, epoch: int, indices: Indices
) -> None:
    """Change each picture of a batch (N x H x W x C) by operations of its own.

    `magnitude` (0 to 30) and `number` are RandAugment's; the other policies apply one operation and draw how strongly.
    """
    operations, kind = POLICIES[policy]
    names = list(operations)
    for step in range(number if kind == "given" else 1):
        chosen = [names[choice] for choice in integers(seed, epoch, indices, f"policy operation {step}", len(names))]
        levels = _levels(kind, magnitude, seed, epoch, indices).tolist()
        minus = (uniform(seed, epoch, indices, f"policy sign {step}") < 0.5).tolist()
        amounts = [operations[name].amount(*how) for name, *how in zip(chosen, levels, minus, strict=True)]
        operate(batch, chosen, np.array(amounts))


def _levels(kind: str, magnitude: int, seed: int, epoch: int, indices: Indices) -> NDArray[np.float64]:
    """How strongly to change each picture, 0 to 1."""
    if kind == "given":
        return np.full(len(indices), magnitude / _STEPS)
    if kind == "steps":
        return integers(seed, epoch, indices, "policy level", _STEPS + 1) / _STEPS
    return uniform(seed, epoch, indices, "policy level")
