"""A model to a file or folder in any of the known layouts. What is written is read back and compared first."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vitrail.config import ViTConfig
from vitrail.data.placing import sync
from vitrail.errors import CheckFailed, ConfigError, FileError, WeightsError
from vitrail.model.sizes import CATALOG, model_config
from vitrail.weights import huggingface
from vitrail.weights.artefact import Artefact, golden_images
from vitrail.weights.durable import write_atomically, write_safetensors, write_text
from vitrail.weights.formats import FORMATS, format_named
from vitrail.weights.load import load

TARGETS = ("vitrail", *FORMATS)
TOLERANCE = 1e-5


def convert(artefact: Artefact, target: str | Path, to: str, *, overwrite: bool = False) -> float:
    """Write `artefact` to `target` as format `to`; returns the largest difference of logits after reading it back.

    On any failure nothing is left at `target`, and an existing one is as it was.
    """
    target = Path(target)
    write = _writer(artefact, target, to)
    if not overwrite and target.exists():
        raise FileError("is already there", where=target, fix="choose another name, or pass --overwrite")
    if not target.parent.is_dir():
        raise FileError("its folder does not exist", where=target, fix=f"mkdir -p {target.parent}")
    with tempfile.TemporaryDirectory(prefix=".vitrail-", dir=target.parent) as workshop:
        draft = Path(workshop) / target.name
        write(draft)
        difference = _compare(artefact, draft)
        _move_into_place(draft, target)
    return difference


def _writer(artefact: Artefact, target: Path, to: str) -> Callable[[Path], None]:
    """How to write this artefact; what cannot be written is refused here, before anything touches the disk."""
    if to == "vitrail":
        _expect_suffix(target, ".safetensors")
        return artefact.save
    layout = format_named(to)
    if to == "timm" and not isinstance(artefact.model.config, ViTConfig):
        tensors, config = dict(artefact.model.state_dict()), None
    else:
        config = layout.check_can_hold(artefact.model.config)
        tensors = layout.write(artefact.model.state_dict(), config)
    if to == "google":
        _expect_suffix(target, ".npz")
        return lambda path: _write_npz(path, tensors)
    if to == "huggingface":
        assert config is not None
        huggingface.check_square(config)
        return lambda path: _write_folder(path, tensors, _huggingface_files(artefact, config))
    if to == "timm" and not target.suffix:
        return lambda path: _write_folder(path, tensors, _timm_files(artefact))
    if target.suffix in (".pt", ".pth"):
        return lambda path: write_atomically(path, lambda draft: torch.save(tensors, draft))
    _expect_suffix(target, ".safetensors")
    return lambda path: write_safetensors(path, tensors, {"format": "pt"})


def _expect_suffix(target: Path, suffix: str) -> None:
    if target.suffix != suffix:
        raise ConfigError(f"{target.name!r} should end in {suffix}", fix=f"use {target.stem}{suffix}")


def _write_npz(path: Path, tensors: dict[str, Tensor]) -> None:
    arrays: dict[str, Any] = {name: np.asarray(tensor) for name, tensor in tensors.items()}

    def save(draft: Path) -> None:
        with draft.open("wb") as file:
            np.savez(file, **arrays)

    write_atomically(path, save)


def _write_folder(folder: Path, tensors: dict[str, Tensor], files: dict[str, Any]) -> None:
    folder.mkdir()
    write_safetensors(folder / "model.safetensors", tensors, {"format": "pt"})
    for name, values in files.items():
        write_text(folder / name, json.dumps(values, indent=2, ensure_ascii=True) + "\n")


def _huggingface_files(artefact: Artefact, config: ViTConfig) -> dict[str, Any]:
    files: dict[str, Any] = {"config.json": huggingface.config_json(config, artefact.classes)}
    if (steps := artefact.preprocessing) is not None:
        size = {"height": steps.size[0], "width": steps.size[1]}
        files["preprocessor_config.json"] = {
            "image_processor_type": "ViTImageProcessor",
            "do_resize": True,
            "size": size,
            "do_normalize": True,
            "image_mean": list(steps.mean),
            "image_std": list(steps.std),
        }
    return files


def _timm_files(artefact: Artefact) -> dict[str, Any]:
    """timm's config.json, with the arguments that turn its nearest named model into this one."""
    config = artefact.model.config
    described: dict[str, Any] = {"num_classes": config.num_classes}
    if isinstance(config, ViTConfig):
        described |= {"architecture": _nearest_timm_name(config), "model_args": _timm_arguments(config)}
    else:
        described["architecture"] = "resnetv2_50x1_bit" if config.bottleneck else "resnetv2_18"
    if artefact.classes is not None:
        described["label_names"] = list(artefact.classes)
    described["pretrained_cfg"] = {
        "input_size": [config.channels, *config.image_size],
        "num_classes": config.num_classes,
    }
    if (steps := artefact.preprocessing) is not None:
        described["pretrained_cfg"] |= {"mean": steps.mean, "std": steps.std, "crop_pct": steps.crop}
    return {"config.json": described}


