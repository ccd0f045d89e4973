"""The same command in several processes on this machine, started and watched by torchrun."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence

from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from vitrail.errors import EXIT_CHECK_FAILED, EXIT_INTERRUPTED, EXIT_OK, CheckFailed


def launch(count: int, words: Sequence[str]) -> int:
    """`vitrail WORDS` in `count` processes; the exit code of the first that failed, or 0.

    Signals go to all of them; when one ends, the others are ended too.
    """
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # the processes say what happened
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=count,
        run_id=f"vitrail-{os.getpid()}",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
    )
    try:
        elastic_launch(config, sys.executable)("-m", "vitrail.cli.main", *words)
    except SignalException:
        return EXIT_INTERRUPTED
    except ChildFailedError as error:
        return _first_failure(error)
    return EXIT_OK


def _first_failure(error: ChildFailedError) -> int:
    rank, failure = error.get_first_failure()
    if failure.exitcode < 0:
        raise CheckFailed(
            f"process {rank} was ended by signal {-failure.exitcode}", fix="go on with --resume"
        ) from error
    return int(failure.exitcode) or EXIT_CHECK_FAILED
