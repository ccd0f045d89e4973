"""What a doctor says about a set of pictures: findings, and all of them together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from vitrail.data.examples import NO_LABEL, Examples

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
FEW = 10  # pictures of a class below which it can hardly be learned


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong or odd."""

    kind: str  # for programs: "unreadable", "near-copies-across-splits" ...
    severity: Severity
    what: str  # one plain sentence
    fix: str
    indices: tuple[int, ...] = ()  # the pictures concerned, worst first
    details: tuple[str, ...] = ()  # more about each of these pictures, or about each class where there are none
    groups: tuple[tuple[int, ...], ...] = ()  # pictures that belong together: copies of each other


@dataclass(frozen=True)
class Diagnosis:
    """Findings, worst first, about a set of pictures."""

    examples: Examples
    findings: tuple[Finding, ...]

    @property
    def name(self) -> str:
        return self.examples.name

    @property
    def worst(self) -> Severity | None:
        return self.findings[0].severity if self.findings else None

    def number(self, severity: Severity) -> int:
        return sum(finding.severity == severity for finding in self.findings)

    def also(self, *more: Finding) -> Diagnosis:
        return Diagnosis(self.examples, worst_first((*self.findings, *more)))

    def to_dict(self) -> dict[str, Any]:
        """For a program: everything, with pictures by name."""
        return {
            "data": self.name,
            "pictures": len(self.examples),
            "splits": {split: len(indices) for split, indices in self.examples.splits.items()},
            "classes": class_counts(self.examples),
            "counts": {severity: self.number(severity) for severity in SEVERITIES},
            "findings": [self._describe(finding) for finding in self.findings],
            "notes": list(self.examples.notes),
        }

    def _describe(self, finding: Finding) -> dict[str, Any]:
        name = self.examples.pictures.name
        return {
            "kind": finding.kind,
            "severity": finding.severity,
            "what": finding.what,
            "fix": finding.fix,
            "pictures": [name(index) for index in finding.indices],
            "details": list(finding.details),
            "groups": [[name(index) for index in group] for group in finding.groups],
        }


def worst_first(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity)))


def class_counts(examples: Examples) -> dict[str, dict[str, int]]:
    """How many pictures of each class are in each split."""
    counts: dict[str, dict[str, int]] = {name: {} for name in examples.classes}
    for split, indices in examples.splits.items():
        targets = examples.targets[indices]
        numbers = targets.sum(axis=0) if examples.multi_label else _tally(targets, len(examples.classes))
        for name, number in zip(examples.classes, numbers.tolist(), strict=True):
            counts[name][split] = number
    return counts


def _tally(targets: np.ndarray[Any, np.dtype[np.int64]], classes: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.bincount(targets[targets != NO_LABEL], minlength=classes)


def labels_of(examples: Examples, index: int) -> tuple[str, ...]:
    """The classes of a picture, by name; none where it is unlabelled."""
    target = examples.targets[index]
    if examples.multi_label:
        return tuple(examples.classes[place] for place in np.flatnonzero(target))
    return () if target == NO_LABEL else (examples.classes[int(target)],)


def split_of(examples: Examples) -> dict[int, str]:
    """The split of each picture that is in one."""
    return {int(index): split for split, indices in examples.splits.items() for index in indices}
