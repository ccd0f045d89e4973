"""Section D.2: of ways to spend compute, depth helps most and width least."""

from __future__ import annotations

from vitrail.lab.claim import Arm, Claim, Results
from vitrail.lab.verdict import Verdict, all_of, better

BASE, DEEPER, WIDER = "base", "3 times deeper", "3 times the work in width"


def judge(results: Results) -> Verdict:
    found = results["accuracy"]
    return all_of([better(found, DEEPER, BASE), better(found, DEEPER, WIDER)])


CLAIM = Claim(
    name="depth-width",
    title="For the same compute, a deeper model is better than a wider one",
    hypothesis="Three times deeper beats the base, and beats a model that is wider by as much work.",
    paper="Figure 8: scaling depth brings the largest gain, width the smallest, both from a ViT of 8 layers and 1024.",
    differs="From 4 layers of 64 to 12 layers of 64 or 4 layers of 112; CIFAR-10 at 16 pixels; same steps.",
    if_not="The paper's gains in depth come from many more steps; in a short run deep models have only begun.",
    arms=(
        Arm(BASE),
        Arm(DEEPER, {"model.depth": 12}),
        Arm(WIDER, {"model.dim": 112, "model.heads": 7, "model.mlp_dim": 224}),
    ),
    judge=judge,
    steps=800,
    minutes=5,
)
