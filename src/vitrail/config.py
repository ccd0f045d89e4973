"""What a model is, as plain data: frozen, validated once, without torch.

`ViTConfig` names one part for each job (patches, stem, positions, pooling, norm, head). The parts themselves are
classes in `vitrail.model`; a config written to a file rebuilds the same model anywhere.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from vitrail.errors import ConfigError, did_you_mean

Pair = tuple[int, int]

PATCHES = ("conv", "linear")
STEMS = ("none", "conv", "resnet")
FORMULAS = ("sincos-1d", "sincos-2d", "rotary")  # positions that are computed, not learned
POSITIONS = ("learned", "learned-patches", "learned-2d", "relative", "rotary", "sincos-1d", "sincos-2d", "none")
POOLS = ("cls", "mean", "cls+mean", "cls+distill", "attention")
NORMS = ("pre", "post")
FINAL_NORMS = ("tokens", "pooled", "none")
HEADS = ("linear", "tanh", "relu")


class Config:
    """To and from plain dictionaries; an unknown key is an error, never ignored."""

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)  # type: ignore[call-overload]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        if not isinstance(values, Mapping):
            raise ConfigError(f"the settings of {cls.__name__} must be named values, got {type(values).__name__}")
        known = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
        for key in values:
            if key not in known:
                raise ConfigError(f"unknown setting {key!r} of {cls.__name__}", fix=did_you_mean(str(key), known))
        return cls(**values)

    def replace(self, **changes: Any) -> Self:
        return self.from_dict({**self.to_dict(), **changes})


@dataclass(frozen=True)
class ViTConfig(Config):
    """The first twelve words are vit-pytorch's; the rest choose parts, and default to the paper's.

    Sizes are (rows, columns) of pixels; an int means a square. `patch_size` is the pixels of one token's patch,
    counted in the image, also where a stem shrinks the image first.
    """

    image_size: Pair
    patch_size: Pair
    num_classes: int  # 0: no head, logits are the features
    dim: int
    depth: int
    heads: int
    mlp_dim: int
    pool: str = "cls"
    channels: int = 3
    dim_head: int = 64
    dropout: float = 0.0  # after every dense layer but qkv, as in the paper's appendix B.1
    emb_dropout: float = 0.0  # after the positions are added
    patches: str = "conv"
    stem: str = "none"
    stem_blocks: tuple[int, ...] = ()  # ResNetV2 stem: blocks per stage; (3, 4, 9) is the paper's R50 without stage 4
    patch_norm: bool = False  # vit-pytorch's LayerNorms before and after the projection
    positions: str = "learned"
    registers: int = 0
    class_token: bool | None = None  # None: only if pooling reads it
    norm: str = "pre"
    norm_eps: float = 1e-6
    final_norm: str | None = None  # None: on the tokens, or none after post-norm blocks
    qkv_bias: bool = True
    qk_norm: bool = False
    layer_scale: float | None = None
    attention_dropout: float = 0.0
    drop_path: float = 0.0  # stochastic depth of the last block; linear from 0 at the first
    head: str = "linear"
    read_layers: tuple[int, ...] = ()  # blocks, from 1, whose pooled outputs the head reads together; (): the last
    head_dim: int | None = None  # width before the last layer of a tanh or relu head; None: dim
    any_size: bool = False  # accept other image sizes at run time, positions interpolated in 2-D
    position_grid: Pair | None = None  # in which formulas count places, if trained on another grid than this one
    merge: int = 0  # patches merged into others like them in every block (ToMe)

    def __post_init__(self) -> None:
        _set(self, image_size=pair("image_size", self.image_size), patch_size=pair("patch_size", self.patch_size))
        for name in ("stem_blocks", "read_layers"):
            _set(self, **{name: tuple(_positive(name, n) for n in getattr(self, name))})
        for name in ("dim", "depth", "heads", "mlp_dim", "dim_head", "channels"):
            _positive(name, getattr(self, name))
        for name in ("num_classes", "registers", "merge"):
            _at_least_zero(name, getattr(self, name))
        for name in ("dropout", "emb_dropout", "attention_dropout", "drop_path"):
            _probability(name, getattr(self, name))
        for name, known in _CHOICES.items():
            one_of(name, getattr(self, name), known)
        self._resolve()
        self._check_parts()
        self._check_positions()

    def _resolve(self) -> None:
        """Fill in what follows from the other choices, so that a written config is complete."""
        if self.class_token is None:
            _set(self, class_token=self.pool.startswith("cls"))
        if self.final_norm is None:
            _set(self, final_norm="tokens" if self.norm == "pre" else "none")
        one_of("final_norm", self.final_norm, FINAL_NORMS)
        if self.head_dim is None:
            _set(self, head_dim=self.dim)
        if self.position_grid is not None:
            grid = pair("position_grid", self.position_grid)
            _set(self, position_grid=None if grid == self.grid or self.positions not in FORMULAS else grid)
        _positive("head_dim", self.head_dim)

    def _check_parts(self) -> None:
        for image, patch in zip(self.image_size, self.patch_size, strict=True):
            check_divisible(image, patch)
        if self.pool.startswith("cls") and not self.class_token:
            raise ConfigError(f"pool={self.pool!r} reads the class token, but class_token=False", fix="use pool='mean'")
        if self.pool == "attention" and self.dim % self.heads:
            raise ConfigError(f"pool='attention' splits dim={self.dim} into heads={self.heads}", fix="make it divide")
        if self.pool in ("cls+mean", "cls+distill") and self.final_norm == "pooled":
            raise ConfigError(f"pool={self.pool!r} is normalised before pooling", fix="use final_norm='tokens'")
        if self.read_layers and (
            sorted(set(self.read_layers)) != [*self.read_layers] or self.read_layers[-1] != self.depth
        ):
            raise ConfigError(
                f"read_layers={self.read_layers} must rise to the last block", fix=f"end with depth={self.depth}"
            )
        if len(self.read_layers) > 1 and self.pool == "attention":
            raise ConfigError("pool='attention' reads the last block alone", fix="use pool='cls+mean'")
        if self.stem != "none" and self.patches == "linear":
            raise ConfigError(f"patches='linear' does not go with stem={self.stem!r}", fix="use patches='conv'")
        if self.patch_norm and self.patches != "linear":
            raise ConfigError("patch_norm=True normalises flattened patches", fix="use patches='linear'")
        if self.stem == "conv" and self.stem_stride == (1, 1):
            raise ConfigError(
                f"stem='conv' halves the image, but patch_size={_show(self.patch_size)} is odd", fix="use an even one"
            )
        if self.stem != "resnet" and self.stem_blocks:
            raise ConfigError(f"stem_blocks are for stem='resnet', not {self.stem!r}", fix="leave stem_blocks out")
        if any(patch % stride for patch, stride in zip(self.patch_size, self.stem_stride, strict=True)):
            raise ConfigError(
                f"patch_size={_show(self.patch_size)} is not a multiple of the stem's stride {_show(self.stem_stride)}",
                fix=f"use patch_size={_show(self.stem_stride)} or a multiple",
            )

    def _check_positions(self) -> None:
        if self.merge and (self.norm == "post" or self.positions in ("rotary", "relative")):
            raise ConfigError(
                f"merged patches have no place for positions={self.positions!r}, norm={self.norm!r}",
                fix="use merge=0",
            )
        needs = {"learned-2d": ("dim", 2), "sincos-1d": ("dim", 2), "sincos-2d": ("dim", 4), "rotary": ("dim_head", 4)}
        if self.positions in needs:
            name, factor = needs[self.positions]
            if (value := getattr(self, name)) % factor:
                raise ConfigError(
                    f"positions={self.positions!r} needs {name} to be a multiple of {factor}, got {value}",
                    fix=f"use {name}={value - value % factor + factor}",
                )

    @property
    def grid(self) -> Pair:
        """Rows and columns of patches. Stored by its factors, never guessed from a number of tokens."""
        return self.image_size[0] // self.patch_size[0], self.image_size[1] // self.patch_size[1]

    @property
    def counted_grid(self) -> Pair:
        """The grid in which a place is counted: that of the pictures the model was trained on."""
        return self.position_grid or self.grid

    def at_size(self, size: Pair) -> Self:
        """The same model for pictures of another size: each patch keeps its place in the picture."""
        return self.replace(image_size=size, position_grid=self.counted_grid)

    @property
    def prefix_tokens(self) -> int:
        """Tokens in front of the patches: the class token, the distillation token and the registers."""
        return int(bool(self.class_token)) + int(self.distill_token) + self.registers

    @property
    def forward_flops(self) -> int:
        """Operations of one picture's forward pass, every token in every block: two for each multiply-add.

        Of the matrix products of plain patches; a stem's convolutions are not counted.
        """
        patches, inner = self.grid[0] * self.grid[1], self.heads * self.dim_head
        tokens = patches + self.prefix_tokens
        block = 4 * tokens * self.dim * inner + 2 * tokens * tokens * inner + 2 * tokens * self.dim * self.mlp_dim
        embedding = patches * self.patch_size[0] * self.patch_size[1] * self.channels * self.dim
        return 2 * (embedding + self.depth * block + self.dim * self.num_classes)

    @property
    def distill_token(self) -> bool:
        """Is there a second token, which learns from a teacher (DeiT)? It is there where pooling reads it."""
        return self.pool == "cls+distill"

    @property
    def feature_dim(self) -> int:
        """Width of the pooled features."""
        return self.dim * (2 if self.pool in ("cls+mean", "cls+distill") else 1) * max(1, len(self.read_layers))

    @property
    def stem_stride(self) -> Pair:
        """By how much the stem shrinks the image before it is cut into patches."""
        if self.stem == "resnet":  # 7x7 stride 2, max-pool stride 2, then every stage after the first halves
            stride = 4 * 2 ** max(0, len(self.stem_blocks) - 1)
            return stride, stride
        if self.stem == "conv":
            rows, columns = (_power_of_two_in(side) for side in self.patch_size)
            return min(rows, columns, 16), min(rows, columns, 16)
        return 1, 1


_CHOICES = {"patches": PATCHES, "stem": STEMS, "positions": POSITIONS, "pool": POOLS, "norm": NORMS, "head": HEADS}


BIT_WIDTH, BIT_GROUPS = 64, 32  # of the first stage, and of each GroupNorm, in all of BiT's networks


@dataclass(frozen=True)
class ResNetConfig(Config):
    """The baseline of the paper: ResNetV2 with GroupNorm and weight-standardised convolutions (BiT)."""

    image_size: Pair
    num_classes: int
    blocks: tuple[int, ...]  # per stage; (2, 2, 2, 2) basic is ResNet-18, (3, 4, 6, 3) bottleneck is ResNet-50
    bottleneck: bool = True
    channels: int = 3
    width: int = BIT_WIDTH
    stem: str = "imagenet"  # "small": 3x3 stride 1 without max-pool, for 32-pixel pictures
    drop_path: float = 0.0

    def at_size(self, size: Pair) -> Self:
        """The same model for pictures of another size."""
        return self.replace(image_size=size)

    def __post_init__(self) -> None:
        _set(self, image_size=pair("image_size", self.image_size))
        _set(self, blocks=tuple(_positive("blocks", n) for n in self.blocks))
        for name in ("channels", "width"):
            _positive(name, getattr(self, name))
        _at_least_zero("num_classes", self.num_classes)
        _probability("drop_path", self.drop_path)
        one_of("stem", self.stem, ("imagenet", "small"))
        if not self.blocks:
            raise ConfigError("blocks=() makes no network", fix="(2, 2, 2, 2) is ResNet-18, (3, 4, 6, 3) ResNet-50")
        least = BIT_GROUPS if self.width >= BIT_WIDTH else 8
        if self.width % least:
            raise ConfigError(f"width={self.width} does not divide into groups", fix=f"use a multiple of {least}")

    @property
    def norm_groups(self) -> int:
        """Of each GroupNorm: BiT's 32; in a narrower network eight channels of the first stage are a group, because
        one channel that is normed alone has nothing left to tell once it is averaged over the picture (LOG.md)."""
        return BIT_GROUPS if self.width >= BIT_WIDTH else self.width // 8


@dataclass(frozen=True)
class Preprocessing(Config):
    """From a decoded picture to the model's input; part of every model file, so that serving equals training."""

    size: Pair
    mean: tuple[float, ...]
    std: tuple[float, ...]
    crop: float = 1.0  # the central part that is kept after resizing the short side to size / crop
    resize: str = "bicubic"

    def __post_init__(self) -> None:
        _set(self, size=pair("size", self.size), mean=tuple(map(float, self.mean)), std=tuple(map(float, self.std)))
        one_of("resize", self.resize, ("bicubic", "bilinear", "nearest"))
        if len(self.mean) != len(self.std) or not self.mean:
            raise ConfigError(
                f"mean has {len(self.mean)} channels and std {len(self.std)}", fix="give one of each a channel"
            )
        if any(not 0 < value < float("inf") for value in self.std):
            raise ConfigError(f"std={self.std} must be positive")
        if not 0 < self.crop <= 1:
            raise ConfigError(f"crop={self.crop} must lie in (0, 1]")


