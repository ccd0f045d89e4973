"""Settings of a run without labels, and how they are chosen: each with its reason, below whatever the user states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from vitrail.config import Config, Pair, Preprocessing, ViTConfig, one_of
from vitrail.data.augment import Augmentation
from vitrail.errors import ConfigError
from vitrail.methods.dino import DINOSettings
from vitrail.methods.mae import MAESettings
from vitrail.methods.registry import METHODS, name_of
from vitrail.methods.supervised import Regularisation
from vitrail.model.sizes import ModelConfig, model_config
from vitrail.train.optim import OptimSettings
from vitrail.train.recipe import (
    SMALL,
    Facts,
    Shape,
    batch_for,
    can_flip,
    image_size_for,
    patch_for,
    processor_minutes,
    transfer_size,
    usual_pixels,
)
from vitrail.train.settings import Budget, TrainSettings

BATCH = 128
SMALL_BATCH = 32  # on a CPU: more steps in the same minutes, and the features need them (LOG.md)
RATE = 3e-3  # of Muon, as in training with labels
RATES = {"masked-patches": 1e-3, "mae": 1e-3, "simmim": 1e-3, "dino": 5e-4}  # of AdamW from weights, a batch of 256
WIDEST_DECODER = 192  # MAE's, for small encoders
SMALL_PICTURES = DINOSettings(  # in a few hundred steps (LOG.md)
    outputs=256, hidden=128, bottleneck=64, small_views=0, momentum=0.95, teacher_temperature=0.04
)

# Minutes of two cores, at most, and the encoder for them. In few, a shallow one wins, as with labels (LOG.md).
SHAPES_BY_MINUTES = (
    (6, Shape(96, 2, 3, 192)),
    (15, Shape(96, 3, 3, 192)),
    (60, Shape(128, 4, 4, 256)),
    (float("inf"), Shape(192, 6, 6, 768)),
)


@dataclass(frozen=True)
class PretrainSettings(TrainSettings):
    """The settings of training, with a method in the place of labels. `regularise` is for labels, and has no effect."""

    method: Config = field(kw_only=True)
    labelled: bool = True  # whether labels are read, to measure with; no method learns from them

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "method": {"kind": name_of(self.method), **self.method.to_dict()}}

    @classmethod
    def _with_sections(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        if "method" not in given:
            raise ConfigError(
                "these are settings of training with labels", fix="use vitrail train, with --resume or --config"
            )
        values = super()._with_sections(given)
        if isinstance(method := values.get("method"), Mapping):
            kind = method.get("kind", "")
            one_of("method.kind", kind, tuple(METHODS))
            values["method"] = METHODS[kind].settings.from_dict({k: v for k, v in method.items() if k != "kind"})
        if not isinstance(values.get("method"), Config):
            raise ConfigError("method has settings of its own", fix="give one of them, as method.key=value")
        return values

    def summary(self, reasons: Mapping[str, str]) -> list[tuple[str, str, str]]:
        stated = ", ".join(f"{key} {value}" for key, value in self.method.to_dict().items())
        rows = [row for row in super().summary(reasons) if row[0] != "balance"]
        return [("method", f"{name_of(self.method)}: {stated}", reasons.get("method", "")), *rows]


class Choice(NamedTuple):
    settings: PretrainSettings
    reasons: dict[str, str]


class Start(NamedTuple):
    """Weights that pre-training starts from."""

    name: str
    config: ModelConfig
    image: Preprocessing | None


def choose(
    facts: Facts,
    method: str,
    budget: Budget,
    seed: int,
    *,
    model: str | None = None,
    size: Pair | None = None,
    start: Start | None = None,
) -> Choice:
    """An encoder and a method for these pictures and these minutes."""
    one_of("--method", method, (*METHODS, "supervised"))
    minutes = processor_minutes(facts, budget)
    encoder, why = _encoder(facts, minutes, model, size, start)
    if method == "dino":
        encoder = encoder.replace(any_size=True)
    usual = SMALL_BATCH if facts.device == "cpu" and start is None else BATCH
    batch = batch_for(facts, usual)
    settings = PretrainSettings(
        data=facts.data,
        start=start.name if start else None,
        model=encoder,
        image=Preprocessing(encoder.image_size, *_pixels(facts, start)),
        augment=Augmentation() if method == "dino" else _augmentation(facts, encoder.image_size),
        optim=_optim(method, batch, start),
        regularise=Regularisation(),
        budget=budget,
        batch_size=batch,
        device=facts.device,
        seed=seed,
        method=_method(method, encoder, facts),
        labelled=bool(facts.classes),
    )
    grid = f"{encoder.grid[0]}x{encoder.grid[1]} patches"
    reasons = {
        "method": "as in its paper, in the size of the encoder",
        "model": f"{why}; {grid}",
        "image": f"pictures are about {facts.size[0]}x{facts.size[1]}",
        "augment": "the views of dino are its augmentation" if method == "dino" else "little: masks differ in any case",
        "optim": "Muon for matrices and kernels, AdamW for the rest: more is learned a minute (LOG.md)"
        if start is None
        else f"{RATES[method]:g} x batch / 256, betas (0.9, 0.95)",
        "batch_size": "many steps in few minutes (LOG.md)",
    }
    return Choice(settings, reasons)


def _optim(method: str, batch: int, start: Start | None) -> OptimSettings:
    """Large steps for what starts at nothing; those of the papers for weights that know something already."""
    if start is None:
        return OptimSettings(name="muon", lr=RATE, schedule="cosine", betas=(0.9, 0.95))
    return OptimSettings(name="adamw", lr=RATES[method] * batch / 256, schedule="cosine", betas=(0.9, 0.95))


def _method(name: str, encoder: ViTConfig, facts: Facts) -> Config:
    if name == "mae":
        width = min(WIDEST_DECODER, max(32, encoder.dim * 2 // 3 // 32 * 32))  # the paper: 512 for 768 and 1024
        # It sees all patches, the encoder a quarter: the paper's eight blocks would take most of the time.
        return MAESettings(decoder_depth=1 if encoder.depth < 4 else 2, decoder_dim=width)
    if name == "dino":
        usual = SMALL_PICTURES if max(encoder.image_size) <= SMALL else DINOSettings()
        return usual.replace(flip=can_flip(facts.classes))
    return METHODS[name].settings()


def _encoder(
    facts: Facts, minutes: float, model: str | None, size: Pair | None, start: Start | None
) -> tuple[ViTConfig, str]:
    """What learns, without a head; and why."""
    usual = size or image_size_for(facts)
    if start is None and model is None:
        return _small(facts, usual, minutes), f"for {minutes:.0f} minutes of two cores"
    config: ModelConfig
    if start is not None:
        name, why = start.name, f"the encoder of {start.name}"
        config = start.config.at_size(size or transfer_size(facts, start.config))
    else:
        assert model is not None
        name, why = model, "asked for"
        config = model_config(model, image_size=usual, num_classes=0)
    if not isinstance(config, ViTConfig):
        raise ConfigError(f"{name} is not made of patches", fix="use a ViT, such as --model Ti/16")
    plain = {"num_classes": 0, "head": "linear", "head_dim": None, "read_layers": (), "drop_path": 0.0}
    return config.replace(channels=facts.channels, **plain), why


def _pixels(facts: Facts, start: Start | None) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and spread of the pixels: as weights know them, else of these pictures."""
    if start is None:
        return facts.mean, facts.std
    if start.image is not None and len(start.image.mean) == facts.channels:
        return start.image.mean, start.image.std
    return usual_pixels(start.config, facts)


def _small(facts: Facts, size: Pair, minutes: float) -> ViTConfig:
    shape = next(shape for limit, shape in SHAPES_BY_MINUTES if minutes <= limit)
    return ViTConfig(
        image_size=size,
        patch_size=(patch_for(size[0]), patch_for(size[1])),
        num_classes=0,
        channels=facts.channels,
        dim_head=shape.dim // shape.heads,
        pool="mean",
        positions="sincos-2d",
        **shape._asdict(),
    )


def _augmentation(facts: Facts, size: Pair) -> Augmentation:
    flip = can_flip(facts.classes)
    if max(facts.size) > 64:
        return Augmentation(crop="resized", scale=(0.2, 1.0), flip=flip)  # MAE's
    return Augmentation(crop="shift", shift=max(1, round(min(size) / 8)), flip=flip)
