"""Section 3.2: fine-tuning at a higher resolution than pre-training helps, positions interpolated in 2-D."""

from __future__ import annotations

from vitrail.lab.claim import Arm, Claim, Results
from vitrail.lab.verdict import Verdict, all_of, better

SAME, HIGHER = "on at 16 pixels", "on at 24 pixels"


def judge(results: Results) -> Verdict:
    return all_of([better(results["accuracy"], HIGHER, SAME)])


CLAIM = Claim(
    name="resolution",
    title="Fine-tuning at a higher resolution than training helps",
    hypothesis="A model trained at 16 pixels and tuned at 24 beats the same model tuned at 16 for as many steps.",
    paper="Section 3.2 and table 4: pre-trained at 224, fine-tuned at 384 or 512; no number for the gain alone.",
    differs="One data set for both stages; from 16 to 24 pixels, 16 to 36 patches.",
    if_not="The tuning is short: the longer sequence has to be learnt anew.",
    arms=(
        Arm("train at 16 pixels", judged=False),
        Arm(SAME, {"optim.lr": 5e-4}, start="train at 16 pixels", steps=0.5),
        Arm(
            HIGHER,
            {"optim.lr": 5e-4, "image.size": 24, "model.image_size": 24, "augment.shift": 3},
            start="train at 16 pixels",
            steps=0.5,
        ),
    ),
    judge=judge,
    steps=1200,
    minutes=3,
)
