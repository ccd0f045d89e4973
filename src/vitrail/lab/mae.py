"""Masked autoencoders (arXiv:2111.06377), which came after the paper's first trial of learning without labels."""

from __future__ import annotations

from vitrail.lab.claim import Arm, Claim, Results
from vitrail.lab.verdict import Verdict, all_of, better

UNLABELLED, LABELLED = 40_000, 1_000
SCRATCH, AFTER = "from scratch", "after MAE"


def judge(results: Results) -> Verdict:
    return all_of([better(results["accuracy"], AFTER, SCRATCH)])


CLAIM = Claim(
    name="mae",
    title="Rebuilding masked pixels teaches an encoder without labels",
    hypothesis="With 1,000 labelled pictures, MAE pre-training on 40,000 without labels beats training from scratch.",
    paper="He et al. 2021, table 3: ViT-L on ImageNet 85.9 % after MAE, 82.6 % from scratch.",
    differs="A model of 0.1 M weights, 64 patches of 2 pixels, minutes instead of days; a decoder of one block.",
    if_not="MAE needs long training and large models; 16 pixels leave little to rebuild.",
    arms=(
        Arm(
            "MAE",
            {"method.decoder_depth": 1, "method.decoder_dim": 64},
            pictures=UNLABELLED,
            method="mae",
            steps=3.0,
            judged=False,
        ),
        Arm(SCRATCH, pictures=LABELLED),
        Arm(AFTER, pictures=LABELLED, start="MAE"),
    ),
    judge=judge,
    steps=600,
    minutes=8,
    base={"model.patch_size": 2, "model.positions": "sincos-2d"},
)
