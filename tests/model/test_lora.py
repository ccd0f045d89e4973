"""Low-rank adapters: nothing at first, few weights to train, and a plain model again when merged."""

from __future__ import annotations

import pytest
import torch

from oracles import randomise
from vitrail import create_model
from vitrail.errors import ConfigError
from vitrail.model.lora import LoraLinear, LoraSettings, add_lora, merged


def made(pool="cls", **words):
    small = {"image_size": 32, "depth": 3, "num_classes": 4, "pool": pool}
    return randomise(create_model("Ti/16", **(small | words)))


def with_learned_adapters(model, **words):
    add_lora(model, LoraSettings(**({"rank": 4} | words)))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.normal_(0, 0.1)
    return model


IMAGES = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
POOLS = pytest.mark.parametrize("pool", ["cls", "mean"])  # of the last block, one needs but a part


@POOLS
def test_adapters_change_nothing_at_first(pool):
    model = made(pool)
    with torch.no_grad():
        before = model(IMAGES)
        add_lora(model, LoraSettings(rank=4))
        torch.testing.assert_close(model(IMAGES), before, atol=1e-6, rtol=0)


@POOLS
@pytest.mark.parametrize("targets", [("qkv", "proj"), ("fc1", "fc2"), ("qkv",)])
def test_merged_is_a_plain_model_with_the_same_answers(pool, targets):
    model = with_learned_adapters(made(pool), targets=targets)
    plain = merged(model)
    assert set(plain.state_dict()) == set(made(pool).state_dict())
    assert not any(isinstance(module, LoraLinear) for module in plain.modules())
    with torch.no_grad():
        torch.testing.assert_close(plain(IMAGES), model(IMAGES), atol=1e-5, rtol=0)
        assert (plain(IMAGES) - made(pool)(IMAGES)).abs().max() > 1e-2
    assert merged(plain) is plain


def test_the_formula():
    layer = torch.nn.Linear(6, 5)
    lora = LoraLinear(layer, rank=2, alpha=8)
    with torch.no_grad():
        lora.lora_b.normal_()
    x = torch.randn(4, 6)
    expected = x @ (layer.weight + 4 * lora.lora_b @ lora.lora_a).T + layer.bias
    torch.testing.assert_close(lora(x), expected)


@POOLS
def test_only_adapters_and_the_head_learn(pool):
    model = with_learned_adapters(made(pool))
    model(IMAGES).square().sum().backward()
    learned = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert learned == {name for name, _ in model.named_parameters() if "lora_" in name or name.startswith("head.")}
    assert all(
        parameter.grad.abs().sum() > 0 for _, parameter in model.named_parameters() if parameter.grad is not None
    )


def test_less_than_two_in_a_hundred_weights_are_trained():
    with torch.device("meta"):
        model = create_model("S/16", num_classes=37)
        add_lora(model, LoraSettings(rank=8))
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert trained / sum(p.numel() for p in model.parameters()) < 0.02


def test_what_has_no_such_layer_is_said():
    for model in (create_model("R18", num_classes=3, image_size=32), made()):
        with pytest.raises(ConfigError, match="no linear layer"):
            add_lora(model, LoraSettings(rank=2, targets=("kv",)))
    for wrong in ({"rank": -1}, {"rank": 1.5}, {"alpha": 0.0}):
        with pytest.raises(ConfigError, match=r"lora\."):
            LoraSettings(**wrong)
