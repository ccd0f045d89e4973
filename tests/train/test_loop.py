"""The loop: exact after any interruption, stopped before anything is spoilt, its budget kept."""

from __future__ import annotations

import os
import signal

import pytest
import torch

from train import tiny
from vitrail.data.loader import Batch
from vitrail.train import checkpoint
from vitrail.train.budget import Steps
from vitrail.train.loop import Interrupted, Score, TrainingFailed
from vitrail.train.optim import OptimSettings

OF_TIME = {"seconds", "images_per_second", "waiting"}


@pytest.fixture
def make(tmp_path):
    """Trainers whose runs are closed at the end."""
    made = []

    def trainer(name="run", *arguments, **parts):
        made.append(tiny.trainer(tmp_path / name, *arguments, **parts))
        return made[-1]

    yield trainer
    for trainer in made:
        trainer.run.close()


def weights(trainer):
    modules = {"method": trainer.method, **({"average": trainer.average} if trainer.average else {})}
    return {f"{part}.{name}": t for part, module in modules.items() for name, t in module.state_dict().items()}


def assert_same(one, other):
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys()
    assert [name for name in first if not torch.equal(first[name], second[name])] == []
    assert [tiny_row(row) for row in one.run.metrics() if row["kind"] == "val"] == [
        tiny_row(row) for row in other.run.metrics() if row["kind"] == "val"
    ]
    assert (one.state.best, one.state.best_step) == (other.state.best, other.state.best_step)


def tiny_row(row):
    return {key: value for key, value in row.items() if key not in OF_TIME}


class StopAfter:
    """Sends this process a signal after some step, as a supervisor would."""

    def __init__(self, watcher, step, number=signal.SIGTERM):
        self.watcher, self.at, self.number = watcher, step, number

    def step(self, row, steps_left):
        self.watcher.step(row, steps_left)
        if row["step"] == self.at:
            os.kill(os.getpid(), self.number)

    def __getattr__(self, name):
        return getattr(self.watcher, name)


@pytest.mark.parametrize("name", ["adamw", "sgd", "muon"])
@pytest.mark.parametrize("stop", [1, 2, 4, 5, 8, 11])
def test_interrupted_after_any_step_it_ends_the_same(make, name, stop):
    """Also where a validation was due at that step, at the end of an epoch (4 steps), and before the first save."""
    settings = tiny.settings(optim=OptimSettings(name=name, lr=1e-2).to_dict())
    whole = make("whole", settings)
    whole.fit()
    first = make("parts", settings)
    first.watcher = StopAfter(first.watcher, stop)
    with pytest.raises(Interrupted):
        first.fit()
    assert first.state.step == stop
    first.run.close()
    second = make("parts", settings)
    assert second.resume()
    assert second.state.step == stop
    second.fit()
    assert_same(whole, second)


def test_accumulated_batches_are_resumed_in_the_middle_of_an_epoch(make):
    settings = tiny.settings(accumulate=2, batch_size=4)
    whole = make("whole", settings)
    whole.fit()
    first = make("parts", settings)
    first.watcher = StopAfter(first.watcher, 3)
    with pytest.raises(Interrupted):
        first.fit()
    first.run.close()
    second = make("parts", settings)
    second.resume()
    second.fit()
    assert_same(whole, second)


