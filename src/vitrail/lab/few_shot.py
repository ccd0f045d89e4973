"""Section 4.1: a linear few-shot accuracy, cheap to compute, tracks the accuracy after fine-tuning."""

from __future__ import annotations

from vitrail.lab.claim import Arm, Claim, Results
from vitrail.lab.statistics import correlation, mean_interval
from vitrail.lab.verdict import Verdict, all_of, more_than

LABELLED = 300
LENGTHS = (0.02, 0.2, 1.0)  # of the pre-training, as shares of the claim's steps
WIDTHS = (32, 96)
TRACKS = 0.5


def pair(width: int, length: float) -> tuple[Arm, Arm]:
    """Pre-training on clothes, fine-tuning on digits."""
    model = {"model.dim": width, "model.heads": width // 16, "model.mlp_dim": 2 * width}
    before = Arm(f"clothes, width {width}, {length:g}", model, steps=length, judged=False)
    after = {**model, "data": "mnist", "optim.lr": 5e-4, "probe_first": False}
    name = f"width {width}, {length:g}"
    return before, Arm(name, after, pictures=LABELLED, start=before.name, steps=0.2)


PAIRS = tuple(pair(width, length) for width in WIDTHS for length in LENGTHS)


def judge(results: Results) -> Verdict:
    """Over the models, the correlation of the two accuracies; then the mean over seeds."""
    names = [after.name for _, after in PAIRS]
    seeds = range(len(results["accuracy"][names[0]]))
    found = [
        correlation([results["few_shot"][n][seed] for n in names], [results["accuracy"][n][seed] for n in names])
        for seed in seeds
    ]
    return all_of([more_than("correlation over six models", mean_interval(found), TRACKS)])


CLAIM = Claim(
    name="few-shot",
    title="Few-shot linear accuracy tracks the accuracy after fine-tuning",
    hypothesis=f"Over six pre-trained models the two correlate by more than {TRACKS}.",
    paper="Section 4.1: few-shot accuracies serve for fast evaluation where fine-tuning would be too costly; figure 4.",
    differs="Six models of two widths and three lengths, pre-trained on Fashion-MNIST, transferred to MNIST: ten "
    "pictures of each class for the linear one, 300 in all for fine-tuning.",
    if_not="Fine-tuning on so easy a task may bring all models to the same accuracy.",
    arms=tuple(arm for both in PAIRS for arm in both),
    judge=judge,
    steps=400,
    minutes=4,
    data="fashion-mnist",
    side=28,
    base={"model.patch_size": 7},
    measures=("few_shot",),
)
