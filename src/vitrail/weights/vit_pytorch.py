"""vit-pytorch's ViT: LayerNorms around the patch projection, q, k and v without bias, eps 1e-5."""

from __future__ import annotations

import torch
from torch import Tensor

from vitrail.config import ViTConfig
from vitrail.errors import WeightsError
from vitrail.model.sizes import ModelConfig
from vitrail.weights.format import Format, Settings, count_blocks, grid_of, heads_of, shapes_of
from vitrail.weights.tables import Row, Shapes, Tensors, expand, reshaped, to_ours, to_theirs

_LAYER = "transformer.layers.{i}."
_TABLE = [
    Row("patch_embed.norm_pixels.{p}", "to_patch_embedding.1.{p}"),
    Row("patch_embed.proj.{p}", "to_patch_embedding.2.{p}"),
    Row("patch_embed.norm.{p}", "to_patch_embedding.3.{p}"),
    Row("blocks.{i}.norm1.{p}", _LAYER + "0.norm.{p}"),
    Row("blocks.{i}.attn.qkv.weight", _LAYER + "0.to_qkv.weight"),
    Row("blocks.{i}.attn.proj.{p}", _LAYER + "0.to_out.0.{p}"),
    Row("blocks.{i}.norm2.{p}", _LAYER + "1.net.0.{p}"),
    Row("blocks.{i}.mlp.fc1.{p}", _LAYER + "1.net.1.{p}"),
    Row("blocks.{i}.mlp.fc2.{p}", _LAYER + "1.net.4.{p}"),
    Row("norm.{p}", "transformer.norm.{p}"),
]


def rows(config: ViTConfig) -> list[Row]:
    tokens = config.grid[0] * config.grid[1] + config.prefix_tokens
    table = [*_TABLE, Row("pos_embed", "pos_embedding", reshaped((1, tokens, config.dim), (tokens, config.dim)))]
    if config.class_token:
        table.append(Row("cls_token", "cls_token", reshaped((1, 1, config.dim), (1, config.dim))))
    if config.num_classes:
        table.append(Row("head.{p}", "mlp_head.{p}"))
    return list(expand(table, config.depth))


def recognises(shapes: Shapes) -> bool:
    return "to_patch_embedding.2.weight" in shapes and "transformer.layers.0.0.to_qkv.weight" in shapes


def read(tensors: Tensors, settings: Settings) -> tuple[ModelConfig, dict[str, Tensor]]:
    config = _config(shapes_of(tensors), settings)
    tensors = dict(tensors)
    if not config.class_token:
        tensors.pop("cls_token", None)  # without one it is still there, with nothing in it
    if "transformer.layers.0.0.to_out.0.weight" not in tensors:
        tensors |= _identity_projections(config)
    return config, to_ours(rows(config), tensors)


def _config(shapes: Shapes, settings: Settings) -> ViTConfig:
    if "transformer.norm.weight" not in shapes:
        raise WeightsError(
            "this is the layout of vit-pytorch before 1.5", fix="load and save it with a newer vit-pytorch"
        )
    inner, dim = (
        shapes["transformer.layers.0.0.to_qkv.weight"][0] // 3,
        shapes["transformer.layers.0.0.to_qkv.weight"][1],
    )
    heads = int(settings["heads"]) if "heads" in settings else _heads(inner, settings)
    class_token = 0 not in shapes.get("cls_token", (0,))
    patch = _patch(shapes["to_patch_embedding.1.weight"][0], settings)
    return ViTConfig(
        image_size=grid_of(shapes["pos_embedding"][-2] - int(class_token), patch, settings),
        patch_size=patch,
        channels=int(settings.get("channels", 3)),
        num_classes=shapes.get("mlp_head.weight", (0,))[0],
        dim=dim,
        depth=count_blocks(shapes, "transformer.layers.{i}."),
        heads=heads,
        dim_head=inner // heads,
        mlp_dim=shapes["transformer.layers.0.1.net.1.weight"][0],
        pool="cls" if class_token else "mean",
        patches="linear",
        patch_norm=True,
        qkv_bias=False,
        norm_eps=1e-5,
    )


def _heads(inner: int, settings: Settings) -> int:
    return inner // 64 if inner % 64 == 0 else heads_of(inner, settings)  # dim_head is 64 there unless stated


def _patch(pixels: int, settings: Settings) -> tuple[int, int]:
    """Flattened patches do not show their shape: square, of three channels, unless stated."""
    if "patch_size" in settings:
        size = settings["patch_size"]
        return (size, size) if isinstance(size, int) else tuple(size)
    side = round((pixels / int(settings.get("channels", 3))) ** 0.5)
    if side * side * int(settings.get("channels", 3)) != pixels:
        raise WeightsError(
            f"patches of {pixels} numbers are not square RGB patches", fix="give patch_size= and channels="
        )
    return side, side


def _identity_projections(config: ViTConfig) -> dict[str, Tensor]:
    """With one head as wide as the model it leaves the output projection out: the same as a projection by one."""
    found = {}
    for i in range(config.depth):
        found[f"transformer.layers.{i}.0.to_out.0.weight"] = torch.eye(config.dim)
        found[f"transformer.layers.{i}.0.to_out.0.bias"] = torch.zeros(config.dim)
    return found


def write(state: Tensors, config: ViTConfig) -> dict[str, Tensor]:
    tensors = to_theirs(rows(config), state)
    if not config.class_token:
        tensors["cls_token"] = torch.zeros(0, config.dim)
    if config.heads == 1 and config.dim_head == config.dim:
        raise WeightsError(
            "vit-pytorch has no output projection with a single head of full width", fix="use --to vitrail"
        )
    return tensors


FORMAT = Format(
    "vit-pytorch",
    recognises,
    read,
    write,
    holds={"patches": ("linear",), "patch_norm": (True,), "pool": ("cls", "mean"), "qkv_bias": (False,)},
)
