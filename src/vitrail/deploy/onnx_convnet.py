"""Convolutional parts as an ONNX graph: the stems of hybrids, and the ResNet. Every size is known beforehand.

B batch, C channels, H height, W width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch.nn.functional as F
from torch import nn

from vitrail.config import Pair, ViTConfig
from vitrail.deploy.onnx_graph import Graph, matmul, reshape
from vitrail.errors import ConfigError
from vitrail.model import resnet
from vitrail.model.resnet import ResNet

NEARLY_ZERO = (
    1e-30  # ONNX Runtime moves a padding of 0 into a max-pool, where it is -inf; another value it leaves alone
)
Sized = tuple[str, Pair]  # maps (B C H W), and their H and W


def stem(g: Graph, part: nn.Module, images: str, config: ViTConfig, grid: Pair) -> str:
    """Images to the maps that patches are cut from."""
    size = grid[0] * config.patch_size[0], grid[1] * config.patch_size[1]
    return write(g, part, (images, size))[0]


def write_resnet(g: Graph, model: ResNet, images: str, size: Pair) -> str:
    """Images (B C H W) to logits (B classes), or to features where the model has no head."""
    maps = (images, size)
    for part in (model.stem, model.stages, model.norm):
        maps = write(g, part, maps)
    features = g.op("ReduceMean", maps[0], g.constant([2, 3]), keepdims=0)
    if isinstance(model.head, nn.Identity):
        return features
    layer = model.head.fc
    assert layer.bias is not None
    return matmul(g, features, g.weight(layer.weight)[:, :, 0, 0], g.weight(layer.bias))


def write(g: Graph, part: nn.Module, maps: Sized) -> Sized:
    """One module after its kind; a kind that no row names is an error."""
    for kind, writer in WRITERS.items():
        if isinstance(part, kind):
            return writer(g, part, maps)
    raise ConfigError(f"{type(part).__name__} has no ONNX form", fix="use --to torch")


def convolution(g: Graph, layer: nn.Conv2d, x: str) -> str:
    """With its kernel as it is, or standardised once and for all."""
    kernel = g.weight(layer.weight)
    if isinstance(layer, resnet.StandardizedConv2d):
        flat = F.batch_norm(layer.weight.detach().float().flatten(1)[None], None, None, training=True, eps=1e-8)
        kernel = flat.view_as(layer.weight).cpu().numpy()
    given = [x, g.constant(kernel), *([] if layer.bias is None else [g.constant(g.weight(layer.bias))])]
    top, left = (int(side) for side in layer.padding)
    return g.op("Conv", *given, strides=list(layer.stride), pads=[top, left, top, left])


def _convolution(g: Graph, layer: Any, maps: Sized) -> Sized:
    x, size = _same_pad(g, layer.pad, maps) if isinstance(layer, resnet.SameConv2d) else maps
    sides = zip(size, layer.kernel_size, layer.stride, layer.padding, strict=True)
    after = [(side + 2 * pad - kernel) // stride + 1 for side, kernel, stride, pad in sides]
    return convolution(g, layer, x), (after[0], after[1])


def _same_pad(g: Graph, part: Any, maps: Sized) -> Sized:
    (x, (height, width)) = maps
    (top, bottom), (left, right) = part.sides(height), part.sides(width)
    return _pad(g, x, top, left, bottom, right), (height + top + bottom, width + left + right)


def _zero_pad(g: Graph, part: Any, maps: Sized) -> Sized:
    left, right, top, bottom = part.padding
    (x, (height, width)) = maps
    return _pad(g, x, top, left, bottom, right, NEARLY_ZERO), (height + top + bottom, width + left + right)


def _pad(g: Graph, x: str, top: int, left: int, bottom: int, right: int, value: float = 0.0) -> str:
    pads = g.constant([0, 0, top, left, 0, 0, bottom, right])
    return g.op("Pad", x, pads, g.constant(np.array(value, np.float32)))


def _max_pool(g: Graph, part: Any, maps: Sized) -> Sized:
    (x, (height, width)), kernel, stride = maps, part.kernel_size, part.stride
    made = g.op("MaxPool", x, kernel_shape=[kernel, kernel], strides=[stride, stride])
    return made, ((height - kernel) // stride + 1, (width - kernel) // stride + 1)


def _batch_norm(g: Graph, part: Any, maps: Sized) -> Sized:
    values = [g.weight(part.weight), g.weight(part.bias), part.running_mean, part.running_var]
    given = [g.constant(value) for value in values]
    return g.op("BatchNormalization", maps[0], *given, epsilon=part.eps), maps[1]


def _group_norm(g: Graph, part: Any, maps: Sized) -> Sized:
    """Each group flattened is one channel to normalise; then scale and shift by channel."""
    x, (height, width) = maps
    groups, channels = part.num_groups, part.num_channels
    ones, zeros = np.ones(groups, np.float32), np.zeros(groups, np.float32)
    flat = reshape(g, x, 0, groups, -1)
    normed = g.op("InstanceNormalization", flat, g.constant(ones), g.constant(zeros), epsilon=part.eps)
    scale, shift = (g.weight(value).reshape(-1, 1, 1) for value in (part.weight, part.bias))
    x = g.op("Mul", reshape(g, normed, 0, channels, height, width), g.constant(scale))
    x = g.op("Add", x, g.constant(shift))
    return (g.op("Relu", x) if isinstance(part, resnet.GroupNormReLU) else x), maps[1]


def _pre_act(g: Graph, part: Any, maps: Sized) -> Sized:
    active = write(g, part.norm1, maps)
    shortcut = maps if part.downsample is None else write(g, part.downsample, active)
    steps = [part.conv1, part.norm2, part.conv2]
    if isinstance(part, resnet.PreActBottleneck):
        steps += [part.norm3, part.conv3]
    for step in steps:
        active = write(g, step, active)
    return g.op("Add", shortcut[0], active[0]), active[1]


def _post_act(g: Graph, part: Any, maps: Sized) -> Sized:
    inside = maps
    for step in (part.conv1, part.norm1, part.conv2, part.norm2, part.conv3, part.norm3):
        inside = write(g, step, inside)
    shortcut = write(g, part.downsample, maps)
    return g.op("Relu", g.op("Add", shortcut[0], inside[0])), inside[1]


def _one_by_one(g: Graph, part: Any, maps: Sized) -> Sized:
    for child in part.children():
        maps = write(g, child, maps)
    return maps


WRITERS: dict[type[nn.Module], Callable[[Graph, Any, Sized], Sized]] = {
    nn.Conv2d: _convolution,
    resnet.SamePad: _same_pad,
    nn.ZeroPad2d: _zero_pad,
    nn.MaxPool2d: _max_pool,
    nn.BatchNorm2d: _batch_norm,
    nn.GroupNorm: _group_norm,
    nn.ReLU: lambda g, _, maps: (g.op("Relu", maps[0]), maps[1]),
    nn.Identity: lambda _, __, maps: maps,
    resnet.PreActBlock: _pre_act,
    resnet.PostActBottleneck: _post_act,
    nn.Sequential: _one_by_one,
    resnet.Stage: _one_by_one,
}
