"""The libraries that stand beside ours: how each builds the same model, takes our weights and answers with logits.

A peer is a row of `PEERS`. `parts` are the choices of our model that make it the peer's architecture, so that equal
weights must give equal logits. Every package is imported when a worker asks for it, never before.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vitrail.config import ViTConfig

if TYPE_CHECKING:
    from torch import Tensor, nn

Tensors = Mapping[str, "Tensor"]

OURS = "vitrail"
TIMM = "timm.models.vision_transformer"
TRANSFORMERS = "transformers.models.vit.modeling_vit"
VIT_PYTORCH = "vit_pytorch.vit"


@dataclass(frozen=True)
class Peer:
    """One implementation of the Vision Transformer."""

    name: str  # also the name of its distribution
    module: str  # where its model is
    build: Callable[[ViTConfig], nn.Module]
    rename: Callable[[Tensors, ViTConfig], Tensors]  # our tensors under the peer's names
    note: str
    parts: Mapping[str, Any] = field(default_factory=dict)

    def load(self, config: ViTConfig, tensors: Tensors) -> nn.Module:
        """The peer's model with our weights; a tensor that is missing or left over is an error."""
        model = self.build(config)
        model.load_state_dict(dict(self.rename(tensors, config)), strict=True)
        return model

    def logits(self, model: nn.Module, images: Tensor) -> Tensor:
        answer = model(images)
        return answer.logits if hasattr(answer, "logits") else answer

    def version(self) -> str:
        """Import the package, so that a fault shows here, and say which version it is."""
        import_peer(self.module)
        return getattr(sys.modules[self.package], "__version__", None) or importlib.metadata.version(self.name)

    @property
    def package(self) -> str:
        return self.module.partition(".")[0]


def import_peer(module: str) -> Any:
    """A module of a peer. All peers import torchvision where it is installed."""
    mend_torchvision()
    return importlib.import_module(module)


def mend_torchvision() -> None:
    """Let torchvision import beside a CPU build of torch that lacks torchvision's compiled operators.

    There its module of shape functions fails on the first operator it does not find. No model here uses those
    operators, so an empty module takes its place; where torchvision imports as it is, nothing is touched.
    """
    try:
        importlib.import_module("torchvision")
    except ImportError:
        return
    except RuntimeError:
        name = "torchvision._meta_registrations"
        sys.modules[name] = types.ModuleType(name)


def _words(config: ViTConfig) -> dict[str, Any]:
    names = ("image_size", "patch_size", "num_classes", "dim", "depth", "heads", "mlp_dim", "channels", "dim_head")
    return {name: getattr(config, name) for name in names}


def _build_ours(config: ViTConfig) -> nn.Module:
    from vitrail.model import ViT

    return ViT.from_config(config)


def _build_timm(config: ViTConfig) -> nn.Module:
    model: nn.Module = import_peer(TIMM).VisionTransformer(
        img_size=config.image_size,
        patch_size=config.patch_size,
        in_chans=config.channels,
        num_classes=config.num_classes,
        embed_dim=config.dim,
        depth=config.depth,
        num_heads=config.heads,
        mlp_ratio=config.mlp_dim / config.dim,
    )
    return model


def _build_transformers(config: ViTConfig) -> nn.Module:
    transformers = import_peer(TRANSFORMERS)
    settings = transformers.ViTConfig(
        image_size=config.image_size,
        patch_size=config.patch_size,
        num_channels=config.channels,
        num_labels=config.num_classes,
        hidden_size=config.dim,
        num_hidden_layers=config.depth,
        num_attention_heads=config.heads,
        intermediate_size=config.mlp_dim,
        layer_norm_eps=config.norm_eps,
        attn_implementation="sdpa",
    )
    model: nn.Module = transformers.ViTForImageClassification(settings)
    return model


def _build_vit_pytorch(config: ViTConfig) -> nn.Module:
    model: nn.Module = import_peer(VIT_PYTORCH).ViT(**_words(config))
    return model


# Our prefix -> that of transformers 5 in memory; {i} is the number of a block.
IN_MEMORY = {
    "cls_token": "vit.embeddings.cls_token",
    "pos_embed": "vit.embeddings.position_embeddings",
    "patch_embed.proj.": "vit.embeddings.patch_embeddings.projection.",
    "blocks.{i}.norm1.": "vit.layers.{i}.layernorm_before.",
    "blocks.{i}.attn.q.": "vit.layers.{i}.attention.q_proj.",
    "blocks.{i}.attn.k.": "vit.layers.{i}.attention.k_proj.",
    "blocks.{i}.attn.v.": "vit.layers.{i}.attention.v_proj.",
    "blocks.{i}.attn.proj.": "vit.layers.{i}.attention.o_proj.",
    "blocks.{i}.norm2.": "vit.layers.{i}.layernorm_after.",
    "blocks.{i}.mlp.": "vit.layers.{i}.mlp.",
    "norm.": "vit.layernorm.",
    "head.": "classifier.",
}


def _same_names(tensors: Tensors, config: ViTConfig) -> Tensors:  # noqa: ARG001
    return tensors


def _transformers_names(tensors: Tensors, config: ViTConfig) -> Tensors:
    """Names in memory; those of its files, which `vitrail convert` writes, are older."""
    prefixes = {ours.format(i=i): theirs.format(i=i) for i in range(config.depth) for ours, theirs in IN_MEMORY.items()}
    apart: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if ".qkv." in name:
            apart |= {name.replace("qkv", part): x for part, x in zip("qkv", tensor.chunk(3), strict=True)}
        else:
            apart[name] = tensor
    renamed = {}
    for name, tensor in apart.items():
        prefix = next(prefix for prefix in prefixes if name.startswith(prefix))
        renamed[prefixes[prefix] + name.removeprefix(prefix)] = tensor
    return renamed


def _vit_pytorch_names(tensors: Tensors, config: ViTConfig) -> Tensors:
    from vitrail.weights.vit_pytorch import FORMAT

    return FORMAT.write(tensors, config)


_VIT_PYTORCH_PARTS = {"patches": "linear", "patch_norm": True, "qkv_bias": False, "norm_eps": 1e-5}

PEERS = {
    peer.name: peer
    for peer in (
        Peer(OURS, "vitrail.model", _build_ours, _same_names, "scaled_dot_product_attention"),
        Peer("timm", TIMM, _build_timm, _same_names, "scaled_dot_product_attention (its default)"),
        Peer(
            "transformers",
            TRANSFORMERS,
            _build_transformers,
            _transformers_names,
            "ViTForImageClassification, attention 'sdpa' (its default)",
        ),
        Peer(
            "vit-pytorch",
            VIT_PYTORCH,
            _build_vit_pytorch,
            _vit_pytorch_names,
            "LayerNorms around the patch projection, no qkv bias; logits beside our model of the same parts",
            _VIT_PYTORCH_PARTS,
        ),
    )
}
