"""What `vitrail train` and `vitrail pretrain` share: their options, and what is asked by them."""

# No `from __future__ import annotations` here: cyclopts would look for these names in the module of a class below.

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from vitrail.errors import ConfigError

DEFAULT_MINUTES = 20.0


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What can be asked of any run; the rest is chosen.

    Parameters
    ----------
    model
        A model by name (`vitrail models`); chosen to fit the data and the budget if not given.
    start
        Weights to start from: a run, a model file, a folder in timm's or Hugging Face's layout, hf-hub:owner/name.
    minutes
        How long everything may take; 20 if no budget is given.
    epochs
        Instead: how often to go through the training pictures.
    steps
        Instead: how many steps to take.
    image_size
        Pixels a side that the model sees.
    batch_size
        Pictures a batch.
    val
        The part of the training pictures to validate on, where the data has no such split.
    config
        Settings of an earlier run, its config.yaml.
    resume
        Go on with an interrupted run, exactly where it was.
    out
        The folder of the run; one in runs/ that is named after the data if not given.
    overwrite
        Replace a run that is there.
    dry_run
        Do one batch of everything, show what would be done and how long it takes, and write nothing.
    workers
        Processes that read pictures, for each process that trains; one a core where they are not in memory.
    nproc
        Processes that train together on this machine; a batch is shared by them.
    device
        cpu, cuda or mps; the best there is if not given.
    seed
        Of everything that is random; 0 if not given.
    log
        Also write curves for TensorBoard into the run, or send them to Weights & Biases.
    json
        Print one JSON document at the end.
    """

    model: str | None = None
    start: Annotated[str | None, Parameter(name="--from")] = None
    minutes: float | None = None
    epochs: float | None = None
    steps: int | None = None
    image_size: int | None = None
    batch_size: int | None = None
    val: float | None = None
    config: Path | None = None
    resume: Path | None = None
    out: Path | None = None
    overwrite: bool = False
    dry_run: bool = False
    workers: int | None = None
    nproc: int = 1
    device: str | None = None
    seed: int | None = None
    log: Literal["tensorboard", "wandb"] | None = None
    json: bool = False

    def wishes(self, data: str | None, changes: dict[str, Any], **settings: Any) -> dict[str, Any]:
        """The words of `train.wishes.RunWishes`; `settings` are changed by name where they are not None.

        Data and budget are those given, else those of --config.
        """
        from vitrail.train.run import read_settings
        from vitrail.train.settings import Budget

        before = None if self.config is None else read_settings(self.config)
        source = data if data is not None else (before or {}).get("data")
        if source is None:
            raise ConfigError("no pictures to learn from", fix="give a folder of them, or a name of `vitrail data`")
        given: dict[str, Any] = {"minutes": self.minutes, "epochs": self.epochs, "steps": self.steps}
        if before is not None and not any(given.values()):
            given = before.get("budget", {})
        budget = {name: value for name, value in given.items() if value is not None} or {"minutes": DEFAULT_MINUTES}
        stated = {"batch_size": self.batch_size, "workers": self.workers, "seed": self.seed, **settings}
        return {
            "data": str(source),
            "budget": Budget.from_dict(budget),
            "settings": before,
            "model": self.model,
            "start": self.start,
            "image_size": self.image_size,
            "val": self.val,
            "device": self.device,
            "seed": self.seed or 0,
            "changes": {name: value for name, value in stated.items() if value is not None} | changes,
        }


def parsed(changes: tuple[str, ...]) -> dict[str, Any]:
    for change in changes:
        if "=" not in change:
            raise ConfigError(f"{change!r} is no setting", fix="give key=value; a path with spaces in quotes")
    return dict(change.split("=", 1) for change in changes)


def only_resumed(data: str | None, changes: dict[str, Any]) -> None:
    """Beside --resume there is nothing to say."""
    if data is not None or changes:
        raise ConfigError("--resume goes on with the run's own data and settings", fix="leave the rest out")
