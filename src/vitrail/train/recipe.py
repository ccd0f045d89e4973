"""Settings chosen from the data and the budget, each with its reason; whatever the user states stands above them.

Starting points from published recipes; what was measured since is in LOG.md.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from vitrail.config import Pair, Preprocessing, ViTConfig
from vitrail.data.augment import Augmentation
from vitrail.errors import ConfigError
from vitrail.methods.supervised import Regularisation
from vitrail.model.sizes import ModelConfig, model_config
from vitrail.train.optim import OptimSettings
from vitrail.train.settings import ALL_BUT_HEAD, Budget, TrainSettings

BATCH = 64
GRID = 8  # patches a side that a small model from scratch aims at
SMALL = 64  # pixels a side; pictures of no more are taken as they are, and models for them learn in minutes
LARGER = 160  # pixels a side of photos that come back MANY_EPOCHS times, by our guess; of others SMALL (LOG.md)
MANY_EPOCHS = 100
TINY = 32  # pixels a side that a ResNet takes without shrinking them first
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
DIRECTIONAL = ("left", "right", "arrow")
SEVERAL_LAYERS = "a head that reads several sees more (LOG.md)"


@dataclass(frozen=True)
class Facts:
    """What the choice depends on."""

    data: str
    pictures: int  # to train on
    classes: tuple[str, ...]
    channels: int
    size: Pair  # rows and columns of a typical picture
    mean: tuple[float, ...]
    std: tuple[float, ...]
    multi_label: bool = False
    imbalance: float = 1.0  # the largest class over the smallest
    device: str = "cpu"
    cores: int = os.cpu_count() or 1
    bfloat16: bool = False  # whether the device multiplies such numbers faster than float32


LARGE_STEPS = OptimSettings(name="muon", lr=3e-3, schedule="linear", warmup=0.05)


class Shape(NamedTuple):
    dim: int
    depth: int
    heads: int
    mlp_dim: int


# Minutes of two cores, at most, and the model for them. In few, a shallow one wins: it sees more pictures (LOG.md).
SHAPES_BY_MINUTES = (
    (6, Shape(96, 2, 3, 192)),
    (15, Shape(96, 3, 3, 192)),
    (20, Shape(96, 6, 3, 192)),
    (60, Shape(128, 4, 4, 256)),
    (float("inf"), Shape(192, 9, 3, 768)),
)


SMALLER = 0.75  # of the side, in most steps from weights: twice the steps, and the last ones see what is missing
FEW_EPOCHS = 4  # fewer want larger batches and steps, more want mixed pictures, and not the other way round (LOG.md)
FAST_BFLOAT16 = "products of 16-bit numbers are the faster ones here"
WIDE = 384  # on a processor, 16 bits bring 1.6 times the steps at this width, 1.1 times at 128 (LOG.md)


class Choice(NamedTuple):
    settings: TrainSettings
    reasons: dict[str, str]


def from_scratch(facts: Facts, budget: Budget, seed: int, **wishes: Any) -> Choice:
    """A model made for these pictures and these minutes."""
    minutes, name = processor_minutes(facts, budget), wishes.get("model")
    size = wishes.get("image_size") or _size_for_these_minutes(facts, budget, minutes, name)
    model = _model_from_scratch(facts, size, minutes, name)
    shape_reason = f"the most that {minutes:.0f} minutes of two cores can train"
    if name:
        shape_reason = "asked for"
    elif budget.minutes is None:
        shape_reason = "the size for half an hour on two cores, as no minutes are given"
    epochs = _expected_epochs(facts, budget, model, minutes)
    settings = TrainSettings(
        data=facts.data,
        model=model,
        image=Preprocessing(size=model.image_size, mean=facts.mean, std=facts.std),
        augment=_augmentation(facts, epochs, size),
        optim=LARGE_STEPS,
        regularise=_regularisation(epochs, facts),
        budget=budget,
        batch_size=batch_for(facts, BATCH),
        average=0.99,
        balance="weights" if facts.imbalance > 3 and not facts.multi_label else "none",
        precision=precision_for(facts, model),
        device=facts.device,
        seed=seed,
    )
    reasons = {
        "model": shape_reason,
        "image": f"pictures are about {facts.size[0]}x{facts.size[1]}",
        "augment": f"for about {epochs:.0f} epochs",
        "balance": f"the largest class is {facts.imbalance:.1f} times the smallest",
        "optim": "Muon for matrices and kernels, AdamW for the rest",
        "batch_size": "small ones learn most a minute (LOG.md)",
    }
    return Choice(settings, reasons | _why_16_bits(settings))


def from_weights(
    facts: Facts,
    budget: Budget,
    seed: int,
    start: str,
    config: ModelConfig,
    image: Preprocessing | None = None,
    size: Pair | None = None,
) -> Choice:
    """The same model with a new head, fine-tuned from a linear probe (LP-FT)."""
    size = size or transfer_size(facts, config)
    model = config.at_size(size).replace(num_classes=len(facts.classes), channels=facts.channels)
    small = SMALLER if facts.device == "cpu" else 1.0
    epochs = _epochs_of_fine_tuning(facts, budget, model, small)
    whole, batch = epochs >= 1, 8 if facts.device == "cpu" else 32
    model = model.replace(**new_parts(config, several_layers=not whole))
    few = _planned_epochs(facts, budget, batch_for(facts, batch), epochs) < FEW_EPOCHS
    lr, batch = (3e-4, 16) if few and facts.device == "cpu" else (2e-4, batch)
    mean, std = (image.mean, image.std) if image and len(image.mean) == facts.channels else usual_pixels(config, facts)
    settings = TrainSettings(
        data=facts.data,
        start=start,
        model=model,
        image=Preprocessing(size=size, mean=mean, std=std),
        augment=Augmentation(crop="resized", scale=(0.08, 1.0), flip=can_flip(facts.classes)),
        optim=OptimSettings(name="adamw", lr=lr, schedule="cosine", warmup=0.1, betas=(0.9, 0.999), layer_decay=0.75),
        regularise=Regularisation(
            label_smoothing=0.0 if facts.multi_label else 0.1,
            cutmix=0.0 if few else 1.0,
            small_images=small,
            cheap_until=0.7,
        ),
        budget=budget,
        batch_size=batch_for(facts, batch),
        average=0.98,
        balance="none",
        precision=precision_for(facts, model),
        device=facts.device,
        seed=seed,
    )
    reasons = {
        "model": f"the shape of {start}, with a new head",
        "model.read_layers": "all layers are trained" if whole else SEVERAL_LAYERS,
        "image": f"pictures are about {facts.size[0]}x{facts.size[1]}",
        "optim": "small steps, smaller towards the input: the weights know much already",
        "regularise": f"labels smoothed, pictures {'as they are, for few epochs (LOG.md)' if few else 'mixed'}",
        "batch_size": "for few epochs (LOG.md)" if batch == 16 else "small ones learn most a minute (LOG.md)",
    }
    choice = Choice(settings, reasons | _why_16_bits(settings))
    return _large_steps(choice, facts) if max(size) <= SMALL else choice


def _large_steps(choice: Choice, facts: Facts) -> Choice:
    """As from scratch, but for the start: a small model learned in minutes, and has much to learn still (LOG.md)."""
    settings = choice.settings
    epochs = _expected_epochs(facts, settings.budget, settings.model, processor_minutes(facts, settings.budget))
    settings = settings.replace(
        augment=_augmentation(facts, epochs, settings.image.size),
        optim=LARGE_STEPS,
        regularise=_regularisation(epochs, facts),
        batch_size=batch_for(facts, BATCH),
        average=0.99,
    )
    why = "as from scratch, because the model is small (LOG.md)"
    return Choice(settings, choice.reasons | dict.fromkeys(("optim", "regularise", "batch_size"), why))


def precision_for(facts: Facts, model: ModelConfig) -> str:
    """Products in 16 bits where the device is made for them and the matrices are large enough to gain."""
    wide = facts.device != "cpu" or (isinstance(model, ViTConfig) and model.dim >= WIDE)
    return "bfloat16" if facts.bfloat16 and wide else "float32"


def _why_16_bits(settings: TrainSettings) -> dict[str, str]:
    return {"precision": FAST_BFLOAT16} if settings.precision == "bfloat16" else {}


def _epochs_of_fine_tuning(facts: Facts, budget: Budget, model: ModelConfig, small: float) -> float:
    """A rough guess for two cores: 100 GFLOP/s, or 200 in 16 bits; three forward passes, after one for the probe."""
    if budget.minutes is None or not isinstance(model, ViTConfig):
        return float("inf")
    speed = 200e9 if precision_for(facts, model) == "bfloat16" else 100e9
    passes = processor_minutes(facts, budget) * 60 * speed / (model.forward_flops * small**2)
    return (passes / max(1, facts.pictures) - 1) / 3


def new_parts(config: ModelConfig, *, several_layers: bool) -> dict[str, Any]:
    """What the new head reads: class token and mean of the patches, of the last block or of others as well."""
    if not isinstance(config, ViTConfig):
        return {}
    parts: dict[str, Any] = {"head": "linear", "head_dim": None, "drop_path": 0.0}
    if config.pool == "cls" and config.final_norm == "tokens":
        parts["pool"] = "cls+mean"
    if several_layers and config.pool != "attention" and config.depth >= 8 and config.final_norm == "tokens":
        parts["read_layers"] = (config.depth // 2, config.depth * 3 // 4, config.depth)
    return parts


def transfer_size(facts: Facts, config: ModelConfig) -> Pair:
    """The pictures' own size, but no more than 224 pixels, in whole patches."""
    patch = config.patch_size if isinstance(config, ViTConfig) else (32, 32)
    side = min(224, *facts.size, max(config.image_size)) if min(facts.size) >= 64 else min(224, max(config.image_size))
    return max(1, side // patch[0]) * patch[0], max(1, side // patch[1]) * patch[1]


def usual_pixels(config: ModelConfig, facts: Facts) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Where weights do not say how pixels were scaled: DINOv2's as ImageNet, others as in the paper's code."""
    if facts.channels != 3:
        return facts.mean, facts.std
    dinov2 = isinstance(config, ViTConfig) and config.layer_scale is not None
    return (IMAGENET_MEAN, IMAGENET_STD) if dinov2 else ((0.5,) * 3, (0.5,) * 3)


def beside_what_is_asked(choice: Choice, asked: Mapping[str, Any]) -> Choice:
    """What follows from the settings that the user states. A rate that is given needs no search."""
    settings, reasons = choice
    if "distill.teacher" not in asked and any(key.startswith("distill.") for key in asked):
        raise ConfigError("there is no teacher to learn from", fix="name a model: --teacher MODEL")
    if "optim.lr" in asked:
        settings = settings.replace(lr_grid=())
    if asked.get("frozen_blocks") == ALL_BUT_HEAD:
        settings = settings.replace(
            model=settings.model.replace(**new_parts(settings.model, several_layers=True)),
            regularise=settings.regularise.replace(small_images=1.0),  # the probe is nearly all there will be
        )
        reasons = reasons | {"model.read_layers": SEVERAL_LAYERS}
    if "lora.rank" in asked and settings.optim.name != "sgd":
        # Adapters start at nothing and are few: a larger rate, as in LoRA's paper, and the same in all blocks.
        settings = settings.replace(optim=settings.optim.replace(name="adamw", lr=1e-3, layer_decay=1.0))
        reasons = reasons | {"optim": "adapters start at zero"}
    return Choice(settings, reasons)


def consistent(settings: TrainSettings) -> TrainSettings:
    """Settings that only have a meaning together: with weights, with smaller pictures, with a teacher's token."""
    if settings.start is None and (settings.lora.rank or settings.frozen_blocks):
        raise ConfigError("adapters and frozen blocks need weights to start from", fix="give them: --from WEIGHTS")
    model = settings.model
    if settings.regularise.small_images < 1 and isinstance(model, ViTConfig):
        settings = settings.replace(model=(model := model.replace(any_size=True)))
    if not settings.distill.token or (isinstance(model, ViTConfig) and model.distill_token):
        return settings
    if settings.start is not None or not isinstance(model, ViTConfig):
        raise ConfigError("distill.token needs a new ViT, or weights with such a token", fix="leave it out")
    parts = {"pool": "cls+distill", "class_token": None, "final_norm": "tokens"}
    return settings.replace(model=model.replace(**parts))


def processor_minutes(facts: Facts, budget: Budget) -> float:
    """The budget in minutes of the two cores that the tables were measured on."""
    faster = 100.0 if facts.device != "cpu" else facts.cores / 2
    return (budget.minutes or 30.0) * faster


def image_size_for(facts: Facts) -> Pair:
    """Small pictures as they are; photos as small as a young model can use."""
    rows, columns = facts.size
    if max(rows, columns) <= SMALL:
        return _multiple(rows), _multiple(columns)
    return (SMALL, SMALL) if facts.device == "cpu" else (224, 224)


def _size_for_these_minutes(facts: Facts, budget: Budget, minutes: float, name: str | None) -> Pair:
    """More pixels for photos that come back often, as was measured to pay (LOG.md)."""
    usual, larger = image_size_for(facts), (LARGER, LARGER)
    if facts.device != "cpu" or min(facts.size) < LARGER:
        return usual
    epochs = _expected_epochs(facts, budget, _model_from_scratch(facts, larger, minutes, name), minutes)
    return larger if epochs >= MANY_EPOCHS else usual


def _multiple(side: int) -> int:
    patch = max(1, round(side / GRID))
    return max(patch, side // patch * patch)


def _model_from_scratch(facts: Facts, size: Pair, minutes: float, name: str | None) -> ModelConfig:
    """The one that is asked for, or the one for these minutes."""
    if not name:
        return _small_model(facts, size, minutes)
    named = model_config(name, image_size=size, channels=facts.channels, num_classes=len(facts.classes))
    return _for_small_pictures(named)


def _small_model(facts: Facts, size: Pair, minutes: float) -> ViTConfig:
    shape = next(shape for limit, shape in SHAPES_BY_MINUTES if minutes <= limit)
    patch = tuple(patch_for(side) for side in size)
    return ViTConfig(
        image_size=size,
        patch_size=(patch[0], patch[1]),
        num_classes=len(facts.classes),
        channels=facts.channels,
        dim_head=shape.dim // shape.heads,
        pool="mean",
        positions="sincos-2d",
        stem="conv" if all(side % 2 == 0 for side in patch) else "none",
        **shape._asdict(),
    )


def _for_small_pictures(model: ModelConfig) -> ModelConfig:
    """A ResNet's usual stem leaves a quarter of each side, which is next to nothing of a small picture (LOG.md)."""
    if isinstance(model, ViTConfig) or max(model.image_size) > TINY:
        return model
    return model.replace(stem="small")


def patch_for(side: int) -> int:
    """The divisor of a side that comes nearest to a grid of 8, even ones first: the stem halves the picture."""
    divisors = [d for d in range(1, side + 1) if side % d == 0]
    return min(divisors, key=lambda d: (abs(side / d - GRID) + (2 if d % 2 else 0), d))


def _expected_epochs(facts: Facts, budget: Budget, model: ModelConfig, minutes: float) -> float:
    guessed = minutes * 60 * _pictures_a_second(model) / max(1, facts.pictures)
    return _planned_epochs(facts, budget, batch_for(facts, BATCH), guessed)


def _planned_epochs(facts: Facts, budget: Budget, batch: int, guessed: float) -> float:
    """As asked for, in epochs or in steps; as guessed where it is minutes."""
    if budget.epochs is not None:
        return budget.epochs
    return guessed if budget.steps is None else budget.steps * batch / max(1, facts.pictures)


def batch_for(facts: Facts, usual: int) -> int:
    """Smaller where there are few pictures, so that an epoch has some steps."""
    return min(usual, max(8, facts.pictures // 16))


def _pictures_a_second(model: ModelConfig) -> float:
    """A rough guess for two cores: 50 GFLOP/s, three forward passes of which patch dropout leaves 60 %."""
    if not isinstance(model, ViTConfig):
        return 50.0
    return 50e9 / (3 * 0.6 * 1.5 * model.forward_flops)


def _augmentation(facts: Facts, epochs: float, size: Pair) -> Augmentation:
    """Little for few epochs, when everything is new anyway; more the more often a picture comes back (AugReg)."""
    photos = max(facts.size) > SMALL
    crop: dict[str, Any] = {"crop": "resized", "scale": (0.35, 1.0)} if photos else {"crop": "shift"}
    shift = max(1, round(min(size) / 8))
    flip = can_flip(facts.classes)
    if epochs < 20:
        return Augmentation(shift=shift, flip=flip, erase=0.0 if epochs < 8 else 0.25, **crop)
    return Augmentation(shift=shift, flip=flip, policy="trivial-augment", erase=0.25, **crop)


def can_flip(classes: tuple[str, ...]) -> bool:
    """A mirrored picture means the same, unless classes are letters, digits or directions."""
    words = [name.lower() for name in classes]
    characters = sum(len(word) == 1 for word in words) > len(words) / 2
    return not characters and not any(hint in word for word in words for hint in DIRECTIONAL)


def _regularisation(epochs: float, facts: Facts) -> Regularisation:
    smoothing = 0.0 if facts.multi_label else 0.1
    if epochs < 100:
        return Regularisation(label_smoothing=smoothing, patch_dropout=0.5, cheap_until=0.8)
    return Regularisation(label_smoothing=smoothing, patch_dropout=0.25, cheap_until=0.8, mixup=0.2, cutmix=0.5)
