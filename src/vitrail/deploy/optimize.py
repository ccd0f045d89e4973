"""Smaller and faster on this machine: candidates are made, measured beside the original, and the best one is kept.

Accuracy is measured on the validation pictures, which choose; the chosen one is measured again on the test pictures,
which were not looked at. Speed is measured in turns with the original, so both saw the same machine.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from vitrail.data.examples import Examples, Pixels
from vitrail.deploy.candidates import Candidate, candidates
from vitrail.deploy.engines import race
from vitrail.deploy.onnx import exported_of
from vitrail.deploy.parity import certify
from vitrail.deploy.sample import read_some
from vitrail.errors import CheckFailed, VitrailError
from vitrail.predict.engines import Engine, OnnxEngine
from vitrail.predict.examples import evaluate_examples
from vitrail.predict.predictor import Predictor

Target = Literal["latency", "throughput", "size"]
MEASURED = 16  # pictures of the batch for throughput; also what calibration and comparison see
ORIGINAL = "as it is"


@dataclass(frozen=True)
class Measured:
    """One candidate: what it costs and how good it is. Ratios are to the original, measured in the same minutes."""

    name: str
    accuracy: float  # on the pictures that choose
    drop: float  # points lost, negative where it is better
    ms: float  # for one picture
    pictures_a_second: float  # in batches
    bytes: int
    faster: float
    throughput: float

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class Wanted:
    """What the result has to keep to, and what it is to be best at."""

    max_drop: float = 0.5
    max_ms: float | None = None
    target: Target = "latency"

    def allows(self, found: Measured) -> bool:
        return found.drop <= self.max_drop and (self.max_ms is None or found.ms <= self.max_ms)

    def rank(self, found: Measured) -> float:
        """The smaller the better. Speed is that beside the original: the machine changes from minute to minute."""
        ranks = {"latency": -found.faster, "throughput": -found.throughput, "size": float(found.bytes)}
        return ranks[self.target]


class Search(NamedTuple):
    """What was found: all that was measured, the original first, and the one to keep with its file."""

    measured: list[Measured]
    failed: dict[str, str]
    chosen: Measured
    content: bytes | None  # None where the original is the best
    candidate: Candidate | None


class Bench:
    """The original, the pictures, and how a candidate is measured beside it."""

    def __init__(self, predictor: Predictor, examples: Examples, split: str, count: int) -> None:
        self.predictor = predictor
        indices = examples.split(split)
        self.examples = examples.replace(splits={split: indices[_spread(len(indices), count)]})
        self.split = split
        self.pixels = self.pictures(predictor)
        self.accuracy = self.score(predictor)

    def pictures(self, predictor: Predictor) -> Pixels:
        """A few pictures as a model takes them."""
        return read_some(predictor, self.examples, self.examples.split(self.split), MEASURED)

    def score(self, predictor: Predictor) -> float:
        return evaluate_examples(predictor, self.examples, self.split, _pass_over, _nothing).accuracy

    def measure(self, name: str, predictor: Predictor, size: int, accuracy: float) -> Measured:
        own = self.pictures(predictor)
        one, faster = _beside((self.predictor.engine, self.pixels[:1]), (predictor.engine, own[:1]))
        many, throughput = _beside((self.predictor.engine, self.pixels), (predictor.engine, own))
        return Measured(
            name=name,
            accuracy=accuracy,
            drop=100 * (self.accuracy - accuracy),
            ms=1000 * one,
            pictures_a_second=len(own) / many,
            bytes=size,
            faster=faster,
            throughput=throughput,
        )


def search(
    predictor: Predictor,
    examples: Examples,
    wanted: Wanted,
    *,
    split: str,
    pictures: int,
    seconds: float,
    tell: Callable[[Measured], None] = lambda _: None,
) -> Search:
    """Measure candidates until the time is over, and choose. What was not measured to win is not kept."""
    start = time.monotonic()
    bench = Bench(predictor, examples, split, pictures)
    original = bench.measure(ORIGINAL, predictor, _weights(predictor), bench.accuracy)
    original = dataclasses.replace(original, faster=1.0, throughput=1.0)  # beside itself it would only show noise
    tell(original)
    best, content, kept = original, None, None
    measured, failed = [original], {}
    for candidate in candidates(predictor.artefact, bench.pixels):
        if time.monotonic() - start > seconds:
            break
        try:
            made = candidate.content()
            found = _measure(bench, candidate, made)
        except VitrailError as error:
            failed[candidate.name] = str(error)
            continue
        measured.append(found)
        tell(found)
        if wanted.allows(found) and (not wanted.allows(best) or wanted.rank(found) < wanted.rank(best)):
            best, content, kept = found, made, candidate
    if not wanted.allows(best):
        nearest = min(measured, key=lambda found: found.ms)
        fix = f"allow more: the fastest takes {nearest.ms:.1f} ms and loses {nearest.drop:.1f} points"
        raise CheckFailed("nothing that was measured keeps to what was asked", fix=fix)
    return Search(measured, failed, best, content, kept)


def _measure(bench: Bench, candidate: Candidate, content: bytes) -> Measured:
    engine = OnnxEngine(content, exported_of(content, candidate.name), candidate.name)
    made = Predictor.of_exported(engine)
    if candidate.exact:
        named = {"source": bench.predictor.source, "target": candidate.name}
        certify(bench.predictor.engine, engine, bench.pixels, **named)
    return bench.measure(candidate.name, made, len(content), bench.score(made))


def frontier(measured: Sequence[Measured]) -> list[Measured]:
    """Those that no other beats in both time and accuracy, from the fastest to the best."""
    found: list[Measured] = []
    for one in sorted(measured, key=lambda one: (one.ms, -one.accuracy)):
        if not found or one.accuracy > found[-1].accuracy:
            found.append(one)
    return found


def _beside(original: tuple[Engine, Pixels], made: tuple[Engine, Pixels]) -> tuple[float, float]:
    """Seconds of `made`, and how many times as fast it is: medians, the ratio taken within a round.

    Each has its own pictures: candidates differ in the size they take.
    """
    theirs, ours = race([partial(engine, pixels) for engine, pixels in (original, made)])
    ratios = [their / our for their, our in zip(theirs, ours, strict=True)]
    return statistics.median(ours), statistics.median(ratios)


def _spread(total: int, count: int) -> Any:
    return np.unique(np.linspace(0, total - 1, min(count, total)).round().astype(int))


def _weights(predictor: Predictor) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in predictor.model.state_dict().values())


def _nothing() -> None:
    """Nobody watches."""


def _pass_over(_: Exception) -> None:
    """A picture that cannot be read is left out for all candidates alike."""
