"""Does pre-training without labels help where labels are few? Each method, then 1 % and 10 % of the labels.

    python benchmarks/pretraining.py [--data fashion-mnist] [--minutes 10] [--tuning 3] [--out pretraining]

For each seed every method pre-trains for so many minutes on all training pictures without their labels; then a
classifier is fine-tuned from its encoder for `--tuning` minutes on a share of the labels, beside one of the same
recipe from scratch with the same labels and minutes of fine-tuning. Test accuracy, mean and spread over the seeds.
Every cell is a file in `--out`, written when it is done: run again, finished cells are not repeated.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np

from vitrail.data.examples import Examples
from vitrail.data.sources import open_data
from vitrail.methods.registry import METHODS
from vitrail.train import job, pretraining
from vitrail.train.progress import Display
from vitrail.train.settings import Budget

SHARES = (0.01, 0.10)
SCRATCH = "scratch"


def main() -> None:
    parser = argparse.ArgumentParser(description="Few labels, with and without pre-training.")
    parser.add_argument("--data", default="fashion-mnist")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--tuning", type=float, default=3.0)
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("pretraining"))
    chosen = parser.parse_args()
    cells = []
    for seed in chosen.seeds:
        for method in (SCRATCH, *chosen.methods):
            start = None if method == SCRATCH else encoder(chosen, method, seed)
            cells += [cell(chosen, method, start, share, seed) for share in SHARES]
    (chosen.out / "cells.json").write_text(json.dumps(cells, indent=1))
    shown = table(cells, chosen)
    (chosen.out / "table.md").write_text(shown)
    print(shown)


def encoder(chosen: argparse.Namespace, method: str, seed: int) -> Path:
    """The run of a method, made unless it is there; one that was interrupted goes on."""
    folder = chosen.out / f"{method}-{seed}"
    if (folder / "report.html").exists():
        return folder
    with Display() as display:
        if (folder / "config.yaml").exists():
            return pretraining.resume(folder, display, started=time.monotonic()).folder
        wishes = pretraining.Wishes(chosen.data, method, Budget(minutes=chosen.minutes), labels=False, seed=seed)
        return pretraining.pretrain(pretraining.plan(wishes), folder, display, started=time.monotonic()).folder


def cell(chosen: argparse.Namespace, method: str, start: Path | None, share: float, seed: int) -> dict[str, object]:
    """One classifier, trained on a share of the labels and measured on the test pictures."""
    path = chosen.out / f"{method}-{seed}-{share:g}.json"
    if path.exists():
        found: dict[str, object] = json.loads(path.read_text())
        return found
    examples = few_labels(open_data(chosen.data, val=0.0), share, seed)
    wishes = job.Wishes(
        chosen.data, Budget(minutes=chosen.tuning), start=None if start is None else str(start), seed=seed
    )
    folder = chosen.out / f"{method}-{seed}-{share:g}"
    with Display() as display:
        outcome = job.train(
            job.plan(wishes, examples), folder, display, started=time.monotonic(), overwrite=True
        ).outcome
    assert outcome.split == "test"
    made = {"method": method, "share": share, "seed": seed, "accuracy": outcome.evaluation.accuracy}
    path.write_text(json.dumps(made))
    return made


def few_labels(examples: Examples, share: float, seed: int) -> Examples:
    """The same with a share of the training pictures, as many of each class, the same for every method."""
    random, kept = np.random.default_rng(seed), []
    train = examples.split("train")
    for number in range(len(examples.classes)):
        of_class = random.permutation(train[examples.targets[train] == number])
        kept.append(of_class[: max(2, round(len(of_class) * share))])
    return examples.replace(splits={**examples.splits, "train": np.sort(np.concatenate(kept))})


def table(cells: list[dict[str, object]], chosen: argparse.Namespace) -> str:
    """Rows are methods, columns shares of the labels; mean and standard deviation over the seeds."""
    methods = list(dict.fromkeys(str(made["method"]) for made in cells))
    minutes = f"{chosen.minutes:g} minutes without labels, {chosen.tuning:g} with"
    lines = [
        f"{chosen.data}: {minutes}; test accuracy, mean and deviation of {len(chosen.seeds)} seeds",
        "",
        "| method | " + " | ".join(f"{share:.0%} of the labels" for share in SHARES) + " |",
        "|---|" + "---|" * len(SHARES),
    ]
    for method in methods:
        row = []
        for share in SHARES:
            found = [float(str(m["accuracy"])) for m in cells if m["method"] == method and m["share"] == share]
            spread = statistics.stdev(found) if len(found) > 1 else 0.0
            row.append(f"{100 * statistics.mean(found):.2f} ± {100 * spread:.2f}")
        lines.append(f"| {method} | " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
