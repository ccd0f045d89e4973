"""Section D.3: a class token or the mean of the patches, equal once each has its own learning rate."""

from __future__ import annotations

import numpy as np

from vitrail.lab.claim import Arm, Claim, Results
from vitrail.lab.verdict import Verdict, all_of, same

MARGIN = 0.02
POOLS = {"class token": "cls", "mean": "mean"}
RATES = (5e-4, 2e-3, 8e-3)


def arm(pool: str, rate: float) -> Arm:
    changes = {"model.pool": POOLS[pool], "model.class_token": None, "optim.lr": rate}
    return Arm(f"{pool} lr {rate:g}", changes, series=pool, x=rate)


def judge(results: Results) -> Verdict:
    """Each at the rate that is best for it on the validation pictures, compared on the test pictures."""
    chosen = {}
    for pool in POOLS:
        names = [arm(pool, rate).name for rate in RATES]
        best = max(names, key=lambda name: float(np.mean(results["validation"][name])))
        chosen[best] = results["accuracy"][best]
    one, other = chosen
    return all_of([same(chosen, one, other, MARGIN)])


CLAIM = Claim(
    name="pooling",
    title="A class token and the mean of the patches are as good, each at its own learning rate",
    hypothesis="With the learning rate that is best for each on the validation pictures, the two are within 2 points.",
    paper="Figure 9 and section D.3, B/16 on JFT: both perform alike, but need different learning rates.",
    differs="CIFAR-10 at 16 pixels, a grid of three learning rates, from scratch.",
    if_not="In a short run the mean, which needs no attention to gather the picture, learns faster.",
    arms=tuple(arm(pool, rate) for pool in POOLS for rate in RATES),
    judge=judge,
    steps=600,
    minutes=4,
    x_label="learning rate",
)
