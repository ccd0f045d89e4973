"""Section 4.4: a convolutional stem helps small models; for larger ones the difference vanishes."""

from __future__ import annotations

import math

from vitrail.lab.claim import Arm, Claim, Gap, Results
from vitrail.lab.statistics import difference, slope
from vitrail.lab.verdict import Verdict, all_of, more_than

WIDTHS = {"small": 32, "medium": 64, "large": 128}
STEMS = {"hybrid": "conv", "plain": "none"}


def arm(kind: str, size: str) -> Arm:
    width = WIDTHS[size]
    changes = {"model.stem": STEMS[kind], "model.dim": width, "model.heads": width // 16, "model.mlp_dim": 2 * width}
    return Arm(f"{kind} {size}", changes, series=kind, x=width)


def judge(results: Results) -> Verdict:
    names = [arm(kind, "small").name for kind in STEMS]
    found = results["accuracy"]
    leads = [
        [one - other for one, other in zip(found[arm("hybrid", s).name], found[arm("plain", s).name], strict=True)]
        for s in WIDTHS
    ]
    falls = slope([-math.log2(width) for width in WIDTHS.values()], list(zip(*leads, strict=True)))
    return all_of(
        [
            more_than("lead of the small hybrid", difference(results.only(names), *names)),
            more_than("fall of the hybrid's lead with each doubling of the width", falls),
        ]
    )


CLAIM = Claim(
    name="hybrid",
    title="A convolutional stem helps a small model; the difference vanishes as models grow",
    hypothesis="At width 32 the hybrid is ahead, and its lead shrinks with each doubling of the width up to 128.",
    paper="Figure 5 and table 6: R50+B/32 84.9 % against B/32 80.7 % on ImageNet; with L/16 the two are equal.",
    differs="Two or three small convolutions in the place of a ResNet-50; widths of 32 to 128; pictures of 16 pixels.",
    if_not="Here even the large model is small and its data are few, which is where convolutions help most.",
    arms=tuple(arm(kind, size) for kind in STEMS for size in WIDTHS),
    judge=judge,
    steps=500,
    minutes=4,
    x_label="width",
    gaps=(Gap("hybrid − plain", "hybrid", "plain"),),
)
