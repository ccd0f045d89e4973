"""The smallest Vision Transformer that does something: is this 16x16 grey drawing a cat or a dog?

Pictures of 16x16 pixels, 16 patches of 4x4, width 8, two heads of width 4, two blocks, and a head with a ReLU layer
of 4. The animals are drawn by code, every one a little different; the weights are shipped with the package and are
made again, to the same numbers, by

    python -m vitrail.explain.worked_example [FILE]
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from safetensors.torch import load, save_file
from torch import Tensor

from vitrail.config import Preprocessing, ViTConfig, one_of
from vitrail.model.vit import ViT

CLASSES = ("cat", "dog")
CONFIG = ViTConfig(
    image_size=(16, 16),
    patch_size=(4, 4),
    num_classes=2,
    dim=8,
    depth=2,
    heads=2,
    dim_head=4,
    mlp_dim=16,
    channels=1,
    head="relu",
    head_dim=4,
)
PREPROCESSING = Preprocessing(size=(16, 16), mean=(0.5,), std=(0.5,))
WEIGHTS = "worked_example.safetensors"
TRAIN_SEED, HELD_OUT_SEED = 1, 2

_SIDE, _FINE = 16, 8  # pixels of a picture, and how many times finer it is drawn before it is shrunk

Pixels = NDArray[np.uint8]


def worked_example(animal: str = "cat") -> tuple[ViT, Pixels, tuple[str, ...]]:
    """The trained model, one picture of this animal (16 x 16 x 1), and the names of the classes."""
    one_of("animal", animal, CLASSES)
    model = ViT.from_config(CONFIG)
    model.load_state_dict(load(files("vitrail.explain").joinpath(WEIGHTS).read_bytes()))
    return model.eval(), draw(animal, TYPICAL), CLASSES


# ---- the drawings -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pose:
    """What varies from one animal to the next. Lengths are in pixels of the 16x16 picture, greys from 0 to 255."""

    x: float = 0.0
    y: float = 0.0
    scale: float = 1.0
    background: int = 238
    fur: int = 150
    ear: int = 78
    eye: int = 20
    muzzle: int = 35  # how much lighter than the fur
    noise: float = 0.0


TYPICAL = Pose()


def random_pose(rng: np.random.Generator) -> Pose:
    """An animal anywhere near the middle, light on dark or dark on light."""
    background, fur = (int(v) for v in rng.permutation([rng.integers(190, 256), rng.integers(90, 170)]))
    return Pose(
        x=rng.uniform(-1.2, 1.2),
        y=rng.uniform(-1.0, 1.0),
        scale=rng.uniform(0.82, 1.08),
        background=background,
        fur=fur,
        ear=int(fur - rng.integers(45, 80)),
        eye=int(rng.integers(0, 40)),
        muzzle=int(rng.integers(0, 50)),
        noise=rng.uniform(0, 12),
    )


def draw(animal: str, pose: Pose, rng: np.random.Generator | None = None) -> Pixels:
    """A face with pointed ears (cat) or hanging ears (dog): 16 x 16 x 1."""
    canvas = Image.new("L", (_SIDE * _FINE, _SIDE * _FINE), pose.background)
    pen = _Pen(canvas, pose)
    (_draw_cat if animal == "cat" else _draw_dog)(pen, pose)
    pixels = np.asarray(canvas.resize((_SIDE, _SIDE), Image.Resampling.BOX), np.float64)
    if rng is not None:
        pixels = pixels + rng.normal(0, pose.noise, pixels.shape)
    return pixels.round().clip(0, 255).astype(np.uint8)[..., None]


class _Pen:
    """Draws in coordinates from the middle of the face, so that a pose moves and scales all parts together."""

    def __init__(self, canvas: Image.Image, pose: Pose) -> None:
        self.ink, self.pose = ImageDraw.Draw(canvas), pose

    def place(self, x: float, y: float) -> tuple[float, float]:
        pose, middle = self.pose, _SIDE / 2
        return (middle + pose.x + x * pose.scale) * _FINE, (middle + pose.y + y * pose.scale) * _FINE

    def oval(self, x: float, y: float, width: float, height: float, grey: int) -> None:
        low, high = self.place(x - width / 2, y - height / 2), self.place(x + width / 2, y + height / 2)
        self.ink.ellipse([low, high], fill=grey)

    def triangle(self, corners: list[tuple[float, float]], grey: int) -> None:
        self.ink.polygon([self.place(x, y) for x, y in corners], fill=grey)


def _draw_cat(pen: _Pen, pose: Pose) -> None:
    for side in (-1, 1):
        pen.triangle([(side * 5.4, -7.4), (side * 5.0, 0.5), (side * 0.6, -2.8)], pose.fur)
        pen.triangle([(side * 4.7, -5.6), (side * 4.4, -1.8), (side * 2.0, -3.2)], pose.ear)
    pen.oval(0, 1.6, 11, 9.6, pose.fur)
    _draw_face(pen, pose)


def _draw_dog(pen: _Pen, pose: Pose) -> None:
    pen.oval(0, 0.6, 10, 11.5, pose.fur)
    for side in (-1, 1):
        pen.oval(side * 5.4, 1.0, 3.6, 9.6, pose.ear)
    _draw_face(pen, pose)


def _draw_face(pen: _Pen, pose: Pose) -> None:
    """The same for both animals, so that only the ears and the shape of the head can tell them apart."""
    pen.oval(0, 4.1, 5.2, 4.0, min(255, pose.fur + pose.muzzle))
    for side in (-1, 1):
        pen.oval(side * 2.2, 0, 1.5, 1.9, pose.eye)
    pen.oval(0, 3.1, 2.2, 1.5, pose.eye)


# ---- training -----------------------------------------------------------------------------------------------------


def drawings(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """As many random animals, normalised as the model takes them (count 1 16 16), and their classes (count)."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, len(CLASSES), count)
    pictures = np.stack([draw(CLASSES[label], random_pose(rng), rng) for label in labels])
    images = torch.from_numpy(pictures).permute(0, 3, 1, 2).float()
    return (images / 255 - PREPROCESSING.mean[0]) / PREPROCESSING.std[0], torch.from_numpy(labels)


