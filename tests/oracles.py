"""Other people's implementations to compare with, and random weights to compare them on.

Each function imports its package when called and skips the test where it is not installed.
"""

from __future__ import annotations

import sys
import types
from typing import Any, TypeVar

import pytest
import torch
from torch import nn

M = TypeVar("M", bound=nn.Module)

# torchvision registers shape functions for compiled operators that the CPU build of torch does not come with;
# nothing here uses them, so an empty module in their place lets torchvision, and timm after it, be imported.
sys.modules.setdefault("torchvision._meta_registrations", types.ModuleType("torchvision._meta_registrations"))


def timm() -> Any:
    return _oracle("timm")


def torchvision() -> Any:
    return _oracle("torchvision")


def transformers() -> Any:
    return _oracle("transformers")


def vit_pytorch() -> Any:
    return _oracle("vit_pytorch")


def _oracle(name: str) -> Any:
    return pytest.importorskip(name, reason=f'{name} is the oracle of this test: pip install "vitrail[oracle]"')


@torch.no_grad()
def randomise(module: M, seed: int = 0) -> M:
    """Random values everywhere, zero-initialised parts too, of a scale that keeps activations near 1; eval mode.

    Drawn in the order of the names, so that two modules with the same names get the same values.
    """
    generator = torch.Generator().manual_seed(seed)
    statistics = {name: x for name, x in module.named_buffers() if name.endswith(("running_mean", "running_var"))}
    for name, tensor in sorted({**dict(module.named_parameters()), **statistics}.items()):
        if name.endswith(("bias", "running_mean")):
            tensor.normal_(0, 0.1, generator=generator)
        elif tensor.ndim <= 1:  # norms, their running variances, layer scales
            tensor.uniform_(0.5, 1.5, generator=generator)
        elif name.endswith("weight"):
            tensor.normal_(0, tensor[0].numel() ** -0.5, generator=generator)
        else:  # tokens and positions
            tensor.normal_(0, 0.2, generator=generator)
    return module.eval()
