"""Smaller and faster on this machine: candidates are made, measured beside the original, and the best one is kept.

Accuracy is measured on the validation pictures, which choose; the chosen one is measured again on the test pictures,
which were not looked at. Speed is measured in turns with the original, so both saw the same machine.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from vitrail.config import ViTConfig
from vitrail.data.examples import Examples, Pixels
from vitrail.deploy.candidates import Candidate, Change, Step, fewer_units, singles, together
from vitrail.deploy.engines import race
from vitrail.deploy.loss import points_lost
from vitrail.deploy.onnx import exported_of
from vitrail.deploy.parity import certify
from vitrail.deploy.sample import read_some
from vitrail.errors import CheckFailed, VitrailError
from vitrail.predict.engines import Engine, OnnxEngine
from vitrail.predict.examples import Asked, ask_examples, evaluation_of
from vitrail.predict.predictor import Predictor
from vitrail.weights.artefact import Artefact

Target = Literal["latency", "throughput", "size"]
MEASURED = 16  # pictures of the batch for throughput; also what calibration and comparison see
ORIGINAL = "as it is"


@dataclass(frozen=True)
class Measured:
    """One candidate: what it costs and how good it is. Ratios are to the original, measured in the same minutes."""

    name: str
    accuracy: float  # on the pictures that choose
    drop: float  # points lost, as well as these pictures can tell (loss.py)
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
    content: bytes
    candidate: Candidate


class Bench:
    """The original, the pictures, and how a candidate is measured beside it."""

    def __init__(self, predictor: Predictor, examples: Examples, split: str, count: int) -> None:
        self.predictor = predictor
        indices = examples.split(split)
        self.examples = examples.replace(splits={split: indices[_spread(len(indices), count)]})
        self.split = split
        self.pixels = self.pictures(predictor)
        self.asked = self.ask(predictor)

    def pictures(self, predictor: Predictor) -> Pixels:
        """A few pictures as a model takes them."""
        return read_some(predictor, self.examples, self.examples.split(self.split), MEASURED)

    def prepared(self, artefact: Artefact) -> Pixels:
        return self.pictures(Predictor.of(artefact))

    def original(self) -> Measured:
        """The model in torch. Beside itself it would only show noise, so its ratios are 1."""
        found = self.measure(ORIGINAL, self.predictor, _weights(self.predictor), self.asked)
        return dataclasses.replace(found, drop=0.0, faster=1.0, throughput=1.0)

    def ask(self, predictor: Predictor) -> Asked:
        return ask_examples(predictor, self.examples, self.split, _pass_over, _nothing)

    def measure(self, name: str, predictor: Predictor, size: int, asked: Asked) -> Measured:
        own = self.pictures(predictor)
        one, faster = _beside((self.predictor.engine, self.pixels[:1]), (predictor.engine, own[:1]))
        many, throughput = _beside((self.predictor.engine, self.pixels), (predictor.engine, own))
        accuracy = evaluation_of(predictor, asked).accuracy
        return Measured(
            name=name,
            accuracy=accuracy,
            drop=self._drop(asked, accuracy),
            ms=1000 * one,
            pictures_a_second=len(own) / many,
            bytes=size,
            faster=faster,
            throughput=throughput,
        )

    def _drop(self, asked: Asked, accuracy: float) -> float:
        if asked.targets.ndim == 2:  # several labels a picture: what is counted
            return 100 * (evaluation_of(self.predictor, self.asked).accuracy - accuracy)
        return points_lost(
            self.predictor.decision.probabilities(self.asked.logits), asked.logits.argmax(axis=1), asked.targets
        )


class Found(NamedTuple):
    candidate: Candidate
    measured: Measured
    content: bytes


def search(
    predictor: Predictor,
    examples: Examples,
    wanted: Wanted,
    *,
    split: str,
    pictures: int,
    seconds: float,
    recover: Change | None = None,
    begin: Callable[[str, float], None] = lambda *_: None,
    tell: Callable[[Measured], None] = lambda _: None,
) -> Search:
    """Measure candidates until the time is over or Ctrl-C is pressed, and choose. What was not measured is not kept.

    First each way alone, then the winners together, the best first, for as long as that helps. `recover` trains a
    pruned model for a while. `begin` hears what is tried and how much of the time is over, `tell` what came out.
    """
    bench = Bench(predictor, examples, split, pictures)
    hunt = _Hunt(bench, wanted, seconds, begin, tell)
    with suppress(KeyboardInterrupt):
        alone = [found for one in singles(predictor.artefact, bench.prepared) if (found := hunt.attempt(one))]
        if recover is not None and (found := hunt.attempt_recovered(recover)):
            alone.append(found)
        for winner in sorted(filter(hunt.wins, alone), key=lambda found: wanted.rank(found.measured)):
            both = together(hunt.best.candidate, winner.candidate)
            if both is not None:
                hunt.attempt(both)
    return hunt.result()


class _Hunt:
    """The best so far, which at first is the original as an ONNX file: this is always there to be written."""

    def __init__(
        self,
        bench: Bench,
        wanted: Wanted,
        seconds: float,
        begin: Callable[[str, float], None],
        tell: Callable[[Measured], None],
    ) -> None:
        self.bench, self.wanted, self.begin, self.tell = bench, wanted, begin, tell
        self.start, self.seconds = time.monotonic(), seconds
        self.failed: dict[str, str] = {}
        self.measured = [bench.original()]
        tell(self.measured[0])
        self.best = self.exact = self._measure(Candidate(bench.predictor.artefact))

    def attempt(self, candidate: Candidate) -> Found | None:
        """Measure one, unless the time is over."""
        done = (time.monotonic() - self.start) / max(self.seconds, 1e-9)
        if done > 1:
            return None
        self.begin(candidate.name, done)
        return self._weigh(candidate)

    def _weigh(self, candidate: Candidate) -> Found | None:
        """Measure one; it becomes the best if it is."""
        try:
            found = self._measure(candidate)
        except VitrailError as error:
            self.failed[candidate.name] = str(error)
            return None
        if self._better(found, self.best):
            self.best = found
        return found._replace(content=b"")  # only the best one's is needed again

    def attempt_recovered(self, recover: Change) -> Found | None:
        """Half of the hidden units, trained on. It was asked for, so it comes whether or not the time is over, and
        takes none of it."""
        original = self.bench.predictor.artefact
        config = original.model.config
        if not isinstance(config, ViTConfig) or config.pool == "attention":
            return None
        step, before = fewer_units(config, 1 / 2, self.bench.prepared), time.monotonic()
        name = f"{step.name}, trained on"
        self.begin(name, 1.0)
        try:
            trained = recover(step.change(original))
        except VitrailError as error:
            self.failed[name] = str(error)
            return None
        self.start += time.monotonic() - before
        return self._weigh(Candidate(original, (Step(step.kind, name, lambda _: trained),)))

    def wins(self, found: Found) -> bool:
        return self._better(found, self.exact)

    def result(self) -> Search:
        best = self.best.measured
        if not self.wanted.allows(best):
            nearest = min(self.measured, key=lambda found: found.ms)
            fix = f"allow more: the fastest takes {nearest.ms:.1f} ms and loses {nearest.drop:.1f} points"
            raise CheckFailed("nothing that was measured keeps to what was asked", fix=fix)
        return Search(self.measured, self.failed, best, self.best.content, self.best.candidate)

    def _better(self, one: Found, other: Found) -> bool:
        if self.wanted.allows(one.measured) != self.wanted.allows(other.measured):
            return self.wanted.allows(one.measured)
        return self.wanted.rank(one.measured) < self.wanted.rank(other.measured)

    def _measure(self, candidate: Candidate) -> Found:
        found = measure(self.bench, candidate)
        self.measured.append(found.measured)
        self.tell(found.measured)
        return found


def measure(bench: Bench, candidate: Candidate) -> Found:
    """Make it, ask it, time it. One that is to be equal to the original and is not, is an error."""
    content = candidate.content()
    engine = OnnxEngine(content, exported_of(content, candidate.name), candidate.name)
    made = Predictor.of_exported(engine)
    if candidate.exact:
        named = {"source": bench.predictor.source, "target": candidate.name}
        certify(bench.predictor.engine, engine, bench.pixels, **named)
    return Found(candidate, bench.measure(candidate.name, made, len(content), bench.ask(made)), content)


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
