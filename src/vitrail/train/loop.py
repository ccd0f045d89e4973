"""The one training loop: batches in, better weights out. Methods bring the loss, budgets the end, runs the memory.

    for batch in loader:
        loss = method(batch)
        loss.backward()
        optimizers.step()

The rest of this file is what makes that trustworthy: it can be stopped and continued to the same bits, a loss that is
not a number ends it before anything is spoilt, and the time spent waiting for data is known. Several processes run it
together: each takes its share of every batch, and all do the same at the same step (distributed.py, gradients.py).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from vitrail.data.loader import Batch
from vitrail.errors import EXIT_CHECK_FAILED, VitrailError
from vitrail.train import checkpoint, generators
from vitrail.train.allocator import memory_kept
from vitrail.train.budget import Pace
from vitrail.train.distributed import OneClock, Share, local, shares, world
from vitrail.train.ema import averaged
from vitrail.train.gradients import engine, split_like, whole_tensor
from vitrail.train.interrupt import Interruption
from vitrail.train.optim import Optimizers, build_optimizers
from vitrail.train.run import Run
from vitrail.train.schedule import learning_rate
from vitrail.train.settings import TrainSettings

LOG_SECONDS = 2.0  # at most this often a line goes to metrics.jsonl


class TrainingFailed(VitrailError):
    """Training cannot go on; the last checkpoint is as it was."""

    exit_code = EXIT_CHECK_FAILED


class Interrupted(KeyboardInterrupt):
    """Stopped on request, after everything was saved."""


class Loader(Protocol):
    position: int  # batches of this epoch until now, those counted in which no picture could be opened

    def batches(self, epoch: int, start: int = 0) -> Iterator[Batch]: ...

    def __len__(self) -> int: ...


class Score(NamedTuple):
    """What a validation found; a higher `value` is better."""

    value: float
    figures: dict[str, float]
    seconds: float


class Watcher(Protocol):
    """Whoever shows the progress: a bar on a terminal, lines in a log, TensorBoard."""

    def step(self, row: dict[str, Any], steps_left: float) -> None: ...

    def validated(self, row: dict[str, Any], best: bool) -> None: ...

    def said(self, text: str) -> None: ...


@dataclass
class State:
    """Where a run is, beside its tensors. `position` counts batches of this epoch."""

    step: int = 0
    epoch: int = 0
    position: int = 0
    pictures: int = 0
    best: float | None = None
    best_step: int = -1
    validated: int = -1  # the step of the last validation
    seconds: float = 0.0  # of all sittings together


class Trainer:
    """Trains `method`, a module whose forward pass is the loss; `model` inside it is what is validated and kept."""

    def __init__(
        self,
        settings: TrainSettings,
        method: nn.Module,
        loader: Loader,
        pace: Pace,
        run: Run,
        watcher: Watcher,
        validate: Callable[[nn.Module], Score] | None = None,
        keep_best: Callable[[nn.Module], None] | None = None,
        validation_seconds: float = 0.0,
        glance: Callable[[nn.Module], None] | None = None,
    ) -> None:
        """`validation_seconds` is what the first validation is expected to take, where that is known. `glance` is given
        what would be validated, after each fifth of the run: to see how fast that would be now."""
        self.world = world()
        self.settings, self.method, self.loader = settings, method, loader
        self.pace = pace if self.world.size == 1 else OneClock(pace)
        self.run, self.watcher = run, watcher
        self.validate, self.keep_best, self.glance = validate, keep_best, glance
        self.average = averaged(method, settings.average) if settings.average else None
        self.engine = engine(settings, method, [self.average.module] if self.average else [], self.world)
        self.optimizers: Optimizers = build_optimizers(method, settings.optim)
        generators.begin(self.world, settings.seed)
        self.scaler = torch.amp.GradScaler(settings.device, enabled=settings.precision == "float16")
        self.state = State()
        self._waited = self._worked = 0.0
        self._saved_at = self._logged_at = time.monotonic()
        self._saved_step, self._glances = -1, 0
        self._next_validation = self._when_next(validation_seconds)
        self._started = time.monotonic()

    # ---- the loop

    def fit(self) -> State:
        """Train to the end of the budget. Interrupted, it saves and says so."""
        self._started = time.monotonic() - self.state.seconds
        with Interruption() as interruption, memory_kept():
            self._validate_if_due()  # an interruption came before it
            while not self.pace.done:
                self._epoch(interruption)
        self._validate()
        self.save()
        return self.state

    def _epoch(self, interruption: Interruption) -> None:
        first, before = self.state.position == 0, self.state.step
        batches = shares(self.loader.batches(self.state.epoch, self.state.position), self.method)
        asked = time.monotonic()
        for group in _steps(batches, self.settings.accumulate):
            start = time.monotonic()
            self._waited += start - asked
            loss = self._step(group)
            self._worked += time.monotonic() - start
            self._after_step(loss, interruption)
            if self.pace.done:
                return
            asked = time.monotonic()
        if first and self.state.step == before:
            raise TrainingFailed(
                f"an epoch of {len(self.loader)} batches gave no step (accumulate={self.settings.accumulate})",
                where=self.run.folder,
                fix="use a smaller accumulate, and see which pictures can be opened: vitrail doctor",
            )
        self.state.epoch, self.state.position = self.state.epoch + 1, 0

    def _step(self, group: list[Share]) -> float:
        """One step of the optimisers, from one batch or several; this process's part of the loss."""
        self.method.train()
        rate = self.settings.optim.lr * self._factor()
        self.optimizers.set_rate(rate)
        total = 0.0
        for number, share in enumerate(group, 1):
            with nullcontext() if number == len(group) else self.engine.step_goes_on():
                total += self._backward(share, len(group))
        for optimizer in self.optimizers.parts:
            self.scaler.unscale_(optimizer)
        self._clip(group)
        self._update()
        return total

    def _backward(self, share: Share, batches: int) -> float:
        """Add the gradient of one batch of a step to the others'."""
        batch = Batch(*(part.to(self.settings.device, non_blocking=True) for part in share.batch))
        with in_precision(self.settings):
            loss = self.engine.forward(batch, self.state.epoch, self.state.step, self.pace.progress)
        loss = loss * share.weight / batches
        self._check(loss, batch, "loss")
        self.scaler.scale(loss).backward()
        self.state.pictures += share.pictures
        return loss.item()

    def _update(self) -> None:
        for optimizer in self.optimizers.parts:
            self.scaler.step(optimizer)
        self.scaler.update()
        self.optimizers.zero_grad()
        if self.average is not None:
            self.average.update_parameters(self.method)

    def _factor(self) -> float:
        optim = self.settings.optim
        # The first step of a warm-up has a rate too, or it would be taken for nothing.
        least = 0.5 / max(1.0, self.pace.steps_left()) if self.state.step == 0 else 0.0
        return max(least, learning_rate(optim.schedule, self.pace.progress, optim.warmup))

    def _clip(self, group: list[Share]) -> None:
        if self.settings.optim.clip:
            norm = torch.nn.utils.clip_grad_norm_(self.optimizers.parameters(), self.settings.optim.clip)
            if not self.scaler.is_enabled():  # a scaler skips such a step by itself
                self._check(whole_tensor(norm), group[-1].batch, "gradient")

    def _check(self, value: Tensor, batch: Batch, what: str) -> None:
        if torch.isfinite(value):
            return
        shown = ", ".join(str(int(i)) for i in batch.indices[:8])
        more = f" and {len(batch.indices) - 8} more" if len(batch.indices) > 8 else ""
        raise self._failed(f"the {what} is {value.item()} at step {self.state.step} (pictures {shown}{more})")

    def _check_weights(self) -> None:
        """Weights that are no numbers never become a checkpoint."""
        for name, tensor in self.method.state_dict().items():
            if tensor.is_floating_point() and not torch.isfinite(local(tensor)).all():
                raise self._failed(f"{name} is no longer finite after step {self.state.step}")

    def _failed(self, what: str) -> TrainingFailed:
        return TrainingFailed(
            what,
            where=self.run.folder,
            fix=f"lower the learning rate (now {self.settings.optim.lr:g}) or look at the pictures; "
            "the last checkpoint is from before",
        )

    # ---- between two steps

    def _after_step(self, loss: float, interruption: Interruption) -> None:
        self.pace.advance()
        self.state.step += 1
        self.state.position = self.loader.position
        now = time.monotonic()
        self.state.seconds = now - self._started
        (whole,) = self.world.sum(loss / self.world.size)
        row = self._row(whole)
        self.watcher.step(row, self.pace.steps_left())
        if now - self._logged_at >= LOG_SECONDS or self.pace.done:
            self.run.log(row)
            self._logged_at, self._waited, self._worked = now, 0.0, 0.0
        asked, due = self.world.sum(interruption.asked, self.world.first and self._save_is_due(now))
        if asked:
            self.save()
            raise Interrupted(self.run.folder)
        self._validate_if_due()
        self._glance_if_due()
        if due:
            self.save()
        self.pace.paused(time.monotonic() - now)

    def _row(self, loss: float) -> dict[str, Any]:
        passed = max(1e-9, self._waited + self._worked)
        return {
            "kind": "train",
            "step": self.state.step,
            "epoch": round(self.state.epoch + self.state.position / len(self.loader), 4),
            "progress": round(self.pace.progress, 5),
            "seconds": round(self.state.seconds, 2),
            "loss": loss,
            "lr": self.settings.optim.lr * self._factor(),
            "images_per_second": round(self.state.pictures / max(1e-9, self.state.seconds), 1),
            "waiting": round(self._waited / passed, 4),
        }

    def _save_is_due(self, now: float) -> bool:
        if self.settings.save_steps:
            return self.state.step % self.settings.save_steps == 0
        return now - self._saved_at >= self.settings.save_seconds

    # ---- validation

    def best_module(self) -> nn.Module:
        """The module whose weights are validated and kept: the average, where there is one."""
        return self.engine.whole(self.method if self.average is None else self.average.module)

    def _validate_if_due(self) -> None:
        if self.pace.progress >= self._next_validation and not self.pace.done:
            self._validate()

    def _glance_if_due(self) -> None:
        fifths = int(5 * self.pace.progress)
        if self.glance is not None and fifths > self._glances and not self.pace.done:
            self._glances = fifths
            self.glance(self.best_module().eval())

    def _validate(self) -> None:
        if self.validate is None or self.state.validated == self.state.step:
            return
        self.state.validated = self.state.step
        module, validate = self.best_module().eval(), self.validate
        score = self.world.of_first(lambda: validate(module))
        if not math.isfinite(score.value):
            raise self._failed(f"the validation score is {score.value} after step {self.state.step}")
        better = self.state.best is None or score.value > self.state.best
        row = {"kind": "val", **{k: v for k, v in self._row(0.0).items() if k not in ("kind", "loss", "waiting", "lr")}}
        row |= score.figures
        self.run.log(row)
        if better:
            self.state.best, self.state.best_step = score.value, self.state.step
            if self.keep_best is not None and self.world.first:
                self.keep_best(module)
        self.watcher.validated(row, better)
        self._next_validation = self.world.tell(self._when_next(score.seconds))

    def _when_next(self, cost: float) -> float:
        """After a tenth of the run, or later if that would spend more than a twenty-fifth of it on validating."""
        minutes = self.settings.budget.minutes
        gap = max(0.1, 25 * cost / (60 * minutes) if minutes else 0.0)
        following = self.pace.progress + gap
        return following if following <= 1 - gap / 2 else 1.0  # the last step is validated in any case

    # ---- memory

    def save(self) -> None:
        """A checkpoint of everything the next step depends on."""
        if self._saved_step == self.state.step:
            return
        self._check_weights()
        tensors = {f"method.{name}": tensor for name, tensor in self.method.state_dict().items()}
        if self.average is not None:
            tensors |= {f"average.{name}": tensor for name, tensor in self.average.state_dict().items()}
        tensors |= {f"optimizer.{name}": tensor for name, tensor in self.optimizers.tensors().items()}
        tensors |= {f"random.{name}": tensor for name, tensor in generators.states(self.world).items()}
        state = {
            **asdict(self.state),
            "pace": self.pace.state(),
            "scaler": self.scaler.state_dict(),
            "next_validation": self._next_validation,
            "log_position": self.run.log_position(),
        }
        save = checkpoint.save_together if self.engine.sharded else checkpoint.save_by_first
        save(self.run.checkpoints, self.state.step, tensors, state, self.world)
        self._saved_at, self._saved_step = time.monotonic(), self.state.step

    def resume(self) -> bool:
        """Continue from the newest checkpoint that is whole; False where there is none."""
        found, faults = checkpoint.load_together(self.run.checkpoints, self.world)
        for fault in faults:
            self.watcher.said(str(fault))
        if found is None:
            return False
        self.run.rewind_log(found.state["log_position"])
        parts = _by_prefix(found.tensors)
        weights = self.method.state_dict()
        self.method.load_state_dict(split_like(parts["method"], weights))
        if self.average is not None:
            self.average.load_state_dict(split_like(parts["average"], self.average.state_dict()))
        self.optimizers.restore(split_like(parts["optimizer"], weights))
        generators.restore(parts["random"], self.world, self.settings.seed, found.step)
        state = dict(found.state)
        self.pace.restore(state.pop("pace"))
        self.scaler.load_state_dict(state.pop("scaler"))
        self._next_validation = state.pop("next_validation")
        state.pop("log_position")
        self.state = State(**state)
        self._saved_step = self.state.step
        return True


def _steps(batches: Iterator[Share], count: int) -> Iterator[list[Share]]:
    """Batches by the `count` that one step takes; an incomplete last group is left out."""
    group: list[Share] = []
    for batch in batches:
        group.append(batch)
        if len(group) == count:
            yield group
            group = []


def _by_prefix(tensors: dict[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    parts: dict[str, dict[str, Tensor]] = {"method": {}, "average": {}, "optimizer": {}, "random": {}}
    for name, tensor in tensors.items():
        prefix, rest = name.split(".", 1)
        parts[prefix][rest] = tensor
    return parts


def in_precision(settings: TrainSettings) -> AbstractContextManager[object]:
    """Where products are computed in the numbers of the settings."""
    if settings.precision == "float32":
        return nullcontext()
    return torch.autocast(settings.device, dtype=getattr(torch, settings.precision))
