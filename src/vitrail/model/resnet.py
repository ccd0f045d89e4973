"""The paper's convolutional baseline: ResNetV2 with GroupNorm and weight-standardised convolutions (BiT).

    stem -> stages of residual blocks, each stage twice as wide and half as large -> norm -> mean -> head

The blocks also build the hybrid's stem (`stems.py`). Parameter names are those of timm's `resnetv2_50x1_bit`.

Shapes: B batch, C channels, H height, W width, D width of the features, K classes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import islice
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from vitrail.config import BIT_GROUPS, ResNetConfig
from vitrail.model.init import initialise
from vitrail.model.shared import DropPath, check_channels


class StandardizedConv2d(nn.Conv2d):
    """A convolution whose kernels have mean 0 and variance 1 each (Qiao et al. 2019); an odd kernel, no bias."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        kernels = self.weight.flatten(1)[None]  # 1 x outputs x inputs * kernel * kernel
        # Batch norm of a batch of one is this very formula, with the biased variance, in one fused step.
        kernels = F.batch_norm(kernels, None, None, training=True, eps=1e-8)
        return F.conv2d(x, kernels.view_as(self.weight), None, self.stride, self.padding)


class SamePad(nn.Module):
    """Zeros around B x C x H x W, as TensorFlow's "SAME": the next layer gives ceil(H/stride) x ceil(W/stride)."""

    def __init__(self, kernel: int, stride: int) -> None:
        super().__init__()
        assert kernel >= stride, "pixels between the windows would have to be cut off"
        self.kernel, self.stride = kernel, stride

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[-2:]
        return F.pad(x, (*self.sides(width), *self.sides(height)))

    def sides(self, size: int) -> tuple[int, int]:
        """Zeros before and after: half of what the windows reach, then whatever makes the sum kernel - 1.

        No window reaches the surplus at the end; it makes the padded size one formula, which export can prove.
        """
        reached = self.kernel - self.stride + -size % self.stride
        return reached // 2, self.kernel - 1 - reached // 2


class SameConv2d(StandardizedConv2d):
    """The standardised convolution with "SAME" padding, as the hybrid's released weights need it when stride > 1."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, stride)
        self.padding = (0, 0)
        self.pad = SamePad(kernel, stride)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.pad(x))


class GroupNormReLU(nn.GroupNorm):
    """GroupNorm, then ReLU, under one parameter name."""

    def __init__(self, channels: int, groups: int = BIT_GROUPS) -> None:
        super().__init__(groups, channels)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(super().forward(x), inplace=True)


class Downsample(nn.Sequential):
    """The shortcut where width or size change: B x inputs x H x W -> B x outputs x H/stride x W/stride."""

    def __init__(self, inputs: int, outputs: int, stride: int, *, norm: bool) -> None:
        super().__init__(OrderedDict(conv=StandardizedConv2d(inputs, outputs, 1, stride)))
        if norm:
            self.norm = nn.GroupNorm(BIT_GROUPS, outputs)


class PreActBlock(nn.Module):
    """x + f(relu(norm(x))): the sum itself is never normed or cut off, so every block adds to one running stream."""

    expansion: ClassVar[int]  # width of the output by the width of the 3x3 convolutions

    def __init__(self, inputs: int, outputs: int, stride: int, drop_path: float, groups: int) -> None:
        super().__init__()
        changes = inputs != outputs or stride != 1
        self.downsample = Downsample(inputs, outputs, stride, norm=False) if changes else None
        self.norm1 = GroupNormReLU(inputs, groups)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: Tensor) -> Tensor:
        active = self.norm1(x)
        shortcut = x if self.downsample is None else self.downsample(active)
        total: Tensor = shortcut + self.drop_path(self.residual(active))  # B x outputs x H/stride x W/stride
        return total

    def residual(self, active: Tensor) -> Tensor:
        raise NotImplementedError


class PreActBasic(PreActBlock):
    """Two 3x3 convolutions: ResNet-18 and -34."""

    expansion = 1

    def __init__(self, inputs: int, outputs: int, stride: int, drop_path: float, groups: int) -> None:
        super().__init__(inputs, outputs, stride, drop_path, groups)
        self.conv1 = StandardizedConv2d(inputs, outputs, 3, stride)
        self.norm2 = GroupNormReLU(outputs, groups)
        self.conv2 = StandardizedConv2d(outputs, outputs, 3)

    def residual(self, active: Tensor) -> Tensor:
        added: Tensor = self.conv2(self.norm2(self.conv1(active)))  # B x outputs x H/stride x W/stride
        return added


class PreActBottleneck(PreActBlock):
    """1x1 down to a quarter of the width, 3x3, 1x1 up again: ResNet-50 and deeper."""

    expansion = 4

    def __init__(self, inputs: int, outputs: int, stride: int, drop_path: float, groups: int) -> None:
        super().__init__(inputs, outputs, stride, drop_path, groups)
        width = outputs // self.expansion
        self.conv1 = StandardizedConv2d(inputs, width, 1)
        self.norm2 = GroupNormReLU(width, groups)
        self.conv2 = StandardizedConv2d(width, width, 3, stride)
        self.norm3 = GroupNormReLU(width, groups)
        self.conv3 = StandardizedConv2d(width, outputs, 1)

    def residual(self, active: Tensor) -> Tensor:
        narrow = self.norm2(self.conv1(active))  # B x outputs/4 x H x W
        narrow = self.norm3(self.conv2(narrow))  # B x outputs/4 x H/stride x W/stride
        added: Tensor = self.conv3(narrow)  # B x outputs x H/stride x W/stride
        return added


class PostActBottleneck(nn.Module):
    """relu(x + f(x)): the older order, norm and ReLU after each convolution, as in the released hybrids."""

    expansion: ClassVar[int] = 4

    def __init__(self, inputs: int, outputs: int, stride: int, drop_path: float, groups: int) -> None:
        super().__init__()
        width = outputs // self.expansion
        changes = inputs != outputs or stride != 1
        self.downsample = Downsample(inputs, outputs, stride, norm=True) if changes else nn.Identity()
        self.conv1 = StandardizedConv2d(inputs, width, 1)
        self.norm1 = GroupNormReLU(width, groups)
        self.conv2 = SameConv2d(width, width, 3, stride)
        self.norm2 = GroupNormReLU(width, groups)
        self.conv3 = StandardizedConv2d(width, outputs, 1)
        self.norm3 = nn.GroupNorm(groups, outputs)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: Tensor) -> Tensor:
        narrow = self.norm1(self.conv1(x))  # B x outputs/4 x H x W
        narrow = self.norm2(self.conv2(narrow))  # B x outputs/4 x H/stride x W/stride
        added = self.norm3(self.conv3(narrow))  # B x outputs x H/stride x W/stride
        return F.relu(self.downsample(x) + self.drop_path(added), inplace=True)


BlockType = type[PreActBasic] | type[PreActBottleneck] | type[PostActBottleneck]


class Stage(nn.Module):
    """Blocks of one width, one for each rate in `drop_paths`; the first of them changes width and size."""

    def __init__(
        self, block: BlockType, inputs: int, outputs: int, stride: int, drop_paths: Sequence[float], groups: int
    ) -> None:
        super().__init__()
        first, *others = drop_paths
        self.blocks = nn.Sequential(
            block(inputs, outputs, stride, first, groups),
            *(block(outputs, outputs, 1, rate, groups) for rate in others),
        )

    def forward(self, x: Tensor) -> Tensor:
        stage: Tensor = self.blocks(x)  # B x outputs x H/stride x W/stride
        return stage


def build_stages(
    block: BlockType, width: int, blocks: Sequence[int], drop_path: float = 0.0, groups: int = BIT_GROUPS
) -> nn.Sequential:
    """One stage for each number of `blocks`: as large as the input, then halved; the drop rate grows block by block."""
    total = sum(blocks)
    rates = iter(drop_path * index / max(1, total - 1) for index in range(total))
    stages, inputs = nn.Sequential(), width
    for index, depth in enumerate(blocks):
        outputs = stage_width(block, width, index)
        stages.append(Stage(block, inputs, outputs, 1 if index == 0 else 2, list(islice(rates, depth)), groups))
        inputs = outputs
    return stages


def stage_width(block: BlockType, width: int, index: int) -> int:
    """Channels after the stage: doubled where the size is halved. ResNet-50 has 256, 512, 1024, 2048."""
    return block.expansion * width << index


class Head(nn.Module):
    """B x D -> B x K. A 1x1 convolution on a 1x1 map is a linear layer; BiT's files keep it in that shape."""

    def __init__(self, width: int, num_classes: int) -> None:
        super().__init__()
        self.fc = nn.Conv2d(width, num_classes, 1)

    def forward(self, features: Tensor) -> Tensor:
        maps: Tensor = self.fc(features[:, :, None, None])  # B x K x 1 x 1
        return maps.flatten(1)  # B x K


