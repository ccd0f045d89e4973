"""Running out of memory, said with what to change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from vitrail.train.loop import TrainingFailed
from vitrail.train.settings import TrainSettings


@contextmanager
def explained(settings: TrainSettings) -> Iterator[None]:
    """Turns whatever torch or Python raise for want of memory into advice; other errors pass."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        halved = f"--batch-size {settings.batch_size // 2} accumulate={settings.accumulate * 2}, or "
        raise TrainingFailed(
            f"there is not enough memory for batches of {settings.batch_size} pictures of "
            f"{settings.image.size[0]}x{settings.image.size[1]}",
            fix=f"use {halved if settings.batch_size > 1 else ''}smaller pictures (--image-size)",
        ) from error


SAID = (
    "not enough memory",
    "out of memory",
    "can't allocate memory",
    "cannot allocate",
    "bad_alloc",
    "could not create a primitive",  # oneDNN, which says no more than that
)


def is_out_of_memory(error: BaseException) -> bool:
    said = str(error).lower()
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(words in said for words in SAID)
