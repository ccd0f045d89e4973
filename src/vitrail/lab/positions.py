"""Section D.4, table 8: any position embedding beats none, and it matters little which."""

from __future__ import annotations

from vitrail.lab.claim import Arm, Claim, Results
from vitrail.lab.verdict import Verdict, all_of, better, same

MARGIN = 0.02
NONE, ONE, TWO, RELATIVE = "none", "1-D", "2-D", "relative"


def judge(results: Results) -> Verdict:
    found = results["accuracy"]
    return all_of(
        [better(found, name, NONE) for name in (ONE, TWO, RELATIVE)]
        + [same(found, name, ONE, MARGIN) for name in (TWO, RELATIVE)]
    )


CLAIM = Claim(
    name="positions",
    title="Any position embedding beats none, and it matters little which",
    hypothesis="Without positions the accuracy is lower than with any of the three kinds; 2-D and relative are within "
    "2 points of 1-D.",
    paper="Table 8, B/16 on JFT, 5-shot ImageNet: none 61.4 %, 1-D 64.2 %, 2-D 64.0 %, relative 64.0 %.",
    differs="CIFAR-10 at 16 pixels, 16 patches, a model of 0.1 M weights trained once, accuracy instead of 5-shot.",
    if_not="With 16 patches there is little order to lose, and a short run does not bring every scheme equally far.",
    arms=(
        Arm(NONE, {"model.positions": "none"}),
        Arm(ONE, {"model.positions": "learned"}),
        Arm(TWO, {"model.positions": "learned-2d"}),
        Arm(RELATIVE, {"model.positions": "relative"}),
    ),
    judge=judge,
    steps=1000,
    minutes=5,
    paper_values={NONE: 0.614, ONE: 0.642, TWO: 0.640, RELATIVE: 0.640},
)
