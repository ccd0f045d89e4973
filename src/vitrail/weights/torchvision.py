"""torchvision's VisionTransformer."""

from __future__ import annotations

from torch import Tensor

from vitrail.config import ViTConfig
from vitrail.model.sizes import ModelConfig
from vitrail.weights.format import Format, Settings, count_blocks, grid_of, heads_of, shapes_of
from vitrail.weights.tables import Row, Shapes, Tensors, expand, to_ours, to_theirs

_LAYER = "encoder.layers.encoder_layer_{i}."
_TABLE = [
    Row("cls_token", "class_token"),
    Row("pos_embed", "encoder.pos_embedding"),
    Row("patch_embed.proj.{p}", "conv_proj.{p}"),
    Row("blocks.{i}.norm1.{p}", _LAYER + "ln_1.{p}"),
    Row("blocks.{i}.attn.qkv.{p}", _LAYER + "self_attention.in_proj_{p}"),
    Row("blocks.{i}.attn.proj.{p}", _LAYER + "self_attention.out_proj.{p}"),
    Row("blocks.{i}.norm2.{p}", _LAYER + "ln_2.{p}"),
    Row("blocks.{i}.mlp.fc1.{p}", _LAYER + "mlp.0.{p}"),
    Row("blocks.{i}.mlp.fc2.{p}", _LAYER + "mlp.3.{p}"),
    Row("norm.{p}", "encoder.ln.{p}"),
]


def rows(config: ViTConfig) -> list[Row]:
    head = [Row("head.{p}", "heads.head.{p}")] if config.num_classes else []
    body = [Row("pre_logits.fc.{p}", "heads.pre_logits.{p}")] if config.head == "tanh" else []
    return list(expand([*_TABLE, *body, *head], config.depth))


def recognises(shapes: Shapes) -> bool:
    return "encoder.layers.encoder_layer_0.self_attention.in_proj_weight" in shapes


def read(tensors: Tensors, settings: Settings) -> tuple[ModelConfig, dict[str, Tensor]]:
    tensors = {_current_name(name): tensor for name, tensor in tensors.items()}
    config = _config(shapes_of(tensors), settings)
    return config, to_ours(rows(config), tensors)


def _current_name(name: str) -> str:
    """The released weights are older than the code, which renames the MLP's layers in the same way."""
    return name.replace("mlp.linear_1", "mlp.0").replace("mlp.linear_2", "mlp.3")


def _config(shapes: Shapes, settings: Settings) -> ViTConfig:
    kernel, dim = shapes["conv_proj.weight"], shapes["class_token"][2]
    heads = heads_of(dim, settings)
    return ViTConfig(
        image_size=grid_of(shapes["encoder.pos_embedding"][1] - 1, (kernel[2], kernel[3]), settings),
        patch_size=(kernel[2], kernel[3]),
        channels=kernel[1],
        num_classes=shapes.get("heads.head.weight", (0,))[0],
        dim=dim,
        depth=count_blocks(shapes, "encoder.layers.encoder_layer_{i}."),
        heads=heads,
        dim_head=dim // heads,
        mlp_dim=shapes["encoder.layers.encoder_layer_0.mlp.0.weight"][0],
        head="tanh" if "heads.pre_logits.weight" in shapes else "linear",
        head_dim=shapes.get("heads.pre_logits.weight", (dim,))[0],
    )


def write(state: Tensors, config: ViTConfig) -> dict[str, Tensor]:
    return to_theirs(rows(config), state)


FORMAT = Format(
    "torchvision",
    recognises,
    read,
    write,
    holds={"head": ("linear", "tanh")},
)
