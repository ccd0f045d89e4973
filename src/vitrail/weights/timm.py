"""timm's layout, which is also ours: plain, AugReg, DeiT, MAE, DINOv2 with and without registers, hybrids, BiT ResNets.

So the table is the identity, but for the few names that original repositories spell otherwise. What must be worked
out is the configuration, from names and shapes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from vitrail.config import Pair, ResNetConfig, ViTConfig
from vitrail.model.sizes import ModelConfig, model_config
from vitrail.weights.format import Format, Settings, count_blocks, grid_of, heads_of, shapes_of, stated
from vitrail.weights.tables import Shapes, Tensors, fold_class_position

DROPPED = ("mask_token", "decoder_")  # of self-supervised pre-training; no part of the encoder


def recognises(shapes: Shapes) -> bool:
    return ("patch_embed.proj.weight" in shapes and "blocks.0.attn.qkv.weight" in shapes) or _is_resnet(shapes)


def _is_resnet(shapes: Shapes) -> bool:
    return "stem.conv.weight" in shapes and "stages.0.blocks.0.conv1.weight" in shapes


def _config(shapes: Shapes, settings: Settings) -> ModelConfig:
    if "architecture" in settings:  # a timm folder names its model, and the arguments that differ from it
        settings = {**_known_architecture(str(settings["architecture"])), **_arguments(settings), **settings}
    return _resnet_config(shapes, settings) if _is_resnet(shapes) else _vit_config(shapes, settings)


def _known_architecture(name: str) -> dict[str, Any]:
    try:
        known = model_config(name)
    except ValueError:
        return {}
    return {"heads": known.heads} if isinstance(known, ViTConfig) else {}


def _arguments(settings: Settings) -> dict[str, Any]:
    """What the `model_args` of a timm config.json say that tensors cannot tell."""
    stated_there = settings.get("model_args")
    arguments = stated_there if isinstance(stated_there, Mapping) else {}
    found: dict[str, Any] = {}
    if "num_heads" in arguments:
        found["heads"] = int(arguments["num_heads"])
    if isinstance(arguments.get("img_size"), list):
        found["image_size"] = tuple(arguments["img_size"])
    if arguments.get("global_pool") == "avg":
        found["pool"] = "mean"
    return found


def _vit_config(shapes: Shapes, settings: Settings) -> ViTConfig:
    inner, dim = shapes["blocks.0.attn.qkv.weight"][0] // 3, shapes["blocks.0.attn.qkv.weight"][1]
    heads = heads_of(inner, settings)
    words: dict[str, Any] = {
        "dim": dim,
        "depth": count_blocks(shapes, "blocks.{i}."),
        "heads": heads,
        "dim_head": inner // heads,
        "mlp_dim": shapes["blocks.0.mlp.fc1.weight"][0],
        "num_classes": shapes["head.weight"][0] if "head.weight" in shapes else 0,
        "class_token": "cls_token" in shapes,
        "registers": next((shapes[n][1] for n in ("reg_token", "register_tokens") if n in shapes), 0),
        "qkv_bias": "blocks.0.attn.qkv.bias" in shapes,
        "qk_norm": "blocks.0.attn.q_norm.weight" in shapes,
        "layer_scale": 1e-5 if "blocks.0.ls1.gamma" in shapes else None,
        "head": "tanh" if "pre_logits.fc.weight" in shapes else "linear",
        "head_dim": shapes["pre_logits.fc.weight"][0] if "pre_logits.fc.weight" in shapes else None,
        **_patches(shapes),
        **_pooling(shapes),
    }
    words |= _positions(shapes, words, settings)
    return ViTConfig.from_dict({**words, **stated(settings, "pool", "norm", "norm_eps", "positions", "head")})


def _patches(shapes: Shapes) -> dict[str, Any]:
    kernel = shapes["patch_embed.proj.weight"]
    if "patch_embed.backbone.conv.weight" in shapes:  # the tiny hybrid: a stem without stages
        channels = shapes["patch_embed.backbone.conv.weight"][1]
        return {"stem": "resnet", "patch_size": (4 * kernel[2], 4 * kernel[3]), "channels": channels}
    stages = count_blocks(shapes, "patch_embed.backbone.stages.{i}.")
    if stages:
        prefix = "patch_embed.backbone.stages."
        blocks = tuple(count_blocks(shapes, f"{prefix}{i}.blocks.{{i}}.") for i in range(stages))
        stride = 4 * 2 ** (stages - 1)
        channels = shapes["patch_embed.backbone.stem.conv.weight"][1]
        size = (stride * kernel[2], stride * kernel[3])
        return {"stem": "resnet", "stem_blocks": blocks, "patch_size": size, "channels": channels}
    return {"patch_size": (kernel[2], kernel[3]), "channels": kernel[1]}


def _pooling(shapes: Shapes) -> dict[str, Any]:
    final = "pooled" if "fc_norm.weight" in shapes else "tokens" if "norm.weight" in shapes else "none"
    if "attn_pool.latent" in shapes:
        return {"pool": "attention", "final_norm": final}
    if "dist_token" in shapes:
        return {"pool": "cls+distill", "final_norm": final}
    mean = final == "pooled" or "cls_token" not in shapes
    return {"pool": "mean" if mean else "cls", "final_norm": final}


def _positions(shapes: Shapes, words: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """Do the positions include the prefix tokens? Tell by which count makes a grid; a plain ViT's do."""
    prefix = int(words["class_token"]) + words["registers"] + int("dist_token" in shapes)
    patch: Pair = words["patch_size"]
    if "pos_embed" not in shapes:
        return {"positions": "none", "image_size": settings.get("image_size", 14 * patch[0])}
    count = shapes["pos_embed"][1]
    original_dinov2 = "register_tokens" in shapes  # has a position for the class token, none for the registers
    if original_dinov2:
        return {"positions": "learned-patches", "image_size": grid_of(count - 1, patch, settings)}
    for_patches_only = words["registers"] > 0 and math.isqrt(count) ** 2 == count
    if settings.get("positions") == "learned-patches" or for_patches_only:
        return {"positions": "learned-patches", "image_size": grid_of(count, patch, settings)}
    return {"image_size": grid_of(count - prefix, patch, settings)}