def _nearest_timm_name(config: ViTConfig) -> str:
    """A named model that differs from this one in arguments only: of the same stem, and of the same width if any is."""
    if config.distill_token:
        return "deit_tiny_distilled_patch16_224"
    named = [(row.timm, model_config(row.name)) for row in CATALOG if row.timm]
    same_stem = [
        (known.dim == config.dim, name)
        for name, known in named
        if isinstance(known, ViTConfig) and (known.stem, known.stem_blocks) == (config.stem, config.stem_blocks)
    ]
    if not same_stem:
        raise WeightsError(
            f"timm has no hybrid with {config.stem_blocks} blocks", fix="use a file ending, or --to vitrail"
        )
    return max(same_stem, key=lambda found: found[0])[1]


def _timm_arguments(config: ViTConfig) -> dict[str, Any]:
    pools = {"cls": "token", "cls+distill": "token", "mean": "avg", "attention": "map"}
    arguments: dict[str, Any] = {
        "img_size": list(config.image_size),
        "in_chans": config.channels,
        "embed_dim": config.dim,
        "depth": config.depth,
        "num_heads": config.heads,
        "mlp_ratio": config.mlp_dim / config.dim,
        "global_pool": pools[config.pool],
        "class_token": config.class_token,
        "reg_tokens": config.registers,
        "no_embed_class": config.positions == "learned-patches",
        "pos_embed": "none" if config.positions == "none" else "learn",
        "qkv_bias": config.qkv_bias,
        "qk_norm": config.qk_norm,
        "init_values": config.layer_scale,
        "final_norm": config.final_norm != "none",
        "fc_norm": config.final_norm == "pooled",
    }
    if config.stem == "none":
        arguments["patch_size"] = config.patch_size[0]
    return arguments


def _compare(artefact: Artefact, written: Path) -> float:
    """Read what was written, stating only what a bare state dict cannot tell; other answers are a failed conversion."""
    config = artefact.model.config
    untold: dict[str, Any] = {"image_size": config.image_size}
    if isinstance(config, ViTConfig):
        untold |= {"heads": config.heads, "patch_size": config.patch_size, "channels": config.channels}
        untold |= {"pool": config.pool, "positions": config.positions}
    again = load(written, **untold)
    images = golden_images(config)
    with torch.inference_mode():
        difference = float((artefact.model.eval()(images) - again.model(images)).abs().max())
    if not difference <= TOLERANCE:
        raise CheckFailed(f"the converted model's answers differ by {difference:.2g}", where=written.name)
    return difference


def _move_into_place(draft: Path, target: Path) -> None:
    """A rename, which is all or nothing. What a folder replaces goes to the workshop first, and with it."""
    if draft.is_dir() and target.exists():
        target.replace(draft.parent / "replaced")
    draft.replace(target)
    sync(target.parent)
