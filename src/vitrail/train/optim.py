"""Which weights are trained, how, and how fast: parameter groups, AdamW, SGD and Muon.

- Weight decay acts on matrices and kernels only: shrinking a norm's gain, a bias, a token or a position has no reason.
- Layer decay makes the learning rate smaller towards the input: lr * decay ** (layers above). Used after pre-training.
- Muon takes the matrices and kernels of the blocks and the kernels that make the tokens; the rest goes to AdamW.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from vitrail.config import Config, one_of
from vitrail.errors import ConfigError

OPTIMIZERS = ("adamw", "sgd", "muon")
_TOKENS_AND_PLACES = ("cls_token", "dist_token", "reg_token", "mask_token", "pos_embed", "latent", "positions.table")
_BLOCK = re.compile(r"(?:^|\.)blocks\.(\d+)\.")


@dataclass(frozen=True)
class OptimSettings(Config):
    """The optimiser and the learning rate over a run."""

    name: str = "adamw"
    lr: float = 1e-3  # the peak
    schedule: str = "cosine"
    warmup: float = 0.05  # share of the run
    weight_decay: float = 0.05
    betas: tuple[float, float] = (0.9, 0.95)  # AdamW
    momentum: float = 0.95  # SGD and Muon
    clip: float = 1.0  # largest global norm of the gradient; 0: not clipped
    layer_decay: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "betas", tuple(self.betas))
        one_of("optim.name", self.name, OPTIMIZERS)
        one_of("optim.schedule", self.schedule, ("cosine", "linear", "constant"))
        if not 0 < self.lr < float("inf"):
            raise ConfigError(f"optim.lr={self.lr} must be positive", fix="0.001 is a usual value")
        for name in ("weight_decay", "clip"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ConfigError(f"optim.{name}={getattr(self, name)} must be at least 0")
        if len(self.betas) != 2 or not all(0 <= value < 1 for value in (*self.betas, self.momentum)):
            raise ConfigError(f"optim.betas={self.betas} and optim.momentum={self.momentum} must lie in [0, 1)")
        if not 0 <= self.warmup < 1:
            raise ConfigError(f"optim.warmup={self.warmup} is a share of the run", fix="use 0.05")
        if not 0 < self.layer_decay <= 1:
            raise ConfigError(f"optim.layer_decay={self.layer_decay} must lie in (0, 1]", fix="use 0.75")


class Optimizers:
    """One or two optimisers that step together, their rates scaled together."""

    def __init__(self, parts: Iterable[Optimizer], names: dict[Tensor, str]) -> None:
        self.parts, self._names = list(parts), names

    def step(self) -> None:
        for optimizer in self.parts:
            optimizer.step()

    def zero_grad(self) -> None:
        for optimizer in self.parts:
            optimizer.zero_grad(set_to_none=True)

    def set_rate(self, rate: float) -> None:
        for group in self._groups():
            group["lr"] = rate * group["scale"]

    def parameters(self) -> list[Tensor]:
        return [parameter for group in self._groups() for parameter in group["params"]]

    def tensors(self) -> dict[str, Tensor]:
        """Everything the optimisers remember, by the name of the weight it belongs to: `fc.weight:exp_avg`."""
        return {
            f"{self._names[parameter]}:{key}": value
            for optimizer in self.parts
            for parameter, state in optimizer.state.items()
            for key, value in state.items()
        }

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """The reverse of `tensors`, onto freshly built optimisers of the same weights."""
        owner = {self._names[p]: (optimizer, p) for optimizer in self.parts for p in _parameters(optimizer)}
        for name, value in tensors.items():
            weight, key = name.rsplit(":", 1)
            optimizer, parameter = owner[weight]
            optimizer.state[parameter][key] = value.to(parameter.device, copy=True)

    def _groups(self) -> Iterator[dict[str, Any]]:
        for optimizer in self.parts:
            yield from optimizer.param_groups


def build_optimizers(module: nn.Module, settings: OptimSettings) -> Optimizers:
    """Optimisers of all weights of a module that want a gradient, by the rules above."""
    named = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    if not named:
        raise ConfigError("no weight is to be trained", fix="freeze less")
    for_muon = {name for name in named if settings.name == "muon" and suits_muon(name, named[name])}
    others = {name: parameter for name, parameter in named.items() if name not in for_muon}
    parts: list[Optimizer] = []
    if for_muon:
        parts.append(Muon(_groups({n: named[n] for n in for_muon}, settings, split_qkv=True), settings.momentum))
    if others and settings.name == "sgd":
        parts.append(SGD(_groups(others, settings), lr=settings.lr, momentum=settings.momentum))
    elif others:
        parts.append(AdamW(_groups(others, settings), lr=settings.lr, betas=settings.betas, fused=True))
    return Optimizers(parts, {parameter: name for name, parameter in named.items()})


def suits_muon(name: str, parameter: Tensor) -> bool:
    """Matrices and kernels of the blocks, and the kernels before them: more is learned a minute (LOG.md)."""
    in_block = parameter.ndim in (2, 4) and _BLOCK.search(name) is not None
    makes_tokens = parameter.ndim == 4 and "patch_embed." in name
    return name.endswith(".weight") and (in_block or makes_tokens)


def decays(name: str, parameter: Tensor) -> bool:
    return parameter.ndim >= 2 and not name.endswith(_TOKENS_AND_PLACES)


def _groups(named: dict[str, nn.Parameter], settings: OptimSettings, split_qkv: bool = False) -> list[dict[str, Any]]:
    """Weights that are treated alike, in the order of their names: decay or not, rate, parts of a fused matrix."""
    top = 1 + max((layer_of(name) or 0 for name in named), default=0)
    groups: dict[tuple[bool, float, int], list[nn.Parameter]] = {}
    for name, parameter in sorted(named.items()):
        layer = layer_of(name)
        scale = settings.layer_decay ** (top - (top if layer is None else layer))
        parts = 3 if split_qkv and ".qkv." in name else 1
        groups.setdefault((decays(name, parameter), scale, parts), []).append(parameter)
    return [
        {"params": parameters, "weight_decay": settings.weight_decay * decay, "scale": scale, "parts": parts}
        for (decay, scale, parts), parameters in groups.items()
    ]


def layer_of(name: str) -> int | None:
    """0 for what stands before the blocks, 1 for the first block, ...; None for what stands after them."""
    if match := _BLOCK.search(name):
        return int(match[1]) + 1
    below = ("patch_embed.", *_TOKENS_AND_PLACES)
    return 0 if any(part in name for part in below) and "attn_pool" not in name else None


def _parameters(optimizer: Optimizer) -> list[nn.Parameter]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


class Muon(Optimizer):
    """Momentum, made orthogonal, as a step (Jordan et al. 2024), scaled to the size of AdamW's (Moonlight).

    The same update as `torch.optim.Muon`, which works in bfloat16 and one matrix at a time; in single precision with
    all matrices of a shape stacked it is several times faster on a CPU without bfloat16 products (LOG.md). The q, k
    and v of a fused matrix are made orthogonal each for itself. A kernel is a matrix with a row for every output.
    """

    def __init__(self, groups: list[dict[str, Any]], momentum: float) -> None:
        super().__init__(groups, {"lr": 1e-3, "momentum": momentum, "weight_decay": 0.0, "parts": 1, "scale": 1.0})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        assert closure is None
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape.setdefault(parameter.shape, []).append(parameter)
            for parameters in by_shape.values():
                self._step_together(parameters, group)

    def _step_together(self, parameters: list[Tensor], group: dict[str, Any]) -> None:
        grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
        buffers = [self._buffer(parameter) for parameter in parameters]
        torch._foreach_lerp_(buffers, grads, 1 - group["momentum"])
        ahead = torch._foreach_lerp(grads, buffers, group["momentum"])  # Nesterov
        rows = torch.stack(ahead).flatten(2)
        stacked = rows.unflatten(1, (group["parts"], -1)).flatten(0, 1)  # matrices x rows x columns
        steps = orthogonal(stacked).reshape(len(parameters), *parameters[0].shape)
        size = 0.2 * max(stacked.shape[-2:]) ** 0.5  # root mean square of AdamW's steps
        torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(parameters, list(steps.unbind(0)), alpha=-group["lr"] * size)

    def _buffer(self, parameter: Tensor) -> Tensor:
        state = self.state[parameter]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(parameter)
        return state["momentum_buffer"]


def orthogonal(matrices: Tensor, steps: int = 5) -> Tensor:
    """The nearest orthogonal matrices, roughly (singular values 0.7 to 1.2), by a quintic Newton-Schulz iteration.

    Coefficients as published with Muon: they grow small singular values fastest.
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp_min(1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + torch.baddbmm(gram, gram, gram, beta=b, alpha=c) @ x
    return x.mT if tall else x