def train(steps: int = 1500, batch: int = 64, pictures: int = 6000) -> ViT:
    """A model taught with AdamW and a cosine schedule, in about ten seconds on one core."""
    torch.manual_seed(TRAIN_SEED)
    model = ViT.from_config(CONFIG)
    images, labels = drawings(pictures, TRAIN_SEED)
    optimiser = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=5e-3, total_steps=steps, pct_start=0.1)
    for _ in range(steps):
        chosen = torch.randint(len(images), (batch,))
        loss = F.cross_entropy(model(images[chosen]), labels[chosen], label_smoothing=0.05)
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
        schedule.step()
    return model.eval()


@torch.no_grad()
def accuracy(model: ViT, count: int = 2000, seed: int = HELD_OUT_SEED) -> float:
    """The part of freshly drawn animals that the model names rightly."""
    images, labels = drawings(count, seed)
    return float((model(images).argmax(dim=1) == labels).double().mean())


def main() -> None:
    """Train, measure on animals never seen, and write the weights."""
    torch.set_num_threads(1)  # the tensors are tiny, and sums in one order give the same weights again
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name(WEIGHTS)
    model = train()
    score = accuracy(model)
    notes = {
        "config": json.dumps(CONFIG.to_dict()),
        "classes": json.dumps(CLASSES),
        "held_out_accuracy": f"{score:.4f}",
    }
    save_file(model.state_dict(), path, metadata=notes)
    print(f"{path}: {score:.1%} of 2000 new drawings named rightly")


if __name__ == "__main__":
    main()
