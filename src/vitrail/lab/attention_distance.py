"""Section 4.5, figure 7 right: low layers look near and far, distance grows with depth, hybrids look less near."""

from __future__ import annotations

from vitrail.lab.claim import Arm, Claim, Results
from vitrail.lab.statistics import difference, mean_interval
from vitrail.lab.verdict import Verdict, all_of, more_than

PLAIN, HYBRID = "plain", "hybrid"
FIRST, LAST, SPREAD = "first_distance", "last_distance", "first_spread"


def judge(results: Results) -> Verdict:
    growth = [last - first for first, last in zip(results[FIRST][PLAIN], results[LAST][PLAIN], strict=True)]
    return all_of(
        [
            more_than("pixels from the first to the last block, plain", mean_interval(growth)),
            more_than("pixels between heads of the first block, plain", mean_interval(results[SPREAD][PLAIN]), 1.0),
            more_than("first block, hybrid minus plain, pixels", difference(results[FIRST], HYBRID, PLAIN)),
        ]
    )


CLAIM = Claim(
    name="attention-distance",
    title="Attention reaches farther with depth; the first layer looks near and far; hybrids less near",
    hypothesis="The mean distance of the last block is above the first's; heads of the first block differ by more than "
    "a pixel; the first block of a hybrid looks farther than that of a plain model.",
    paper="Figure 7 right and figure 11, L/16 and R50+L/16: in the lowest layers some heads attend to nearly all of "
    "the picture and others to what is near; distance grows with depth; in hybrids the near heads are fewer.",
    differs="4 blocks of 4 heads, 64 patches of 2 pixels; the largest distance is 20 pixels; 128 test pictures.",
    if_not="Four blocks of a briefly trained model need not divide their work as 24 do.",
    arms=(Arm(PLAIN), Arm(HYBRID, {"model.stem": "conv"})),
    judge=judge,
    steps=400,
    minutes=3,
    base={"model.patch_size": 2},
    measures=(FIRST, LAST, SPREAD),
    shown=FIRST,
)
