"""Small data sets on disk, for tests."""

from __future__ import annotations

import io
import struct
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image


def picture_bytes(number: int = 0, mode: str = "RGB", kind: str = "PNG") -> bytes:
    """A tiny picture of one colour that tells its number."""
    colour = number % 256 if mode == "L" else (number % 256, 100, 200)
    file = io.BytesIO()
    Image.new(mode, (8, 6), colour).save(file, kind)
    return file.getvalue()


def write_picture(path: Path, number: int = 0, mode: str = "RGB") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(picture_bytes(number, mode))
    return path


def class_folders(root: Path, counts: Mapping[str, int]) -> Path:
    """`{"cat": 2, "train/dog": 0}`: folders with so many pictures in each."""
    number = 0
    for folder, count in counts.items():
        (root / folder).mkdir(parents=True, exist_ok=True)
        for _ in range(count):
            write_picture(root / folder / f"{number}.png", number)
            number += 1
    return root


def table(root: Path, text: str | bytes, pictures: Sequence[str] = ("a.png", "b.png", "c.png", "d.png")) -> Path:
    """`data.csv` with its pictures beside it."""
    for number, name in enumerate(pictures):
        write_picture(root / name, number)
    path = root / "data.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def tar(path: Path, members: Mapping[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def idx(array: np.ndarray) -> bytes:
    kinds = {"uint8": 8, "int8": 9, "int16": 11, "int32": 12, "float32": 13, "float64": 14}
    header = bytes([0, 0, kinds[array.dtype.name], array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()
