"""Sections 4.2 and 4.3: a bigger transformer is worse on little data and better on much."""

from __future__ import annotations

import math

from vitrail.lab.claim import Arm, Claim, Gap, Results
from vitrail.lab.statistics import difference, slope
from vitrail.lab.verdict import Verdict, all_of, more_than

PICTURES = (500, 1600, 5000, 16000)
SHAPES = {"small": {"dim": 48, "depth": 3, "heads": 3}, "large": {"dim": 96, "depth": 6, "heads": 6}}


def arm(size: str, pictures: int) -> Arm:
    changes = {f"model.{key}": value for key, value in SHAPES[size].items()}
    changes["model.mlp_dim"] = 2 * SHAPES[size]["dim"]
    return Arm(f"{size} {pictures}", changes, pictures, series=size, x=pictures)


def judge(results: Results) -> Verdict:
    few = PICTURES[0]
    found, names = results["accuracy"], [arm(size, few).name for size in ("small", "large")]
    gaps = [
        [large - small for large, small in zip(found[arm("large", n).name], found[arm("small", n).name], strict=True)]
        for n in PICTURES
    ]
    rises = slope([math.log2(n) for n in PICTURES], list(zip(*gaps, strict=True)))
    lead = difference(results.only(names), *names)
    return all_of(
        [
            more_than(f"lead of the small model at {few} pictures", lead),
            more_than("gain of the large model on the small one with each doubling of the pictures", rises),
        ]
    )


CLAIM = Claim(
    name="bigger",
    title="A bigger model is worse on little data, better on much",
    hypothesis="At 500 pictures the small model is ahead; with each doubling up to 16,000 the large one gains on it.",
    paper="Table 5: pre-trained on ImageNet alone B/16 77.9 % beats L/16 76.5 %; on JFT L/16 87.1 % beats B/16 84.2 %.",
    differs="0.06 M and 0.5 M weights, up to 16,000 pictures of 16 pixels, one data set, same steps for all.",
    if_not="The weights kept are those that validate best, so a model that overfits is stopped early.",
    arms=tuple(arm(size, pictures) for size in SHAPES for pictures in PICTURES),
    judge=judge,
    steps=800,
    minutes=10,
    x_label="pictures to train on",
    gaps=(Gap("large − small", "large", "small"),),
)
