"""A run is a folder: its settings, what was measured on the way, its checkpoints, its model and its report."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import yaml

from vitrail.errors import ConfigError, FileError
from vitrail.train.loggers import Logger
from vitrail.weights.durable import write_text

CONFIG, METRICS, RESULTS, SPLIT = "config.yaml", "metrics.jsonl", "results.csv", "split.csv"
CHECKPOINTS, MODEL, EVALUATION, REPORT = "checkpoints", "model.safetensors", "evaluation.json", "report.html"
_OURS = (
    CONFIG,
    METRICS,
    RESULTS,
    SPLIT,
    CHECKPOINTS,
    MODEL,
    EVALUATION,
    REPORT,
    "model_card.md",
    ".lock",
    "tensorboard",
    "wandb",
)


_MAKE_ROOM = "check the free space; then --resume"
_NEVER_BEGUN = {".lock", SPLIT}  # what there is of a run that ended before its settings were written
_HELD: set[IO[bytes]] = set()  # the locks of this process


class Run:
    """The folder of a run, held by one process at a time; others that train with it follow."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock: IO[bytes] | None = None
        self._log: IO[bytes] | None = None
        self.logger: Logger | None = None  # told every row as well
        self._writes = True

    @classmethod
    def create(cls, folder: Path, *, overwrite: bool = False) -> Run:
        """A new run. One that is there already is never overwritten unless asked, and then only what a run writes."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            there = {path.name for path in folder.iterdir() if not _is_debris(path)}
        except OSError as error:
            raise FileError(f"cannot be made: {error.strerror}", where=folder, fix="choose another --out") from error
        if not overwrite and not there <= _NEVER_BEGUN:
            raise ConfigError(
                "this exists already", where=folder, fix=f"choose another --out, or go on with --resume {folder}"
            )
        if foreign := sorted(there.difference(_OURS)):
            raise ConfigError(f"holds {foreign[0]!r}, which no run wrote", where=folder, fix="choose another --out")
        run = cls(folder)
        run.hold()
        _remove(folder / name for name in there if name != ".lock")
        return run

    @classmethod
    def open(cls, folder: Path) -> Run:
        if not (folder / CONFIG).is_file():
            raise FileError(f"this is not a run (it has no {CONFIG})", where=folder, fix="give the folder of a run")
        run = cls(folder)
        run.hold()
        return run

    @classmethod
    def follow(cls, folder: Path) -> Run:
        """The run that another process holds: it is read here, and nothing is written."""
        run = cls(folder)
        run._writes = False
        return run

    def hold(self) -> None:
        """Two processes in one run would write over each other. What a killed one was writing is removed."""
        try:
            self._lock = (self.folder / ".lock").open("wb", buffering=0)
        except OSError as error:
            raise FileError(f"cannot be written: {error.strerror}", where=self.folder, fix="check it") from error
        _HELD.add(self._lock)
        if not _locked(self._lock):
            self.close()
            raise ConfigError("another process is working on this run", where=self.folder, fix="wait for it")
        _remove(filter(_is_debris, list(self.folder.iterdir())))

    def close(self) -> None:
        for file in (self._log, self._lock):
            if file is not None:
                file.close()
        if self._lock is not None:
            _HELD.discard(self._lock)
        self._log = self._lock = None

    @property
    def checkpoints(self) -> Path:
        return self.folder / CHECKPOINTS

    @property
    def model(self) -> Path:
        return self.folder / MODEL

    def write_settings(self, settings: Mapping[str, Any], reasons: Mapping[str, str]) -> None:
        values = _plain({**settings, "reasons": reasons})
        if self._writes:
            write_text(self.folder / CONFIG, yaml.safe_dump(values, sort_keys=False, allow_unicode=True))

    # ---- what was measured on the way

    def log(self, row: Mapping[str, Any]) -> None:
        """One line of metrics.jsonl."""
        if not self._writes:
            return
        path, line = self.folder / METRICS, (json.dumps(row) + "\n").encode()
        try:
            self._log = self._log or path.open("ab", buffering=0)
            whole = self._log.write(line) == len(line)
        except OSError as error:
            raise FileError(f"cannot be written: {error.strerror}", where=path, fix=_MAKE_ROOM) from error
        if not whole:
            raise FileError("cannot be written whole", where=path, fix=_MAKE_ROOM)
        if self.logger is not None:
            self.logger.log(row)

    def log_position(self) -> int:
        path = self.folder / METRICS
        return path.stat().st_size if path.exists() else 0

    def rewind_log(self, position: int) -> None:
        """Forget what was logged after a checkpoint: those steps are about to be taken again."""
        path = self.folder / METRICS
        if self._writes and path.exists() and path.stat().st_size > position:
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
    return {key: value for key, value in _read(path).items() if key != "reasons"}


def read_reasons(path: Path) -> dict[str, str]:
    """Why these values were chosen, where a config.yaml says so."""
    reasons = _read(path).get("reasons")
    return {str(key): str(why) for key, why in reasons.items()} if isinstance(reasons, dict) else {}


def _read(path: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise FileError(f"cannot be read ({error})", where=path, fix="give the config.yaml of a run") from error
    if not isinstance(values, dict):
        raise FileError("holds no settings", where=path, fix="give the config.yaml of a run")
    return values


def new_folder(name: str, root: Path = Path("runs")) -> Path:
    """runs/NAME, or runs/NAME-2 and so on where that is taken."""
    tidy = "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip("-.") or f"{datetime.now():%Y-%m-%d}"
    candidates = (root / (tidy if n == 1 else f"{tidy}-{n}") for n in range(1, 100_000))
    return next(folder for folder in candidates if not folder.exists())


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _is_debris(path: Path) -> bool:
    """A file that was being written, under its temporary name, when the process was killed."""
    return path.name.startswith(".vitrail-") and path.suffix == ".tmp"


def _locked(lock: IO[bytes]) -> bool:
    try:
        import fcntl
    except ImportError:  # Windows
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _let_go() -> None:
    """A data worker shares its parent's locks; if it outlives a killed parent, the run must be free all the same."""
    for lock in _HELD:
        lock.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


def _plain(value: Any) -> Any:
    """Only what YAML's safe form knows: tuples as lists, mappings as dictionaries."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value
