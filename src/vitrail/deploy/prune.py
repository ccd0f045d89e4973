"""Heads and hidden units that add little, taken out: really smaller matrices, the same number in every block.

What a unit adds is measured on pictures, without labels: the mean size of what it writes into the stream of tokens.
"""

from __future__ import annotations

import dataclasses
from typing import cast

import torch
from torch import Tensor

from vitrail.config import ViTConfig
from vitrail.data.examples import Pixels
from vitrail.data.prepare import normalise
from vitrail.deploy.resample import steps_of
from vitrail.errors import ConfigError
from vitrail.model import ViT
from vitrail.weights.adapt import State, build_with
from vitrail.weights.artefact import Artefact

BATCH = 8


def pruned(artefact: Artefact, pictures: Pixels, *, heads: int | None = None, mlp_dim: int | None = None) -> Artefact:
    """With the `heads` and `mlp_dim` that matter most in each block; `pictures` (N H W C, prepared) tell which."""
    model = artefact.model
    if not isinstance(model, ViT) or model.config.pool == "attention":
        raise ConfigError("only a ViT without attention pooling can be pruned", fix="use lower resolution instead")
    config = model.config
    heads, mlp_dim = heads or config.heads, mlp_dim or config.mlp_dim
    if not (1 <= heads <= config.heads and 1 <= mlp_dim <= config.mlp_dim):
        fix = f"keep 1 to {config.heads} heads and 1 to {config.mlp_dim} hidden units"
        raise ConfigError(f"{heads} heads and {mlp_dim} hidden units cannot be kept", fix=fix)
    by_head, by_unit = importance(artefact, pictures)
    state: State = dict(model.state_dict())
    for i in range(config.depth):
        state |= _fewer_heads(state, f"blocks.{i}.attn.", best(by_head[i], heads), config)
        state |= _fewer_units(state, f"blocks.{i}.mlp.", best(by_unit[i], mlp_dim))
    smaller = build_with(config.replace(heads=heads, mlp_dim=mlp_dim), state)
    return dataclasses.replace(artefact, model=smaller, golden=None)


def importance(artefact: Artefact, pictures: Pixels) -> tuple[Tensor, Tensor]:
    """What each head (depth x H) and each hidden unit (depth x M) adds to a token, in the mean over the pictures."""
    model = cast(ViT, artefact.model).eval()
    steps = steps_of(artefact)
    state, config = model.state_dict(), model.config
    heads, units = torch.zeros(config.depth, config.heads), torch.zeros(config.depth, config.mlp_dim)
    for start in range(0, len(pictures), BATCH):
        images = torch.from_numpy(normalise(pictures[start : start + BATCH], steps))
        with torch.inference_mode():
            trace = model.trace(images)
            for i in range(config.depth):
                mixed = cast(Tensor, trace[f"block.{i}.heads"])  # B H N d
                out = state[f"blocks.{i}.attn.proj.weight"].unflatten(1, (config.heads, -1))  # D H d
                written = torch.einsum("bhnd,ehd->bhne", mixed, out)
                heads[i] += written.norm(dim=-1).mean(dim=2).sum(dim=0)
                hidden = cast(Tensor, trace[f"block.{i}.mlp_hidden"])  # B N M
                units[i] += hidden.abs().mean(dim=1).sum(dim=0) * state[f"blocks.{i}.mlp.fc2.weight"].norm(dim=0)
    return heads / len(pictures), units / len(pictures)


def best(scores: Tensor, count: int) -> Tensor:
    """Places of the largest, in their order."""
    return scores.topk(count).indices.sort().values


def _fewer_heads(state: State, name: str, kept: Tensor, config: ViTConfig) -> State:
    shape = (3, config.heads, config.dim_head)
    changed = {name + "qkv.weight": state[name + "qkv.weight"].unflatten(0, shape)[:, kept].flatten(0, 2)}
    if config.qkv_bias:
        changed[name + "qkv.bias"] = state[name + "qkv.bias"].unflatten(0, shape)[:, kept].flatten()
    by_head = state[name + "proj.weight"].unflatten(1, shape[1:])
    return changed | {name + "proj.weight": by_head[:, kept].flatten(1)}


def _fewer_units(state: State, name: str, kept: Tensor) -> State:
    return {
        name + "fc1.weight": state[name + "fc1.weight"][kept],
        name + "fc1.bias": state[name + "fc1.bias"][kept],
        name + "fc2.weight": state[name + "fc2.weight"][:, kept],
    }
