"""Where the last layer looks, and where every head of every layer looks. B batch, H heads, N tokens."""

from __future__ import annotations

from collections import deque

import torch
from torch import Tensor

from vitrail.explain.listener import Listener, on_grid
from vitrail.model import ViT


def last_attention(model: ViT, images: Tensor, targets: Tensor) -> Tensor:
    """The last layer's attention, averaged over heads, of what pooling reads (B rows columns); any class."""
    del targets
    last, encoded = deque[Tensor](maxlen=1), list[Tensor]()
    with torch.no_grad():
        model(images, Listener(attention=last.append, encoded=encoded.append))
        reading = model.reading(encoded[0])
        return on_grid((reading[:, None] @ last[0].mean(dim=1))[:, 0], images, model.config)


def heads(model: ViT, images: Tensor) -> Tensor:
    """What pooling reads, seen by each head of each layer (B layers H rows columns)."""
    layers: list[Tensor] = []
    with torch.no_grad():
        # A pass of its own, for how attention pooling reads is known only at the end.
        reading = model.reading(model.encode(*model.embed(images)))
        model(images, Listener(attention=lambda weights: layers.append((reading[:, None, None] @ weights)[:, :, 0])))
        seen = torch.stack(layers, dim=1)  # B layers H N
        return on_grid(seen.flatten(0, 2), images, model.config).unflatten(0, seen.shape[:3])
