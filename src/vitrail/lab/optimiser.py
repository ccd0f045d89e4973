"""Section D.1, table 7: pre-training with Adam is as good as SGD or better, even for ResNets."""

from __future__ import annotations

import numpy as np

from vitrail.lab.claim import Arm, Claim, Results
from vitrail.lab.verdict import Finding, Verdict, all_of, better

RESNET = {"kind": "resnet", "blocks": (1, 1, 1), "bottleneck": False, "width": 24, "stem": "small"}
MODELS = {"ViT": {}, "ResNet": {"model": RESNET}}
RATES = {"adamw": (1e-3, 3e-3), "sgd": (0.03, 0.1)}
SGD = {"optim.name": "sgd", "optim.momentum": 0.9, "optim.weight_decay": 5e-4}


def arm(model: str, optimiser: str, rate: float) -> Arm:
    changes = {**MODELS[model], **(SGD if optimiser == "sgd" else {}), "optim.lr": rate}
    return Arm(f"{model} {optimiser} {rate:g}", changes)


def judge(results: Results) -> Verdict:
    return all_of([_finding(results, model) for model in MODELS])


def _finding(results: Results, model: str) -> Finding:
    """Each optimiser at the rate that is best for it on the validation pictures."""
    chosen = []
    for optimiser, rates in RATES.items():
        names = [arm(model, optimiser, rate).name for rate in rates]
        chosen.append(max(names, key=lambda name: float(np.mean(results["validation"][name]))))
    return better(results.only(chosen), chosen[0], chosen[1])


CLAIM = Claim(
    name="optimiser",
    title="Adam is the better optimiser, for transformers and for ResNets",
    hypothesis="Each at its better learning rate of two, AdamW beats SGD with momentum, for a ViT and for a ResNet.",
    paper="Section D.1, table 7: ResNets pre-trained on JFT with Adam do better after fine-tuning than with SGD on "
    "most data sets.",
    differs="Accuracy on the data that were trained on, no transfer; two learning rates each; ResNet of three blocks.",
    if_not="SGD is known to serve ResNets well on small pictures when its learning rate is well chosen.",
    arms=tuple(arm(model, name, rate) for model in MODELS for name, rates in RATES.items() for rate in rates),
    judge=judge,
    steps=600,
    minutes=7,
)
