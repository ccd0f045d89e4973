"""The engine at work. A lone picture has all cores; those that wait meanwhile are answered in the way that was measured
to be the fastest: one by one, in batches, or in streams, several at once with a share of the cores each.

Nobody waits for company: a batch is whatever has gathered meanwhile, so that a lone picture is answered at once.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitrail.data.examples import Pixels
from vitrail.predict.engines import Engine

Logits = NDArray[np.float32]

SIZES = (1, 2, 4, 8, 16)
WORTH = 1.1  # batches or streams must be this much faster a picture than one by one
NEAR_BEST = 1.05  # of sizes about as fast as the best, the smallest


class Pace(NamedTuple):
    """What was measured: pictures of a batch and batches at once, seconds a picture then, and the gain over 1 and 1."""

    batch: int
    seconds: float
    gain: float
    streams: int = 1


class Streams(NamedTuple):
    """An engine that so many threads can ask at once."""

    engine: Engine
    number: int


def measure(
    engine: Engine, picture: Pixels, streams: Streams | None = None, *, repeats: int = 3, patience: float = 3.0
) -> Pace:
    """Time the engine on batches of a picture; larger ones are not tried once `patience` seconds are spent."""
    engine(picture[None])  # the first call sets things up
    start = time.perf_counter()
    found: dict[int, float] = {}
    for size in SIZES:
        batch = np.stack([picture] * size)
        found[size] = statistics.median(_seconds(partial(engine, batch)) for _ in range(repeats)) / size
        if time.perf_counter() - start > patience:
            break
    return choose(found, None if streams is None else (streams.number, _in_streams(streams, picture, repeats)))


def choose(seconds: dict[int, float], streams: tuple[int, float] | None = None) -> Pace:
    """From seconds a picture at each size, and in so many streams: the smallest batch that is near the best, or the
    streams if they are faster, if any of it pays at all."""
    best = min(seconds.values())
    size = min(size for size, value in seconds.items() if value <= best * NEAR_BEST)
    pace = Pace(size, seconds[size], seconds[1] / seconds[size])
    if streams is not None and streams[1] < pace.seconds:
        pace = Pace(1, streams[1], seconds[1] / streams[1], streams[0])
    return pace if pace.gain >= WORTH else Pace(1, seconds[1], 1.0)


def _in_streams(streams: Streams, picture: Pixels, repeats: int) -> float:
    """Seconds a picture when all streams are asked all the time."""
    streams.engine(picture[None])
    ask = partial(streams.engine, picture[None])
    with ThreadPoolExecutor(streams.number) as pool:
        calls = streams.number * 2 * repeats
        return _seconds(lambda: deque(pool.map(lambda _: ask(), range(calls)), maxlen=0)) / calls


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


class Job(NamedTuple):
    """One picture, and where its logits go."""

    picture: Pixels
    answer: asyncio.Future[Logits]


class Batcher:
    """Belongs to one event loop. `seen` is told the size of each batch and the seconds until the next can begin."""

    def __init__(
        self, engine: Engine, batch: int, seen: Callable[[int, float], None], streams: Streams | None = None
    ) -> None:
        self._engine, self._batch, self._seen, self._streams = engine, batch, seen, streams
        self._waiting: deque[Job] = deque()
        self._threads = ThreadPoolExecutor(streams.number if streams else 1, thread_name_prefix="vitrail-engine")
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
        self._threads.shutdown(cancel_futures=True)

    async def _answer_all(self) -> None:
        while self._waiting:
            if self._streams is not None and len(self._waiting) > 1:
                await asyncio.gather(*(self._stream(self._streams) for _ in range(self._streams.number)))
            elif jobs := self._next(self._batch):
                await self._answer(self._engine, jobs, 1)

    async def _stream(self, streams: Streams) -> None:
        """One picture after the other, beside the other streams, until none waits."""
        while jobs := self._next(1):
            await self._answer(streams.engine, jobs, streams.number)

    async def _answer(self, engine: Engine, jobs: list[Job], at_once: int) -> None:
        def ask() -> Logits:
            return engine(np.stack([job.picture for job in jobs]))

        start = time.perf_counter()
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._threads, ask)
        except Exception as error:
            for job in jobs:
                if not job.answer.done():
                    job.answer.set_exception(error)
        else:
            self._seen(len(jobs), (time.perf_counter() - start) / at_once)
            for job, row in zip(jobs, found, strict=True):
                if not job.answer.done():
                    job.answer.set_result(row)

    def _next(self, most: int) -> list[Job]:
        jobs: list[Job] = []
        while self._waiting and len(jobs) < most:
            job = self._waiting.popleft()
            if not job.answer.done():  # whoever asked may have gone
                jobs.append(job)
        return jobs
