"""Many pictures, one after the other: read ahead by threads, answered in batches, given back in order.

Memory does not grow with their number: a picture is held from when it is read until its batch is answered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from vitrail.data.examples import Pixels
from vitrail.errors import ImageError
from vitrail.predict.engines import Engine

T = TypeVar("T")
Logits = NDArray[np.float32]

BATCH_SIZE = 16
THREADS = 2


def stream_logits(
    engine: Engine,
    read: Callable[[T], Pixels],
    items: Iterable[T],
    *,
    batch_size: int = BATCH_SIZE,
    threads: int = THREADS,
) -> Iterator[tuple[T, Logits | ImageError]]:
    """Each item with its K logits, or with why it could not be read, in the order they came in."""
    waiting: list[tuple[T, Pixels | ImageError]] = []
    good = 0
    for item, found in read_ahead(read, items, threads=threads, ahead=2 * batch_size):
        waiting.append((item, found))
        good += not isinstance(found, ImageError)
        if good == batch_size or len(waiting) >= 4 * batch_size:
            yield from _answered(engine, waiting)
            waiting, good = [], 0
    yield from _answered(engine, waiting)


def _answered(engine: Engine, waiting: list[tuple[T, Pixels | ImageError]]) -> Iterator[tuple[T, Logits | ImageError]]:
    pictures = [found for _, found in waiting if not isinstance(found, ImageError)]
    logits = iter(engine(np.stack(pictures)) if pictures else ())
    for item, found in waiting:
        yield item, found if isinstance(found, ImageError) else next(logits)


def read_ahead(
    read: Callable[[T], Pixels], items: Iterable[T], *, threads: int, ahead: int
) -> Iterator[tuple[T, Pixels | ImageError]]:
    """Items and what was read, in order; at most `ahead` of them are being read or waiting."""

    def attempt(item: T) -> Pixels | ImageError:
        try:
            return read(item)
        except ImageError as error:  # a new one, without the traceback that would hold the file's bytes
            return ImageError(error.what, where=error.where, fix=error.fix)

    pool = ThreadPoolExecutor(threads, thread_name_prefix="vitrail-read")
    queue: deque[tuple[T, Future[Pixels | ImageError]]] = deque()
    try:
        for item in items:
            queue.append((item, pool.submit(attempt, item)))
            if len(queue) >= ahead:
                first, future = queue.popleft()
                yield first, future.result()
        while queue:
            first, future = queue.popleft()
            yield first, future.result()
    finally:  # also when the caller has seen enough
        pool.shutdown(cancel_futures=True)
