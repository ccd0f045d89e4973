"""A run beside those that lie next to it and were measured on the very same pictures: which one is better?"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import NamedTuple

from vitrail.evaluate.metrics import Interval
from vitrail.train.finish import Outcome
from vitrail.train.run import EVALUATION, SPLIT


class Other(NamedTuple):
    """Another run, and what it reached."""

    folder: Path
    accuracy: float
    interval: Interval  # 95 %

    def words(self, ours: Interval) -> str:
        """Whether ours is better, as far as the pictures are enough to tell."""
        if ours[0] > self.interval[1]:
            verdict = "this run is better"
        elif ours[1] < self.interval[0]:
            verdict = "this run is worse"
        else:
            verdict = "no sure difference"
        return f"{self.folder} has {self.accuracy:.1%} of the same pictures: {verdict}"


def best_other(folder: Path, outcome: Outcome) -> Other | None:
    """The best of the runs in the same folder whose pictures and labels were those of this one."""
    try:
        paths, pictures = sorted(folder.parent.iterdir()), _pictures(folder, outcome.split)
    except OSError:  # a folder that may be written to, but not listed
        return None
    beside = [path for path in paths if path.name != folder.name]
    found = [other for path in beside if (other := _measured(path, outcome, pictures))]
    return max(found, key=lambda other: other.accuracy, default=None)


def _measured(path: Path, outcome: Outcome, pictures: set[tuple[str, str]]) -> Other | None:
    """What another run reached; nothing where it is unfinished, damaged or about other pictures."""
    try:
        found = json.loads((path / EVALUATION).read_text(encoding="utf-8"))
        if (found["split"], found["count"]) != (outcome.split, outcome.evaluation.count):
            return None
        if _pictures(path, outcome.split) != pictures:
            return None
        low, high = found["interval"]
        return Other(path, float(found["accuracy"]), (float(low), float(high)))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _pictures(folder: Path, split: str) -> set[tuple[str, str]]:
    with (folder / SPLIT).open(encoding="utf-8", newline="") as file:
        return {(row["path"], row["label"]) for row in csv.DictReader(file) if row["split"] == split}
