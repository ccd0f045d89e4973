"""Runs of a claim: counted in steps, done once, the same however often they are interrupted."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab import tiny_lab
from vitrail.errors import ConfigError
from vitrail.lab.claim import Arm
from vitrail.lab.outcome import read_outcome
from vitrail.lab.planning import make_plan, make_tasks, stated, steps_for
from vitrail.lab.records import Store
from vitrail.lab.runner import Options, run, run_claims
from vitrail.lab.standard import changed, open_pictures, some, standard_settings
from vitrail.lab.task import Plan, read_plan
from vitrail.lab.verdict import NOT_RUN, UNFINISHED
from vitrail.train.settings import TrainSettings

TESTS = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return str(tiny_lab.pictures(tmp_path_factory.mktemp("data") / "p.npz"))


@pytest.fixture(scope="module")
def done(data, tmp_path_factory):
    """A claim that was run to its end, undisturbed."""
    root = tmp_path_factory.mktemp("lab")
    heard: list[str] = []
    run_claims([tiny_lab.claim()], Options(root, seeds=2, data=data), heard.append)
    return root, heard


def accuracies(root):
    """Of every record: what must be the same bits."""
    records = [json.loads(path.read_text()) for path in sorted((root / "tiny" / "records").glob("*.json"))]
    return [(r["arm"], r["seed"], r["accuracy"], r["validation"]) for r in records]


# ---- records --------------------------------------------------------------------------------------------------------


def test_every_run_is_a_record_with_what_it_depends_on(done, data):
    root, heard = done
    records = [json.loads(path.read_text()) for path in (root / "tiny" / "records").glob("*.json")]
    assert sorted((r["arm"], r["seed"]) for r in records) == [
        ("narrow", 0), ("narrow", 1), ("wide", 0), ("wide", 1)
    ]  # fmt: skip
    for record in records:
        assert 0 <= record["accuracy"] <= 1
        assert record["steps"] == 4
        assert record["settings"]["threads"] == 1
        assert record["settings"]["seed"] == record["seed"]
        assert {"vitrail", "torch", "python"} <= set(record["versions"])
        assert record["command"] == f"vitrail lab tiny --data {data} --seeds 2 --out {root.as_posix()}"
        assert record["seconds"] > 0
    assert any("4 of 4 runs to do" in line for line in heard)
    assert any("1 of 4  narrow, seed 0: accuracy" in line for line in heard)
    assert not any((root / "tiny" / "work").glob("*/run"))


def test_nothing_is_run_twice(done, data):
    root, _ = done
    before = {path: path.stat().st_mtime_ns for path in (root / "tiny" / "records").iterdir()}
    heard: list[str] = []
    run(tiny_lab.claim(), Options(root, seeds=2, data=data), heard.append)
    assert {path: path.stat().st_mtime_ns for path in (root / "tiny" / "records").iterdir()} == before
    assert any("0 of 4 runs to do" in line for line in heard)


def test_other_settings_are_another_record(data):
    plain = make_tasks(tiny_lab.claim(), data, 1, 4)
    names = {task.name for task in plain}
    assert names == {task.name for task in make_tasks(tiny_lab.claim(), data, 1, 4)}
    for other in (
        make_tasks(tiny_lab.claim(), data, 1, 5),
        make_tasks(tiny_lab.claim(base={**tiny_lab.claim().base, "optim.lr": 0.01}), data, 1, 4),
        make_tasks(tiny_lab.claim(arms=(Arm("narrow", {"model.dim": 12}), Arm("wide", {"model.dim": 20}))), data, 1, 4),
        make_tasks(tiny_lab.claim(arms=(Arm("narrow", pictures=20), Arm("wide", pictures=20))), data, 1, 4),
    ):
        assert names.isdisjoint(task.name for task in other)


def test_a_setting_left_at_its_default_does_not_count(data):
    settings = standard_settings(open_pictures(data, 16)[1], data, 16, 4, 0)
    assert "accumulate" not in stated(settings)
    assert stated(changed(settings, {"accumulate": 2}))["accumulate"] == 2


def test_the_outcome_is_read_from_the_records(done):
    root, _ = done
    outcome = read_outcome(tiny_lab.claim(), root)
    said = outcome.to_dict()
    assert outcome.seeds == said["seeds"] == 2
    assert said["name"] == "tiny"
    assert said["verdict"] == "not at this scale"
    assert Path(said["figure"]).read_text().startswith("<svg xmlns=")
    assert len(said["measured"]["wide"]) == 2
    assert read_outcome(tiny_lab.claim(name="other"), root).verdict.word == NOT_RUN


def test_a_plan_is_read_as_it_was_made_and_says_shared_settings_once(data, tmp_path):
    tasks = make_tasks(tiny_lab.claim(), data, 2, 4)
    plan = Plan("tiny", {"data": data, "seeds": 2, "minutes": None, "jobs": None}, 4, {"narrow": 0.1}, 90, tasks)
    (tmp_path / "plan.json").write_text(plan.to_json())
    read = read_plan(tmp_path)
    assert read.to_json() == plan.to_json()
    assert [TrainSettings.from_dict(task.settings) for task in read.tasks] == [
        TrainSettings.from_dict(task.settings) for task in tasks
    ]
    written = json.loads(plan.to_json())
    assert all(set(task["settings"]) == {"model", "seed"} for task in written["tasks"])


def test_half_a_claim_is_unfinished(done, tmp_path):
    root, _ = done
    plan = read_plan(root / "tiny")
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "plan.json").write_text(plan.to_json())
    store, full = Store(tmp_path / "tiny"), Store(root / "tiny")
    for task in plan.of_seed(0):
        store.write(task, full.read(task))
    outcome = read_outcome(tiny_lab.claim(), tmp_path)
    assert (outcome.verdict.word, outcome.seeds) == (UNFINISHED, 1)


# ---- steps ----------------------------------------------------------------------------------------------------------


def test_minutes_become_steps_once_and_are_kept(data, tmp_path):
    claim, heard = tiny_lab.claim(), []
    request = {"data": data, "seeds": 2, "minutes": 5.0, "jobs": 1}
    first = make_plan(claim, tmp_path, request, heard.append)
    assert first.steps >= 20
    plan = read_plan(tmp_path)
    (tmp_path / "plan.json").write_text(plan.to_json().replace(f'"steps": {plan.steps}', '"steps": 77'))
    assert make_plan(claim, tmp_path, request, heard.append).steps == 77  # no second measurement
    assert heard == ["tiny: measuring the speed of 2 settings"]
    other = make_plan(claim, tmp_path, {**request, "minutes": None}, heard.append)
    assert other.steps == claim.steps


def test_steps_are_worth_the_minutes(data):
    claim, request = tiny_lab.claim(), {"data": data, "seeds": 3, "minutes": 10.0, "jobs": 1}
    speeds = {"narrow": 0.1, "wide": 0.2}
    steps = steps_for(claim, request, speeds)
    assert steps * 0.3 * 3 == pytest.approx(600, rel=0.15)
    assert steps * 0.3 * 3 < 600
    assert steps_for(claim, {**request, "jobs": 2}, speeds) > 1.9 * steps
    with pytest.raises(ConfigError, match=r"give --minutes \d+ or more"):
        steps_for(claim, {**request, "minutes": 0.2}, speeds)


def test_fewer_pictures_are_part_of_more(data):
    examples, _ = open_pictures(data, 16)
    few, more = (set(some(examples, count, 7).split("train").tolist()) for count in (10, 30))
    assert len(few) == 10
    assert few < more
    assert few != set(some(examples, 10, 8).split("train").tolist())


def test_one_seed_is_refused(data, tmp_path):
    with pytest.raises(ConfigError, match="one seed has no interval"):
        run(tiny_lab.claim(), Options(tmp_path, seeds=1, data=data), print)


# ---- several runs that need each other, or fail ---------------------------------------------------------------------


def test_an_arm_can_start_from_another(data, tmp_path):
    arms = (Arm("before", judged=False), Arm("wide", start="before"), Arm("narrow", start="before", steps=0.5))
    claim = tiny_lab.claim(arms=arms)
    run_claims([claim], Options(tmp_path, seeds=2, data=data), lambda _: None)
    outcome = read_outcome(claim, tmp_path)
    assert set(outcome.to_dict()["measured"]) == {"wide", "narrow"}
    assert len(list((tmp_path / "tiny" / "models").glob("*.safetensors"))) == 2


def test_a_run_that_diverges_is_a_result(data, tmp_path):
    arms = (Arm("narrow"), Arm("wide", {"optim.lr": 1e30, "optim.clip": 0.0, "optim.warmup": 0.0}))
    run_claims([tiny_lab.claim(arms=arms)], Options(tmp_path, seeds=2, data=data), lambda _: None)
    found = read_outcome(tiny_lab.claim(arms=arms), tmp_path)
    assert found.to_dict()["measured"]["wide"] == [0.0, 0.0]
    assert all("is" in record["failed"] for record in found.records if record["arm"] == "wide")


def test_what_starts_from_a_failed_run_has_failed_too(data, tmp_path):
    wild = {"optim.lr": 1e30, "optim.clip": 0.0, "optim.warmup": 0.0}
    claim = tiny_lab.claim(arms=(Arm("before", wild, judged=False), Arm("narrow"), Arm("wide", start="before")))
    run(claim, Options(tmp_path, seeds=2, data=data), lambda _: None)
    records = read_outcome(claim, tmp_path).records
    assert {record["failed"] for record in records if record["arm"] == "wide"} == {"the run it starts from failed"}


# ---- interruptions --------------------------------------------------------------------------------------------------

CHILD = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from lab import tiny_lab
from vitrail.lab.runner import Options, run
options = Options(Path(sys.argv[1]), seeds=int(sys.argv[5]), data=sys.argv[2], jobs=int(sys.argv[4]))
run(tiny_lab.claim(), options, print)
"""


