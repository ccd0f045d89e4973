"""Where all weights start, and why. One table; the first row whose pattern fits a parameter's name decides.

Sources: [flax] google-research/vision_transformer, models_vit.py; [bit] google-research/big_transfer;
[dinov2] facebookresearch/dinov2; [fixup] the last layer of a fresh head is zero in the paper's fine-tuning (3.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from vitrail.errors import VitrailError

Initialiser = Callable[[Tensor], object]


def zeros(x: Tensor) -> None:
    nn.init.zeros_(x)


def ones(x: Tensor) -> None:
    nn.init.ones_(x)


def normal(std: float) -> Initialiser:
    return lambda x: nn.init.normal_(x, std=std)


def lecun(x: Tensor) -> None:
    """Variance 1 / fan-in, cut at two sigma. The cut shrinks a unit normal to 0.8796, which is put back."""
    std = math.sqrt(1 / x[0].numel()) / 0.87962566103423978
    nn.init.trunc_normal_(x, std=std, a=-2 * std, b=2 * std)


def he(x: Tensor) -> None:
    nn.init.kaiming_normal_(x, mode="fan_out", nonlinearity="relu")


def xavier(x: Tensor) -> None:
    nn.init.xavier_uniform_(x)


def xavier_each(parts: int) -> Initialiser:
    """Fused matrices are drawn apart: the fan-out of q is its own width, not that of q, k and v together."""

    def draw(x: Tensor) -> None:
        for part in x.chunk(parts):
            nn.init.xavier_uniform_(part)

    return draw


# fmt: off
TABLE: list[tuple[str, Initialiser, str]] = [
    ("cls_token",                zeros,           "[flax] one token, nothing to tell apart"),
    ("dist_token",               normal(0.02),    "it must differ from the class token"),
    ("reg_token",                normal(0.02),    "equal registers would stay equal"),
    ("pos_embed",                normal(0.02),    "[flax] posemb_init"),
    ("*attn.positions.table",    normal(0.02),    "as pos_embed"),
    ("attn_pool.latent",         normal(0.02),    "a probe like a position"),
    ("*attn.qkv.weight",         xavier_each(3),  "[flax] q, k and v are three matrices there"),
    ("attn_pool.kv.weight",      xavier_each(2),  "the same for k and v"),
    ("attn_pool.*.bias",         zeros,           "[flax]"),
    ("attn_pool.norm.weight",    ones,            "identity"),
    ("attn_pool.*.weight",       xavier,          "[flax]"),
    ("*attn.?_norm.weight",      ones,            "identity"),
    ("*attn.*.bias",             zeros,           "[flax]"),
    ("*attn.proj.weight",        xavier,          "[flax]"),
    ("*mlp.fc?.weight",          xavier,          "[flax] MlpBlock"),
    ("*mlp.fc?.bias",            normal(1e-6),    "[flax] MlpBlock"),
    ("pre_logits.fc.weight",     lecun,           "[flax] nn.Dense"),
    ("head.weight",              zeros,           "[fixup] no class is preferred, features are not disturbed"),
    ("head.fc.weight",           zeros,           "[bit] the same for the ResNet"),
    ("patch_embed.proj.weight",  lecun,           "[flax] nn.Conv"),
    ("patch_embed.backbone.stages.*.norm3.weight", zeros, "[flax] every block of the hybrid's stem starts as identity"),
    ("*conv*.weight",            he,              "[bit] ReLU follows; standardised kernels forget their scale"),
    ("*norm*.weight",            ones,            "identity"),
    ("*.bias",                   zeros,           "everywhere else"),
]
# fmt: on


@torch.no_grad()
def initialise(model: nn.Module) -> None:
    """Draw every parameter by the table; LayerScale starts at its own value. A name no row fits is our mistake."""
    for name, parameter in model.named_parameters():
        rule = _constant(model, name) if name.endswith(".gamma") else rule_for(name)
        if not parameter.is_meta:  # a model without memory yet is about to be loaded, or only counted
            rule(parameter)


def _constant(model: nn.Module, name: str) -> Initialiser:
    start: Any = model.get_submodule(name.rpartition(".")[0]).start
    return lambda x: nn.init.constant_(x, start)


def rule_for(name: str) -> Initialiser:
    for pattern, rule, _ in TABLE:
        if fnmatchcase(name, pattern):
            return rule
    raise VitrailError(f"no row of the table in model/init.py fits the parameter {name!r}", fix="add one")
