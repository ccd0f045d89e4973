"""Does pre-training without labels help where labels are few? Each method, then 1 % and 10 % of the labels.

    python benchmarks/pretraining.py [--data fashion-mnist] [--minutes 10] [--tuning 1500] [--jobs 1] [--out FOLDER]

For each seed every method pre-trains on all training pictures without their labels; then a classifier is fine-tuned
from its encoder on a share of the labels, beside two from scratch, on the same pictures, for as many steps of as many
pictures: the encoder's own shape, and the model that `vitrail train` takes by itself, both with its recipe. A third is
fine-tuned like the others, but from an encoder that has learned nothing: fine-tuning begins with a closed-form probe,
which is worth something on any features. Test accuracy, mean and spread over the seeds.

Work is counted in steps, so that a busy machine changes the time but not the result: how many steps `--minutes` are
worth for each method is measured once, by the time of the processor, and kept in steps.json, or given by `--steps`.
What it will cost is said first. Finished cells are not repeated and interrupted runs go on, so the same command again
continues. `--jobs 2` does two at a time, with half of the cores each; `--threads 1` uses one core.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from rich.console import Console

from vitrail.data.examples import Examples
from vitrail.data.loader import TrainingLoader
from vitrail.data.sources import open_data
from vitrail.methods.registry import METHODS
from vitrail.model import build
from vitrail.train import job, pretraining
from vitrail.train.optim import build_optimizers
from vitrail.train.pretraining_recipe import PretrainSettings
from vitrail.train.progress import Display
from vitrail.train.session import Plan
from vitrail.train.settings import Budget
from vitrail.weights.artefact import Artefact

SHARES = (0.01, 0.10)
SCRATCH = ("scratch, the same model", "scratch, as `vitrail train` chooses")
UNTRAINED = "an untrained encoder, fine-tuned"
BESIDE = (*SCRATCH, UNTRAINED)  # what the methods are compared with
TUNING_BATCH = 32
TIMED = 15  # steps


class Asked(NamedTuple):
    data: str
    minutes: float  # that models and recipes are chosen for
    tuning: int  # steps
    threads: int
    out: Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="fashion-mnist")
    parser.add_argument("--minutes", type=float, default=10.0, help="of each pre-training, on a quiet machine")
    parser.add_argument("--steps", type=int, help="of each pre-training, in the place of those minutes")
    parser.add_argument("--tuning", type=int, default=1500, help="steps of each fine-tuning")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, choices=(1, 2), default=1)
    parser.add_argument("--threads", type=int, help="of each job; its share of the cores if not given")
    parser.add_argument("--out", type=Path, default=Path("runs/pretraining"))
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    threads = chosen.threads or max(1, (os.cpu_count() or 1) // chosen.jobs)
    asked = Asked(chosen.data, chosen.minutes, chosen.tuning, threads, chosen.out)
    seconds = seconds_a_step(asked, chosen.methods)
    steps = {method: chosen.steps or round(60 * chosen.minutes / seconds[method]) for method in chosen.methods}
    say_cost(asked, seconds, steps, len(chosen.seeds), chosen.jobs)
    chains = [(asked, method, steps.get(method, 0), seed) for seed in chosen.seeds for method in (*BESIDE, *steps)]
    with ProcessPoolExecutor(chosen.jobs, multiprocessing.get_context("spawn")) as pool:
        cells = [cell for cells in pool.map(chain, chains) for cell in cells]
    (chosen.out / "cells.json").write_text(json.dumps(cells, indent=1))
    shown = table(cells, asked, steps, chosen.seeds)
    (chosen.out / "table.md").write_text(shown)
    print(shown)


# ---- what it costs


def seconds_a_step(asked: Asked, methods: list[str]) -> dict[str, float]:
    """Of every method, measured once: later sittings count by the same steps."""
    path = asked.out / "steps.json"
    known: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}
    torch.set_num_threads(asked.threads)
    for method in methods:
        if method not in known:
            known[method] = timed(planned_encoder(asked, method, 0)) / asked.threads
            path.write_text(json.dumps(known, indent=1))
    return known


def timed(planned: Plan) -> float:
    """Seconds of the processor, the median of a few steps after the first ones: others on the machine do not count."""
    settings = planned.settings
    assert isinstance(settings, PretrainSettings)
    method = pretraining.build_method(settings).train()
    optimizers = build_optimizers(method, settings.optim)
    optimizers.set_rate(settings.optim.lr)
    loader = TrainingLoader(
        planned.examples, "train", settings.image, settings.augment,
        batch_size=settings.batch_size, channels=settings.model.channels, seed=settings.seed,
    )  # fmt: skip
    batches, times = loader.batches(0), []
    for step in range(TIMED):
        start = time.process_time()
        method(next(batches), 0, step, step / TIMED).backward()
        for optimizer in optimizers.parts:
            optimizer.step()
        optimizers.zero_grad()
        times.append(time.process_time() - start)
    return statistics.median(times[TIMED // 3 :])


def say_cost(asked: Asked, seconds: dict[str, float], steps: dict[str, int], seeds: int, jobs: int) -> None:
    minutes = {method: count * seconds[method] / 60 for method, count in steps.items()}
    for method, count in steps.items():
        print(f"{method}: {count:,} steps, about {minutes[method]:.0f} minutes for each of {seeds} seeds")
    cells = seeds * len(SHARES) * (len(BESIDE) + len(steps))
    print(f"and {cells} classifiers of {asked.tuning:,} steps of {TUNING_BATCH} pictures")
    print(f"pre-training takes about {seeds * sum(minutes.values()) / jobs / 60:.1f} hours in all", flush=True)


# ---- the work


def chain(given: tuple[Asked, str, int, int]) -> list[dict[str, Any]]:
    """One encoder, and the classifiers from it; or those from scratch."""
    asked, method, steps, seed = given
    start = None if method in SCRATCH else encoder(asked, method, steps, seed)
    cells = [classifier(asked, method, start, share, seed) for share in SHARES]
    said = ", ".join(f"{cell['accuracy']:.2%} with {cell['share']:.0%}" for cell in cells)
    print(f"{method}, seed {seed}: {said} of the labels", flush=True)
    return cells


def planned_encoder(asked: Asked, method: str, seed: int) -> Plan:
    wishes = pretraining.Wishes(
        asked.data,
        Budget(minutes=asked.minutes),
        method=method,
        labels=False,
        seed=seed,
        device="cpu",
        changes={"threads": asked.threads},
    )
    return pretraining.plan(wishes)


def encoder(asked: Asked, method: str, steps: int, seed: int) -> Path:
    """The run of a method, made unless it is there; one that was interrupted goes on."""
    folder = asked.out / f"{named(method)}-{seed}"
    if method == UNTRAINED:
        return untrained(asked, folder, seed)
    if (folder / "report.html").exists():
        return folder
    with Display(Console(quiet=True)) as display:
        if (folder / "config.yaml").exists():
            pretraining.resume(folder, display, started=time.monotonic())
        else:
            planned = counted(planned_encoder(asked, method, seed), steps)
            pretraining.pretrain(planned, folder, display, started=time.monotonic())
    return folder


def untrained(asked: Asked, folder: Path, seed: int) -> Path:
    """The encoder of `mae` as it starts."""
    settings = planned_encoder(asked, "mae", seed).settings
    torch.manual_seed(seed)
    folder.mkdir(exist_ok=True)
    Artefact(model=build(settings.model), preprocessing=settings.image).save(folder / "model.safetensors")
    return folder


def classifier(asked: Asked, method: str, start: Path | None, share: float, seed: int) -> dict[str, Any]:
    """One classifier, trained on a share of the labels and measured on the test pictures."""
    folder = asked.out / f"{named(method)}-{seed}-{share:g}"
    path = asked.out / f"{folder.name}.json"
    if path.exists():
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    examples = few_labels(open_data(asked.data, val=0.0), share, seed)
    wishes = job.Wishes(
        asked.data,
        Budget(steps=asked.tuning),
        start=None if start is None else str(start),
        seed=seed,
        device="cpu",
        changes={"threads": asked.threads, "batch_size": TUNING_BATCH, **shape(asked, method)},
    )
    planned = job.plan(wishes, examples)
    with Display(Console(quiet=True)) as display:
        outcome = job.train(planned, folder, display, started=time.monotonic(), overwrite=True).outcome
    assert outcome.split == "test"
    made = {"method": method, "share": share, "seed": seed, "accuracy": outcome.evaluation.accuracy}
    path.write_text(json.dumps(made))
    return made


def shape(asked: Asked, method: str) -> dict[str, Any]:
    """Of a model from scratch: the encoder's, or the one that `vitrail train` takes for these minutes."""
    if method not in SCRATCH:
        return {}
    if method == SCRATCH[0]:
        planned = planned_encoder(asked, "mae", 0)
    else:
        planned = job.plan(job.Wishes(asked.data, Budget(minutes=asked.minutes), device="cpu"))
    return {f"model.{key}": value for key, value in planned.settings.model.to_dict().items() if key != "num_classes"}


