"""Table 3 and section 4.3: on small data a transformer needs regularisation: dropout and weight decay."""

from __future__ import annotations

from vitrail.lab.claim import Arm, Claim, Results
from vitrail.lab.verdict import Verdict, all_of, better

PICTURES = 2_000
NONE, DROPOUT, DECAY, BOTH = "none", "dropout 0.1", "weight decay 0.3", "both"
DROPPED = {"model.dropout": 0.1, "model.emb_dropout": 0.1}


def judge(results: Results) -> Verdict:
    return all_of([better(results["accuracy"], BOTH, NONE)])


CLAIM = Claim(
    name="regularisation",
    title="On little data, dropout and weight decay help",
    hypothesis="With 2,000 pictures, dropout 0.1 and weight decay 0.3 together beat neither.",
    paper="Table 3: trained on ImageNet alone with weight decay 0.3 and dropout 0.1, on JFT with 0.1 and none; section "
    "4.3 optimises these for the smaller data sets.",
    differs="2,000 pictures of 16 pixels, no augmentation, so that there is something to overfit.",
    if_not="The weights kept are those that validate best: stopping early regularises as well.",
    arms=(
        Arm(NONE, {"optim.weight_decay": 0.0}, PICTURES),
        Arm(DROPOUT, {"optim.weight_decay": 0.0, **DROPPED}, PICTURES),
        Arm(DECAY, {"optim.weight_decay": 0.3}, PICTURES),
        Arm(BOTH, {"optim.weight_decay": 0.3, **DROPPED}, PICTURES),
    ),
    judge=judge,
    steps=1000,
    minutes=5,
    base={"augment.crop": "none", "augment.flip": False},
)
