"""Photo-like pictures drawn by a formula, and folders of them with faults planted in them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageEnhance

from vitrail.data.examples import ArrayPictures, Examples, FilePictures
from vitrail.data.sources import open_data


def scene(seed: int, side: int = 96) -> Image.Image:
    """A picture with large and small structure: smooth colour fields, and discs over them."""
    random = np.random.default_rng(seed)
    field = Image.fromarray(random.integers(0, 256, (5, 5, 3), dtype=np.uint8)).resize(
        (side, side), Image.Resampling.BICUBIC
    )
    pixels = np.asarray(field).copy()
    rows, columns = np.mgrid[:side, :side]
    for _ in range(14):
        row, column, radius = random.uniform(0, side), random.uniform(0, side), random.uniform(side / 20, side / 6)
        pixels[(rows - row) ** 2 + (columns - column) ** 2 < radius**2] = random.integers(0, 256, 3)
    return Image.fromarray(pixels)


def cropped(image: Image.Image, part: float) -> Image.Image:
    """Without `part` of its width and height, taken a third from one side and the rest from the other."""
    width, height = image.size
    left, top = round(width * part / 3), round(height * part / 3)
    return image.crop((left, top, left + round(width * (1 - part)), top + round(height * (1 - part))))


CHANGES = {  # name: how the copy is made, and its JPEG quality
    "re-encoded": (lambda image: image, 60),
    "half": (lambda image: image.resize((image.width // 2, image.height // 2), Image.Resampling.BICUBIC), 95),
    "brighter": (lambda image: ImageEnhance.Brightness(image).enhance(1.1), 95),
    "contrast": (lambda image: ImageEnhance.Contrast(image).enhance(1.3), 95),
    "cropped": (lambda image: cropped(image, 0.03), 95),
}


def save(image: Image.Image, path: Path, **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, **options)
    return path


def small_set(root: Path, classes: Sequence[str] = ("ant", "bee"), train: int = 12, test: int = 4) -> Path:
    """`root/train/ant/0.png` and so on: every picture another scene, and nothing wrong."""
    seed = 0
    for split, number in (("train", train), ("test", test)):
        for name in classes:
            for index in range(number):
                save(scene(seed), root / split / name / f"{index}.png")
                seed += 1
    return root


def opened(root: Path) -> Examples:
    return open_data(root)


def array_set(pixels: np.ndarray, targets: Sequence[int], **splits: Sequence[int]) -> Examples:
    number = np.array(targets, np.int64)
    return Examples(
        name="arrays",
        pictures=ArrayPictures(pixels),
        targets=number,
        classes=tuple(f"class {k}" for k in range(int(number.max()) + 1)),
        splits={name: np.array(indices, np.int64) for name, indices in splits.items()},
    )


def file_set(paths: Sequence[Path], **changes: object) -> Examples:
    return Examples(
        name="files",
        pictures=FilePictures(list(paths)),
        targets=np.zeros(len(paths), np.int64),
        classes=("one",),
        splits={"train": np.arange(len(paths))},
    ).replace(**changes)
