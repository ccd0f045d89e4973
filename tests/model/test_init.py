"""The one table of initial weights."""

from __future__ import annotations

import math

import pytest
import torch

from vitrail import ViT, create_model
from vitrail.errors import VitrailError
from vitrail.model.init import TABLE, rule_for, zeros


def std(tensor):
    return tensor.std().item()


def test_every_parameter_of_every_family_has_a_row():
    for name in ("Ti/16", "R26+S/32", "R+Ti/16", "S/14@518 DINOv2+reg", "R18", "R50"):
        with torch.device("meta"):
            create_model(name)  # raises where no row fits
    for parts in ({"stem": "conv"}, {"patches": "linear", "patch_norm": True}, {"pool": "attention"}, {"head": "tanh"}):
        create_model("Ti/16", depth=1, **parts)
    with pytest.raises(VitrailError, match="no row of the table"):
        rule_for("something.new")


def test_the_draws_have_the_papers_scale():
    torch.manual_seed(0)
    model = ViT(image_size=64, patch_size=16, num_classes=10, dim=256, depth=1, heads=4, mlp_dim=1024)
    assert std(model.patch_embed.proj.weight) == pytest.approx(math.sqrt(1 / 768), rel=0.02)  # lecun: fan-in 16*16*3
    each = math.sqrt(2 / (256 + 256))  # xavier of q, k, v apart: fan-out is one of them, not three
    for part in model.blocks[0].attn.qkv.weight.chunk(3):
        assert std(part) == pytest.approx(each, rel=0.02)
        assert part.abs().max().item() <= each * math.sqrt(3) + 1e-6
    assert std(model.blocks[0].mlp.fc1.weight) == pytest.approx(math.sqrt(2 / (256 + 1024)), rel=0.02)
    assert std(model.pos_embed) == pytest.approx(0.02, rel=0.05)
    assert model.head.weight.abs().sum() == 0
    assert model.cls_token.abs().sum() == 0


def test_lecun_is_cut_at_two_sigma_of_its_own():
    torch.manual_seed(0)
    weight = ViT(
        image_size=64, patch_size=16, num_classes=0, dim=512, depth=1, heads=1, mlp_dim=1
    ).patch_embed.proj.weight
    sigma = math.sqrt(1 / 768) / 0.87962566103423978
    assert weight.abs().max().item() <= 2 * sigma
    assert weight.abs().max().item() > 1.9 * sigma


def test_layer_scale_starts_at_its_value():
    model = create_model("Ti/16", depth=2, layer_scale=0.07)
    assert torch.equal(model.blocks[1].ls2.gamma, torch.full((192,), 0.07))


def test_registers_start_apart():
    model = create_model("Ti/16", depth=1, registers=2)
    assert not torch.equal(model.reg_token[0, 0], model.reg_token[0, 1])


def test_the_table_says_why():
    assert all(reason for _, _, reason in TABLE)
    assert rule_for("head.weight") is zeros