def start(root, data, jobs=1, seeds=2):
    words = [sys.executable, "-c", CHILD, str(root), data, str(TESTS), str(jobs), str(seeds)]
    quiet = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, env=quiet, start_new_session=True)


def wait_for_the_next_record(root, child, chance):
    """And a little more: to a moment between two records, where a run is in the middle of its work."""
    folder = root / "tiny" / "records"
    known, ends = len(list(folder.glob("*.json"))), time.monotonic() + 300
    while child.poll() is None and len(list(folder.glob("*.json"))) == known and time.monotonic() < ends:
        time.sleep(0.01)
    time.sleep(chance.uniform(0, 0.4))


def run_with_kills(root, data, times, seeds):
    """There must be runs left at each kill, and no record may be lost or written again by what follows it."""
    chance, known = random.Random(times), {}
    for _ in range(times):
        child = start(root, data, seeds=seeds)
        if chance.random() < 0.3:
            time.sleep(chance.uniform(0, 3))
        else:
            wait_for_the_next_record(root, child, chance)
        assert child.poll() is None, "it had ended before it was killed"
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        found = {path: path.stat().st_mtime_ns for path in (root / "tiny" / "records").glob("*.json")}
        assert known.items() <= found.items()
        known = found
    run(tiny_lab.claim(), Options(root, seeds=seeds, data=data), lambda _: None)
    assert all(path.stat().st_mtime_ns == written for path, written in known.items())


