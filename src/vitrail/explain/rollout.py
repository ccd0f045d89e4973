"""How attention adds up through the layers, on the way from the patches to the answer.

B batch, H heads, N tokens.

    rollout            R_l = norm(A_l + I) R_(l-1)             Abnar and Zuidema, 2020; the ViT paper's figure 6
    gradient rollout   R_l = (I + E_h[(dA_l * A_l)+]) R_(l-1)  Chefer, Gur and Wolf, 2021, "Generic ..."

A_l are the attention weights of layer l, dA_l the gradient of the class's logit with respect to them, E_h the mean over
heads, ()+ the positive part. What pooling reads of R is the map; several layers that the head reads are averaged.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from vitrail.config import ViTConfig
from vitrail.explain.listener import Listener, on_grid
from vitrail.model import ViT


class Product:
    """R, layer by layer: the matrices (B N N) are multiplied as they come, and none of them is kept."""

    def __init__(self, config: ViTConfig) -> None:
        self._read = config.read_layers or (config.depth,)
        self._layer = 0
        self._product: Tensor | None = None
        self._of_read: list[Tensor] = []

    def add(self, matrix: Tensor) -> None:
        self._product = matrix if self._product is None else matrix @ self._product
        self._layer += 1
        if self._layer in self._read:
            self._of_read.append(self._product)

    def rows(self, reading: Tensor) -> Tensor:
        """What pooling reads (B N) of the layers it reads, each by its share of every token (B N)."""
        return torch.stack([(reading[:, None] @ product)[:, 0] for product in self._of_read]).mean(dim=0)


def rollout(model: ViT, images: Tensor, targets: Tensor) -> Tensor:
    """Images (B C height width) to maps (B rows columns); the same for every class."""
    del targets
    product, encoded = Product(model.config), list[Tensor]()
    with torch.no_grad():
        model(images, Listener(attention=lambda weights: product.add(with_residual(weights)), encoded=encoded.append))
        return on_grid(product.rows(model.reading(encoded[0])), images, model.config)


def with_residual(weights: Tensor) -> Tensor:
    """A (B H N N) to half the heads' mean and half the identity (B N N), each row summing to one."""
    mean = weights.mean(dim=1)
    added = (mean + torch.eye(mean.shape[-1], dtype=mean.dtype, device=mean.device)) / 2
    return added / added.sum(dim=-1, keepdim=True)


def gradient_rollout(model: ViT, images: Tensor, targets: Tensor) -> Tensor:
    """Images (B C height width) and a class for each (B) to maps (B rows columns)."""
    weights, encoded = list[Tensor](), list[Tensor]()
    with torch.enable_grad():
        # Gradients start at the tokens, so that nothing is kept of the stem.
        listener = Listener(tokens=as_start, attention=weights.append, encoded=encoded.append)
        score = model(images, listener).gather(1, targets[:, None]).sum()
        gradients = torch.autograd.grad(score, weights)
    with torch.no_grad():
        shares = (weight * gradient for weight, gradient in zip(weights, gradients, strict=True))
        rows = roll_positive(shares, model.config, model.reading(encoded[0]))
        return on_grid(rows, images, model.config)


def as_start(tokens: Tensor) -> Tensor:
    return tokens.detach().requires_grad_()


def roll_positive(layers: Iterable[Tensor], config: ViTConfig, reading: Tensor) -> Tensor:
    """Each layer's share of the answer (B H N N) rolled out, its negative part left out (B N)."""
    product = Product(config)
    for shares in layers:
        mean = shares.clamp(min=0).mean(dim=1)
        product.add(mean + torch.eye(mean.shape[-1], dtype=mean.dtype, device=mean.device))
    return product.rows(reading)
