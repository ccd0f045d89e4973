"""One run of the lab, (claim, arm, seed), as plain values; and the plan that holds all runs of a claim."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vitrail.errors import FileError

PLAN = "plan.json"


@dataclass(frozen=True)
class Task:
    """Everything a run depends on. Its name carries a fingerprint, so a record of other settings is another file."""

    claim: str
    arm: str
    seed: int
    fingerprint: str  # of all that follows, as `planning.py` makes it
    settings: dict[str, Any]  # of TrainSettings, or of PretrainSettings
    pictures: int | None
    method: str
    measures: tuple[str, ...]
    needs: str | None  # the name of the task whose weights it starts from

    @property
    def name(self) -> str:
        tidy = "".join(c if c.isalnum() or c == "." else "-" for c in self.arm.lower())
        return f"{tidy}-{self.seed}-{self.fingerprint[:10]}"

    @property
    def steps(self) -> int:
        return int(self.settings["budget"]["steps"])


@dataclass(frozen=True)
class Plan:
    """What was asked for, what that means in steps, and every run of it."""

    claim: str
    request: dict[str, Any]  # data, seeds, minutes, jobs
    steps: int
    seconds_a_step: dict[str, float]  # by arm, measured once
    looked_at: int  # pictures that a run evaluates without learning from them
    tasks: tuple[Task, ...]

    def to_json(self) -> str:
        """Settings that all runs share are written once."""
        shared = {
            key: value
            for key, value in (self.tasks[0].settings if self.tasks else {}).items()
            if all(key in task.settings and task.settings[key] == value for task in self.tasks)
        }
        values = asdict(self)
        for task in values["tasks"]:
            task["settings"] = {key: value for key, value in task["settings"].items() if key not in shared}
        return json.dumps({**values, "settings": shared}, indent=1)

    def command(self, root: Path) -> str:
        """What to type for the same, in the lab's folder `root`."""
        words = ["vitrail", "lab", self.claim]
        for name, value in (*self.request.items(), ("out", root.as_posix())):
            if value is not None:
                words += [f"--{name}", f"{value:g}" if isinstance(value, float) else str(value)]
        return shlex.join(words)

    def of_seed(self, seed: int) -> list[Task]:
        return [task for task in self.tasks if task.seed == seed]


def read_plan(folder: Path) -> Plan | None:
    """The plan of a claim's folder; None where there is none yet."""
    path = folder / PLAN
    if not path.exists():
        return None
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        shared = values.pop("settings", {})
        return Plan(**{**values, "tasks": tuple(_task(task, shared) for task in values["tasks"])})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileError(f"cannot be read ({error})", where=path, fix="remove it to plan anew") from error


def _task(values: dict[str, Any], shared: dict[str, Any]) -> Task:
    settings = {**shared, **values["settings"]}
    return Task(**{**values, "settings": settings, "measures": tuple(values["measures"])})
