"""What may stand before the patches: image B x C x H x W -> feature map, smaller and with more channels.

`ResNetStem` makes the paper's hybrid: the tokens are patches, often single pixels, of a ResNet's feature map.
`ConvStem` is a few strided convolutions, for small pictures or little data (Xiao et al. 2021).
Every stem has `out_channels` and `stride` (rows, columns): by how much it shrinks the image.

Shapes: B batch, C channels, H height, W width.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import pairwise

from torch import nn

from vitrail.config import ViTConfig
from vitrail.model.resnet import GroupNormReLU, PostActBottleneck, SameConv2d, SamePad, build_stages, stage_width


class ResNetStem(nn.Sequential):
    """ResNetV2 with GroupNorm and weight standardisation: B x C x H x W -> B x out_channels x H/stride x W/stride.

    `stem_blocks=(3, 4, 9)` is R50 with stage 4's blocks moved to stage 3 (stride 16); four stages have stride 32;
    `()` is the root alone (stride 4), as in R+Ti/16. Parameter names are timm's below `patch_embed.backbone`.
    """

    def __init__(self, config: ViTConfig, width: int = 64) -> None:
        root = OrderedDict[str, nn.Module](
            conv=SameConv2d(config.channels, width, 7, stride=2),  # B x width x H/2 x W/2
            norm=GroupNormReLU(width),
            pad=SamePad(3, stride=2),  # zeros are as good as -inf: ReLU leaves nothing below
            pool=nn.MaxPool2d(3, stride=2),  # B x width x H/4 x W/4
        )
        if config.stem_blocks:
            stages = build_stages(PostActBottleneck, width, config.stem_blocks)
            super().__init__(OrderedDict(stem=nn.Sequential(root), stages=stages))
            self.out_channels = stage_width(PostActBottleneck, width, len(config.stem_blocks) - 1)
        else:
            super().__init__(root)
            self.out_channels = width
        self.stride = config.stem_stride


class ConvStem(nn.Sequential):
    """3x3 convolutions of stride 2, BatchNorm, ReLU: B x C x H x W -> B x dim x H/stride x W/stride.

    Widths double up to `dim` at the last, so that every layer costs about the same: patch 4 and dim 96 give 48 -> 96.
    """

    def __init__(self, config: ViTConfig) -> None:
        halvings = config.stem_stride[0].bit_length() - 1
        widths = [config.channels, *(max(1, config.dim >> left) for left in reversed(range(halvings)))]
        super().__init__(*(_halve(inputs, outputs) for inputs, outputs in pairwise(widths)))
        self.out_channels = widths[-1]
        self.stride = config.stem_stride


def _halve(inputs: int, outputs: int) -> nn.Sequential:
    """B x inputs x H x W -> B x outputs x H/2 x W/2."""
    conv = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False)
    return nn.Sequential(OrderedDict(conv=conv, norm=nn.BatchNorm2d(outputs), act=nn.ReLU(inplace=True)))


STEMS: dict[str, type[ConvStem] | type[ResNetStem]] = {"conv": ConvStem, "resnet": ResNetStem}  # "none" has no stem
