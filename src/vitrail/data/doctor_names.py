"""What file names tell of pictures that belong together: one picture in two splits, a series torn apart."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import PurePath

from vitrail.data.doctor_parts import Finding, split_of
from vitrail.data.examples import ArrayPictures, Examples
from vitrail.data.labels import count, listed

TELLING = 8  # letters and digits of a name that is hardly given twice by chance
COUNTERS = 0.5  # part of a split's names that another one has too, from which they only count pictures
SERIES = 3  # pictures that make a series


def name_findings(examples: Examples) -> list[Finding]:
    """Nothing where names tell nothing: arrays, plain numbers, one prefix a class."""
    if isinstance(examples.pictures, ArrayPictures) or len(examples.splits) < 2:
        return []
    splits = split_of(examples)
    stems = {index: PurePath(examples.pictures.name(index)).stem for index in splits}
    return [*_same_name(stems, splits), *_torn_series(stems, splits, len(examples.classes))]


def _same_name(stems: dict[int, str], splits: dict[int, str]) -> list[Finding]:
    places = defaultdict[str, list[int]](list)
    for index, stem in stems.items():
        if sum(c.isalnum() for c in stem) >= TELLING and any(c.isdigit() for c in stem):
            places[stem].append(index)
    shared = {stem: tuple(at) for stem, at in places.items() if len({splits[i] for i in at}) > 1}
    smallest = min(list(splits.values()).count(split) for split in set(splits.values()))
    if not shared or len(shared) >= COUNTERS * smallest:
        return []
    what = f"{count(len(shared), 'name')} in more than one split: {listed(shared)}"
    fix = "see whether they are the same pictures, or of the same thing"
    indices = tuple(index for group in shared.values() for index in group)
    return [Finding("name-across-splits", "warning", what, fix, indices, groups=tuple(shared.values()))]


def _torn_series(stems: dict[int, str], splits: dict[int, str], classes: int) -> list[Finding]:
    """`video7_012` and `video7_013`: told by more series than classes, or the series would be but the class."""
    series = defaultdict[str, list[int]](list)
    for index, stem in stems.items():
        numbered = re.fullmatch(r"(.*\d.*?)[\W_]+[a-zA-Z]*\d+", stem)
        if numbered:
            series[numbered[1]].append(index)
    told = {name: tuple(at) for name, at in series.items() if len(at) >= SERIES}
    torn = {name: at for name, at in told.items() if len({splits[i] for i in at}) > 1}
    if not torn or len(told) <= classes:
        return []
    what = (
        f"names tell of {count(len(told), 'serie')}, of which {len(torn):,} are in more than one split: {listed(torn)}"
    )
    fix = "if a series is one video, patient or thing, keep it in one split: name it as group in a manifest"
    indices = tuple(index for at in torn.values() for index in at)
    return [Finding("series-across-splits", "warning", what, fix, indices)]