def named(method: str) -> str:
    """As a part of a folder's name."""
    return dict(zip(BESIDE, ("scratch-same", "scratch-own", "untrained"), strict=True)).get(method, method)


def counted(planned: Plan, steps: int) -> Plan:
    """Chosen for so many minutes, done by so many steps."""
    return planned._replace(settings=planned.settings.replace(budget=Budget(steps=steps)))


def few_labels(examples: Examples, share: float, seed: int) -> Examples:
    """The same with a share of the training pictures, as many of each class, the same for every method."""
    random, kept = np.random.default_rng(seed), []
    train = examples.split("train")
    for number in range(len(examples.classes)):
        of_class = random.permutation(train[examples.targets[train] == number])
        kept.append(of_class[: max(2, round(len(of_class) * share))])
    return examples.replace(splits={**examples.splits, "train": np.sort(np.concatenate(kept))})


def table(cells: list[dict[str, Any]], asked: Asked, steps: dict[str, int], seeds: list[int]) -> str:
    """Rows are methods, columns shares of the labels; mean and standard deviation over the seeds."""
    tuned = f"{asked.tuning:,} steps of {TUNING_BATCH} pictures with labels"
    lines = [
        f"{asked.data}: {tuned}; test accuracy, mean and deviation of {len(seeds)} seeds",
        "",
        "| method | steps without labels | " + " | ".join(f"{share:.0%} of the labels" for share in SHARES) + " |",
        "|---|" + "---|" * (len(SHARES) + 1),
    ]
    for method in (*BESIDE, *steps):
        row = [f"{steps.get(method, 0):,}"]
        for share in SHARES:
            found = [cell["accuracy"] for cell in cells if (cell["method"], cell["share"]) == (method, share)]
            spread = statistics.stdev(found) if len(found) > 1 else 0.0
            row.append(f"{100 * statistics.mean(found):.2f} ± {100 * spread:.2f}")
        lines.append(f"| {method} | " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
