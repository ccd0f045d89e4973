"""Hugging Face's layouts, as written to disk: ViT, ViTMAE (the encoder), Dinov2, Dinov2WithRegisters.

transformers 5 renames tensors in memory but writes these names, so this table is of files. A folder has a
config.json (read here as settings) and often a preprocessor_config.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from vitrail.config import ViTConfig
from vitrail.errors import WeightsError
from vitrail.model.sizes import ModelConfig
from vitrail.weights.format import Format, Settings, count_blocks, grid_of, heads_of, shapes_of, stated
from vitrail.weights.tables import STACKED, Row, Shapes, Tensors, expand, fold_class_position, to_ours, to_theirs

PREFIXES = ("vit.", "dinov2.", "dinov2_with_registers.")  # in front of the encoder's names, if there is a head
DROPPED = ("decoder.", "embeddings.mask_token")

_ATTENTION = tuple(f"encoder.layer.{{i}}.attention.attention.{part}." for part in ("query", "key", "value"))
_QKV = Row("blocks.{i}.attn.qkv.{p}", tuple(part + "{p}" for part in _ATTENTION), STACKED)
_QKV_WITHOUT_BIAS = Row("blocks.{i}.attn.qkv.weight", tuple(part + "weight" for part in _ATTENTION), STACKED)
_COMMON = [
    Row("cls_token", "embeddings.cls_token"),
    Row("pos_embed", "embeddings.position_embeddings"),
    Row("patch_embed.proj.{p}", "embeddings.patch_embeddings.projection.{p}"),
    Row("blocks.{i}.attn.proj.{p}", "encoder.layer.{i}.attention.output.dense.{p}"),
    Row("norm.{p}", "layernorm.{p}"),
]
_VIT = [
    Row("blocks.{i}.norm1.{p}", "encoder.layer.{i}.layernorm_before.{p}"),
    Row("blocks.{i}.norm2.{p}", "encoder.layer.{i}.layernorm_after.{p}"),
    Row("blocks.{i}.mlp.fc1.{p}", "encoder.layer.{i}.intermediate.dense.{p}"),
    Row("blocks.{i}.mlp.fc2.{p}", "encoder.layer.{i}.output.dense.{p}"),
]
_DINOV2 = [
    Row("blocks.{i}.norm1.{p}", "encoder.layer.{i}.norm1.{p}"),
    Row("blocks.{i}.norm2.{p}", "encoder.layer.{i}.norm2.{p}"),
    Row("blocks.{i}.mlp.fc1.{p}", "encoder.layer.{i}.mlp.fc1.{p}"),
    Row("blocks.{i}.mlp.fc2.{p}", "encoder.layer.{i}.mlp.fc2.{p}"),
    Row("blocks.{i}.ls1.gamma", "encoder.layer.{i}.layer_scale1.lambda1"),
    Row("blocks.{i}.ls2.gamma", "encoder.layer.{i}.layer_scale2.lambda1"),
]
_REGISTERS = [Row("reg_token", "embeddings.register_tokens")]
_HEAD = [Row("head.{p}", "classifier.{p}")]


def rows(config: ViTConfig) -> list[Row]:
    table = [*_COMMON, _QKV if config.qkv_bias else _QKV_WITHOUT_BIAS]
    table += _VIT if config.layer_scale is None else _DINOV2
    table += _REGISTERS if config.registers else []
    table += _HEAD if config.num_classes else []
    return list(expand(table, config.depth))


def recognises(shapes: Shapes) -> bool:
    return any(name.endswith("encoder.layer.0.attention.attention.query.weight") for name in shapes)


def read(tensors: Tensors, settings: Settings) -> tuple[ModelConfig, dict[str, Tensor]]:
    bare = {_without_prefix(name): tensor for name, tensor in tensors.items()}
    config = _config(shapes_of(bare), settings)
    # A bare ViTModel carries a pooler that only ever served as the body of a pre-training head.
    state = to_ours(rows(config), bare, dropped=(*DROPPED, "pooler."))
    if config.registers:
        state["cls_token"], state["pos_embed"] = fold_class_position(state["cls_token"], state["pos_embed"])
    return config, state


def _without_prefix(name: str) -> str:
    return next((name.removeprefix(prefix) for prefix in PREFIXES if name.startswith(prefix)), name)


def _config(shapes: Shapes, settings: Settings) -> ViTConfig:
    if settings.get("hidden_act", "gelu") != "gelu" or settings.get("use_swiglu_ffn"):
        raise WeightsError("only GELU MLPs are supported", where="config.json", fix="hidden_act must be 'gelu'")
    first = "encoder.layer.0."
    inner, dim = shapes[first + "attention.attention.query.weight"]
    heads = int(settings.get("num_attention_heads") or heads_of(inner, settings))
    kernel = shapes["embeddings.patch_embeddings.projection.weight"]
    registers = shapes.get("embeddings.register_tokens", (1, 0))[1]
    dinov2 = first + "norm1.weight" in shapes
    classifier = shapes.get("classifier.weight", (0, dim))
    words = {
        "image_size": grid_of(shapes["embeddings.position_embeddings"][1] - 1, (kernel[2], kernel[3]), settings),
        "patch_size": (kernel[2], kernel[3]),
        "channels": kernel[1],
        "num_classes": classifier[0],
        "dim": dim,
        "depth": count_blocks(shapes, "encoder.layer.{i}."),
        "heads": heads,
        "dim_head": inner // heads,
        "mlp_dim": shapes[first + ("mlp.fc1.weight" if dinov2 else "intermediate.dense.weight")][0],
        "registers": registers,
        "positions": "learned-patches" if registers else "learned",
        "pool": "cls+mean" if classifier[1] == 2 * dim else "cls",
        "qkv_bias": first + "attention.attention.query.bias" in shapes,
        "layer_scale": float(settings.get("layerscale_value", 1.0)) if dinov2 else None,
        "norm_eps": float(settings.get("layer_norm_eps", 1e-6 if dinov2 else 1e-12)),
    }
    return ViTConfig.from_dict({**words, **stated(settings, "pool", "norm_eps")})


def write(state: Tensors, config: ViTConfig) -> dict[str, Tensor]:
    state = dict(state)
    if config.registers:  # here the class token has a position of its own again: zero, as ours has taken it up
        state["pos_embed"] = torch.cat([torch.zeros_like(state["cls_token"]), state["pos_embed"]], dim=1)
    tensors = to_theirs(rows(config), state)
    if config.layer_scale is not None:
        tensors["embeddings.mask_token"] = torch.zeros(1, config.dim)
    prefix = f"{model_type(config)}." if config.num_classes else ""
    return {(name if name.startswith("classifier.") else prefix + name): x for name, x in tensors.items()}


def model_type(config: ViTConfig) -> str:
    if config.layer_scale is None:
        return "vit"
    return "dinov2_with_registers" if config.registers else "dinov2"


def config_json(config: ViTConfig, classes: tuple[str, ...] | None) -> dict[str, Any]:
    """The config.json from which transformers rebuilds this model."""
    kind = model_type(config)
    family = {"vit": "ViT", "dinov2": "Dinov2", "dinov2_with_registers": "Dinov2WithRegisters"}[kind]
    names = dict(enumerate(classes or ())) or {i: f"LABEL_{i}" for i in range(config.num_classes)}
    described = {
        "architectures": [family + ("ForImageClassification" if config.num_classes else "Model")],
        "model_type": kind,
        "hidden_size": config.dim,
        "num_hidden_layers": config.depth,
        "num_attention_heads": config.heads,
        "intermediate_size": config.mlp_dim,
        "image_size": config.image_size[0],
        "patch_size": config.patch_size[0],
        "num_channels": config.channels,
        "layer_norm_eps": config.norm_eps,
        "qkv_bias": config.qkv_bias,
        "hidden_act": "gelu",
        "id2label": {str(i): name for i, name in names.items()},
        "label2id": {name: i for i, name in names.items()},
    }
    if kind != "vit":
        described |= {"mlp_ratio": config.mlp_dim // config.dim, "layerscale_value": config.layer_scale}
        described |= {"num_register_tokens": config.registers} if config.registers else {}
    return described


def classes_of(settings: Settings) -> tuple[str, ...] | None:
    """Class names from config.json, in order; the placeholders LABEL_0, LABEL_1 ... are no names."""
    names = settings.get("id2label")
    if not isinstance(names, Mapping) or sorted(names, key=int) != [str(i) for i in range(len(names))]:
        return None
    ordered = tuple(str(names[str(i)]) for i in range(len(names)))
    return None if ordered == tuple(f"LABEL_{i}" for i in range(len(ordered))) else ordered


def check_square(config: ViTConfig) -> None:
    if config.image_size[0] != config.image_size[1] or config.patch_size[0] != config.patch_size[1]:
        raise WeightsError("a Hugging Face config.json holds square images and patches only", fix="use --to vitrail")
    if config.heads * config.dim_head != config.dim:
        raise WeightsError("Hugging Face's ViT has dim_head = dim / heads", fix="use --to vitrail")


FORMAT = Format(
    "huggingface",
    recognises,
    read,
    write,
    holds={
        "positions": ("learned", "learned-patches"),
        "registers": None,
        "pool": ("cls", "cls+mean"),
        "qkv_bias": None,
        "layer_scale": None,
    },
)
