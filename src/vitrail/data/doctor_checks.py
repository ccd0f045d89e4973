"""What labels, sizes and kinds of pictures can be wrong about: one function a question, each a list of findings."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from vitrail.data.doctor_parts import FEW, Finding, class_counts, split_of
from vitrail.data.doctor_survey import ODD, Look
from vitrail.data.examples import Examples
from vitrail.data.labels import count, listed
from vitrail.errors import ImageError

IMBALANCE = 10  # times, between the largest class and the smallest, that need care
SMALL_PART, SMALL_SIDE = 4, 32  # a very small picture: a quarter of the usual short side, and below 32 pixels
LONG_ASPECT = 5.0
SIZE_RANGE = 4.0  # between the short sides of the smallest and the largest twentieth


# Classes


def class_findings(examples: Examples) -> list[Finding]:
    """Empty, small, uneven and doubly named classes."""
    if not examples.classes:
        return []
    counts = class_counts(examples)
    return [*_missing(counts), *_small(counts), *_uneven(counts), *_alike(examples.classes)]


def _missing(counts: Mapping[str, Mapping[str, int]]) -> list[Finding]:
    found = []
    for split in next(iter(counts.values())):
        names = [name for name, by_split in counts.items() if not by_split[split]]
        if names and split == "train":
            fix = "add pictures of them, or remove the class"
            what = f"no training pictures of {listed(names)}"
            found.append(Finding("empty-class", "error", what, fix, details=tuple(names)))
        elif names:
            fix = f"move some pictures of them to {split}"
            what = f"{split} has no pictures of {listed(names)}, so nothing is known about how well they are told"
            found.append(Finding("class-not-judged", "warning", what, fix, details=tuple(names)))
    return found


def _small(counts: Mapping[str, Mapping[str, int]]) -> list[Finding]:
    few = {name: by["train"] for name, by in counts.items() if 0 < by.get("train", 0) < FEW}
    if not few:
        return []
    classes = "1 class has" if len(few) == 1 else f"{len(few)} classes have"
    what = f"{classes} fewer than {FEW} training pictures: {listed(few)}"
    details = tuple(f"{name}: {count(number, 'picture')}" for name, number in sorted(few.items(), key=lambda i: i[1]))
    return [Finding("small-class", "warning", what, "add pictures, or join classes that are alike", details=details)]


def _uneven(counts: Mapping[str, Mapping[str, int]]) -> list[Finding]:
    train = {name: by.get("train", 0) for name, by in counts.items() if by.get("train", 0)}
    if len(train) < 2:
        return []
    largest, smallest = max(train, key=lambda name: train[name]), min(train, key=lambda name: train[name])
    ratio = train[largest] / train[smallest]
    if ratio < IMBALANCE:
        return []
    what = (
        f"classes are uneven: {largest!r} has {count(train[largest], 'picture')}, {smallest!r} {train[smallest]:,} "
        f"({ratio:.0f} : 1); as varied as {effective_number(list(train.values())):.1f} even classes of {len(train)}"
    )
    fix = "look at balanced accuracy, train with --balance auto, or add pictures of the small ones"
    return [Finding("uneven-classes", "warning", what, fix)]


def effective_number(counts: list[int]) -> float:
    """Of how many equally large classes the labels would be as varied: the exponential of their entropy."""
    shares = np.array(counts) / sum(counts)
    return float(np.exp(-(shares * np.log(shares)).sum()))


def _alike(classes: tuple[str, ...]) -> list[Finding]:
    same = defaultdict[str, list[str]](list)
    for name in classes:
        same[_essence(name)].append(name)
    doubled = [names for names in same.values() if len(names) > 1]
    if not doubled:
        return []
    details = tuple(" / ".join(repr(name) for name in names) for names in doubled)
    what = f"names that may mean one class: {'; '.join(details[:3])}" + (" ..." if len(details) > 3 else "")
    return [Finding("alike-class-names", "warning", what, "join them if they are one class", details=details)]


def _essence(name: str) -> str:
    """A class name without case, separators and plural."""
    words = re.split(r"[\s_-]+", name.casefold())
    return "".join(_singular(word) for word in words) or name


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("ches", "shes", "sses", "xes", "oes")):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


# Groups


def group_findings(examples: Examples) -> list[Finding]:
    """Groups (a patient, a video) that are in more than one split."""
    if examples.groups is None:
        return []
    homes, members = defaultdict[str, set[str]](set), defaultdict[str, list[int]](list)
    for index, split in split_of(examples).items():
        homes[examples.groups[index]].add(split)
        members[examples.groups[index]].append(index)
    torn = tuple(tuple(sorted(members[group])) for group, splits in homes.items() if len(splits) > 1)
    if not torn:
        return []
    names = [group for group, splits in homes.items() if len(splits) > 1]
    what = f"{count(len(torn), 'group')} in more than one split: {listed(names)}; scores would be too good"
    fix = "put all pictures of a group into one split"
    return [Finding("group-across-splits", "error", what, fix, details=tuple(names), groups=torn)]


# Pictures


def unreadable(examples: Examples, errors: Mapping[int, ImageError]) -> list[Finding]:
    gone = [*(f"{left.name}: {left.why}" for left in examples.left_out), *(str(error) for error in errors.values())]
    if not gone:
        return []
    what = f"{count(len(gone), 'picture')} cannot be opened, and would be left out"
    fix = "copy or download them again, or remove them"
    return [Finding("unreadable", "error", what, fix, tuple(errors), details=tuple(gone))]


def blank(looks: Mapping[int, Look]) -> list[Finding]:
    indices = tuple(index for index, look in looks.items() if look.blank)
    what = f"{count(len(indices), 'picture')} of one colour all over"
    return (
        [Finding("blank", "warning", what, "remove them, or see why they came out blank", indices)] if indices else []
    )


def odd_pictures(looks: Mapping[int, Look]) -> list[Finding]:
    """Readable, but perhaps not what they were meant to be."""
    found = []
    for key, words in ODD.items():
        indices = tuple(index for index, look in looks.items() if key in look.odd)
        if indices:
            what = f"{count(len(indices), 'picture')} {words}"
            found.append(Finding(f"odd-{key}", "note", what, "nothing, if they look right", indices))
    return [*found, *_small_pictures(looks), *_long_pictures(looks)]


def _small_pictures(looks: Mapping[int, Look]) -> list[Finding]:
    sides = {index: min(look.size) for index, look in looks.items()}
    if not sides:
        return []
    limit = min(SMALL_SIDE, float(np.median(list(sides.values()))) / SMALL_PART)
    indices = tuple(sorted((i for i, side in sides.items() if side < limit), key=lambda index: sides[index]))
    what = f"{count(len(indices), 'picture')} far smaller than the rest"
    fix = "get larger ones, or leave them out: there is little to see on them"
    details = tuple(_times(looks[index]) for index in indices)
    return [Finding("very-small", "warning", what, fix, indices, details)] if indices else []


def _long_pictures(looks: Mapping[int, Look]) -> list[Finding]:
    aspects = {index: max(look.size) / min(look.size) for index, look in looks.items()}
    indices = tuple(sorted((i for i, a in aspects.items() if a >= LONG_ASPECT), key=lambda index: -aspects[index]))
    what = f"{count(len(indices), 'picture')} more than {LONG_ASPECT:g} times as long as wide"
    fix = "crop them to what matters: only the middle would be seen"
    details = tuple(_times(looks[index]) for index in indices)
    return [Finding("long", "note", what, fix, indices, details)] if indices else []


def mixtures(looks: Mapping[int, Look]) -> list[Finding]:
    """Pictures of very different sizes, and grey ones among coloured ones."""
    if len(looks) < 2:
        return []
    found = []
    low, high = np.quantile([min(look.size) for look in looks.values()], (0.05, 0.95))
    if high >= SIZE_RANGE * low:
        what = f"sizes differ much: the short side of most pictures is {low:.0f} to {high:.0f} pixels"
        fix = "see that no class is larger or smaller than the others: a model can tell them by that"
        found.append(Finding("mixed-sizes", "note", what, fix))
    grey = tuple(index for index, look in looks.items() if look.grey and not look.blank)
    if 0 < len(grey) < len(looks) / 2:
        what = f"{count(len(grey), 'grey picture')} among {len(looks) - len(grey):,} in colour"
        fix = "see that they are not all of one class: a model can tell them by that"
        found.append(Finding("grey-among-colour", "note", what, fix, grey))
    return found


def _times(look: Look) -> str:
    return f"{look.size[1]} x {look.size[0]} pixels"
