"""The ResNet baseline against timm's BiT, and its parts against their definitions."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim, export

from oracles import randomise, timm
from vitrail.config import ResNetConfig
from vitrail.errors import ConfigError
from vitrail.model.resnet import ResNet, SameConv2d, SamePad, StandardizedConv2d
from vitrail.model.shared import DropPath

R18 = ResNetConfig(image_size=224, num_classes=1000, blocks=(2, 2, 2, 2), bottleneck=False)
R50 = ResNetConfig(image_size=224, num_classes=1000, blocks=(3, 4, 6, 3))
SMALL = ResNetConfig(image_size=32, num_classes=10, blocks=(1, 1), bottleneck=False, width=32, stem="small")


def test_a_narrow_network_norms_no_channel_alone():
    """A channel normed alone has the same mean in every picture, and the mean is what the head reads."""
    torch.manual_seed(0)
    model = ResNet(SMALL.replace(blocks=(1,))).eval()
    seen: list[torch.Tensor] = []
    model.norm.register_forward_pre_hook(lambda norm, given: seen.append(nn.GroupNorm.forward(norm, *given)))
    with torch.inference_mode():
        model.maps(torch.randn(8, 3, 32, 32) * torch.linspace(0.2, 2, 8).view(-1, 1, 1, 1))
    means = seen[0].mean((2, 3))  # pictures x channels, before the ReLU
    assert means.std(dim=0).min() > 1e-3
    assert SMALL.norm_groups == 4
    assert R18.norm_groups == R50.norm_groups == 32


def timm_r50(**changes: Any) -> nn.Module:
    return timm().create_model("resnetv2_50x1_bit", **changes)


def timm_r18(**changes: Any) -> nn.Module:
    """timm's own resnetv2_18 has BatchNorm; this is the same network with BiT's convolution, norm and padding."""
    timm()
    from timm.layers import StdConv2d
    from timm.models.resnetv2 import ResNetV2

    conv = partial(StdConv2d, eps=1e-8)
    widths = (64, 128, 256, 512)
    return ResNetV2(
        [2, 2, 2, 2], channels=widths, basic=True, bottle_ratio=1.0, stem_type="fixed", conv_layer=conv, **changes
    )


ORACLES = pytest.mark.parametrize(("config", "oracle"), [(R18, timm_r18), (R50, timm_r50)], ids=["R18", "R50"])


@ORACLES
def test_logits_and_features_are_timms(config, oracle):
    theirs = randomise(oracle(), seed=1)
    ours = ResNet(config).eval()
    ours.load_state_dict(theirs.state_dict(), strict=True)
    for size in [(224, 224), (160, 256), (65, 97)]:
        images = torch.randn(4, 3, *size, generator=torch.Generator().manual_seed(2))
        with torch.inference_mode():
            maps = theirs.forward_features(images)
            features, logits = theirs.forward_head(maps, pre_logits=True), theirs.forward_head(maps)
            torch.testing.assert_close(ours.features(images), features, atol=1e-5, rtol=0)
            torch.testing.assert_close(ours(images), logits, atol=1e-5, rtol=0)
            assert torch.equal(ours(images).argmax(1), logits.argmax(1))
        assert logits.std() > 0.1, "logits near zero would prove nothing"


@ORACLES
@pytest.mark.parametrize("num_classes", [0, 7])
def test_state_dict_loads_in_timm(config, oracle, num_classes):
    ours = randomise(ResNet(config.replace(num_classes=num_classes, channels=4)))
    theirs = oracle(num_classes=num_classes, in_chans=4).eval()
    theirs.load_state_dict(ours.state_dict(), strict=True)
    images = torch.randn(2, 4, 64, 64)
    with torch.inference_mode():
        torch.testing.assert_close(ours(images), theirs(images), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("config", "name", "count"), [(R18, "resnetv2_18", 11_687_720), (R50, "resnetv2_50x1_bit", 25_549_352)]
)
def test_parameters_are_those_of_the_named_model(config, name, count):
    ours = {name: p.shape for name, p in ResNet(config).named_parameters()}
    assert ours == {name: p.shape for name, p in timm().create_model(name).named_parameters()}
    assert sum(shape.numel() for shape in ours.values()) == count


def test_gradients_are_timms():
    theirs = randomise(timm_r18(num_classes=5)).train()
    ours = ResNet(R18.replace(num_classes=5)).train()
    ours.load_state_dict(theirs.state_dict())
    images = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(3))
    for model in (ours, theirs):
        model(images).square().sum().backward()
    expected = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        scale = expected[name].grad.abs().max()
        assert (parameter.grad - expected[name].grad).abs().max() <= 1e-4 * scale, name


def test_standardised_kernels_have_mean_0_and_biased_variance_1():
    conv = StandardizedConv2d(5, 8, 3)
    with torch.no_grad():
        conv.weight.mul_(3).add_(1)
    eye = torch.eye(45).view(45, 5, 3, 3)  # a picture with a single 1 reads one entry of the kernel
    kernels = conv(eye)[:, :, 1, 1].T  # 8 x 45
    torch.testing.assert_close(kernels.mean(1), torch.zeros(8), atol=1e-6, rtol=0)
    torch.testing.assert_close(kernels.var(1, correction=0), torch.ones(8), atol=1e-5, rtol=0)


@pytest.mark.parametrize("kernel", [3, 7])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_same_padding_is_tensorflows(kernel, stride):
    timm()
    from timm.layers import StdConv2dSame

    ours = SameConv2d(3, 4, kernel, stride)
    theirs = StdConv2dSame(3, 4, kernel, stride, eps=1e-8)
    theirs.load_state_dict(ours.state_dict())
    for size in [(1, 1), (2, 5), (7, 8), (9, 12), (13, 10)]:
        images = torch.randn(1, 3, *size)
        assert ours(images).shape[-2:] == tuple(-(-side // stride) for side in size)
        torch.testing.assert_close(ours(images), theirs(images), atol=1e-5, rtol=0)


def test_same_padding_begins_where_tensorflows_does():
    before = {(kernel, size): SamePad(kernel, 2).sides(size)[0] for kernel in (3, 7) for size in (224, 225)}
    assert before == {(3, 224): 0, (3, 225): 1, (7, 224): 2, (7, 225): 3}


def test_small_stem_keeps_every_pixel():
    model = ResNet(SMALL)
    assert model.stem(torch.randn(1, 3, 32, 32)).shape == (1, 32, 32, 32)
    assert model.features(torch.randn(2, 3, 32, 32)).shape == (2, 64)
    assert model(torch.randn(2, 3, 32, 32)).shape == (2, 10)


def test_drop_path_grows_linearly_over_the_blocks():
    model = ResNet(R18.replace(drop_path=0.7))
    rates = [m.probability for m in model.modules() if isinstance(m, DropPath)]
    assert rates == pytest.approx([0.1 * index for index in range(8)])


def test_drop_path_leaves_out_whole_images_and_keeps_the_mean():
    drop = DropPath(0.25)
    ones = torch.ones(4000, 2, 3)
    torch.manual_seed(0)
    kept = drop(ones)
    assert {round(value, 4) for value in kept.unique().tolist()} == {0.0, round(1 / 0.75, 4)}
    assert torch.equal(kept, kept[:, :1, :1].expand_as(kept))
    assert abs(kept.mean().item() - 1) < 0.05
    assert drop.eval()(ones) is ones


def test_wrong_shapes_say_what_to_give():
    model = ResNet(SMALL)
    with pytest.raises(ConfigError, match="add the batch dimension"):
        model(torch.zeros(3, 32, 32))
    with pytest.raises(ConfigError, match="give 3 channels"):
        model(torch.zeros(1, 1, 32, 32))


def test_exports_with_any_batch_and_size():
    model = randomise(ResNet(SMALL))
    sizes = {0: Dim("batch"), 2: Dim("height", min=16), 3: Dim("width", min=16)}
    program = export(model, (torch.randn(2, 3, 32, 32),), dynamic_shapes=(sizes,)).module()
    images = torch.randn(3, 3, 23, 40)
    torch.testing.assert_close(program(images), model(images))


@pytest.mark.parametrize("bottleneck", [True, False])
def test_learns(bottleneck):
    torch.manual_seed(0)
    model = ResNet(SMALL.replace(num_classes=2, drop_path=0.1, bottleneck=bottleneck))
    images, labels = torch.randn(8, 3, 16, 16), torch.tensor([0, 1] * 4)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(15):
        loss = nn.functional.cross_entropy(model(images), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(0.6931, abs=1e-3), "a zero head starts undecided"
    assert min(losses) < 0.3
