"""What a weight format is, and how a configuration is read off the shapes of its tensors."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from vitrail.config import Pair, ViTConfig
from vitrail.errors import WeightsError
from vitrail.model.sizes import SIZES, ModelConfig
from vitrail.weights.tables import Shapes, Tensors

Settings = Mapping[str, Any]


PLAIN: Mapping[str, tuple[Any, ...] | None] = {
    "patches": ("conv",),
    "patch_norm": (False,),
    "stem": ("none",),
    "positions": ("learned",),
    "registers": (0,),
    "pool": ("cls",),
    "norm": ("pre",),
    "final_norm": ("tokens",),
    "qkv_bias": (True,),
    "qk_norm": (False,),
    "layer_scale": (None,),
    "head": ("linear",),
    "read_layers": ((),),
}
"""The settings of the paper's plain model. A format says in `holds` where it can express others; None: any."""


@dataclass(frozen=True)
class Format:
    """One way of naming a ViT's tensors. A new format is one file with one of these, and a row of FORMATS."""

    name: str
    recognises: Callable[[Shapes], bool]
    """Are these names and shapes of this format? Decided by content, never by the file's name."""
    read: Callable[[Tensors, Settings], tuple[ModelConfig, dict[str, Tensor]]]
    """Foreign tensors, and settings they cannot tell (a config.json beside them, the user's word), to ours."""
    write: Callable[[Tensors, ViTConfig], dict[str, Tensor]]
    """Our state dict under the format's names."""
    holds: Mapping[str, tuple[Any, ...] | None] = field(default_factory=dict)
    """Where it holds other settings than the plain model's. Writing a model that it cannot hold is refused."""

    def check_can_hold(self, config: ModelConfig) -> ViTConfig:
        if not isinstance(config, ViTConfig):
            raise WeightsError(f"the {self.name} layout holds ViTs, not ResNets", fix="use --to vitrail")
        for setting, known in {**PLAIN, **self.holds}.items():
            if known is not None and (value := getattr(config, setting)) not in known:
                expected = " or ".join(map(repr, known))
                raise WeightsError(
                    f"the {self.name} layout cannot hold {setting}={value!r}, only {expected}",
                    fix="use --to vitrail, which holds everything",
                )
        return config


def shapes_of(tensors: Tensors) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def count_blocks(names: Iterable[str], pattern: str) -> int:
    """How many different numbers stand at `{i}` of a pattern such as 'blocks.{i}.'."""
    expression = re.compile(re.escape(pattern).replace(r"\{i\}", r"(\d+)"))
    return len({match[1] for name in names if (match := expression.match(name))})


def heads_of(inner: int, settings: Settings) -> int:
    """Heads cannot be seen in fused weights: the user's word, a known width, or 64 numbers a head."""
    if "heads" in settings:
        return int(settings["heads"])
    known = {size.dim: size.heads for size in SIZES.values()}
    if inner not in known and inner % 64:
        raise WeightsError(
            f"the number of heads of width {inner} cannot be told from the weights", fix="give heads=..."
        )
    return known.get(inner, inner // 64)


def grid_of(patches: int, patch: Pair, settings: Settings) -> Pair:
    """Image size from the number of positions: the user's word, else a square, else an error; never a guess."""
    if "image_size" in settings:
        size = settings["image_size"]
        rows, columns = (size, size) if isinstance(size, int) else size
        if (rows // patch[0]) * (columns // patch[1]) == patches:
            return rows, columns
    side = math.isqrt(patches)
    if side * side != patches:
        raise WeightsError(
            f"{patches} positions are not a square grid, so rows and columns are unknown",
            fix=f"give image_size=(rows, columns) with {patches} patches of {patch[0]}x{patch[1]}",
        )
    return side * patch[0], side * patch[1]


def stated(settings: Settings, *names: str) -> dict[str, Any]:
    """Those of the named settings that somebody stated."""
    return {name: settings[name] for name in names if name in settings}
