"""Our model beside the other libraries': each in a process of its own, one at a time, round after round.

A cell is one size, mode, batch and number of threads. Its rounds go through all libraries and the yardstick (large
fp32 matrix products) in an order that is drawn anew each time, so that whatever slows the machine slows them all.
"""

from __future__ import annotations

import dataclasses
import random
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from vitrail.bench.contest import GEMM, Contest, Crew, Tick, compare_logits, measure_memory, write_weights
from vitrail.bench.peers import OURS, PEERS
from vitrail.bench.plan import FULL, Cell, Preset, check_peers, plan, shapes
from vitrail.bench.process import WorkerError
from vitrail.bench.summary import summarise
from vitrail.bench.system import describe_system
from vitrail.config import ViTConfig

Progress = Callable[[int, int, str], None]  # done, total, what is measured now

NOTES = {
    "dtype": "float32",
    "training": "forward, cross-entropy, backward, AdamW step (fused, lr 1e-5, weight decay 0.05)",
    "flops": "matrix products of the whole model; the same number for every library, training three times inference",
    "speedup": "seconds of the other over ours in the same round: above 1, ours is faster",
    "memory": "bytes; growth: peak over what model and input occupied; two calls in a process of their own",
    "logits": "largest absolute difference from ours with the same weights",
}


def bench_models(
    sizes: Sequence[str] | Mapping[str, ViTConfig] | None = None,
    batches: Sequence[int] | None = None,
    threads: Sequence[int] | None = None,
    modes: Sequence[str] | None = None,
    repeats: int | None = None,
    peers: Sequence[str] | None = None,
    progress: Progress | None = None,
    *,
    preset: Preset = FULL,
    seed: int = 0,
) -> dict[str, Any]:
    """Time our model beside `peers`; what is not given is the preset's. Returns a document that JSON can hold.

    Sizes are "32px", "Ti", "S", "B", any of the paper's names ("S/32", "B/16@384"), or configurations by name.
    A peer that is not installed is named under "skipped"; one that fails in a cell, under that cell's "failed".
    """
    started = datetime.now(UTC)
    check_peers(names := [OURS, *(name for name in (PEERS if peers is None else peers) if name != OURS)])
    configs = shapes(sizes or preset.sizes)
    cells = plan(list(configs), modes or preset.modes, batches or preset.batches, threads or preset.threads)
    preset = dataclasses.replace(preset, repeats=repeats or preset.repeats)
    with tempfile.TemporaryDirectory(prefix="vitrail-bench-") as folder:
        contest = Contest(configs, Path(folder), seed)
        measured = _measure(contest, names, cells, preset, progress or _silent)
    return {
        "benchmark": "vitrail bench model",
        "date": started.isoformat(timespec="seconds"),
        "seconds": round((datetime.now(UTC) - started).total_seconds(), 1),
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "system": describe_system(),
        "settings": {**_settings(preset), "seed": seed},
        "notes": NOTES,
        "sizes": {size: _describe(config) for size, config in configs.items()},
        **measured,
    }


def _silent(done: int, total: int, what: str) -> None:
    """Nobody watches."""


def _settings(preset: Preset) -> dict[str, Any]:
    names = ("repeats", "least_repeats", "cell_seconds", "measure_seconds", "gemm_side")
    return {name: getattr(preset, name) for name in names}


def _describe(config: ViTConfig) -> dict[str, Any]:
    return {"gflop_per_image": config.forward_flops / 1e9, "config": config.to_dict()}


def _measure(
    contest: Contest, names: Sequence[str], cells: Sequence[Cell], preset: Preset, progress: Progress
) -> dict[str, Any]:
    """Memory (with the most threads only: it hardly depends on them), then logits, then time."""
    most, *fewer = sorted({cell.threads for cell in cells}, reverse=True)
    first = [cell for cell in cells if cell.threads == most]
    tick = _counter(progress, len(first) + 1 + len(cells))
    with Crew(names, most) as crew:
        who = {"versions": crew.versions, "skipped": crew.skipped, "peers": {n: PEERS[n].note for n in crew.names}}
        write_weights(contest, crew)
        memory = measure_memory(contest, crew, first, tick)
        tick("logits of every size")
        logits = compare_logits(contest, crew)
        timed = time_cells(contest, crew, first, preset, tick)
    for threads in fewer:
        with Crew(who["peers"], threads) as crew:
            timed += time_cells(contest, crew, [cell for cell in cells if cell.threads == threads], preset, tick)
    tick("done")
    return {**who, "logits": logits, "memory": memory, "cells": sorted(timed, key=lambda cell: int(cell["threads"]))}


def _counter(progress: Progress, total: int) -> Tick:
    done = iter(range(total + 1))
    return lambda what: progress(next(done), total, str(what))


def time_cells(contest: Contest, crew: Crew, cells: Iterable[Cell], preset: Preset, tick: Tick) -> list[dict[str, Any]]:
    """Time cells that share a number of threads, and so a crew."""
    chance = random.Random(contest.seed)
    crew[GEMM].ask("build", side=preset.gemm_side)
    rows = []
    for cell in cells:
        tick(cell)
        rows.append(_time_cell(contest, crew, cell, preset, chance))
    return rows


def _time_cell(contest: Contest, crew: Crew, cell: Cell, preset: Preset, chance: random.Random) -> dict[str, Any]:
    single, failed = _prepare(contest, crew, cell, preset)
    seconds = _interleave(crew, list(single), _repeats(list(single.values()), preset), chance, failed)
    rates = [2 * preset.gemm_side**3 / time for time in seconds.pop(GEMM)]
    flops = contest.configs[cell.size].forward_flops
    return {**cell._asdict(), "failed": failed, **summarise(seconds, rates, cell.mode, cell.batch, flops)}


def _prepare(contest: Contest, crew: Crew, cell: Cell, preset: Preset) -> tuple[dict[str, float], dict[str, str]]:
    """Build every model and warm it up: roughly the seconds of one call, and who failed."""
    single = {GEMM: crew[GEMM].ask("calibrate", seconds=preset.measure_seconds)["seconds"]}
    failed: dict[str, str] = {}
    for name in crew.names:
        try:
            crew.revive(name).ask("build", **contest.work(name, cell))
            single[name] = crew[name].ask("calibrate", seconds=preset.measure_seconds)["seconds"]
        except WorkerError as error:
            failed[name] = str(error)
    return single, failed


def _repeats(single: Sequence[float], preset: Preset) -> int:
    """As many rounds as are asked for, or as the time allows: a measurement is one slow call or many quick ones."""
    one_round = sum(max(seconds, preset.measure_seconds) for seconds in single)
    return max(min(preset.repeats, preset.least_repeats), min(preset.repeats, int(preset.cell_seconds / one_round)))


def _interleave(
    crew: Crew, names: Sequence[str], repeats: int, chance: random.Random, failed: dict[str, str]
) -> dict[str, list[float]]:
    """Seconds of one call for every library and round. One that fails is dropped, so that all have all rounds."""
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(repeats):
        for name in chance.sample(list(seconds), len(seconds)):
            try:
                seconds[name].append(crew[name].ask("measure")["seconds"])
            except WorkerError as error:
                if name == GEMM:
                    raise
                failed[name] = str(error)
                del seconds[name]
    return seconds
