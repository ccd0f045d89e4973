"""The engine, asked by one thread: pictures that wait while it works are answered together, where that pays.

Nobody waits for company: a batch is whatever has gathered meanwhile, so that a lone picture is answered at once.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitrail.data.examples import Pixels
from vitrail.predict.engines import Engine

Logits = NDArray[np.float32]

SIZES = (1, 2, 4, 8, 16)
WORTH = 1.1  # a batch must be this much faster a picture than one by one
NEAR_BEST = 1.05  # of sizes about as fast as the best, the smallest


class Pace(NamedTuple):
    """What was measured: the size of batch to use, seconds a picture then, and how much faster that is than 1."""

    batch: int
    seconds: float
    gain: float


def measure(engine: Engine, picture: Pixels, *, repeats: int = 3, patience: float = 3.0) -> Pace:
    """Time the engine on batches of a picture; larger ones are not tried once `patience` seconds are spent."""
    engine(picture[None])  # the first call sets things up
    start = time.perf_counter()
    found: dict[int, float] = {}
    for size in SIZES:
        found[size] = min(_seconds(engine, np.stack([picture] * size)) for _ in range(repeats)) / size
        if time.perf_counter() - start > patience:
            break
    return choose(found)


def choose(seconds: dict[int, float]) -> Pace:
    """From seconds a picture at each size: the smallest size that is near the best, if batches pay at all."""
    best = min(seconds.values())
    size = min(size for size, value in seconds.items() if value <= best * NEAR_BEST)
    gain = seconds[1] / seconds[size]
    return Pace(size, seconds[size], gain) if gain >= WORTH else Pace(1, seconds[1], 1.0)


def _seconds(engine: Engine, batch: Pixels) -> float:
    start = time.perf_counter()
    engine(batch)
    return time.perf_counter() - start


class Job(NamedTuple):
    """One picture, and where its logits go."""

    picture: Pixels
    answer: asyncio.Future[Logits]


class Batcher:
    """Belongs to one event loop. `seen` is told the size of each batch and its seconds."""

    def __init__(self, engine: Engine, batch: int, seen: Callable[[int, float], None]) -> None:
        self._engine, self._batch, self._seen = engine, batch, seen
        self._waiting: deque[Job] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="vitrail-engine")
        self._work: asyncio.Task[None] | None = None

    async def logits(self, pictures: Sequence[Pixels]) -> Logits:
        """Of prepared pictures, in their order: N x K. When cancelled, those that still wait are given up."""
        loop = asyncio.get_running_loop()
        jobs = [Job(picture, loop.create_future()) for picture in pictures]
        self._waiting.extend(jobs)
        if self._work is None or self._work.done():
            self._work = loop.create_task(self._answer_all())
        return np.stack(await asyncio.gather(*(job.answer for job in jobs)))

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)

    async def _answer_all(self) -> None:
        loop = asyncio.get_running_loop()
        while jobs := self._next():
            start = time.perf_counter()
            try:
                found = await loop.run_in_executor(self._thread, self._logits, jobs)
            except Exception as error:
                for job in jobs:
                    if not job.answer.done():
                        job.answer.set_exception(error)
            else:
                self._seen(len(jobs), time.perf_counter() - start)
                for job, row in zip(jobs, found, strict=True):
                    if not job.answer.done():
                        job.answer.set_result(row)

    def _logits(self, jobs: list[Job]) -> Logits:
        return self._engine(np.stack([job.picture for job in jobs]))

    def _next(self) -> list[Job]:
        jobs: list[Job] = []
        while self._waiting and len(jobs) < self._batch:
            job = self._waiting.popleft()
            if not job.answer.done():  # whoever asked may have gone
                jobs.append(job)
        return jobs