class ResNet(nn.Module):
    """Images B x C x H x W of any size -> logits B x K; with `num_classes=0` the logits are the features."""

    def __init__(self, config: ResNetConfig) -> None:
        super().__init__()
        self.config = config
        block = PreActBottleneck if config.bottleneck else PreActBasic
        features = stage_width(block, config.width, len(config.blocks) - 1)
        self.stem = _stem(config)
        self.stages = build_stages(block, config.width, config.blocks, config.drop_path, config.norm_groups)
        self.norm = GroupNormReLU(features, config.norm_groups)
        self.head = Head(features, config.num_classes) if config.num_classes else nn.Identity()
        initialise(self)

    def forward(self, images: Tensor) -> Tensor:
        return self.classify(self.features(images))

    def features(self, images: Tensor) -> Tensor:
        """B x C x H x W -> B x D: the last feature map, averaged over the picture."""
        return self.pool(self.maps(images))

    def maps(self, images: Tensor) -> Tensor:
        """B x C x H x W -> B x D x H/32 x W/32 after four stages: the last feature map."""
        check_channels(images, self.config.channels)
        maps: Tensor = self.norm(self.stages(self.stem(images)))
        return maps

    def pool(self, maps: Tensor) -> Tensor:
        """B x D x rows x columns -> B x D."""
        return maps.mean((2, 3))

    def classify(self, features: Tensor) -> Tensor:
        """B x D -> B x K."""
        logits: Tensor = self.head(features)
        return logits


def _stem(config: ResNetConfig) -> nn.Sequential:
    """B x C x H x W -> B x width x H/4 x W/4, or of the same size for small pictures, which have no pixels to lose."""
    if config.stem == "small":
        return nn.Sequential(OrderedDict(conv=StandardizedConv2d(config.channels, config.width, 3)))
    return nn.Sequential(
        OrderedDict(
            conv=StandardizedConv2d(config.channels, config.width, 7, stride=2),
            pad=nn.ZeroPad2d(1),  # BiT's; the pool's own -inf would differ, as no ReLU came before
            pool=nn.MaxPool2d(3, stride=2),
        )
    )
