"""The certificate: what was exported gives the same answers as the model it came from, and how that was found out.

Both are asked about the same pictures, as a user would ask them: waves drawn by a formula, and a sample of the user's
own where there is one, in batches of several sizes.
"""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitrail.config import Pair
from vitrail.data.examples import Pixels
from vitrail.errors import CheckFailed
from vitrail.predict.engines import Engine, Logits
from vitrail.version import __version__

TOLERANCE = 1e-4  # of logits, for each unit of the largest; other engines add in another order
BATCHES = (1, 2, 5)
WAVES = 8


@dataclass(frozen=True)
class Certificate:
    """What was compared, and what came out. `exact` says whether equality was demanded, or only measured."""

    source: str
    target: str
    engine: str
    pictures: int
    own_pictures: int  # of them from the user's data
    batches: tuple[int, ...]
    largest_difference: float  # of any logit
    largest_logit: float
    same_label: float  # share of the pictures
    tolerance: float
    exact: bool
    versions: dict[str, str]
    sha256: str = ""
    bytes: int = 0
    notes: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return self.same_label == 1.0 and self.largest_difference <= self.tolerance * max(1.0, self.largest_logit)

    def to_dict(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "holds": self.holds}

    def text(self) -> str:
        """For people, a few lines."""
        own = f", {self.own_pictures} of them yours" if self.own_pictures else ""
        verdict = "the same answers" if self.holds else "other answers, as was accepted"
        lines = [
            f"{self.target} ({self.engine}) beside {self.source}: {verdict}",
            f"{self.pictures} pictures{own}, in batches of {', '.join(map(str, self.batches))}",
            f"largest difference of a logit {self.largest_difference:.1e}, largest logit {self.largest_logit:.3g}",
            f"tolerance {self.tolerance:g} of the largest logit, or of 1",
            f"same label for {self.same_label:.2%} of the pictures",
            f"sha256 {self.sha256}, {self.bytes:,} bytes",
            *self.notes,
        ]
        return "\n".join(lines) + "\n"


def certify(original: Engine, made: Engine, pictures: Pixels, **about: Any) -> Certificate:
    """Compare two engines on the same pictures; `about` is what `compare` wants to know."""
    batches = tuple(about.pop("batches", BATCHES))
    wanted, found = in_batches(original, pictures, (8,)), in_batches(made, pictures, batches)
    return compare(wanted, found, engine=made.name, batches=batches, **about)


def compare(
    wanted: Logits,
    found: Logits,
    *,
    source: str,
    target: str,
    engine: str,
    batches: tuple[int, ...],
    own_pictures: int = 0,
    tolerance: float = TOLERANCE,
    exact: bool = True,
    notes: tuple[str, ...] = (),
) -> Certificate:
    """Answers (N x K) beside answers; where they are to be equal and are not, that is an error."""
    certificate = Certificate(
        source=source,
        target=target,
        engine=engine,
        pictures=len(wanted),
        own_pictures=own_pictures,
        batches=batches,
        largest_difference=_largest(wanted - found),
        largest_logit=_largest(wanted),
        same_label=float((wanted.argmax(axis=1) == found.argmax(axis=1)).mean()),
        tolerance=tolerance,
        exact=exact,
        versions={"vitrail": __version__, "python": platform.python_version()},
        notes=notes,
    )
    if exact and not certificate.holds:
        raise CheckFailed(
            f"its answers differ from the model's by {certificate.largest_difference:.2g}, and "
            f"{certificate.same_label:.1%} have the same label",
            where=target,
            fix="nothing was written; please report this model",
        )
    return certificate


def in_batches(engine: Engine, pictures: Pixels, sizes: Sequence[int]) -> Logits:
    """All answers, asked for in batches whose sizes take turns."""
    answers, place, turn = [], 0, 0
    while place < len(pictures):
        size = sizes[turn % len(sizes)]
        answers.append(engine(pictures[place : place + size]))
        place, turn = place + size, turn + 1
    return np.concatenate(answers)


def waves(size: Pair, channels: int, count: int = WAVES) -> Pixels:
    """Pictures drawn by a formula, the same on every machine: rows x columns x channels, 0 to 255."""
    rows, columns = np.arange(size[0])[:, None, None], np.arange(size[1])[None, :, None]
    channel = np.arange(channels)
    drawn: list[NDArray[np.float64]] = [
        np.sin(0.11 * (k + 1) * rows + 0.07 * (channel + 1) * columns + k + channel) for k in range(count)
    ]
    return np.rint(127.5 * (1 + np.stack(drawn))).astype(np.uint8)


def _largest(values: Logits) -> float:
    """NaN counts as more than anything."""
    worst = float(np.abs(values).max())
    return float("inf") if np.isnan(worst) else worst
