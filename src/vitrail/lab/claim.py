"""What a claim is: a hypothesis, the arms that are compared, what is measured, and how that is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vitrail.lab.statistics import Table
from vitrail.lab.verdict import Verdict

SUPERVISED = "supervised"  # the method that learns from labels


@dataclass(frozen=True)
class Arm:
    """One setting that is compared: what it changes in the standard one."""

    name: str
    changes: Mapping[str, Any] = field(default_factory=dict)  # named as in config.yaml: "model.positions"
    pictures: int | None = None  # to train on, drawn by seed, those of a smaller number among them; None: all
    start: str | None = None  # the arm whose weights it starts from
    steps: float = 1.0  # share of the claim's steps
    method: str = SUPERVISED  # how a batch becomes a loss; others need no labels
    judged: bool = True  # False: only there for others to start from
    series: str = ""  # the line of the figure it belongs to, and its place on it, above 0
    x: float | None = None


@dataclass(frozen=True)
class Gap:
    """A line of the figure of differences: one series minus another, by seed."""

    name: str
    one: str
    other: str


@dataclass(frozen=True)
class Results:
    """What the judged arms came to: for each figure that was measured, an arm to its values by seed."""

    tables: Mapping[str, Table]

    def __getitem__(self, measured: str) -> Table:
        return self.tables[measured]

    def only(self, names: Sequence[str], measured: str = "accuracy") -> Table:
        return {name: self.tables[measured][name] for name in names}


@dataclass(frozen=True)
class Claim:
    """One claim of the paper. `hypothesis` and `judge` were written before the run."""

    name: str
    title: str
    hypothesis: str
    paper: str  # what the paper reports, and where
    differs: str  # how this setting is not the paper's
    if_not: str  # the likely reason where the verdict is another
    arms: tuple[Arm, ...]
    judge: Callable[[Results], Verdict]
    steps: int  # of a run
    minutes: float  # of one core, for three seeds at the standard steps, on the machine of LOG.md
    base: Mapping[str, Any] = field(default_factory=dict)  # changes that all arms share
    data: str = "cifar10"
    side: int = 16  # pixels, to which pictures are resized
    measures: tuple[str, ...] = ()  # beside the accuracy; names of `measures.py`
    shown: str = "accuracy"  # the figure that is drawn
    paper_values: Mapping[str, float] = field(default_factory=dict)  # by arm, where the paper has the same one
    x_label: str = ""  # of the figure's lines
    gaps: tuple[Gap, ...] = ()  # drawn before the accuracies: how far series are apart
    reached: float | None = None  # drawn in the place of the accuracies: the share of seeds with this one or more

    def __post_init__(self) -> None:
        names = [arm.name for arm in self.arms]
        assert len(set(names)) == len(names), f"{self.name}: two arms of one name"
        assert all(arm.start in (None, *names[:place]) for place, arm in enumerate(self.arms)), "start comes first"
        assert set(self.paper_values) <= set(names)

    @property
    def judged(self) -> tuple[Arm, ...]:
        return tuple(arm for arm in self.arms if arm.judged)
