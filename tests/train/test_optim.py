"""Parameter groups, rates, Muon beside torch's own, and optimisers that go on exactly."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from train import tiny
from vitrail.config import ResNetConfig, ViTConfig
from vitrail.errors import ConfigError
from vitrail.model import build
from vitrail.train.optim import OptimSettings, build_optimizers, orthogonal


@pytest.fixture
def model():
    torch.manual_seed(0)
    return build(tiny.settings().model)


def groups(model, settings):
    names = {parameter: name for name, parameter in model.named_parameters()}
    made = build_optimizers(model, settings)
    return {
        names[parameter]: (type(part).__name__, group)
        for part in made.parts
        for group in part.param_groups
        for parameter in group["params"]
    }


@pytest.mark.parametrize("name", ["adamw", "sgd", "muon"])
def test_every_weight_once_and_decay_on_matrices_alone(model, name):
    found = groups(model, OptimSettings(name=name, weight_decay=0.3))
    assert set(found) == {name for name, _ in model.named_parameters()}
    for weight, (_, group) in found.items():
        matrix = weight.endswith("weight") and "norm" not in weight
        assert group["weight_decay"] == (0.3 if matrix else 0.0), weight


@pytest.mark.parametrize(("stem", "kernels"), [("none", 0), ("conv", 2)])
def test_muon_takes_the_matrices_of_the_blocks_and_the_kernels_before_them(stem, kernels):
    model = build(tiny.settings().model.replace(patch_size=4, stem=stem))
    found = groups(model, OptimSettings(name="muon"))
    by_muon = {name for name, (kind, _) in found.items() if kind == "Muon"}
    kinds = ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2")
    assert {f"blocks.{i}.{kind}.weight" for i in (0, 1) for kind in kinds} <= by_muon
    before = {name for name in by_muon if not name.startswith("blocks.")}
    assert "patch_embed.proj.weight" in before
    assert sum(name.endswith(".conv.weight") for name in before) == len(before) - 1 == kernels
    assert {found[name][1]["parts"] for name in by_muon} == {1, 3}
    assert all((found[name][1]["parts"] == 3) == ("qkv" in name) for name in by_muon)


def test_muon_takes_the_kernels_of_a_resnet():
    model = build(ResNetConfig(image_size=32, num_classes=3, blocks=(1, 1), bottleneck=False, width=16, stem="small"))
    found = groups(model, OptimSettings(name="muon"))
    by_muon = {name for name, (kind, _) in found.items() if kind == "Muon"}
    assert by_muon == {name for name, weight in model.named_parameters() if ".blocks." in name and weight.ndim == 4}
    assert len(by_muon) == 5  # two of each block, and the shortcut of the second


def test_a_kernel_is_stepped_as_the_matrix_of_its_outputs():
    torch.manual_seed(0)
    kernel, matrix = nn.Conv2d(3, 16, 3, bias=False), nn.Linear(27, 16, bias=False)
    matrix.weight.data = kernel.weight.detach().flatten(1).clone()
    modules = {"patch_embed": nn.ModuleDict({"conv": kernel}), "blocks": nn.ModuleList([matrix])}
    optimizers = build_optimizers(nn.ModuleDict(modules), OptimSettings(name="muon"))
    optimizers.set_rate(0.1)
    gradient = torch.randn(16, 27)
    kernel.weight.grad, matrix.weight.grad = gradient.view_as(kernel.weight).clone(), gradient.clone()
    optimizers.step()
    assert torch.allclose(kernel.weight.flatten(1), matrix.weight, atol=1e-6)


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_layer_decay_is_that_of_beit(model, name):
    """decay ** (layers above): the head and the last norm 1, the embedding depth + 1."""
    found = groups(model, OptimSettings(name=name, layer_decay=0.5))
    expected = {"head.": 1.0, "norm.": 1.0, "blocks.1.": 0.5, "blocks.0.": 0.25, "patch_embed.": 0.125, "cls_": 0.125}
    for weight, (_, group) in found.items():
        known = [scale for start, scale in expected.items() if weight.startswith(start)]
        assert [group["scale"]] == (known or [0.125]), weight


def test_rates_are_scaled_together(model):
    optimizers = build_optimizers(model, OptimSettings(name="muon", layer_decay=0.5))
    optimizers.set_rate(0.8)
    for part in optimizers.parts:
        for group in part.param_groups:
            assert group["lr"] == 0.8 * group["scale"]


def test_frozen_weights_are_left_out(model):
    model.requires_grad_(False)
    with pytest.raises(ConfigError, match="freeze less"):
        build_optimizers(model, OptimSettings())
    model.head.requires_grad_(True)
    assert set(groups(model, OptimSettings(name="muon"))) == {"head.weight", "head.bias"}


def step(model, optimizers, seed):
    torch.manual_seed(seed)
    images, targets = torch.randn(4, 3, 16, 16), torch.randint(3, (4,))
    nn.functional.cross_entropy(model.eval()(images), targets).backward()
    optimizers.set_rate(0.01)
    optimizers.step()
    optimizers.zero_grad()


@pytest.mark.parametrize("name", ["adamw", "sgd", "muon"])
def test_they_go_on_to_the_same_bits(model, name):
    settings = OptimSettings(name=name)
    optimizers = build_optimizers(model, settings)
    for seed in range(3):
        step(model, optimizers, seed)
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    remembered = {name: tensor.clone() for name, tensor in optimizers.tensors().items()}
    step(model, optimizers, 3)
    again = build(tiny.settings().model)
    again.load_state_dict(weights)
    restored = build_optimizers(again, settings)
    restored.restore(remembered)
    step(again, restored, 3)
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), again.state_dict().values(), strict=True))


def test_what_is_restored_is_a_copy(model):
    optimizers = build_optimizers(model, OptimSettings())
    step(model, optimizers, 0)
    saved = optimizers.tensors()
    copies = {name: tensor.clone() for name, tensor in saved.items()}
    restored = build_optimizers(model, OptimSettings())
    restored.restore(copies)
    before = {name: tensor.clone() for name, tensor in copies.items()}
    step(model, restored, 1)
    assert all(torch.equal(copies[name], before[name]) for name in copies)


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 4, 16), (2, 16, 4)])
def test_orthogonal_keeps_directions_and_levels_sizes(shape):
    torch.manual_seed(0)
    matrices = torch.randn(shape)
    made = orthogonal(matrices)
    sizes = torch.linalg.svdvals(made)
    assert sizes.min() > 0.4
    assert sizes.max() < 1.3
    left, _, right = torch.linalg.svd(matrices, full_matrices=False)
    assert nn.functional.cosine_similarity(made.flatten(1), (left @ right).flatten(1)).min() > 0.95


def test_orthogonal_of_nothing_is_nothing():
    assert torch.equal(orthogonal(torch.zeros(1, 4, 4)), torch.zeros(1, 4, 4))


def test_muon_steps_like_torch_s():
    """torch's works in bfloat16: the direction of five steps agrees, not every digit."""
    torch.manual_seed(0)
    ours, theirs = nn.Linear(16, 8, bias=False), nn.Linear(16, 8, bias=False)
    theirs.load_state_dict(ours.state_dict())
    start = ours.weight.detach().clone()
    settings = OptimSettings(name="muon", lr=0.02, weight_decay=0.1)
    mine = build_optimizers(nn.ModuleDict({"blocks": nn.ModuleList([ours])}), settings)
    peer = torch.optim.Muon(
        theirs.parameters(), lr=0.02, momentum=0.95, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"
    )
    mine.set_rate(0.02)
    for _ in range(5):
        gradient = torch.randn(8, 16)
        ours.weight.grad, theirs.weight.grad = gradient.clone(), gradient.clone()
        mine.step()
        peer.step()
    moved, expected = (linear.weight.detach().sub(start).flatten() for linear in (ours, theirs))
    assert nn.functional.cosine_similarity(moved, expected, dim=0) > 0.99
    assert moved.norm().item() == pytest.approx(expected.norm().item(), rel=0.05)


def test_q_k_and_v_are_made_orthogonal_each_for_itself():
    torch.manual_seed(0)
    config = ViTConfig(16, 8, 2, dim=16, depth=1, heads=2, mlp_dim=32, dim_head=8)
    fused = build(config)
    qkv = fused.blocks[0].attn.qkv.weight
    before = qkv.detach().clone()
    optimizers = build_optimizers(fused, OptimSettings(name="muon", weight_decay=0.0))
    optimizers.set_rate(1.0)
    qkv.grad = torch.randn_like(qkv) * torch.tensor([1.0, 10.0, 100.0]).repeat_interleave(16)[:, None]
    optimizers.parts[0].step()
    sizes = [part.norm().item() for part in (qkv.detach() - before).split(16)]
    assert max(sizes) < 1.2 * min(sizes)
