"""The ViT of the paper in NumPy, written from its equations and nothing else, to check ours against."""

from __future__ import annotations

import math

import numpy as np

erf = np.vectorize(math.erf)


def layer_norm(x, weight, bias, eps=1e-6):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + eps) * weight + bias


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def gelu(x):
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def self_attention(z, w, heads):
    """Appendix A: [q, k, v] = z U_qkv; A = softmax(q k^T / sqrt(D_h)); MSA(z) = [SA_1(z); ...; SA_k(z)] U_msa."""
    qkv = z @ w["attn.qkv.weight"].T + w["attn.qkv.bias"]
    q, k, v = np.split(qkv, 3, axis=-1)
    found = []
    for q_h, k_h, v_h in zip(*(np.split(x, heads, axis=-1) for x in (q, k, v)), strict=True):
        attention = softmax(q_h @ k_h.T / math.sqrt(q_h.shape[-1]))
        found.append(attention @ v_h)
    return np.concatenate(found, axis=-1) @ w["attn.proj.weight"].T + w["attn.proj.bias"]


def mlp(z, w):
    return gelu(z @ w["mlp.fc1.weight"].T + w["mlp.fc1.bias"]) @ w["mlp.fc2.weight"].T + w["mlp.fc2.bias"]


def pre_norm_block(z, w, heads):
    z = self_attention(layer_norm(z, w["norm1.weight"], w["norm1.bias"]), w, heads) + z  # equation 2
    return mlp(layer_norm(z, w["norm2.weight"], w["norm2.bias"]), w) + z  # equation 3


def post_norm_block(z, w, heads):
    z = layer_norm(z + self_attention(z, w, heads), w["norm1.weight"], w["norm1.bias"])
    return layer_norm(z + mlp(z, w), w["norm2.weight"], w["norm2.bias"])


def forward(image, state, *, patch, depth, heads, norm):
    """One image (C H W) to logits, float64 throughout; `state` has timm's names, as NumPy arrays."""
    channels, height, width = image.shape
    kernel = state["patch_embed.proj.weight"].reshape(-1, channels * patch * patch)
    tokens = [state["cls_token"][0, 0]]
    for top in range(0, height, patch):
        for left in range(0, width, patch):
            x_p = image[:, top : top + patch, left : left + patch].reshape(-1)
            tokens.append(kernel @ x_p + state["patch_embed.proj.bias"])
    z = np.stack(tokens) + state["pos_embed"][0]  # equation 1
    block = pre_norm_block if norm == "pre" else post_norm_block
    for i in range(depth):
        prefix = f"blocks.{i}."
        z = block(z, {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}, heads)
    y = layer_norm(z[0], state["norm.weight"], state["norm.bias"]) if norm == "pre" else z[0]  # equation 4
    return state["head.weight"] @ y + state["head.bias"]
