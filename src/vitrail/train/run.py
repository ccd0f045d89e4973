"""A run is a folder: its settings, what was measured on the way, its checkpoints, its model and its report."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import yaml

from vitrail.errors import ConfigError, FileError
from vitrail.weights.durable import write_text

CONFIG, METRICS, RESULTS, SPLIT = "config.yaml", "metrics.jsonl", "results.csv", "split.csv"
CHECKPOINTS, MODEL, EVALUATION, REPORT = "checkpoints", "model.safetensors", "evaluation.json", "report.html"
_OURS = (CONFIG, METRICS, RESULTS, SPLIT, CHECKPOINTS, MODEL, EVALUATION, REPORT, "model_card.md", ".lock")


class Run:
    """The folder of a run, held by one process at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock: IO[str] | None = None
        self._log: IO[str] | None = None

    @classmethod
    def create(cls, folder: Path, *, overwrite: bool = False) -> Run:
        """A new run. One that is there already is never overwritten unless asked, and then only what a run writes."""
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            if not overwrite:
                raise ConfigError(
                    "this exists already", where=folder, fix=f"choose another --out, or go on with --resume {folder}"
                )
            _clear(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"cannot be made: {error.strerror}", where=folder, fix="choose another --out") from error
        run = cls(folder)
        run.hold()
        return run

    @classmethod
    def open(cls, folder: Path) -> Run:
        if not (folder / CONFIG).is_file():
            raise FileError(f"this is not a run (it has no {CONFIG})", where=folder, fix="give the folder of a run")
        run = cls(folder)
        run.hold()
        return run

    def hold(self) -> None:
        """Two processes in one run would write over each other."""
        self._lock = (self.folder / ".lock").open("w")
        try:
            import fcntl
        except ImportError:  # Windows
            return
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError("another process is working on this run", where=self.folder, fix="wait for it") from None

    def close(self) -> None:
        for file in (self._log, self._lock):
            if file is not None:
                file.close()

    @property
    def checkpoints(self) -> Path:
        return self.folder / CHECKPOINTS

    @property
    def model(self) -> Path:
        return self.folder / MODEL

    def write_settings(self, settings: Mapping[str, Any]) -> None:
        write_text(self.folder / CONFIG, yaml.safe_dump(_plain(settings), sort_keys=False, allow_unicode=True))

    # ---- what was measured on the way

    def log(self, row: Mapping[str, Any]) -> None:
        """One line of metrics.jsonl."""
        if self._log is None:
            self._log = (self.folder / METRICS).open("a", encoding="utf-8")
        self._log.write(json.dumps(row) + "\n")
        self._log.flush()

    def log_position(self) -> int:
        path = self.folder / METRICS
        return path.stat().st_size if path.exists() else 0

    def rewind_log(self, position: int) -> None:
        """Forget what was logged after a checkpoint: those steps are about to be taken again."""
        path = self.folder / METRICS
        if path.exists() and path.stat().st_size > position:
            os.truncate(path, position)

    def metrics(self) -> list[dict[str, Any]]:
        path = self.folder / METRICS
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []

    def write_results(self) -> None:
        """results.csv: one row a validation, for spreadsheets."""
        rows = [row for row in self.metrics() if row["kind"] == "val"]
        columns = list(dict.fromkeys(key for row in rows for key in row if key != "kind"))
        text = io.StringIO()
        writer = csv.DictWriter(text, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
        write_text(self.folder / RESULTS, text.getvalue())


def read_settings(path: Path) -> dict[str, Any]:
    """The values of a config.yaml."""
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise FileError(f"cannot be read ({error})", where=path, fix="give the config.yaml of a run") from error
    if not isinstance(values, dict):
        raise FileError("holds no settings", where=path, fix="give the config.yaml of a run")
    return {key: value for key, value in values.items() if key != "reasons"}


def new_folder(name: str, root: Path = Path("runs")) -> Path:
    """runs/NAME, or runs/NAME-2 and so on where that is taken."""
    tidy = "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip("-.") or f"{datetime.now():%Y-%m-%d}"
    candidates = (root / (tidy if n == 1 else f"{tidy}-{n}") for n in range(1, 100_000))
    return next(folder for folder in candidates if not folder.exists())


def _clear(folder: Path) -> None:
    foreign = [path.name for path in folder.iterdir() if path.name not in _OURS]
    if foreign:
        raise ConfigError(f"holds {foreign[0]!r}, which no run wrote", where=folder, fix="choose another --out")
    shutil.rmtree(folder)


def _plain(value: Any) -> Any:
    """Only what YAML's safe form knows: tuples as lists, mappings as dictionaries."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value