def test_killed_twice_the_result_is_the_same(done, data, tmp_path):
    run_with_kills(tmp_path, data, 2, seeds=4)  # more than are compared, so that runs are left to kill
    assert set(accuracies(tmp_path)) >= set(accuracies(done[0]))


@pytest.mark.full
def test_killed_ten_times_the_result_is_the_same(data, tmp_path):
    undisturbed, killed, seeds = tmp_path / "undisturbed", tmp_path / "killed", 20  # so that runs are left to kill
    run(tiny_lab.claim(), Options(undisturbed, seeds=seeds, data=data), lambda _: None)
    run_with_kills(killed, data, 10, seeds)
    assert accuracies(killed) == accuracies(undisturbed)


@pytest.mark.full
def test_two_processes_share_the_runs_and_come_to_the_same(done, data, tmp_path):
    assert start(tmp_path, data, jobs=2).wait() == 0
    assert accuracies(tmp_path) == accuracies(done[0])


def test_a_run_that_another_process_has_is_left_to_it(data, tmp_path):
    task = make_tasks(tiny_lab.claim(), data, 1, 4)[0]
    with Store(tmp_path).taking(task) as mine, Store(tmp_path).taking(task) as other:
        assert mine is not None
        assert other is None
    with Store(tmp_path).taking(task) as again:
        assert again is not None
