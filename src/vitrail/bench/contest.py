"""What comes before the clock: who takes part, whether all compute the same, and how much memory each needs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from vitrail.bench.peers import OURS, PEERS
from vitrail.bench.plan import Cell
from vitrail.bench.process import WorkerError, WorkerProcess
from vitrail.config import ViTConfig

Tick = Callable[[object], None]

GEMM = "gemm"  # the worker of the yardstick
LOGITS_BATCH = 2


class Crew:
    """One worker for each library and one for the yardstick, all with the same number of threads.

    Once entered, all have imported what they need: nobody is timed while another still starts. A library that
    cannot be imported is left out; `skipped` says why.
    """

    def __init__(self, names: Iterable[str], threads: int) -> None:
        self.threads = threads
        self.versions: dict[str, str] = {}
        self.skipped: dict[str, str] = {}
        self._workers = {name: WorkerProcess(name, threads) for name in (*names, GEMM)}

    def __enter__(self) -> Self:
        for name, worker in self._workers.items():
            reply = _greet(worker)
            if "version" in reply:
                self.versions["torch" if name == GEMM else name] = reply["version"]
            else:
                self.skipped[name] = reply["missing"]
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers.values():
            worker.close()

    @property
    def names(self) -> list[str]:
        """The libraries that are here."""
        return [name for name in self._workers if name != GEMM and name not in self.skipped]

    def __getitem__(self, name: str) -> WorkerProcess:
        return self._workers[name]

    def revive(self, name: str) -> WorkerProcess:
        """The worker of that name; one that ended, for want of memory perhaps, is started again."""
        if not self[name].alive:
            self[name].close()
            self._workers[name] = WorkerProcess(name, self.threads)
        return self[name]


def _greet(worker: WorkerProcess) -> dict[str, Any]:
    try:
        return worker.ask("hello")
    except WorkerError as error:
        return {"missing": str(error)}


@dataclass(frozen=True)
class Contest:
    """The models by name, and the folder of their weights."""

    configs: Mapping[str, ViTConfig]
    folder: Path
    seed: int

    def model(self, name: str, size: str) -> dict[str, Any]:
        """The configuration that a library is given, and the file of our weights for it."""
        parts = PEERS[name].parts
        file = f"{list(self.configs).index(size)}-{name if parts else OURS}.safetensors"
        return {"config": self.configs[size].replace(**parts).to_dict(), "weights": str(self.folder / file)}

    def work(self, name: str, cell: Cell) -> dict[str, Any]:
        """What a library is to do in a cell."""
        return {**self.model(name, cell.size), "mode": cell.mode, "batch": cell.batch}


def write_weights(contest: Contest, crew: Crew) -> None:
    """One file for each size, and one more for each library of another architecture."""
    models = {m["weights"]: m["config"] for m in itertools.starmap(contest.model, _pairs(contest, crew.names))}
    for path, config in models.items():
        crew[OURS].ask("make_weights", config=config, path=path, seed=contest.seed)


def _pairs(contest: Contest, names: Iterable[str]) -> list[tuple[str, str]]:
    return [(name, size) for size in contest.configs for name in names]


def measure_memory(contest: Contest, crew: Crew, cells: Sequence[Cell], tick: Tick) -> list[dict[str, Any]]:
    """Peak memory of every library in every cell. The crew must not have computed anything before."""
    rows = []
    for cell in cells:
        tick(f"memory of {cell}")
        rows += [{**cell._asdict(), "peer": name, **_memory(contest, crew, name, cell)} for name in crew.names]
    return rows


def _memory(contest: Contest, crew: Crew, name: str, cell: Cell) -> dict[str, Any]:
    try:
        return crew.revive(name).ask("memory", **contest.work(name, cell))
    except WorkerError as error:
        return {"failed": str(error)}


def compare_logits(contest: Contest, crew: Crew) -> list[dict[str, Any]]:
    """Each library's logits beside those of our model, with the same weights."""
    return [_compare(contest, crew, *pair) for pair in _pairs(contest, crew.names) if pair[0] != OURS]


def _compare(contest: Contest, crew: Crew, name: str, size: str) -> dict[str, Any]:
    row: dict[str, Any] = {"size": size, "peer": name}
    try:
        ours, theirs = (_logits(crew.revive(who), contest.model(name, size)) for who in (OURS, name))
    except WorkerError as error:
        return {**row, "failed": str(error)}
    difference = max(abs(a - b) for a, b in zip(ours, theirs, strict=True))
    return {**row, "max_difference": difference, "largest_logit": max(map(abs, ours))}


def _logits(worker: WorkerProcess, model: Mapping[str, Any]) -> list[float]:
    worker.ask("build", **model, mode="inference", batch=LOGITS_BATCH)
    return list(itertools.chain.from_iterable(worker.ask("logits")["logits"]))
