"""Section 4.6: predicting masked patches without labels is better than nothing, worse than labels."""

from __future__ import annotations

from vitrail.lab.claim import Arm, Claim, Results
from vitrail.lab.verdict import Verdict, all_of, better

UNLABELLED, LABELLED = 40_000, 1_000
SCRATCH, MASKED, SUPERVISED = "from scratch", "after masked patches", "after labels"


def judge(results: Results) -> Verdict:
    found = results["accuracy"]
    return all_of([better(found, MASKED, SCRATCH), better(found, SUPERVISED, MASKED)])


CLAIM = Claim(
    name="masked-patches",
    title="Predicting masked patches beats no pre-training, and falls short of labels",
    hypothesis="With 1,000 labelled pictures, pre-training by masked patches on 40,000 without labels beats training "
    "from scratch; pre-training on the same pictures with labels beats both.",
    paper="Section 4.6, B/16: 79.9 % on ImageNet, 2 points above scratch, 4 below supervised pre-training.",
    differs="Pre-training and the task share one data set, so the labels of pre-training are the task's own.",
    if_not="The mean colour of a patch is easy to guess from its neighbours; in so few steps little else is learnt.",
    arms=(
        Arm("masked patches", pictures=UNLABELLED, method="masked-patches", steps=2.0, judged=False),
        Arm("labels", pictures=UNLABELLED, steps=2.0, judged=False),
        Arm(SCRATCH, pictures=LABELLED),
        Arm(MASKED, pictures=LABELLED, start="masked patches"),
        Arm(SUPERVISED, pictures=LABELLED, start="labels"),
    ),
    judge=judge,
    steps=500,
    minutes=4,
)
