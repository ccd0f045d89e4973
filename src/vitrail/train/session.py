"""A run being worked on: its data in memory, its loaders, its method."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from vitrail.data.cache import fastest_filling, fill_cache
from vitrail.data.examples import Examples, Indices
from vitrail.data.loader import Batch, EvaluationLoader, TrainingLoader
from vitrail.data.randomness import permutation
from vitrail.errors import FileError, ImageError
from vitrail.methods.supervised import Supervised
from vitrail.model import Model
from vitrail.train.distributed import beside, world
from vitrail.train.facts import class_counts
from vitrail.train.progress import Display
from vitrail.train.rations import READING, TESTING, affordable
from vitrail.train.run import Run
from vitrail.train.settings import TrainSettings
from vitrail.train.validate import Answers

CACHE_SHARE = 0.3  # of the memory that is free


class Plan(NamedTuple):
    """Data and settings that fit each other, before anything is written."""

    examples: Examples
    settings: TrainSettings
    reasons: dict[str, str]
    size: tuple[int, int]  # of a typical picture, as it was found


class Session:
    """Pictures are read once, those that cannot be opened are named; loaders and the method follow the settings."""

    def __init__(self, plan: Plan, run: Run, display: Display, started: float | None = None) -> None:
        self.settings, self.reasons, self.run, self.display = plan.settings, plan.reasons, run, display
        self.typical_size, self.source = plan.size, plan.examples  # as they were opened, at their own size
        self.started = time.monotonic() if started is None else started
        torch.set_num_threads(self.settings.threads or max(1, torch.get_num_threads() // beside()))
        self.telling: float | None = None  # the fewest seconds that the model took to tell what one picture shows
        self.told: Answers | None = None  # in the last validation
        self.best_told: Answers | None = None  # in that of the best weights, which are kept
        self._named: set[int] = set()
        self.examples = self._read_once(plan.examples)
        self.in_memory = self.examples.pictures is not plan.examples.pictures
        self.workers = self._workers()
        self.channels = self.settings.model.channels

    @cached_property
    def fingerprint(self) -> str:
        """Of the pictures; it goes into every model file that a run saves, and takes a moment where they are many."""
        return self.examples.fingerprint()

    def elapsed(self) -> float:
        """Seconds since the command began."""
        return time.monotonic() - self.started

    def note_telling(self, seconds: float) -> None:
        """Of one picture. The fewest count: another program may have been busy the other times."""
        self.telling = min(seconds, self.telling or seconds)

    def ration(self, share: float) -> float:
        """So much of the minutes, in seconds; endless where the budget is none of time."""
        minutes = self.settings.budget.minutes
        return math.inf if minutes is None else share * 60 * minutes

    def how_many(self, split: str) -> int:
        """Pictures of val or test that the model is asked about: all, or as many as the minutes allow."""
        there = len(self.examples.splits.get(split, ()))
        if split == "val":
            return min(there, self.settings.validate_on or there)
        return affordable(there, self.ration(TESTING), self.telling)

    def asked(self, split: str) -> Indices:
        """These pictures; a part of them is drawn by chance, but is the same part for the same number."""
        indices, count = self.examples.split(split), self.how_many(split)
        return indices if count == len(indices) else indices[permutation(0, 0, len(indices))[:count]]

    def seconds_to_validate(self) -> float:
        """0 where it is not known."""
        return (self.telling or 0.0) * self.how_many("val")

    def seconds_to_test(self) -> float:
        """The evaluation at the end, 0 where it is not known."""
        return (self.telling or 0.0) * self.how_many("test")

    def change(self, **changes: Any) -> None:
        """Settings that could only be chosen on the way, written down at once: a resumed run must not choose again."""
        self.settings = self.settings.replace(**changes)
        self.write_settings()

    def write_settings(self) -> None:
        self.run.write_settings(self.settings.to_dict(), self.reasons)

    def _read_once(self, examples: Examples) -> Examples:
        """All pictures into memory, where they fit and there is time; those that cannot be opened are left out.

        These are named. The processes of a run agree: what one of them leaves out, all do. A run remembers which way it
        went: what is cut out of a picture that was made smaller is not the same to the last bit.
        """
        asked = world().tell(self.settings.in_memory)
        seconds = self.ration(READING) if asked is None else math.inf
        found = None if asked is False else self._in_memory(examples, seconds)
        if asked is None:
            self.change(in_memory=found is not None)
        if found is None and asked is not False:
            count = sum(map(len, examples.splits.values()))
            self.display.said(f"  {count:,} pictures are read as they are needed: no time or memory for all at once")
        return examples if found is None else found

    def _in_memory(self, examples: Examples, seconds: float) -> Examples | None:
        """The same pictures, read; None where they do not fit, or reading them would take longer than that."""
        wanted = np.concatenate(list(examples.splits.values()))
        how = (self.settings.image, self.settings.model.channels)
        filling = world().of_first(lambda: fastest_filling(examples, wanted, *how, os.cpu_count() or 1))
        if filling.seconds > seconds:
            return None

        def progress(done: int) -> None:
            self.display.stage("reading pictures", done / len(wanted), f"{done:,} of {len(wanted):,}")

        limit = world().tell(int(CACHE_SHARE * free_memory() / beside()))
        found = fill_cache(examples, wanted, *how, limit_bytes=limit, threads=filling.threads, progress=progress)
        self.display.end_stage()
        if found is None:
            return None
        cached, bad = found
        return leave_out(examples.replace(pictures=cached), bad, self.display)

    def _workers(self) -> int:
        """Processes that read pictures: as asked for, else one a core where that is work."""
        if self.settings.workers is not None:
            return self.settings.workers
        return 0 if self.in_memory else max(1, (os.cpu_count() or 1) // beside())

    def name_unreadable(self, index: int, why: ImageError) -> None:
        """Told once a run. Only pictures that did not fit into memory are opened as late as when they are needed."""
        if index not in self._named:
            self._named.add(index)
            self.display.said(f"left out: {why}")

    def training_loader(self) -> TrainingLoader:
        here = world()
        return TrainingLoader(
            self.examples,
            "train",
            self.settings.image,
            self.settings.augment,
            batch_size=self.settings.batch_size,
            channels=self.channels,
            seed=self.settings.seed,
            workers=self.workers,
            in_memory=self.in_memory,
            balance=sampling_weights(self.examples) if self.settings.balance == "sampler" else None,
            rank=here.rank,
            world=here.size,
            unreadable=self.name_unreadable,
        )

    def evaluation_loader(self, indices: Indices) -> EvaluationLoader:
        return EvaluationLoader(
            self.examples,
            indices,
            self.settings.image,
            batch_size=min(512, max(16, self.settings.batch_size)),
            channels=self.channels,
            workers=self.workers,
            unreadable=self.name_unreadable,
        )

    def shown(self, indices: Indices, stage: str) -> Iterator[Batch]:
        """All batches of some pictures; how far that is, is shown as `stage`."""
        total, done = len(indices), 0
        try:
            for batch in self.evaluation_loader(indices):
                yield batch
                done += len(batch.targets)
                self.display.stage(stage, done / total, f"{done:,} of {total:,} pictures")
        finally:
            self.display.end_stage()

    def method(self, model: Model) -> Supervised:
        """What trains `model` on these labels."""
        weights = class_weights(self.examples) if self.settings.balance == "weights" else None
        return Supervised(model, len(self.examples.classes), self.settings.regularise, self.settings.seed, weights)


def leave_out(examples: Examples, bad: Mapping[int, ImageError], display: Display) -> Examples:
    """The examples without pictures that cannot be opened, each of them named."""
    for error in bad.values():
        display.said(f"left out: {error}")
    kept = examples.without(bad)
    for split, indices in kept.splits.items():
        if not len(indices):
            raise FileError(f"no picture of the split {split!r} can be opened", where=examples.name)
    return kept


def class_weights(examples: Examples) -> torch.Tensor:
    """How much a picture of each class counts, so that classes count alike; 1 on average over the pictures."""
    counts = np.maximum(class_counts(examples), 1)
    return torch.tensor(counts.sum() / (len(counts) * counts), dtype=torch.float32)


def sampling_weights(examples: Examples) -> NDArray[np.float64]:
    """How often to draw each training picture, so that classes come alike."""
    counts = np.maximum(class_counts(examples), 1)
    targets = examples.targets[examples.split("train")]
    if examples.multi_label:  # a picture is as rare as its rarest label
        return (targets / counts).max(axis=1).clip(min=1 / counts.max())
    return 1.0 / counts[targets]


def free_memory() -> int:
    """Bytes that can be had without swapping; 4 GiB where the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return 4 * 2**30
