"""From encoded tokens to one vector (pooling), and from that to what the last linear layer reads (the head's body).

B batch, N tokens, D width, K classes.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitrail.config import ViTConfig


class ClassToken(nn.Module):
    """The paper's: the first token has gathered what is needed."""

    reads: int | None = 1  # of the last block only this many leading tokens are used, so only they are computed

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        del config

    def forward(self, tokens: Tensor) -> Tensor:
        return tokens[:, 0]

    def reading(self, tokens: Tensor) -> Tensor:
        """How much of each token (B N D) is in the pooled vector (B N); every row sums to one."""
        return one_hot_first(tokens)


class MeanOfPatches(nn.Module):
    """The mean of the patches, without class token and registers (GAP)."""

    reads: int | None = None

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.prefix = config.prefix_tokens

    def forward(self, tokens: Tensor) -> Tensor:
        return tokens[:, self.prefix :].mean(dim=1)

    def reading(self, tokens: Tensor) -> Tensor:
        return even_after(tokens, self.prefix)


class ClassAndMean(nn.Module):
    """The class token beside the mean of the patches, twice as wide (DINOv2's linear classifier)."""

    reads: int | None = None

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.prefix = config.prefix_tokens

    def forward(self, tokens: Tensor) -> Tensor:
        return torch.cat([tokens[:, 0], tokens[:, self.prefix :].mean(dim=1)], dim=1)

    def reading(self, tokens: Tensor) -> Tensor:
        return (one_hot_first(tokens) + even_after(tokens, self.prefix)) / 2


class ClassAndDistilled(nn.Module):
    """The class token beside the distillation token. One linear layer on both is the mean of DeiT's two heads."""

    reads: int | None = 2

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        del config

    def forward(self, tokens: Tensor) -> Tensor:
        return tokens[:, :2].flatten(1)

    def reading(self, tokens: Tensor) -> Tensor:
        shares = tokens.new_zeros(tokens.shape[:2])
        shares[:, :2] = 0.5
        return shares


class AttentionPool(nn.Module):
    """One learned query attends to all tokens, then an MLP: big_vision's MAP head, with timm's names."""

    reads: int | None = None

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        dim = config.dim
        self.heads = config.heads
        self.latent = nn.Parameter(torch.empty(1, 1, dim))
        self.q, self.kv, self.proj = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim, eps=config.norm_eps)
        self.mlp = nn.Sequential()
        self.mlp.add_module("fc1", nn.Linear(dim, config.mlp_dim))
        self.mlp.add_module("act", nn.GELU())
        self.mlp.add_module("fc2", nn.Linear(config.mlp_dim, dim))

    def forward(self, tokens: Tensor) -> Tensor:
        mixed = F.scaled_dot_product_attention(*self._queries_keys_values(tokens))  # B H 1 d
        pooled = self.proj(mixed.transpose(1, 2).flatten(2))
        return (pooled + self.mlp(self.norm(pooled)))[:, 0]

    def reading(self, tokens: Tensor) -> Tensor:
        q, k, _ = self._queries_keys_values(tokens)
        scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5  # B H 1 N
        return scores.softmax(dim=-1).mean(dim=1)[:, 0]

    def _queries_keys_values(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q = self.q(self.latent).expand(tokens.shape[0], -1, -1)  # B 1 D
        k, v = self.kv(tokens).chunk(2, dim=-1)  # B N D each
        q, k, v = (x.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in (q, k, v))
        return q, k, v


def one_hot_first(tokens: Tensor) -> Tensor:
    return torch.eye(1, tokens.shape[1], dtype=tokens.dtype, device=tokens.device).expand(tokens.shape[0], -1)


def even_after(tokens: Tensor, prefix: int) -> Tensor:
    shares = tokens.new_zeros(tokens.shape[:2])
    shares[:, prefix:] = 1 / (tokens.shape[1] - prefix)
    return shares


POOLS: dict[str, type[ClassToken | MeanOfPatches | ClassAndMean | ClassAndDistilled | AttentionPool]] = {
    "cls": ClassToken,
    "mean": MeanOfPatches,
    "cls+mean": ClassAndMean,
    "cls+distill": ClassAndDistilled,
    "attention": AttentionPool,
}


class PreLogits(nn.Module):
    """A hidden layer in front of the classifier: with tanh the paper's pre-training head, with ReLU a plain MLP."""

    def __init__(self, config: ViTConfig, activation: nn.Module) -> None:
        super().__init__()
        assert config.head_dim is not None
        self.fc = nn.Linear(config.feature_dim, config.head_dim)
        self.act = activation

    def forward(self, features: Tensor) -> Tensor:
        return self.act(self.fc(features))


def build_head(config: ViTConfig) -> tuple[nn.Module, nn.Module]:
    """The body before the last layer, and the last layer, which starts at zero (see init.py)."""
    if config.num_classes == 0:
        return nn.Identity(), nn.Identity()
    if config.head == "linear":
        return nn.Identity(), nn.Linear(config.feature_dim, config.num_classes)
    assert config.head_dim is not None
    activation = nn.Tanh() if config.head == "tanh" else nn.ReLU()
    return PreLogits(config, activation), nn.Linear(config.head_dim, config.num_classes)
