"""Work that may take long, one piece at a time in a thread of its own: predictions do not wait for explanations."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from vitrail.serve.problems import Refused

T = TypeVar("T")


class Lane:
    """Belongs to one event loop. At most `most` requests are in it; each is given up when whoever asked gives up."""

    def __init__(self, most: int) -> None:
        self.most, self.inside = most, 0
        self._seconds = 0.0  # of the last piece of work
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="vitrail-explain", initializer=use_one_torch_thread)

    @contextmanager
    def place(self) -> Iterator[None]:
        if self.inside >= self.most:
            wait = min(60, max(1, math.ceil(self.inside * self._seconds)))
            raise Refused(503, "too many explanations are wanted; ask again later", retry_after=wait)
        self.inside += 1
        try:
            yield
        finally:
            self.inside -= 1

    async def run(self, function: Callable[[], T]) -> T:
        """When cancelled, work that has not begun is not done."""

        def timed() -> T:
            start = time.perf_counter()
            found = function()
            self._seconds = time.perf_counter() - start
            return found

        return await asyncio.get_running_loop().run_in_executor(self._thread, timed)

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)


def use_one_torch_thread() -> None:
    """This thread computes with one core and leaves the others to the engine."""
    import torch

    usual = torch.get_num_threads()
    torch.set_num_threads(1)
    # The call holds for this thread and for all that begin later; a thread that ends at once takes back the second
    undo = threading.Thread(target=torch.set_num_threads, args=(usual,))
    undo.start()
    undo.join()