def test_accumulated_batches_are_one_large_batch(make):
    plain = {"regularise": {}, "augment": {}, "average": 0.0, "budget": {"steps": 1}}
    model = tiny.settings().model.replace(dropout=0.0).to_dict()
    once = make("once", tiny.settings(**plain, model=model, batch_size=8))
    twice = make("twice", tiny.settings(**plain, model=model, batch_size=4, accumulate=2))
    once.fit()
    twice.fit()
    for one, other in zip(once.method.parameters(), twice.method.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(make):
    settings = tiny.settings(save_steps=3)
    whole = make("whole", settings)
    whole.fit()
    broken = make("broken", settings)
    broken.fit()
    broken.run.close()
    (broken.run.checkpoints / "step-00000012" / "state.json").write_text("{}")
    again = make("broken", settings)
    assert again.resume()
    assert again.state.step == 9
    assert "step-00000012: this checkpoint is damaged" in again.watcher.heard[0]
    again.fit()
    assert_same(whole, again)


def test_a_finished_run_has_nothing_left_to_do(make):
    whole = make("run")
    whole.fit()
    whole.run.close()
    again = make("run")
    assert again.resume()
    again.fit()
    assert again.watcher.steps == []
    assert_same(whole, again)


def test_nothing_to_resume(make):
    assert not make("run").resume()


def test_it_learns(make):
    settings = tiny.settings(budget={"steps": 60}, regularise={}, optim=OptimSettings(lr=3e-3).to_dict())
    trainer = make("run", settings)
    trainer.fit()
    losses = [row["loss"] for row in trainer.watcher.steps]
    assert sum(losses[-5:]) < 0.7 * sum(losses[:5])


def test_the_best_is_what_validated_best(make):
    values = iter([0.1, 0.5, 0.3, 0.5, 0.6, 0.2])
    trainer = make("run", tiny.settings(budget={"steps": 6}))
    trainer.validate = lambda _: Score(next(values), {"accuracy": 0.0}, 0.0)
    trainer.fit()
    assert [best for _, best in trainer.watcher.validations] == [True, True, False, False, True, False]
    assert len(trainer.kept.weights) == 3
    assert (trainer.state.best, trainer.state.best_step) == (0.6, 5)


@pytest.mark.parametrize(("seconds", "validations"), [(0.0, 10), (0.06, 4), (0.1, 2), (0.5, 1)])
def test_a_validation_that_costs_much_of_the_minutes_comes_seldom(make, seconds, validations):
    """Also the first, where it is known what it will take. They may take 1/25 of these 6 s; the last comes anyway."""
    settings = tiny.settings(budget={"minutes": 0.1})
    trainer = make("run", settings, Steps(40), validation_seconds=seconds)
    trainer.validate = lambda _: Score(0.5, {"accuracy": 0.5}, seconds)
    trainer.fit()
    assert len(trainer.watcher.validations) == validations


def test_a_glance_at_each_fifth_changes_nothing(make):
    seen = []

    def glance(module):
        assert not module.training
        seen.append(module)

    glancing = make("one", None, Steps(20), glance=glance)
    glancing.fit()
    plain = make("two", None, Steps(20))
    plain.fit()
    assert seen == [glancing.best_module()] * 4
    assert_same(glancing, plain)


def test_the_average_is_validated_and_kept(make):
    trainer = make("run")
    trainer.fit()
    best = trainer.kept.weights[-1]
    assert not torch.equal(best["model.head.weight"], trainer.method.state_dict()["model.head.weight"])


# ---- what is not a number


def poison(trainer, at, value=float("nan"), what="loss"):
    """From step `at` on, the loss, one gradient or one weight is not finite."""
    method = trainer.method
    plain = method.forward

    def forward(batch: Batch, epoch: int, step: int, progress: float) -> torch.Tensor:
        loss = plain(batch, epoch, step, progress)
        if step < at:
            return loss
        if what == "weight":
            with torch.no_grad():
                method.model.head.bias[0] = value
            return loss
        weight = method.model.head.weight
        if what == "gradient":
            weight.register_hook(lambda gradient: gradient * value)
            return loss
        return loss * value

    method.forward = forward


@pytest.mark.parametrize("what", ["loss", "gradient"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_no_step_is_taken_with_what_is_not_a_number(make, what, value):
    trainer = make("run", tiny.settings(save_steps=1))
    poison(trainer, 5, value, what)
    with pytest.raises(
        TrainingFailed, match=rf"the {what} is (nan|inf) at step 5 \(pictures \d+, .*lower the learning"
    ):
        trainer.fit()
    assert all(torch.isfinite(tensor).all() for tensor in trainer.method.parameters())
    found, _ = checkpoint.load_newest(trainer.run.checkpoints)
    assert found is not None
    assert found.step == 5
    assert all(torch.isfinite(kept[name]).all() for kept in trainer.kept.weights for name in kept)


@pytest.mark.parametrize("at", [0, 4, 11])
def test_spoilt_weights_become_neither_checkpoint_nor_best(make, at):
    """Nothing of the step itself shows it: the loss was finite, and gradients are not clipped, so not looked at."""
    optim = OptimSettings(lr=1e-2, clip=0.0).to_dict()
    trainer = make("run", tiny.settings(save_steps=1, optim=optim, average=0.0))
    poison(trainer, at, what="weight")
    with pytest.raises(TrainingFailed, match=f"after step {at + 1}"):
        trainer.fit()
    found, _ = checkpoint.load_newest(trainer.run.checkpoints)
    assert (0 if found is None else found.step) == at
    assert all(torch.isfinite(kept[name]).all() for kept in trainer.kept.weights for name in kept)


def test_an_epoch_without_a_step_ends_the_run(make):
    """Four batches an epoch never make a step of five; that would go on for ever."""
    with pytest.raises(TrainingFailed, match="smaller accumulate"):
        make("run", tiny.settings(accumulate=5)).fit()
