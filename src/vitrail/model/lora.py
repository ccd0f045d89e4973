"""Low-rank adapters (Hu et al., 2022): a large matrix stays as it is, and a small product learned beside it is added.

    y = W x + b + (alpha / r) B A x        A: r x in, drawn;  B: out x r, zero at first

So training begins at the model as it was, and ends, after `merged`, in a plain model of the same shape.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitrail.config import Config
from vitrail.errors import ConfigError

M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True)
class LoraSettings(Config):
    """Which layers get an adapter, and how large it is."""

    rank: int = 0  # 0: no adapters
    alpha: float = 16.0
    targets: tuple[str, ...] = ("qkv", "proj")  # names of layers in the blocks; also fc1, fc2

    def __post_init__(self) -> None:
        object.__setattr__(self, "targets", tuple(self.targets))
        if not isinstance(self.rank, int) or isinstance(self.rank, bool) or self.rank < 0:
            raise ConfigError(f"lora.rank={self.rank} must be a whole number, at least 0", fix="8 is a usual one")
        if not 0 < self.alpha < float("inf"):
            raise ConfigError(f"lora.alpha={self.alpha} must be positive", fix="16 is a usual value")


class LoraLinear(nn.Module):
    """A linear layer with an adapter. `weight` and `bias` are those of the plain layer it stands for."""

    def __init__(self, base: nn.Linear, rank: int, alpha: float) -> None:
        super().__init__()
        self.base, self.scale = base, alpha / rank
        self.lora_a = nn.Parameter(base.weight.new_empty(rank, base.in_features))
        self.lora_b = nn.Parameter(base.weight.new_zeros(base.out_features, rank))
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))

    @property
    def weight(self) -> Tensor:
        return self.base.weight + self.scale * (self.lora_b @ self.lora_a)

    @property
    def bias(self) -> Tensor | None:
        return self.base.bias

    def forward(self, x: Tensor) -> Tensor:
        """The product is never made whole: that would cost as much as training the matrix itself."""
        small = F.linear(F.linear(x, self.lora_a), self.lora_b)
        return self.base(x) + self.scale * small


def add_lora(model: nn.Module, settings: LoraSettings) -> None:
    """Adapters in the blocks of `model`; only they and the head learn from now on."""
    found = [name for name, module in model.named_modules() if _is_target(name, module, settings.targets)]
    if not found:
        raise ConfigError(
            f"no linear layer of the blocks is called {' or '.join(settings.targets)}",
            fix='a ViT has lora.targets=["qkv", "proj", "fc1", "fc2"]',
        )
    for name in found:
        parent, _, last = name.rpartition(".")
        base = model.get_submodule(name)
        assert isinstance(base, nn.Linear)
        setattr(model.get_submodule(parent), last, LoraLinear(base, settings.rank, settings.alpha))
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.startswith("head.") or name.endswith(("lora_a", "lora_b")))


def _is_target(name: str, module: nn.Module, targets: Sequence[str]) -> bool:
    return isinstance(module, nn.Linear) and name.startswith("blocks.") and name.rpartition(".")[2] in targets


def merged(model: M) -> M:
    """The plain model that a model with adapters is; one without is given back as it is."""
    adapted = [name for name, module in model.named_modules() if isinstance(module, LoraLinear)]
    if not adapted:
        return model
    plain = copy.deepcopy(model)
    for name in adapted:
        layer = plain.get_submodule(name)
        assert isinstance(layer, LoraLinear)
        with torch.no_grad():
            layer.base.weight.copy_(layer.weight)
        parent, _, last = name.rpartition(".")
        setattr(plain.get_submodule(parent), last, layer.base)
    return plain
