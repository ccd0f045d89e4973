"""Google's `.npz` of google-research/vision_transformer: flax names and arrangements, plain and hybrid models."""

from __future__ import annotations

import torch
from torch import Tensor

from vitrail.config import ViTConfig
from vitrail.model.sizes import ModelConfig
from vitrail.weights.format import Format, Settings, count_blocks, grid_of, shapes_of
from vitrail.weights.tables import FLAT, HWIO, TRANSPOSED, Arrangement, Row, Shapes, Tensors, expand, to_ours, to_theirs

_BLOCK = "Transformer/encoderblock_{i}/"
_MSA = _BLOCK + "MultiHeadDotProductAttention_1/"
_QKV = ("query", "key", "value")
_TABLE = [
    Row("cls_token", "cls"),
    Row("pos_embed", "Transformer/posembed_input/pos_embedding"),
    Row("patch_embed.proj.weight", "embedding/kernel", HWIO),
    Row("patch_embed.proj.bias", "embedding/bias"),
    Row("blocks.{i}.norm1.weight", _BLOCK + "LayerNorm_0/scale"),
    Row("blocks.{i}.norm1.bias", _BLOCK + "LayerNorm_0/bias"),
    Row("blocks.{i}.norm2.weight", _BLOCK + "LayerNorm_2/scale"),
    Row("blocks.{i}.norm2.bias", _BLOCK + "LayerNorm_2/bias"),
    Row("blocks.{i}.mlp.fc1.weight", _BLOCK + "MlpBlock_3/Dense_0/kernel", TRANSPOSED),
    Row("blocks.{i}.mlp.fc1.bias", _BLOCK + "MlpBlock_3/Dense_0/bias"),
    Row("blocks.{i}.mlp.fc2.weight", _BLOCK + "MlpBlock_3/Dense_1/kernel", TRANSPOSED),
    Row("blocks.{i}.mlp.fc2.bias", _BLOCK + "MlpBlock_3/Dense_1/bias"),
    Row("norm.weight", "Transformer/encoder_norm/scale"),
    Row("norm.bias", "Transformer/encoder_norm/bias"),
]
_PRE_LOGITS = [
    Row("pre_logits.fc.weight", "pre_logits/kernel", TRANSPOSED),
    Row("pre_logits.fc.bias", "pre_logits/bias"),
]
_HEAD = [Row("head.weight", "head/kernel", TRANSPOSED), Row("head.bias", "head/bias")]


def rows(config: ViTConfig) -> list[Row]:
    table = [*_TABLE, *_attention(config)]
    table += _PRE_LOGITS if config.head == "tanh" else []
    table += _HEAD if config.num_classes else []
    table += _resnet(config) if config.stem == "resnet" else []
    return list(expand(table, config.depth))


def _attention(config: ViTConfig) -> list[Row]:
    """Heads are a dimension of their own there: kernels D H d and H d D, biases H d."""
    heads, width, dim = config.heads, config.dim_head, config.dim
    kernels = Arrangement(
        lambda *qkv: torch.cat([x.reshape(dim, heads * width).T for x in qkv]),
        lambda x: tuple(part.T.reshape(dim, heads, width) for part in x.chunk(3)),
    )
    biases = Arrangement(
        lambda *qkv: torch.cat([x.flatten() for x in qkv]),
        lambda x: tuple(part.reshape(heads, width) for part in x.chunk(3)),
    )
    out = Arrangement(lambda x: x.reshape(heads * width, dim).T, lambda x: (x.T.reshape(heads, width, dim),))
    return [
        Row("blocks.{i}.attn.qkv.weight", tuple(f"{_MSA}{part}/kernel" for part in _QKV), kernels),
        Row("blocks.{i}.attn.qkv.bias", tuple(f"{_MSA}{part}/bias" for part in _QKV), biases),
        Row("blocks.{i}.attn.proj.weight", _MSA + "out/kernel", out),
        Row("blocks.{i}.attn.proj.bias", _MSA + "out/bias"),
    ]


def _resnet(config: ViTConfig) -> list[Row]:
    """The hybrid's backbone: stages are `block1`, `block2` ..., blocks `unit1`, `unit2` ..., norms `gn`."""
    ours = "patch_embed.backbone."
    root = ours + ("stem." if config.stem_blocks else "")
    table = _convolution(root + "conv", "conv_root") + _norm(root + "norm", "gn_root")
    for stage, blocks in enumerate(config.stem_blocks):
        for block in range(blocks):
            here, there = f"{ours}stages.{stage}.blocks.{block}.", f"block{stage + 1}/unit{block + 1}/"
            for k in (1, 2, 3):
                table += _convolution(f"{here}conv{k}", f"{there}conv{k}") + _norm(f"{here}norm{k}", f"{there}gn{k}")
            if block == 0:
                table += _convolution(here + "downsample.conv", there + "conv_proj")
                table += _norm(here + "downsample.norm", there + "gn_proj")
    return table


def _convolution(ours: str, theirs: str) -> list[Row]:
    return [Row(ours + ".weight", theirs + "/kernel", HWIO)]


def _norm(ours: str, theirs: str) -> list[Row]:
    return [Row(ours + ".weight", theirs + "/scale", FLAT), Row(ours + ".bias", theirs + "/bias", FLAT)]


def recognises(shapes: Shapes) -> bool:
    return "embedding/kernel" in shapes and "Transformer/encoder_norm/scale" in shapes


def read(tensors: Tensors, settings: Settings) -> tuple[ModelConfig, dict[str, Tensor]]:
    config = _config(shapes_of(tensors), settings)
    return config, to_ours(rows(config), tensors)


def _config(shapes: Shapes, settings: Settings) -> ViTConfig:
    height, width, _, dim = shapes["embedding/kernel"]
    stages = count_blocks(shapes, "block{i}/")
    hybrid = "conv_root/kernel" in shapes
    stride = 4 * 2 ** max(0, stages - 1) if hybrid else 1
    patch = (height * stride, width * stride)
    _, heads, dim_head = shapes[_MSA.replace("{i}", "0") + "query/kernel"]
    return ViTConfig(
        image_size=grid_of(shapes["Transformer/posembed_input/pos_embedding"][1] - 1, patch, settings),
        patch_size=patch,
        channels=shapes["conv_root/kernel" if hybrid else "embedding/kernel"][2],
        num_classes=shapes.get("head/kernel", (0, 0))[1],
        dim=dim,
        depth=count_blocks(shapes, "Transformer/encoderblock_{i}/"),
        heads=heads,
        dim_head=dim_head,
        mlp_dim=shapes["Transformer/encoderblock_0/MlpBlock_3/Dense_0/kernel"][1],
        stem="resnet" if hybrid else "none",
        stem_blocks=tuple(count_blocks(shapes, f"block{s + 1}/unit{{i}}/") for s in range(stages)),
        head="tanh" if "pre_logits/kernel" in shapes else "linear",
        head_dim=shapes.get("pre_logits/kernel", (0, dim))[1],
    )


def write(state: Tensors, config: ViTConfig) -> dict[str, Tensor]:
    return to_theirs(rows(config), state)


FORMAT = Format(
    "google",
    recognises,
    read,
    write,
    holds={"stem": ("none", "resnet"), "head": ("linear", "tanh")},
)
