"""What a model costs: weights and multiply-adds, counted by torch itself while it runs on no data."""

from __future__ import annotations

import copy
from typing import NamedTuple

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from vitrail.model import Model


class Part(NamedTuple):
    """A named part of the model: its weights, and the multiply-adds of one picture."""

    name: str
    parameters: int
    macs: int


def count_parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def cost_table(model: Model) -> list[Part]:
    """The parts in order, and last the whole. Multiply-adds are those really done: of the last block, only the tokens
    that are read."""
    ghost = copy.deepcopy(model).to("meta").eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        ghost(torch.empty(1, model.config.channels, *model.config.image_size, device="meta"))
    flops = {name: sum(counts.values()) for name, counts in counter.get_flop_counts().items()}
    root = type(ghost).__name__
    rows = [_part(name, child, flops.get(f"{root}.{name}", 0)) for name, child in _parts(ghost)]
    loose = count_parameters(ghost) - sum(row.parameters for row in rows)
    if loose:
        rows.insert(1, Part("tokens and positions", loose, 0))
    return [*rows, _part("all", ghost, flops["Global"])]


def _part(name: str, module: nn.Module, flops: int) -> Part:
    return Part(name, count_parameters(module), flops // 2)


def _parts(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Children that do something; lists of blocks are taken apart."""
    found: list[tuple[str, nn.Module]] = []
    for name, child in model.named_children():
        if isinstance(child, nn.ModuleList):
            found += [(f"{name}.{i}", block) for i, block in child.named_children()]
        elif count_parameters(child):
            found.append((name, child))
    return found
