"""`--nproc`: a command in several processes."""

from __future__ import annotations

import os
import sys

from vitrail.errors import ConfigError


def in_processes(count: int, *, alone: bool = False) -> int | None:
    """The exit code of this very command in `count` processes; None where this process does the work itself.

    `alone`: what is asked for can be done by one process only.
    """
    if count < 1:
        raise ConfigError(f"--nproc {count} starts nothing", fix="give the number of processes, such as 2")
    started = int(os.environ.get("WORLD_SIZE", "1"))  # by torchrun
    if alone and max(count, started) > 1:
        raise ConfigError("--dry-run rehearses in one process", fix="leave out --nproc and torchrun")
    if count == 1 or started > 1:
        return None
    from vitrail.train.launch import launch

    return launch(count, sys.argv[1:])
