"""Running a claim: its runs taken one by one, or by several processes at once, and none of them twice."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vitrail.errors import ConfigError, VitrailError
from vitrail.lab.claim import Claim
from vitrail.lab.figure import write_figure
from vitrail.lab.outcome import read_outcome
from vitrail.lab.planning import left_to_do, make_plan
from vitrail.lab.records import Record, Store
from vitrail.lab.task import Plan, Task, read_plan
from vitrail.report.words import duration, percent

WAIT = 0.5  # seconds between two looks at what other processes have done

Say = Callable[[str], None]


class Options(NamedTuple):
    """What the user asked for."""

    root: Path = Path("runs/lab")
    seeds: int = 3
    minutes: float | None = None
    data: str | None = None
    jobs: int = 1


def run_claims(claims: Sequence[Claim], options: Options, say: Say) -> None:
    """One claim after the other; minutes are for all together, shared as the claims' own cost is."""
    total = sum(claim.minutes for claim in claims)
    for claim in claims:
        share = None if options.minutes is None else options.minutes * claim.minutes / total
        run(claim, options._replace(minutes=share), say)
        write_figure(read_outcome(claim, options.root), options.root)


def run(claim: Claim, options: Options, say: Say) -> None:
    """Everything of a claim that is not done yet."""
    if options.seeds < 2:
        raise ConfigError("one seed has no interval", fix="use --seeds 3 or more")
    folder = options.root / claim.name
    plan = make_plan(claim, folder, _request(claim, options), say)
    store = Store(folder)
    todo = [task for task in plan.tasks if not store.has(task)]
    say(f"{claim.name}: {claim.title}")
    cost = _expected(plan, todo, options.jobs)
    say(f"  {len(todo)} of {len(plan.tasks)} runs to do, {plan.steps:,} steps each{cost}")
    if not todo:
        return
    if options.jobs == 1:
        work(folder, lambda task, record: _tell(plan, store, task, record, 1, say))
    else:
        _work_together(plan, store, options.jobs, say)


def _request(claim: Claim, options: Options) -> dict[str, Any]:
    """What a plan is made for; the number of processes matters only where minutes are shared by them."""
    jobs = None if options.minutes is None else options.jobs
    return {"data": options.data or claim.data, "seeds": options.seeds, "minutes": options.minutes, "jobs": jobs}


def work(folder: Path, done: Callable[[Task, Record], None], *, alone: bool = True) -> None:
    """Take the runs of a plan that nobody has taken, until all are done; `alone=False` ends with its parent process."""
    plan, store, parent = read_plan(folder), Store(folder), os.getppid()
    assert plan is not None
    while todo := [task for task in plan.tasks if not _is_done(plan, store, task)]:
        taken = next((task for task in todo if _take(plan, store, task)), None)
        if taken is not None:
            done(taken, store.read(taken))
        if not alone and os.getppid() != parent:
            return
        if taken is None:
            time.sleep(WAIT)


def _is_done(plan: Plan, store: Store, task: Task) -> bool:
    """There is a record, and the weights that others start from."""
    if not store.has(task):
        return False
    needed = any(other.needs == task.name and not store.has(other) for other in plan.tasks)
    return not needed or store.model_file(task.name).exists() or "failed" in store.read(task)


def _take(plan: Plan, store: Store, task: Task) -> bool:
    """Do one run, unless another process has it, or what it starts from is not there yet."""
    from vitrail.lab.trial import not_begun, run_task

    before = next((other for other in plan.tasks if other.name == task.needs), None)
    if before is not None and not _is_done(plan, store, before):
        return False
    with store.taking(task) as place:
        if place is None or _is_done(plan, store, task):
            return False
        start = None if before is None else store.model_file(before.name)
        keep = store.model_file(task.name) if any(other.needs == task.name for other in plan.tasks) else None
        failed = start is not None and not start.exists()
        record = not_begun(task) if failed else run_task(task, place, start, keep)
        store.write(task, record | {"command": plan.command(store.folder.parent)})
    return True


def _work_together(plan: Plan, store: Store, jobs: int, say: Say) -> None:
    """Several processes, one thread each, that share the plan; this one tells what they have done."""
    words = [sys.executable, "-m", "vitrail.lab.worker", str(store.folder)]
    quiet = {**os.environ, "OMP_NUM_THREADS": "1"}
    workers = [subprocess.Popen(words, env=quiet, stdout=subprocess.DEVNULL) for _ in range(jobs)]
    waiting = [task for task in plan.tasks if not store.has(task)]
    try:
        while any(worker.poll() is None for worker in workers):
            time.sleep(WAIT)
            waiting = _tell_new(plan, store, waiting, jobs, say)
            if any(worker.returncode for worker in workers):
                raise VitrailError("a run of the lab failed, see above", fix="run it again with --jobs 1 --debug")
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.wait()
    _tell_new(plan, store, waiting, jobs, say)


def _tell_new(plan: Plan, store: Store, waiting: list[Task], jobs: int, say: Say) -> list[Task]:
    for task in (ready := [task for task in waiting if store.has(task)]):
        _tell(plan, store, task, store.read(task), jobs, say)
    return [task for task in waiting if task not in ready]


def _tell(plan: Plan, store: Store, task: Task, record: Record, jobs: int, say: Say) -> None:
    todo = [other for other in plan.tasks if not store.has(other)]
    how = record.get("failed") or f"accuracy {percent(record['accuracy'])}"
    done = len(plan.tasks) - len(todo)
    rest = f", {_expected(plan, todo, jobs)[2:]}" if todo else ""
    say(f"  {done} of {len(plan.tasks)}  {task.arm}, seed {task.seed}: {how} in {record['seconds']:.0f} s{rest}")


def _expected(plan: Plan, todo: list[Task], jobs: int) -> str:
    if not todo:
        return ""
    return f", about {duration(left_to_do(plan, todo) / jobs)}"
