"""The running average of the weights, which is what gets validated and saved."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from vitrail.train.distributed import local

Tensors = tuple[Tensor, ...] | list[Tensor]


def averaged(module: nn.Module, decay: float) -> AveragedModel:
    """An average that forgets with `decay` a step; young averages forget faster, or they would remember the start."""

    def update(averages: Tensors, current: Tensors, count: Tensor | int) -> None:
        averages, current = [local(tensor) for tensor in averages], [local(tensor) for tensor in current]
        if not averages[0].is_floating_point():  # a counter of BatchNorm
            torch._foreach_copy_(averages, current)
            return
        steps = int(count)
        keep = min(decay, (1 + steps) / (10 + steps))
        torch._foreach_lerp_(averages, current, 1 - keep)

    return AveragedModel(module, multi_avg_fn=update, use_buffers=True)
