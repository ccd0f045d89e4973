"""Finished runs, one JSON file each: written whole or not at all, never written twice, never computed again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vitrail.errors import ConfigError, FileError
from vitrail.lab.task import Task

Record = dict[str, Any]


class Store:
    """The folder of a claim: `records/`, `models/` that other runs start from, and `work/` in progress."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def record_file(self, task: Task) -> Path:
        return self.folder / "records" / f"{task.name}.json"

    def model_file(self, name: str) -> Path:
        return self.folder / "models" / f"{name}.safetensors"

    def has(self, task: Task) -> bool:
        return self.record_file(task).exists()

    def read(self, task: Task) -> Record:
        path = self.record_file(task)
        try:
            record: Record = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise FileError(f"cannot be read ({error})", where=path, fix="remove it to run it again") from error
        return record

    def write(self, task: Task, record: Record) -> None:
        from vitrail.weights.durable import write_text

        path = self.record_file(task)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(record, indent=1))

    @contextmanager
    def taking(self, task: Task) -> Iterator[Path | None]:
        """A folder to work in, for one process at a time; None where another process has it. Gone afterwards."""
        from vitrail.train.run import Run

        work = self.folder / "work" / task.name
        work.mkdir(parents=True, exist_ok=True)
        lock = Run(work)  # a killed process lets go of it
        try:
            lock.hold()
        except ConfigError:
            yield None
            return
        try:
            yield work
        finally:
            shutil.rmtree(work / "run", ignore_errors=True)
            lock.close()
