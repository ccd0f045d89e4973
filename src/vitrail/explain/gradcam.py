"""Grad-CAM (Selvaraju et al., 2017): feature maps, each weighted by how much the class's logit rises with it.

On a ViT the feature maps are the patch tokens that enter the last block, put back on their grid; on a ResNet, the last
maps before they are averaged. B batch, N tokens, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from vitrail.explain.listener import Listener
from vitrail.explain.rollout import as_start
from vitrail.model import Model, ResNet, ViT
from vitrail.model.patches import check_images


def gradcam(model: Model, images: Tensor, targets: Tensor) -> Tensor:
    """Images (B C height width) and a class for each (B) to maps (B rows columns), not negative."""
    with torch.enable_grad():
        maps, logits = _of_resnet(model, images) if isinstance(model, ResNet) else _of_vit(model, images)
        (gradient,) = torch.autograd.grad(logits.gather(1, targets[:, None]).sum(), maps)
    with torch.no_grad():
        grid = maps if isinstance(model, ResNet) else _as_maps(model, maps, images)
        slopes = gradient if isinstance(model, ResNet) else _as_maps(model, gradient, images)
        return (slopes.mean(dim=(2, 3), keepdim=True) * grid).sum(dim=1).relu()


def _of_resnet(model: ResNet, images: Tensor) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        maps = model.maps(images)
    maps.requires_grad_()
    return maps, model.classify(model.pool(maps))


def _of_vit(model: ViT, images: Tensor) -> tuple[Tensor, Tensor]:
    """The tokens that enter the last block (B N D), and the logits."""
    stream: list[Tensor] = []

    def start(tokens: Tensor) -> Tensor:
        stream.append(as_start(tokens))
        return stream[0]

    logits = model(images, Listener(tokens=start, out=stream.append))
    return stream[-2], logits


def _as_maps(model: ViT, tokens: Tensor, images: Tensor) -> Tensor:
    """B N D to B D rows columns."""
    patches = tokens[:, model.config.prefix_tokens :].transpose(1, 2)
    return patches.unflatten(2, check_images(images, model.config))
