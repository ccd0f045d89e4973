"""vit-pytorch's ViT under a plain AdamW loop, for the same minutes: what `vitrail train` is compared with.

    python benchmarks/plain_loop.py [DATA] [--minutes 10] [--dim 96] [--depth 3] [--heads 3] [--mlp-dim 192]

AdamW (1e-3, decay 0.05) with warm-up and cosine over the minutes, batches of 64, moved by up to 4 pixels and mirrored:
what most people would write first. Prints one JSON document. `vitrail train DATA --minutes 10 --json` is our side.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from vitrail.bench.peers import VIT_PYTORCH, import_peer
from vitrail.data.examples import Examples
from vitrail.data.sources import open_data

BATCH, RATE, WARM_UP, MARGIN = 64, 1e-3, 0.05, 4


def pixels(examples: Examples, split: str) -> tuple[torch.Tensor, torch.Tensor]:
    """N x C x H x W in 0..1, and the classes."""
    indices = examples.split(split)
    read = np.stack([np.asarray(examples.pictures.read(int(i))) for i in indices])
    images = torch.from_numpy(read.reshape(*read.shape[:3], -1)).permute(0, 3, 1, 2).float() / 255
    return images, torch.from_numpy(np.asarray(examples.targets)[indices]).long()


def augmented(images: torch.Tensor) -> torch.Tensor:
    """Each picture moved and, every other time, mirrored."""
    size = images.shape[-1]
    wide = F.pad(images, (MARGIN,) * 4, mode="reflect")
    rows, columns = torch.randint(0, 2 * MARGIN + 1, (2, len(images)))
    cut = [wide[i, :, r : r + size, c : c + size] for i, (r, c) in enumerate(zip(rows, columns, strict=True))]
    return torch.stack([one.flip(-1) if torch.rand(()) < 0.5 else one for one in cut])


def train(model: torch.nn.Module, images: torch.Tensor, classes: torch.Tensor, minutes: float) -> int:
    """Until the minutes are over; how many steps that were."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.05)
    started, steps = time.monotonic(), 0
    while (share := (time.monotonic() - started) / (minutes * 60)) < 1:
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(share / WARM_UP, 0.5 * (1 + math.cos(math.pi * share)))
        batch = torch.randint(0, len(images), (BATCH,))
        loss = F.cross_entropy(model(augmented(images[batch])), classes[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps += 1
    return steps


@torch.inference_mode()
def accuracy(model: torch.nn.Module, images: torch.Tensor, classes: torch.Tensor) -> float:
    model.eval()
    found = torch.cat([model(part).argmax(dim=1) for part in images.split(256)])
    return float((found == classes).float().mean())


def measure(words: argparse.Namespace) -> dict[str, Any]:
    examples = open_data(words.data)
    (images, classes), (test, answers) = (pixels(examples, split) for split in ("train", "test"))
    mean, std = images.mean(dim=(0, 2, 3), keepdim=True), images.std(dim=(0, 2, 3), keepdim=True)
    model = import_peer(VIT_PYTORCH).ViT(
        image_size=images.shape[-1],
        patch_size=words.patch,
        num_classes=len(examples.classes),
        channels=images.shape[1],
        dim=words.dim,
        depth=words.depth,
        heads=words.heads,
        dim_head=words.dim // words.heads,
        mlp_dim=words.mlp_dim,
    )
    started = time.monotonic()
    steps = train(model, (images - mean) / std, classes, words.minutes)
    seconds = time.monotonic() - started
    return {
        "test_accuracy": accuracy(model, (test - mean) / std, answers),
        "seconds": seconds,
        "steps": steps,
        "pictures_a_second": steps * BATCH / seconds,
        "weights": sum(p.numel() for p in model.parameters()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", default="cifar10")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--patch", type=int, default=4)
    parser.add_argument("--dim", type=int, default=96)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--heads", type=int, default=3)
    parser.add_argument("--mlp-dim", type=int, default=192)
    words = parser.parse_args()
    torch.manual_seed(0)
    print(json.dumps({**vars(words), **measure(words)}, indent=1))


if __name__ == "__main__":
    main()
