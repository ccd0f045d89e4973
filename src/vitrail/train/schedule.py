"""The learning rate over a run, as a share of its peak; and the same for anything else that changes with progress.

Progress runs from 0 at the first step to 1 after the last, so that a budget of minutes and one of steps are scheduled
alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable

SHAPES: dict[str, Callable[[float], float]] = {
    "cosine": lambda done: 0.5 * (1 + math.cos(math.pi * done)),
    "linear": lambda done: 1 - done,
    "constant": lambda _: 1.0,
}


def learning_rate(shape: str, progress: float, warmup: float) -> float:
    """Rises linearly during the share `warmup` of the run, then falls along `shape`: a factor of the peak rate."""
    if progress < warmup:
        return progress / warmup
    return SHAPES[shape](min(1.0, (progress - warmup) / max(1e-9, 1 - warmup)))
