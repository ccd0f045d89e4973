"""What is wrong with a set of pictures: `examine` looks, changes nothing, and says what it found and how to cure it."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from hashlib import sha256

from vitrail.data.doctor_checks import (
    blank,
    class_findings,
    group_findings,
    mixtures,
    odd_pictures,
    unreadable,
)
from vitrail.data.doctor_copies import exact_copies, near_copies
from vitrail.data.doctor_names import name_findings
from vitrail.data.doctor_parts import Diagnosis, Finding, worst_first
from vitrail.data.doctor_survey import Look, Progress, pixels_digest, survey
from vitrail.data.examples import ArrayPictures, Examples, FilePictures
from vitrail.errors import ImageError

QUICKLY_HASHED = 100_000  # pictures


def examine(
    examples: Examples, *, quick: bool = False, threads: int = 2, progress: Progress | None = None
) -> Diagnosis:
    """All findings about a set. `quick` opens no picture: labels, groups, names, and exact copies of small sets."""
    about_labels = [*class_findings(examples), *group_findings(examples), *name_findings(examples)]
    if quick:
        return Diagnosis(examples, worst_first((*exact_copies(examples, _quick_digests(examples)), *about_labels)))
    seen = survey(examples.pictures, threads=threads, progress=progress)
    looks = {index: look for index, look in enumerate(seen) if isinstance(look, Look)}
    errors = {index: error for index, error in enumerate(seen) if isinstance(error, ImageError)}
    found: list[Finding] = [
        *unreadable(examples, errors),
        *exact_copies(examples, {index: look.digest for index, look in looks.items()}),
        *near_copies(examples, looks),
        *about_labels,
        *blank(looks),
        *mixtures(looks),
        *odd_pictures(looks),
    ]
    return Diagnosis(examples, worst_first(tuple(found)))


def _quick_digests(examples: Examples) -> dict[int, bytes]:
    """Of pictures that could be exact copies: arrays, and files that are as long as another one."""
    pictures = examples.pictures
    if len(pictures) > QUICKLY_HASHED:
        return {}
    if isinstance(pictures, ArrayPictures):
        return {index: pixels_digest(pictures.read(index)) for index in range(len(pictures))}
    if not isinstance(pictures, FilePictures):
        return {}
    by_length = defaultdict[int, list[int]](list)
    for index, path in enumerate(pictures.paths):
        if path.is_file():  # to read a pipe would be to wait for ever
            by_length[path.stat().st_size].append(index)
    digests = {}
    for index in (index for indices in by_length.values() if len(indices) > 1 for index in indices):
        with suppress(OSError):  # one that cannot be read is named when it is opened
            digests[index] = sha256(pictures.paths[index].read_bytes()).digest()
    return digests
