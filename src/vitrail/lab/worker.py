"""`python -m vitrail.lab.worker FOLDER`: one of several processes that share the runs of a claim."""

from __future__ import annotations

import sys
from pathlib import Path

from vitrail.errors import EXIT_INTERRUPTED, VitrailError
from vitrail.lab.records import Record
from vitrail.lab.runner import work
from vitrail.lab.task import Task


def _nothing(task: Task, record: Record) -> None:
    """The process that started this one sees the record and tells of it."""


def main(folder: Path) -> int:
    try:
        work(folder, _nothing, alone=False)
    except VitrailError as error:
        sys.stderr.write(f"vitrail: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
