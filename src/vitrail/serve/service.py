"""A model at work: pictures read by threads, answered by the engine, looked into where its weights can be seen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import BytesIO
from threading import Event, Thread
from typing import TypeVar

import numpy as np
from PIL import Image

from vitrail.data.examples import Pixels
from vitrail.errors import ImageError
from vitrail.predict.predictor import Predictor
from vitrail.serve.batcher import Batcher, Pace, Streams, measure
from vitrail.serve.lane import Lane
from vitrail.serve.limits import Gate
from vitrail.serve.look import shown_model
from vitrail.serve.metrics import Metrics
from vitrail.serve.settings import Settings

T = TypeVar("T")

READERS = 2  # threads; one picture being decoded may take hundreds of megabytes
EXPLAINED = 8  # requests for explanations at once
PHOTO = (640, 480)  # pixels of what is read while the engine is measured


class Service:
    """What all routes share. Made before the server starts, so that a model that cannot answer never listens."""

    def __init__(self, predictor: Predictor, settings: Settings, streams: Streams | None = None) -> None:
        self.predictor, self.settings, self.metrics = predictor, settings, Metrics()
        self.gate = Gate(settings, self.metrics)
        self.pace = self._measure(streams)
        self.gate.seconds_each = self.pace.seconds
        kept = streams if self.pace.streams > 1 else None
        self.batcher = Batcher(predictor.engine, self.pace.batch, self._note, kept)
        self.lane = Lane(EXPLAINED)
        if (model := shown_model(predictor)) is not None:
            model.eval()  # once for all threads, so that none changes it under another
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="vitrail-read")

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of a prepared picture: rows, columns, channels."""
        return (*self.predictor.preprocessing.size, self.predictor.channels)

    @property
    def most_pictures(self) -> int:
        return min(self.settings.max_pictures, self.gate.most)

    async def read(self, data: bytes) -> Pixels | ImageError:
        """The picture in a file's bytes, prepared; or why there is none."""

        def attempt() -> Pixels | ImageError:
            try:
                return self.predictor.read(data)
            except ImageError as error:
                return ImageError(error.what, fix=error.fix)

        found = await self.aside(attempt)
        if isinstance(found, ImageError):
            self.metrics.pictures.labels("unreadable").inc()
        return found

    async def aside(self, function: Callable[[], T]) -> T:
        """Work that would hold up the event loop, in a reader's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, function)

    def close(self) -> None:
        self.batcher.close()
        self.lane.close()
        self._readers.shutdown(cancel_futures=True)

    def _note(self, size: int, seconds: float) -> None:
        self.metrics.batches.observe(size)
        self.gate.note_pace(seconds / size)

    def _measure(self, streams: Streams | None) -> Pace:
        """While a picture is being read, as it will be when there is much to do: a call that wants all cores waits for
        the slowest of them, so what is best on a quiet machine need not be best then (LOG.md)."""
        noise = np.random.default_rng(0).integers(0, 256, self.shape, np.uint8)
        with reading(self.predictor):
            pace = measure(self.predictor.engine, noise, streams)
        return pace if self.settings.batching else pace._replace(batch=1, gain=1.0, streams=1)


@contextmanager
def reading(predictor: Predictor) -> Iterator[None]:
    """A thread that reads a photograph again and again, meanwhile."""
    file, done = BytesIO(), Event()
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (12, 16, 3), np.uint8))
    noise.resize(PHOTO).save(file, "JPEG")

    def read() -> None:
        while not done.is_set():
            predictor.read(file.getvalue())

    reader = Thread(target=read, daemon=True)
    reader.start()
    try:
        yield
    finally:
        done.set()
        reader.join()
