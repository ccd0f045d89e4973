"""What a report is made from: plain facts of a run, gathered by whoever trained or evaluated it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from vitrail.data.examples import Examples, Pixels
from vitrail.evaluate.evaluation import Evaluation
from vitrail.evaluate.metrics import Floats, Ints
from vitrail.explain.internals import Internals

Row = Mapping[str, Any]  # of metrics.jsonl


@dataclass(frozen=True)
class DataFacts:
    """The pictures of a run: how many of each class in each split, and what was found out about them."""

    name: str
    pictures: Mapping[str, int]  # in each split
    counts: Mapping[str, Sequence[int]]  # in each split, of each class
    sizes: str = ""  # in words: "28 × 28 pixels", "from 320 × 240 to 4000 × 3000 pixels"
    channels: int | None = None
    left_out: Sequence[tuple[str, str]] = ()  # name and why
    notes: Sequence[str] = ()

    @classmethod
    def of(cls, examples: Examples, *, sizes: str = "", channels: int | None = None) -> DataFacts:
        splits = examples.splits.items()
        return cls(
            name=examples.name,
            pictures={split: len(indices) for split, indices in splits},
            counts={split: _class_counts(examples, indices) for split, indices in splits},
            sizes=sizes,
            channels=channels,
            left_out=examples.left_out,
            notes=examples.notes,
        )


def _class_counts(examples: Examples, indices: NDArray[np.int64]) -> list[int]:
    targets = examples.targets[indices]
    if examples.multi_label:
        return targets.sum(axis=0).tolist()
    return np.bincount(targets[targets >= 0], minlength=len(examples.classes)).tolist()


class Story(Protocol):
    """What every run can tell, whatever it was for: its curves, its data, its settings, what to do next."""

    @property
    def title(self) -> str: ...
    @property
    def metrics(self) -> Sequence[Row]: ...
    @property
    def classes(self) -> tuple[str, ...]: ...
    @property
    def data(self) -> DataFacts: ...
    @property
    def config(self) -> Mapping[str, Any]: ...
    @property
    def reasons(self) -> Mapping[str, str]: ...
    @property
    def commands(self) -> Sequence[tuple[str, str]]: ...


@dataclass(frozen=True, eq=False)
class Look:
    """The n-th of the N pictures as the model sees it, and where its answer comes from (any rows x columns)."""

    n: int
    pixels: Pixels
    heat: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class InsideFacts:
    """A look inside the model: its best and worst pictures explained, and its internals. `note`: what is missing."""

    best: Sequence[Look] = ()
    worst: Sequence[Look] = ()
    method: str = ""  # of the explanations, in words
    internals: Internals | None = None
    note: str = ""


@dataclass(frozen=True)
class RunFacts:
    """A run and how good its model is on the N pictures of one split, with K classes."""

    title: str
    summary: str  # a sentence in plain words; where it is empty, one is made from the rest
    metrics: Sequence[Row]
    evaluation: Evaluation
    split: str
    probabilities: Floats  # N x K, calibrated
    targets: Ints  # N, or N x K of 0 and 1 where a picture can have several labels
    classes: tuple[str, ...]
    names: Sequence[str]  # of the N pictures
    picture: Callable[[int], Pixels]  # the n-th of the N; may raise ImageError
    data: DataFacts
    config: Mapping[str, Any]  # as in config.yaml, sections inside
    reasons: Mapping[str, str] = field(default_factory=dict)  # "optim.lr": why it was chosen, for automatic choices
    commands: Sequence[tuple[str, str]] = ()  # ("Predict", "vitrail predict runs/x photo.jpg")
    inside: InsideFacts | None = None
    there: int | None = None  # pictures of the split, where the N were drawn from more

    def __post_init__(self) -> None:
        assert self.probabilities.shape == (len(self.targets), len(self.classes))
        assert len(self.names) == len(self.targets)
        assert self.evaluation.multi_label == (self.targets.ndim == 2)

    @property
    def multi_label(self) -> bool:
        return self.evaluation.multi_label

    @property
    def measured_on(self) -> str:
        """What the figures were measured on, in words."""
        held_back = {
            "test": "pictures of the test split, which it never saw",
            "val": "validation pictures: not trained on, but used to choose its weights and to calibrate it",
        }
        count = f"{self.evaluation.count:,}" + ("" if self.there is None else f" of {self.there:,}")
        return f"{count} {held_back.get(self.split, f'pictures of the split {self.split}')}"
