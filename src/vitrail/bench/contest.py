"""What comes before the clock: who takes part, whether all compute the same, and how much memory each needs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vitrail.bench.peers import OURS, PEERS
from vitrail.bench.plan import Cell
from vitrail.bench.process import WorkerError, WorkerProcess
from vitrail.config import ViTConfig

Tick = Callable[[object], None]

LOGITS_BATCH = 2


@dataclass(frozen=True)
class Contest:
    """The libraries that take part, the models by name, and the folder of their weights."""

    names: Sequence[str]
    configs: Mapping[str, ViTConfig]
    folder: Path
    seed: int

    def weights(self, name: str, size: str) -> tuple[dict[str, Any], Path]:
        """The configuration that a library is given, and the file of our weights for it."""
        parts = PEERS[name].parts
        file = f"{list(self.configs).index(size)}-{name if parts else OURS}.safetensors"
        return self.configs[size].replace(**parts).to_dict(), self.folder / file

    def build(self, worker: WorkerProcess, cell: Cell) -> None:
        config, path = self.weights(worker.name, cell.size)
        worker.ask("build", config=config, weights=str(path), mode=cell.mode, batch=cell.batch)


def meet(names: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Versions of the libraries that are here, and why the others are not."""
    versions, skipped = {}, {}
    for name in names:
        with WorkerProcess(name, threads=1) as worker:
            try:
                reply = worker.ask("hello")
            except WorkerError as error:
                reply = {"missing": str(error)}
        if "version" in reply:
            versions[name] = reply["version"]
        else:
            skipped[name] = reply["missing"]
    return versions, skipped


def compare_logits(contest: Contest, threads: int) -> list[dict[str, Any]]:
    """Write the weights of every size, and compare each library's logits on them with ours."""
    with ExitStack() as stack:
        ours = stack.enter_context(WorkerProcess(OURS, threads))
        write_weights(contest, ours)
        others = [stack.enter_context(WorkerProcess(name, threads)) for name in contest.names if name != OURS]
        return [_compare(contest, ours, theirs, size) for size in contest.configs for theirs in others]


def write_weights(contest: Contest, ours: WorkerProcess) -> None:
    for name, size in itertools.product(contest.names, contest.configs):
        config, path = contest.weights(name, size)
        if not path.exists():
            ours.ask("make_weights", config=config, path=str(path), seed=contest.seed)


def _compare(contest: Contest, ours: WorkerProcess, theirs: WorkerProcess, size: str) -> dict[str, Any]:
    config, path = contest.weights(theirs.name, size)
    row: dict[str, Any] = {"size": size, "peer": theirs.name}
    answers = []
    try:
        for worker in (ours, theirs):
            worker.ask("build", config=config, weights=str(path), mode="inference", batch=LOGITS_BATCH)
            answers.append(list(itertools.chain.from_iterable(worker.ask("logits")["logits"])))
    except WorkerError as error:
        return {**row, "failed": str(error)}
    difference = max(abs(a - b) for a, b in zip(*answers, strict=True))
    return {**row, "max_difference": difference, "largest_logit": max(map(abs, answers[0]))}


def measure_memory(contest: Contest, cells: Iterable[Cell], tick: Tick) -> list[dict[str, Any]]:
    """Peak memory of every library in every cell, each in a process that has done nothing else."""
    rows = []
    for cell in cells:
        tick(f"memory of {cell}")
        rows += [{**cell._asdict(), "peer": name, **_memory(contest, name, cell)} for name in contest.names]
    return rows


def _memory(contest: Contest, name: str, cell: Cell) -> dict[str, Any]:
    with WorkerProcess(name, cell.threads) as worker:
        try:
            contest.build(worker, cell)
            return worker.ask("memory")
        except WorkerError as error:
            return {"failed": str(error)}
