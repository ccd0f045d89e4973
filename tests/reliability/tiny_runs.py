"""Small training runs through the command, and what must be the same however often they were interrupted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file

SIZES = ("--model", "Ti/8", "--image-size", 32, "model.depth=2", "model.dim=64", "model.heads=2", "model.dim_head=32")
SAVE_STEPS = 3
STEPS = 24
OF_TIME = {"seconds", "images_per_second", "waiting"}


def write_pictures(path: Path, count: int = 96, size: int = 32) -> Path:
    """Three kinds of noise, as an .npz: one can be told from the others."""
    random = np.random.default_rng(0)
    labels = np.arange(count) % 3
    images = random.integers(0, 200, (count, size, size, 3)).astype(np.uint8)
    images[labels == 1, : size // 2] //= 2
    images[labels == 2, :, : size // 2] //= 2
    np.savez(path, images=images, labels=labels)
    return path


def words(data: Path, out: Path, *more: object, steps: int = STEPS) -> list[object]:
    """`vitrail train ...` of two blocks, width 64, 32 pixels, with all that is random switched on."""
    common = ("--device", "cpu", "threads=1", f"save_steps={SAVE_STEPS}", "average=0.99", "model.mlp_dim=128")
    mixed = ("regularise.mixup=0.2", "regularise.cutmix=0.5", "regularise.patch_dropout=0.25", "model.dropout=0.1")
    return ["train", data, "--steps", steps, "--batch-size", 16, "--out", out, *SIZES, *common, *mixed, *more]


def again(run: Path) -> list[object]:
    return ["train", "--resume", run]


def state_of(run: Path) -> dict[str, Any]:
    """Everything a run came to that does not depend on the clock. Tensors as bytes: equal means bit for bit."""
    newest = sorted((run / "checkpoints").iterdir())[-1]
    rows = metrics(run)
    return {
        "model": content(run / "model.safetensors"),
        "checkpoint": newest.name,
        "tensors": (newest / "tensors.safetensors").read_bytes(),
        "state": _timeless(json.loads((newest / "state.json").read_text())),
        "validations": [row for row in rows if row["kind"] == "val"],
        "last_step": [row for row in rows if row["kind"] == "train"][-1],
        "evaluation": (run / "evaluation.json").read_text(),
        "split": (run / "split.csv").read_text(),
        "config": (run / "config.yaml").read_text(),
    }


def content(path: Path) -> dict[str, Any]:
    """Tensors and metadata of a safetensors file, whose own order of metadata changes from one writing to the next."""
    with safe_open(path, "np") as file:
        metadata = {f"metadata {name}": text for name, text in sorted(file.metadata().items())}
    return {name: (array.dtype.name, array.tobytes()) for name, array in sorted(load_file(path).items())} | metadata


def metrics(run: Path) -> list[dict[str, Any]]:
    """The rows of metrics.jsonl without the clock."""
    path = run / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [_timeless(json.loads(line)) for line in lines if line.endswith("\n")]


def _timeless(row: dict[str, Any]) -> dict[str, Any]:
    # where the log ends depends on how many digits the seconds have
    return {key: value for key, value in row.items() if key not in OF_TIME and key != "log_position"}


def debris(run: Path) -> list[Path]:
    """Temporary files that were left behind."""
    return [path for path in run.rglob("*") if path.name.startswith((".vitrail-", ".saving-"))]
