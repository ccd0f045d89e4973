"""Curves for other programs: TensorBoard, Weights & Biases. `metrics.jsonl` is written in any case."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from vitrail.errors import MissingExtra

AXES = ("kind", "step", "progress", "epoch", "seconds")  # where a row stands, not what it says


class Logger(Protocol):
    def start(self, folder: Path, config: Mapping[str, Any]) -> None: ...

    def log(self, row: Mapping[str, Any]) -> None: ...


class TensorBoard:
    """Events in the run's own folder: `tensorboard --logdir runs`."""

    def start(self, folder: Path, config: Mapping[str, Any]) -> None:  # noqa: ARG002
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise MissingExtra("tensorboard", "tensorboard") from error
        self._writer = SummaryWriter(str(folder / "tensorboard"))

    def log(self, row: Mapping[str, Any]) -> None:
        for name, value in curves(row).items():
            self._writer.add_scalar(name, value, row.get("step", 0))
        self._writer.flush()


class Wandb:
    """A run at Weights & Biases, or offline as its own settings say."""

    def start(self, folder: Path, config: Mapping[str, Any]) -> None:
        try:
            import wandb
        except ImportError as error:
            raise MissingExtra("wandb", "wandb") from error
        self._run = wandb.init(
            project="vitrail", name=folder.name, dir=str(folder), config=dict(config), resume="allow"
        )

    def log(self, row: Mapping[str, Any]) -> None:
        self._run.log(curves(row), step=row.get("step"))


LOGGERS: dict[str, type[TensorBoard] | type[Wandb]] = {"tensorboard": TensorBoard, "wandb": Wandb}


def open_logger(name: str | None) -> Logger | None:
    return None if name is None else LOGGERS[name]()


def curves(row: Mapping[str, Any]) -> dict[str, float]:
    """The figures of a row, named by what it is about: `val/accuracy`."""
    found = {key: value for key, value in row.items() if key not in AXES and isinstance(value, int | float)}
    return {f"{row['kind']}/{key}": float(value) for key, value in found.items()}
