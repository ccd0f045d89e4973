"""What a user asks of a run; everything that is not asked for is chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from vitrail.config import Pair
from vitrail.errors import ConfigError
from vitrail.train.settings import Budget, TrainSettings

Settings = TypeVar("Settings", bound=TrainSettings)


@dataclass(frozen=True)
class RunWishes:
    """What `vitrail train` and `vitrail pretrain` can both be asked."""

    data: str
    budget: Budget
    settings: Mapping[str, Any] | None = None  # of an earlier run, its config.yaml, instead of a choice
    model: str | None = None
    start: str | None = None  # weights to start from
    image_size: int | None = None
    val: float | None = None
    device: str | None = None
    seed: int = 0
    changes: Mapping[str, Any] = field(default_factory=dict)  # "optim.lr": 0.01

    IN_SETTINGS: ClassVar[tuple[str, ...]] = ("model", "start", "image_size")  # wishes that a config.yaml has answered

    @property
    def size(self) -> Pair | None:
        return None if self.image_size is None else (self.image_size, self.image_size)

    def again(self, kind: type[Settings]) -> Settings | None:
        """The settings of the earlier run, if there is one, for these data and this budget."""
        if self.settings is None:
            return None
        said = [name for name in self.IN_SETTINGS if getattr(self, name)]
        if said:
            options = ", ".join("--" + {"start": "from"}.get(name, name).replace("_", "-") for name in said)
            raise ConfigError("--config says all about the model", fix=f"leave out {options}")
        stated = {"device": self.device, "val": self.val}
        settings = kind.from_dict({**self.settings, "data": self.data, "budget": self.budget.to_dict()})
        return settings.replace(**{name: value for name, value in stated.items() if value is not None})
