"""What a claim came to so far: its records, judged. Nothing is computed again."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from vitrail.lab.claim import Claim, Results
from vitrail.lab.records import Record, Store
from vitrail.lab.task import Plan, read_plan
from vitrail.lab.verdict import NOT_RUN, UNFINISHED, Verdict

FIGURE = "figure.svg"


class Outcome(NamedTuple):
    """A claim with what is known of it. `results` holds the seeds that are complete."""

    claim: Claim
    verdict: Verdict
    seeds: int
    results: Results | None = None
    plan: Plan | None = None
    records: tuple[Record, ...] = ()
    figure: Path | None = None

    @property
    def seconds(self) -> float:
        """Of the processor, all runs together."""
        return sum(record["processor_seconds"] for record in self.records)

    def to_dict(self) -> dict[str, Any]:
        """For programs."""
        return {
            "name": self.claim.name,
            "title": self.claim.title,
            "verdict": self.verdict.word,
            "seeds": self.seeds,
            "figure": None if self.figure is None else str(self.figure),
            "findings": [
                {"what": finding.what, **finding.interval._asdict(), "verdict": finding.verdict}
                for finding in self.verdict.findings
            ],
            "measured": {} if self.results is None else dict(self.results[self.claim.shown]),
            "paper": self.claim.paper,
            "data": self.plan.request["data"] if self.plan else self.claim.data,
            "steps": self.plan.steps if self.plan else self.claim.steps,
            "runs": len(self.records),
            "processor_minutes": round(self.seconds / 60, 2),
        }


def read_outcome(claim: Claim, root: Path) -> Outcome:
    """The state of a claim in the lab's folder."""
    store = Store(root / claim.name)
    plan = read_plan(store.folder)
    if plan is None:
        return Outcome(claim, Verdict(NOT_RUN, ()), 0)
    records = tuple(store.read(task) for task in plan.tasks if store.has(task))
    seeds = sorted({task.seed for task in plan.tasks if all(store.has(other) for other in plan.of_seed(task.seed))})
    if not seeds or {task.arm for task in plan.tasks} != {arm.name for arm in claim.arms}:
        return Outcome(claim, Verdict(UNFINISHED, ()), 0, None, plan, records)
    results = _results(claim, records, seeds)
    figure = store.folder / FIGURE
    whole = len(seeds) == plan.request["seeds"]
    verdict = claim.judge(results) if whole else Verdict(UNFINISHED, ())
    return Outcome(claim, verdict, len(seeds), results, plan, records, figure if figure.exists() else None)


def _results(claim: Claim, records: tuple[Record, ...], seeds: list[int]) -> Results:
    found = {(record["arm"], record["seed"]): record for record in records}
    return Results(
        {
            measured: {arm.name: [_value(found[arm.name, seed], measured) for seed in seeds] for arm in claim.judged}
            for measured in ("accuracy", "validation", *claim.measures)
        }
    )


def _value(record: Record, measured: str) -> float:
    return float(record.get(measured, 0.0))  # a run that failed has no measures