def pair(name: str, value: object) -> Pair:
    """An int is a square; otherwise (rows, columns)."""
    sides = (value, value) if isinstance(value, int) else value
    if not isinstance(sides, tuple | list) or len(sides) != 2:
        raise ConfigError(f"{name}={value!r} must be a whole number or a pair (rows, columns)")
    return _positive(name, sides[0]), _positive(name, sides[1])


def one_of(name: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        remedy = did_you_mean(str(value), known)
        raise ConfigError(f"{name}={value!r} is not known", fix=remedy or "choose from " + ", ".join(known))


def check_divisible(image: int, patch: int) -> None:
    if image % patch:
        below = image - image % patch
        sizes = " or ".join(str(size) for size in (below, below + patch) if size)
        raise ConfigError(f"image_size={image} is not a multiple of patch_size={patch}", fix=f"use {sizes}")


def _set(config: object, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(config, name, value)


def _positive(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"{name}={value!r} must be a whole number of at least 1")
    return value


def _at_least_zero(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigError(f"{name}={value!r} must be a whole number of at least 0")


def _probability(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise ConfigError(f"{name}={value!r} must lie in [0, 1)")


def _power_of_two_in(number: int) -> int:
    return number & -number


def _show(sides: Pair) -> str:
    return str(sides[0]) if sides[0] == sides[1] else f"({sides[0]}, {sides[1]})"
