"""How long a run takes: a number of steps, or the minutes there are.

Both count progress from 0 to 1, on which every schedule depends. A number of steps is the same run on every machine.
Minutes are planned anew as the run goes: progress a step is what is left of it, over the steps that the time left is
worth at the speed just measured. So the schedule always ends with the time, however the speed changes on the way.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

PLANS = 100  # how often minutes are planned anew in a run
FIRST_STEPS = 20  # planned one by one: the very first take longer than all that follow


class Pace(Protocol):
    progress: float  # 0 to 1; the step being taken sees the progress before it

    @property
    def done(self) -> bool: ...

    def advance(self) -> None:
        """One step was taken."""
        ...

    def paused(self, seconds: float) -> None:
        """So long, since the last step, something else was done: a validation, a checkpoint."""
        ...

    def steps_left(self) -> float: ...

    def state(self) -> dict[str, Any]:
        """Plain values from which `restore` continues."""
        ...

    def restore(self, state: dict[str, Any]) -> None: ...


class Steps:
    """A fixed number of steps."""

    def __init__(self, total: int) -> None:
        self.total, self.taken, self.progress = total, 0, 0.0

    @property
    def done(self) -> bool:
        return self.taken >= self.total

    def advance(self) -> None:
        self.taken += 1
        self.progress = self.taken / self.total

    def paused(self, seconds: float) -> None:
        """Steps are counted, whatever comes between them."""

    def steps_left(self) -> float:
        return self.total - self.taken

    def state(self) -> dict[str, Any]:
        return {"taken": self.taken}

    def restore(self, state: dict[str, Any]) -> None:
        self.taken = int(state["taken"])
        self.progress = self.taken / self.total


class Seconds:
    """As many steps as fit. What is done between the steps takes from the time too, but not from the steps' speed."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.whole = self.budget = max(0.0, seconds)
        self._clock = clock
        self.progress, self._rate, self._a_step = 0.0, 0.0, 0.0
        self._start = self._planned = clock()
        self._since_plan = self._taken = 0

    @property
    def elapsed(self) -> float:
        return self._clock() - self._start

    @property
    def done(self) -> bool:
        return self.progress >= 1.0 - 1e-9 or self.elapsed >= self.budget

    def reserve(self, seconds: float) -> None:
        """Keep so much of the time for what follows the last step."""
        self.budget = max(0.0, self.whole - seconds)

    def advance(self) -> None:
        self._since_plan, self._taken = self._since_plan + 1, self._taken + 1
        now = self._clock()
        if self._taken <= FIRST_STEPS or now - self._planned >= self.budget / PLANS:
            self._plan(now)
        self.progress = min(1.0, self.progress + self._rate)

    def paused(self, seconds: float) -> None:
        """The time is gone, but says nothing about the steps' own speed: a plan of one step and a validation would
        take all that follow for as slow, and hurry through the schedule."""
        self._planned += seconds

    def _plan(self, now: float) -> None:
        measured = max(1e-9, (now - self._planned) / self._since_plan)
        known = self._taken > FIRST_STEPS and self._a_step > 0
        self._a_step = 0.75 * self._a_step + 0.25 * measured if known else measured
        steps = max(1.0, (self.budget - self.elapsed) / self._a_step)
        self._rate = (1.0 - self.progress) / (steps + 1)  # the step just taken counts as well
        self._planned, self._since_plan = now, 0

    def steps_left(self) -> float:
        return (1.0 - self.progress) / self._rate if self._rate else float("inf")

    def state(self) -> dict[str, Any]:
        seconds = {"elapsed": self.elapsed, "budget": self.budget, "whole": self.whole}
        return {"progress": self.progress, "rate": self._rate, **seconds}

    def restore(self, state: dict[str, Any]) -> None:
        self.progress, self._rate = float(state["progress"]), float(state["rate"])
        self.budget, self.whole = float(state["budget"]), float(state["whole"])
        self._planned = self._clock()
        self._start, self._since_plan = self._planned - float(state["elapsed"]), 0
