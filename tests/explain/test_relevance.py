"""Nothing is lost where the rules promise it, and the rules do not change what the model answers."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from explain.test_methods import pictures, vit
from vitrail.explain.relevance import Rules, propagate

PARTS = [
    {},
    {"pool": "mean", "registers": 2},
    {"pool": "attention"},
    {"norm": "post"},
    {"layer_scale": 0.1, "qk_norm": True},
    {"head": "tanh"},
    {"positions": "rotary", "pool": "cls+mean", "depth": 4, "read_layers": (2, 4)},
]


@pytest.mark.parametrize("parts", PARTS, ids=str)
def test_a_model_without_biases_loses_nothing(parts):
    """The logit is the tokens' part and the attention's, to the last bit that floats have."""
    model = vit(**parts).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
        images, targets = pictures(2).double(), torch.tensor([1, 4])
        expected = model(images).gather(1, targets[:, None])[:, 0]
    shares = propagate(model, images, targets)
    found = shares.tokens.sum(1) + sum(layer.sum((1, 2, 3)) for layer in shares.attention)
    torch.testing.assert_close(shares.logits, expected)
    torch.testing.assert_close(found, expected)


def test_biases_keep_their_share():
    model, targets = vit().double(), torch.tensor([0, 1])
    shares = propagate(model, pictures(2).double(), targets)
    found = shares.tokens.sum(1) + sum(layer.sum((1, 2, 3)) for layer in shares.attention)
    assert (found - shares.logits).abs().min() > 1e-3


@pytest.mark.parametrize("function", [F.gelu, torch.tanh])
def test_a_gate_is_a_constant(function):
    x = torch.tensor([-2.0, -0.5, 0.0, 3.0], requires_grad=True)
    with Rules():
        value = function(x)
    torch.testing.assert_close(value, function(x))
    (slope,) = torch.autograd.grad(value.sum(), x)
    torch.testing.assert_close(x * slope, value)


def test_a_norm_is_linear_but_for_its_scale():
    norm, x = torch.nn.LayerNorm(6).requires_grad_(False), torch.randn(3, 6, requires_grad=True)
    with Rules():
        value = norm(x)
    torch.testing.assert_close(value, norm(x))
    (slope,) = torch.autograd.grad(value[:, 0].sum(), x)
    torch.testing.assert_close((x * slope).sum(1), value[:, 0])