def _resnet_config(shapes: Shapes, settings: Settings) -> ResNetConfig:
    stages = count_blocks(shapes, "stages.{i}.")
    stem = shapes["stem.conv.weight"]
    return ResNetConfig(
        image_size=settings.get("image_size", 32 if stem[2] == 3 else 224),
        num_classes=shapes["head.fc.weight"][0] if "head.fc.weight" in shapes else 0,
        blocks=tuple(count_blocks(shapes, f"stages.{i}.blocks.{{i}}.") for i in range(stages)),
        bottleneck="stages.0.blocks.0.conv3.weight" in shapes,
        channels=stem[1],
        width=stem[0],
        stem="small" if stem[2] == 3 else "imagenet",
    )


def read(tensors: Tensors, settings: Settings) -> tuple[ModelConfig, dict[str, Tensor]]:
    tensors = {name: tensor for name, tensor in tensors.items() if not name.startswith(DROPPED)}
    config = _config(shapes_of(tensors), settings)
    if "head_dist.weight" in tensors:
        tensors = _one_head(tensors)
    return config, _like_timm(tensors) if "register_tokens" in tensors else dict(tensors)


def _one_head(tensors: Tensors) -> dict[str, Tensor]:
    """The mean of DeiT's two heads, of the class and of the distillation token, as one layer that reads both."""
    state = dict(tensors)
    weights, biases = ([state.pop(f"{head}.{kind}") for head in ("head", "head_dist")] for kind in ("weight", "bias"))
    return state | {"head.weight": torch.cat(weights, dim=1) / 2, "head.bias": torch.stack(biases).mean(dim=0)}


def _two_heads(state: Tensors) -> dict[str, Tensor]:
    """The reverse; the bias is the same in both."""
    ours, theirs = (2 * state["head.weight"]).chunk(2, dim=1)
    return {**state, "head.weight": ours, "head_dist.weight": theirs, "head_dist.bias": state["head.bias"].clone()}


def _like_timm(tensors: Tensors) -> dict[str, Tensor]:
    """DINOv2's own files give the class token a position; timm and we add it to the token once and for all."""
    state = {"reg_token" if name == "register_tokens" else name: tensor for name, tensor in tensors.items()}
    state["cls_token"], state["pos_embed"] = fold_class_position(state["cls_token"], state["pos_embed"])
    return state


def write(state: Tensors, config: ViTConfig) -> dict[str, Tensor]:
    return _two_heads(state) if config.distill_token and config.num_classes else dict(state)


FORMAT = Format(
    "timm",
    recognises,
    read,
    write,
    holds={
        "stem": ("none", "resnet"),
        "positions": ("learned", "learned-patches", "none"),
        "registers": None,
        "pool": ("cls", "mean", "attention", "cls+distill"),
        "final_norm": None,
        "qkv_bias": None,
        "qk_norm": None,
        "layer_scale": None,
    },
)
