"""From what was asked for to a plan: the settings of every run, and minutes turned into steps by a measured speed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from vitrail.config import Config
from vitrail.errors import ConfigError
from vitrail.lab.claim import SUPERVISED, Arm, Claim
from vitrail.lab.speed import measure_speeds
from vitrail.lab.standard import BATCH, changed, looked_at, open_pictures, standard_settings, without_labels
from vitrail.lab.task import PLAN, Plan, Task, read_plan
from vitrail.weights.durable import write_text

BESIDE = 6.0  # seconds of a run that are neither steps nor evaluation: pictures into memory, files, the report
FEWEST_STEPS = 20
RECIPE = 1  # raised when the same settings come to mean another run


def make_plan(claim: Claim, folder: Path, request: dict[str, Any], say: Callable[[str], None]) -> Plan:
    """The plan in the folder if the same was asked for, so that an interrupted one goes on; else a new one.

    `request` has data, seeds, minutes (None: the claim's own steps) and jobs.
    """
    data, seeds, minutes = request["data"], request["seeds"], request["minutes"]
    before = read_plan(folder)
    if before is not None and before.request == request and set(before.seconds_a_step) == {a.name for a in claim.arms}:
        steps, speeds = before.steps, before.seconds_a_step
    else:
        say(f"{claim.name}: measuring the speed of {len(claim.arms)} settings")
        speeds = measure_speeds(make_tasks(claim, data, 1, claim.steps))
        steps = claim.steps if minutes is None else steps_for(claim, request, speeds)
    plan = Plan(claim.name, request, steps, speeds, _looked_at(claim, data), make_tasks(claim, data, seeds, steps))
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / PLAN, plan.to_json())
    return plan


def make_tasks(claim: Claim, data: str, seeds: int, steps: int) -> tuple[Task, ...]:
    """All runs, seed by seed, so that the first seed is complete first."""
    made: dict[tuple[str, int], Task] = {}
    for seed in range(seeds):
        for arm in claim.arms:
            needs = None if arm.start is None else made[arm.start, seed].name
            made[arm.name, seed] = _task(claim, arm, data, seed, steps, needs)
    return tuple(made.values())


def _task(claim: Claim, arm: Arm, data: str, seed: int, steps: int, needs: str | None) -> Task:
    _, facts = open_pictures(data, claim.side)
    settings = standard_settings(facts, data, claim.side, max(1, round(steps * arm.steps)), seed)
    if arm.method != SUPERVISED:
        settings = without_labels(settings, arm.method)
    settings = changed(settings, {**claim.base, **arm.changes})
    measures = claim.measures if arm.judged else ()
    content = json.dumps([RECIPE, claim.name, stated(settings), arm.pictures, arm.method, measures, needs])
    mark = hashlib.sha256(content.encode()).hexdigest()
    return Task(claim.name, arm.name, seed, mark, settings.to_dict(), arm.pictures, arm.method, measures, needs)


def stated(settings: Config) -> dict[str, Any]:
    """The settings that are not as by default: one that is new, and off, does not make old records void."""
    found: dict[str, Any] = {}
    for field in dataclasses.fields(settings):  # type: ignore[arg-type]
        value = getattr(settings, field.name)
        if isinstance(value, Config):
            found[field.name] = {"kind": type(value).__name__, **stated(value)}
        elif value != field.default:
            found[field.name] = value
    return found


def steps_for(claim: Claim, request: dict[str, Any], speeds: dict[str, float]) -> int:
    """The steps of each run that this time is worth."""
    seconds = 60 * request["minutes"] * request["jobs"] / request["seeds"]
    a_step = sum(speeds[arm.name] * arm.steps for arm in claim.arms)
    looked = _looked_at(claim, request["data"])
    beside = sum(beside_steps(speeds[arm.name], looked) for arm in claim.arms)
    steps = int((seconds - beside) / a_step)
    if steps < FEWEST_STEPS:
        least = (beside + FEWEST_STEPS * a_step) * request["seeds"] / request["jobs"] / 60
        raise ConfigError(
            f"{request['minutes']:g} minutes are too few for {request['seeds'] * len(claim.arms)} runs",
            where=claim.name,
            fix=f"give --minutes {least + 1:.0f} or more",
        )
    return steps


def _looked_at(claim: Claim, data: str) -> int:
    return looked_at(open_pictures(data, claim.side)[0])


def beside_steps(seconds_a_step: float, pictures: int) -> float:
    """Seconds of a run that are no steps; to look at a picture costs a third of learning from it."""
    return BESIDE + pictures / BATCH * seconds_a_step / 3


def left_to_do(plan: Plan, todo: Sequence[Task]) -> float:
    """Seconds of one core that these runs take, from the speed that was measured."""
    speeds = plan.seconds_a_step
    return sum(task.steps * speeds[task.arm] + beside_steps(speeds[task.arm], plan.looked_at) for task in todo)
