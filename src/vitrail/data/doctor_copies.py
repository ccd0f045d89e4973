"""Copies: of the same bytes, or near ones; within a split, across splits (leakage), across classes (contradiction)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from vitrail.data.doctor_parts import Finding, Severity, labels_of, split_of
from vitrail.data.doctor_survey import Look
from vitrail.data.examples import Examples
from vitrail.data.labels import count
from vitrail.data.perceptual import near_pairs

Group = tuple[int, ...]


class _Manner(NamedTuple):
    """How copies are spoken of, and how bad they are within a split."""

    prefix: str
    word: str
    within: Severity


EXACT = _Manner("copies", "the same picture", "warning")
NEAR = _Manner("near-copies", "nearly the same picture", "note")


def exact_copies(examples: Examples, digests: Mapping[int, bytes]) -> list[Finding]:
    """Findings about pictures with the same digest."""
    same = defaultdict[bytes, list[int]](list)
    splits = split_of(examples)
    for index, digest in digests.items():
        if index in splits:
            same[digest].append(index)
    groups = [tuple(group) for group in same.values() if len(group) > 1]
    contradicting = [group for group in groups if len({*_labelled(examples, group)}) > 1]
    leaking = [group for group in groups if len({splits[index] for index in group}) > 1]
    return _findings(EXACT, splits, contradicting, leaking, groups)


def near_copies(examples: Examples, looks: Mapping[int, Look]) -> list[Finding]:
    """Findings about pictures that look nearly the same. One of each set of exact copies stands for all of them."""
    splits = split_of(examples)
    known = dict[bytes, int]()
    for index, look in looks.items():
        if index in splits and not look.blank:
            known.setdefault(look.digest, index)
    places = list(known.values())
    if len(places) < 2:
        return []
    grey = np.stack([looks[index].thumbnail for index in places])
    tint = np.stack([looks[index].tint for index in places])
    pairs = [(places[pair.first], places[pair.second]) for pair in near_pairs(grey, tint)]
    contradicting = joined(pair for pair in pairs if len({*_labelled(examples, pair)}) > 1)
    leaking = joined((a, b) for a, b in pairs if splits[a] != splits[b])
    return _findings(NEAR, splits, contradicting, leaking, joined(pairs))


def _labelled(examples: Examples, group: Group) -> list[tuple[str, ...]]:
    return [labels for index in group if (labels := labels_of(examples, index))]


def _findings(
    manner: _Manner, splits: Mapping[int, str], contradicting: list[Group], leaking: list[Group], every: list[Group]
) -> list[Finding]:
    told = {index for group in (*contradicting, *leaking) for index in group}
    rest = [group for group in every if not told.issuperset(group)]
    made = (_contradiction(manner, contradicting), _leakage(manner, leaking, splits), _repetition(manner, rest))
    return [finding for finding in made if finding.groups]


def _contradiction(manner: _Manner, groups: list[Group]) -> Finding:
    what = f"{manner.word} under different labels: {_counted(groups)}"
    fix = "decide which label is right, and remove the others"
    return _finding(manner, "across-classes", "error", what, fix, groups)


def _leakage(manner: _Manner, groups: list[Group], splits: Mapping[int, str]) -> Finding:
    between = sorted({splits[index] for group in groups for index in group})
    what = f"{manner.word} in more than one split ({', '.join(between)}): {_counted(groups)}; scores would be too good"
    fix = "keep one of each, or keep them together: name a group in the manifest"
    return _finding(manner, "across-splits", "error", what, fix, groups)


def _repetition(manner: _Manner, groups: list[Group]) -> Finding:
    what = f"{manner.word} more than once in a split: {_counted(groups)}"
    fix = "keep one of each, unless it is meant to count more"
    return _finding(manner, "within-split", manner.within, what, fix, groups)


def _finding(manner: _Manner, place: str, severity: Severity, what: str, fix: str, groups: list[Group]) -> Finding:
    indices = tuple(dict.fromkeys(index for group in groups for index in group))
    return Finding(f"{manner.prefix}-{place}", severity, what, fix, indices, groups=tuple(groups))


def _counted(groups: list[Group]) -> str:
    return f"{count(sum(map(len, groups)), 'picture')} in {count(len(groups), 'set')}"


def joined(pairs: Iterable[tuple[int, int]]) -> list[Group]:
    """Sets of pictures that pairs hold together, in the order of their first pairs."""
    home: dict[int, int] = {}

    def root(index: int) -> int:
        while home.setdefault(index, index) != index:
            home[index] = index = home[home[index]]
        return index

    for a, b in pairs:
        home[root(b)] = root(a)
    members = defaultdict[int, list[int]](list)
    for index in list(home):
        members[root(index)].append(index)
    return [tuple(sorted(group)) for group in members.values()]
