"""How much arithmetic a Vision Transformer is: two operations for each multiply-add of its matrix products."""

from __future__ import annotations

from vitrail.config import ViTConfig

# The backward pass multiplies twice for each product of the forward pass: once for the input, once for the weight.
PASSES = {"inference": 1, "training": 3}


def forward_flops(config: ViTConfig) -> int:
    """Operations of one image's forward pass through the whole model, every token in every block.

    The same number is used for all libraries, also where one of them leaves out what nobody reads.
    """
    rows, columns = config.grid
    patches = rows * columns
    pixels = config.patch_size[0] * config.patch_size[1] * config.channels
    products = patches * pixels * config.dim + config.depth * _block(config, patches + config.prefix_tokens)
    return 2 * (products + config.dim * config.num_classes)


def _block(config: ViTConfig, tokens: int) -> int:
    inner = config.heads * config.dim_head
    qkv_and_projection = 4 * tokens * config.dim * inner
    scores_and_mix = 2 * tokens * tokens * inner
    mlp = 2 * tokens * config.dim * config.mlp_dim
    return qkv_and_projection + scores_and_mix + mlp
