"""Section 4.5, figure 7 centre: near patches get similar position embeddings, and so do rows and columns."""

from __future__ import annotations

from vitrail.lab.claim import Arm, Claim, Results
from vitrail.lab.statistics import mean_interval
from vitrail.lab.verdict import Verdict, all_of, more_than

NEAR, LINES = "neighbours_minus_far", "lines_minus_elsewhere"
MODEL = "learned 1-D"


def judge(results: Results) -> Verdict:
    return all_of(
        [
            more_than("cosine of neighbours minus far places", mean_interval(results[NEAR][MODEL])),
            more_than("cosine in a row or column minus elsewhere", mean_interval(results[LINES][MODEL])),
        ]
    )


CLAIM = Claim(
    name="position-similarity",
    title="Learned positions find out where patches lie: near ones, rows and columns are alike",
    hypothesis="The mean cosine of neighbours is above that of far places, and in rows and columns above elsewhere.",
    paper="Figure 7 centre, L/32: closer patches have more similar position embeddings; row-column structure appears.",
    differs="8 x 8 patches of 2 pixels, a short training; a number instead of a picture.",
    if_not="Embeddings that start random and small need many steps to line up.",
    arms=(Arm(MODEL),),
    judge=judge,
    steps=600,
    minutes=2,
    base={"model.patch_size": 2},
    measures=(NEAR, LINES),
    shown=NEAR,
)
