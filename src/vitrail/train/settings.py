"""Everything a training run depends on, as plain values: `config.yaml` of a run, complete and re-runnable."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import yaml

from vitrail.config import Config, Preprocessing, ResNetConfig, ViTConfig, one_of
from vitrail.data.augment import Augmentation
from vitrail.errors import ConfigError, did_you_mean
from vitrail.methods.distill import Distillation
from vitrail.methods.supervised import Regularisation
from vitrail.model.lora import LoraSettings
from vitrail.model.sizes import ModelConfig
from vitrail.train.optim import OptimSettings

BALANCES = ("none", "weights", "sampler")
PRECISIONS = ("float32", "bfloat16", "float16")
DISTRIBUTIONS = ("ddp", "fsdp")
ALL_BUT_HEAD = "all-but-head"
_POWER_OF_TEN = re.compile(r"[-+]?[\d.]*\d[\d.]*e[-+]?\d+", re.IGNORECASE)
_WHOLE_NUMBERS = {
    "batch_size": 1,
    "accumulate": 1,
    "threads": 0,
    "seed": 0,
    "save_steps": 0,
}
_OR_NONE = {"workers": 0, "validate_on": 1}


@dataclass(frozen=True)
class Budget(Config):
    """How long to train; exactly one is given."""

    minutes: float | None = None
    epochs: float | None = None
    steps: int | None = None

    def __post_init__(self) -> None:
        given = {name: value for name, value in self.to_dict().items() if value is not None}
        if len(given) != 1:
            raise ConfigError(
                f"the budget is {' and '.join(given) or 'not given'}", fix="give one of --minutes, --epochs and --steps"
            )
        for name, value in given.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
                raise ConfigError(f"{name}={value} must be more than 0")


@dataclass(frozen=True)
class TrainSettings(Config):
    """One run. Sections are data of their own; the rest belongs to the loop."""

    data: str
    model: ModelConfig
    image: Preprocessing
    augment: Augmentation
    optim: OptimSettings
    regularise: Regularisation
    budget: Budget
    val: float | None = None  # the part of the training pictures to validate on; None: chosen, or there already
    validate_on: int | None = None  # so many pictures at most; None: all, or as many as the minutes allow
    start: str | None = None  # the weights that training starts from
    positions: str = "interpolate"  # of those weights, at another size of the pictures; fresh: drawn anew
    probe_first: bool = True  # from weights, a probe in closed form gives the first head; else it starts at zero
    frozen_blocks: int | str | None = None  # with the embedding, these keep their weights; None: as the time asks for
    lora: LoraSettings = field(default_factory=LoraSettings)
    distill: Distillation = field(default_factory=Distillation)
    lr_grid: tuple[float, ...] = ()  # rates to try first, for a part of the budget (rates.py)
    batch_size: int = 256
    accumulate: int = 1  # batches a step
    average: float = 0.0  # of the weights, a step (EMA); 0: off
    balance: str = "none"
    precision: str = "float32"
    device: str = "cpu"
    distribute: str = "ddp"  # over several processes: whole weights in each, or parts of them (gradients.py)
    threads: int = 0  # 0: as many as there are cores
    in_memory: bool | None = None  # pictures, from the start; None: where there is room and time
    workers: int | None = None  # None: one a core where the pictures are not in memory
    seed: int = 0
    save_seconds: float = 60.0
    save_steps: int = 0  # 0: by time alone

    def __post_init__(self) -> None:
        one_of("balance", self.balance, BALANCES)
        one_of("precision", self.precision, PRECISIONS)
        one_of("distribute", self.distribute, DISTRIBUTIONS)
        one_of("positions", self.positions, ("interpolate", "fresh"))
        if not isinstance(self.in_memory, bool | None):
            raise ConfigError(f"in_memory={self.in_memory!r} must be true, false or null")
        object.__setattr__(self, "lr_grid", tuple(map(float, self.lr_grid)))
        _check_frozen(self.frozen_blocks)
        given = {name: least for name, least in _OR_NONE.items() if getattr(self, name) is not None}
        for name, least in (_WHOLE_NUMBERS | given).items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ConfigError(f"{name}={value} must be a whole number, at least {least}")
        if not 0 <= self.average < 1:
            raise ConfigError(f"average={self.average} must lie in [0, 1)", fix="0.99 is a usual value")

    def summary(self, reasons: Mapping[str, str]) -> list[tuple[str, str, str]]:
        """The choices in a few lines for people: name, value, reason."""
        budget = next(f"{value:g} {name}" for name, value in self.budget.to_dict().items() if value is not None)
        rows = [
            ("model", _model_words(self.model), "model"),
            ("pictures", f"{self.image.size[0]}x{self.image.size[1]}, {_channel_words(self.model.channels)}", "image"),
            ("augment", _augment_words(self.augment), "augment"),
            ("optimiser", f"{self.optim.name}, learning rate {self.optim.lr:g}, {self.optim.schedule}", "optim"),
            ("batch", f"{self.batch_size * self.accumulate} pictures", "batch_size"),
            ("balance", self.balance, "balance"),
            ("budget", f"{budget}, on {self.device}", "budget"),
        ]
        if self.precision != "float32":
            rows.insert(-1, ("precision", self.precision, "precision"))
        if self.lora.rank:
            rows.insert(1, ("adapters", f"rank {self.lora.rank} on {', '.join(self.lora.targets)}", "lora.rank"))
        if self.distill.teacher is not None:
            rows.insert(1, ("teacher", f"{self.distill.teacher}, {self.distill.kind} answers", "distill.teacher"))
        return [(name, value, reasons.get(key, "")) for name, value, key in rows]

    def to_dict(self) -> dict[str, Any]:
        kind = "vit" if isinstance(self.model, ViTConfig) else "resnet"
        values = dataclasses.asdict(self)
        return {**values, "model": {"kind": kind, **values["model"]}}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        try:
            return super().from_dict(cls._with_sections(values))
        except TypeError as error:  # such as a word where a number is needed
            raise ConfigError(f"these settings cannot be used ({error})") from error

    @classmethod
    def _with_sections(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        if "method" in given and cls is TrainSettings:
            raise ConfigError(
                "these are settings of learning without labels", fix="use vitrail pretrain, with --resume or --config"
            )
        values: dict[str, Any] = {"lora": {}, "distill": {}, **given}  # runs from before these have none
        for name in (*SECTIONS, "model"):
            if not isinstance(values.get(name), Mapping | Config):
                raise ConfigError(f"{name} has settings of its own", fix=f"give one of them, as {name}.key=value")
        for name, section in SECTIONS.items():
            if isinstance(values[name], Mapping):
                values[name] = section.from_dict(values[name])
        if isinstance(model := values.get("model"), Mapping):
            kinds: dict[str, type[ViTConfig | ResNetConfig]] = {"vit": ViTConfig, "resnet": ResNetConfig}
            kind = model.get("kind", "vit")
            one_of("model.kind", kind, tuple(kinds))
            values["model"] = kinds[kind].from_dict({k: v for k, v in model.items() if k != "kind"})
        return values


def _check_frozen(blocks: int | str | None) -> None:
    number = isinstance(blocks, int) and not isinstance(blocks, bool) and blocks >= 0
    if not number and blocks not in (None, ALL_BUT_HEAD):
        raise ConfigError(f"frozen_blocks={blocks} is no number of blocks", fix=f"give one, or {ALL_BUT_HEAD}")


def _channel_words(channels: int) -> str:
    return {1: "grey", 3: "colour"}.get(channels, f"{channels} channels")


def _augment_words(augment: Augmentation) -> str:
    crops = {"shift": f"shift by {augment.shift}", "resized": f"crop {augment.scale[0]:.0%} to {augment.scale[1]:.0%}"}
    words = [crops.get(augment.crop, ""), "flip" if augment.flip else "", augment.policy.replace("none", "")]
    words += [f"{name} {value:g}" for name, value in (("jitter", augment.jitter), ("erase", augment.erase)) if value]
    return ", ".join(word for word in words if word) or "none"


def _model_words(model: ModelConfig) -> str:
    if not isinstance(model, ViTConfig):
        return f"ResNet of {sum(model.blocks)} blocks"
    stem = "" if model.stem == "none" else f", {model.stem} stem"
    return f"ViT of width {model.dim}, depth {model.depth}, patches {model.patch_size[0]}x{model.patch_size[1]}{stem}"


Settings = TypeVar("Settings", bound=TrainSettings)

SECTIONS: dict[str, type[Config]] = {
    "image": Preprocessing,
    "augment": Augmentation,
    "optim": OptimSettings,
    "regularise": Regularisation,
    "budget": Budget,
    "lora": LoraSettings,
    "distill": Distillation,
}


def change(settings: Settings, key: str, text: Any) -> Settings:
    """Settings with one value changed, named as in config.yaml: `change(settings, "optim.lr", "0.01")`."""
    values = settings.to_dict()
    *path, last = key.replace("-", "_").split(".")
    place = values
    for part in path:
        inner = place.get(part)
        place = inner if isinstance(inner, dict) else {}
    if last not in place:
        known = _keys(values)
        raise ConfigError(f"there is no setting {key!r}", fix=did_you_mean(key, known) or "see config.yaml of a run")
    place[last] = _value(text) if isinstance(text, str) else text
    try:
        return type(settings).from_dict(values)
    except ConfigError as error:
        if isinstance(error.__cause__, TypeError):
            raise ConfigError(f"{key}={text} cannot be used ({error.__cause__})") from error
        raise


def _value(text: str) -> Any:
    """As YAML reads it; and 1e-3 as a number, which YAML 1.1 takes for a word."""
    try:
        return float(text) if _POWER_OF_TEN.fullmatch(text) else yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def _keys(values: Mapping[str, Any], before: str = "") -> list[str]:
    nested = [_keys(value, f"{before}{key}.") for key, value in values.items() if isinstance(value, Mapping)]
    return [f"{before}{key}" for key in values] + [key for keys in nested for key in keys]
