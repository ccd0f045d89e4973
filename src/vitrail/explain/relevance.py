"""Transformer attribution: the class's logit handed back through the model, share by share, down to the attention.

Layer-wise relevance propagation in its gradient form: with every non-linear part held fast at the value it took, the
model is linear, and a share is value x gradient. The rules are those of AttnLRP (Achtibat et al., 2024) and CP-LRP (Ali
et al., 2022):

    dense layer, sum    value x gradient (the epsilon rule with epsilon 0; biases keep their share)
    LayerNorm           its standard deviation is a constant (the identity rule)
    GELU, tanh          f(x) = x g with the gate g = f(x) / x a constant (the identity rule)
    weights @ values    half to each (the uniform rule); the weights' half stays with them
    attention pooling   its weights are constants

So in a model without biases nothing is lost: the logit is what arrived at the tokens plus what stayed with the
attention weights of all layers. The map is the positive part of the latter, averaged over heads and rolled out through
the layers as Chefer, Gur and Wolf do ("Transformer Interpretability Beyond Attention Visualization", 2021); it differs
from theirs in the rules, and in that a share is not multiplied by the gradient once more.

B batch, H heads, N tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from vitrail.explain.listener import Listener, on_grid
from vitrail.explain.rollout import as_start, roll_positive
from vitrail.model import ViT


class Shares(NamedTuple):
    """What the logits (B) are made of: the embedded tokens' part (B N) and the attention's, by layer (B H N N)."""

    logits: Tensor
    tokens: Tensor
    attention: list[Tensor]
    reading: Tensor  # B N


def attribution(model: ViT, images: Tensor, targets: Tensor) -> Tensor:
    """Images (B C height width) and a class for each (B) to maps (B rows columns)."""
    shares = propagate(model, images, targets)
    return on_grid(roll_positive(shares.attention, model.config, shares.reading), images, model.config)


def propagate(model: ViT, images: Tensor, targets: Tensor) -> Shares:
    """From the logit of each image's class back to the tokens."""
    tokens, weights, encoded = list[Tensor](), list[Tensor](), list[Tensor]()

    def start(embedded: Tensor) -> Tensor:
        tokens.append(as_start(embedded))
        return tokens[0]

    def attend(attention: Tensor) -> Tensor:
        weights.append(as_start(attention))
        return halved(weights[-1])

    with torch.enable_grad(), Rules():
        listener = Listener(tokens=start, attention=attend, v=halved, encoded=encoded.append)
        logits = model(images, listener).gather(1, targets[:, None])[:, 0]
        of_tokens, *of_weights = torch.autograd.grad(logits.sum(), [*tokens, *weights])
    with torch.no_grad():
        attention = [weight * gradient for weight, gradient in zip(weights, of_weights, strict=True)]
        return Shares(
            logits.detach(), (tokens[0] * of_tokens).sum(dim=-1), attention, model.reading(encoded[0].detach())
        )


def halved(x: Tensor) -> Tensor:
    """The same value with half the gradient."""
    return (x + x.detach()) / 2


class Rules(TorchFunctionMode):
    """Inside it, the non-linear functions of `RULES` are computed by their rule."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        return RULES.get(func, func)(*args, **(kwargs or {}))


def _layer_norm(
    x: Tensor, shape: list[int], weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    assert len(shape) == 1
    centred = x - x.mean(dim=-1, keepdim=True)
    normed = centred * (centred.square().mean(dim=-1, keepdim=True) + eps).rsqrt().detach()
    scaled = normed if weight is None else normed * weight
    return scaled if bias is None else scaled + bias


def _gated(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def rule(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        gate = function(x, *args, **kwargs) / torch.where(x == 0, 1, x)
        return x * gate.detach()

    return rule


def _attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).softmax(dim=-1)
    return weights.detach() @ v


RULES: dict[Any, Callable[..., Tensor]] = {
    F.layer_norm: _layer_norm,
    F.gelu: _gated(F.gelu),
    torch.tanh: _gated(torch.tanh),
    F.scaled_dot_product_attention: _attend,
}
