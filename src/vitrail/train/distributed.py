"""Several processes that train one model, as torchrun starts them: who they are, and how they agree.

A process group belongs to the whole process, as torch has it; `world()` says what there is. Alone, all of this does
nothing and costs nothing. What is decided by a clock (budget, saves, validations) is decided by the first process and
told to the others, so that all take the same steps.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from vitrail.data.loader import Batch
from vitrail.errors import EXIT_CHECK_FAILED, VitrailError
from vitrail.train.budget import Pace

T = TypeVar("T")
PATIENCE = timedelta(hours=2)  # with a process that is there but silent; one that ended is noticed at once
LETTING_GO = 0.2  # seconds
_LOST = ("gloo", "connection", "socket", "broken pipe", "timed out", "timeout", "nccl")  # how torch says it


class ProcessLost(VitrailError):
    """Another process of the run ended, so this one cannot go on."""

    exit_code = EXIT_CHECK_FAILED


class World(NamedTuple):
    """This process among those that train together."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the process that decides, writes and speaks."""
        return self.rank == 0

    def of_first(self, make: Callable[[], T]) -> T:
        """What the first process makes; the others wait for it."""
        return self.tell(make() if self.first else None)  # type: ignore[return-value]

    def tell(self, value: T) -> T:
        """The first process's value."""
        if self.size == 1:
            return value
        told = [value]
        dist.broadcast_object_list(told, src=0, device=torch.device("cpu"))
        return told[0]

    def sum(self, *values: float) -> list[float]:
        """Each value, added over the processes."""
        if self.size == 1:
            return list(values)
        added = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(added)
        return added.tolist()

    def gather(self, value: T) -> list[T]:
        """The values of all processes, in their order."""
        if self.size == 1:
            return [value]
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, value)
        return found


def world() -> World:
    if not (dist.is_available() and dist.is_initialized()):
        return World()
    return World(dist.get_rank(), dist.get_world_size())


def beside() -> int:
    """How many processes of the run are on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if world().size > 1 else 1


@contextmanager
def joined() -> Iterator[World]:
    """The process group that the environment asks for, as torchrun sets it; without it a world of one."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield World()
        return
    gpus = torch.cuda.is_available()
    if gpus:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    try:
        dist.init_process_group("cpu:gloo,cuda:nccl" if gpus else "gloo", timeout=PATIENCE)
        yield world()
    except RuntimeError as error:
        if not is_lost(error):
            raise
        raise ProcessLost(
            f"another process of this run ended (this is number {os.environ['RANK']} of {os.environ['WORLD_SIZE']})",
            fix="see what that one said, then go on with --resume",
        ) from error
    # Gloo's threads let go of the last tensors in their own time, for which they need Python's lock. Torch holds that
    # lock while it takes the group apart, and waits for those threads: without this moment, rarely, for ever.
    time.sleep(LETTING_GO)
    dist.destroy_process_group()


def is_lost(error: BaseException) -> bool:
    """Whether torch says that another process does not answer any more."""
    said = str(error).lower()
    return isinstance(error, dist.DistError) or any(words in said for words in _LOST)


# ---- one batch of all processes


class Share(NamedTuple):
    """What this process takes of a batch."""

    batch: Batch
    weight: float  # of its mean loss: the mean over processes of weight * loss is the mean loss of the whole batch
    pictures: int  # of the whole batch


def shares(batches: Iterator[Batch], method: nn.Module) -> Iterator[Share]:
    """The batches with their weights. One that is empty here but not everywhere comes as a stand-in of weight 0.

    A loss is a mean over pictures, unless the method says by `mean_over` what it divides by.
    """
    here = world()
    for batch in batches:
        if here.size == 1:
            yield Share(batch, 1.0, len(batch.indices))
            continue
        count = len(batch.indices)
        divisor = float(method.mean_over(batch)) if hasattr(method, "mean_over") else float(count)  # type: ignore[operator]
        whole, pictures = here.sum(divisor, count)
        if pictures:
            yield Share(batch if count else _stand_in(batch), here.size * divisor / whole, int(pictures))


def _stand_in(batch: Batch) -> Batch:
    """One black picture, number -1: a process without a picture must still take part in the step."""
    black = Batch(*(part.new_zeros(1, *part.shape[1:]) for part in batch))
    return black._replace(indices=black.indices - 1)


class OneClock:
    """The first process's pace, kept by all."""

    def __init__(self, pace: Pace) -> None:
        self._pace, self._world = pace, world()
        self._agree()

    def _agree(self) -> None:
        said = (self._pace.progress, self._pace.done) if self._world.first else (0.0, False)
        self.progress, done = self._world.sum(*said)  # the others add nothing
        self.done = bool(done)

    def advance(self) -> None:
        self._pace.advance()
        self._agree()

    def paused(self, seconds: float) -> None:
        self._pace.paused(seconds)

    def steps_left(self) -> float:
        return self._pace.steps_left()

    def state(self) -> dict[str, Any]:
        return self._pace.state()

    def restore(self, state: dict[str, Any]) -> None:
        self._pace.restore(state)
        self._agree()


def local(tensor: Tensor) -> Tensor:
    """The part of a tensor that this process holds."""
    part: Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return part
