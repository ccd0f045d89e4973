"""A timm ViT written as Google's `.npz`, by hand from the layout of google-research/vision_transformer."""

from __future__ import annotations

import numpy as np


def write(model, path):
    state = {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}
    heads, dim = model.blocks[0].attn.num_heads, model.embed_dim
    out = {
        "cls": state["cls_token"],
        "Transformer/posembed_input/pos_embedding": state["pos_embed"],
        "embedding/kernel": state["patch_embed.proj.weight"].transpose(2, 3, 1, 0),
        "embedding/bias": state["patch_embed.proj.bias"],
        "Transformer/encoder_norm/scale": state["norm.weight"],
        "Transformer/encoder_norm/bias": state["norm.bias"],
        "head/kernel": state["head.weight"].T,
        "head/bias": state["head.bias"],
    }
    for i in range(len(model.blocks)):
        theirs, ours = f"Transformer/encoderblock_{i}/", f"blocks.{i}."
        for norm, number in (("norm1", 0), ("norm2", 2)):
            out[f"{theirs}LayerNorm_{number}/scale"] = state[f"{ours}{norm}.weight"]
            out[f"{theirs}LayerNorm_{number}/bias"] = state[f"{ours}{norm}.bias"]
        msa = theirs + "MultiHeadDotProductAttention_1/"
        for k, part in enumerate(("query", "key", "value")):
            weight = state[ours + "attn.qkv.weight"][k * dim : (k + 1) * dim]  # (H d) D
            out[f"{msa}{part}/kernel"] = weight.T.reshape(dim, heads, dim // heads)
            out[f"{msa}{part}/bias"] = state[ours + "attn.qkv.bias"][k * dim : (k + 1) * dim].reshape(heads, -1)
        out[msa + "out/kernel"] = state[ours + "attn.proj.weight"].T.reshape(heads, dim // heads, dim)
        out[msa + "out/bias"] = state[ours + "attn.proj.bias"]
        for k in (0, 1):
            out[f"{theirs}MlpBlock_3/Dense_{k}/kernel"] = state[f"{ours}mlp.fc{k + 1}.weight"].T
            out[f"{theirs}MlpBlock_3/Dense_{k}/bias"] = state[f"{ours}mlp.fc{k + 1}.bias"]
    out |= dict(_backbone(state))
    with path.open("wb") as file:
        np.savez(file, **out)


def _backbone(state):
    prefix = "patch_embed.backbone."
    for name, value in state.items():
        if not name.startswith(prefix):
            continue
        words = name.removeprefix(prefix).removeprefix("stem.").split(".")
        if words[0] == "stages":
            place = f"block{int(words[1]) + 1}/unit{int(words[3]) + 1}/"
            layer = {"downsample.conv": "conv_proj", "downsample.norm": "gn_proj"}.get(".".join(words[4:6]))
            layer = layer or words[4].replace("norm", "gn")
        else:
            place, layer = "", {"conv": "conv_root", "norm": "gn_root"}[words[0]]
        if "conv" in layer:
            yield f"{place}{layer}/kernel", value.transpose(2, 3, 1, 0)
        else:  # the released files keep norms with dimensions of one in front
            yield f"{place}{layer}/{'scale' if words[-1] == 'weight' else 'bias'}", value.reshape(1, 1, 1, -1)
