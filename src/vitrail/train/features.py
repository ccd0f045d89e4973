"""What a model says about many pictures, computed once: kept in the cache by what the model and the pictures are.

`features` are what the model's head sees, `logits` what the head says. A file of the cache is found by a digest of
the weights, the preprocessing and the pictures (names, sizes and times of files; the pixels themselves of arrays), so
whatever changes is computed anew. The oldest files go when there are too many.

N pictures, F numbers a picture.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file
from torch import Tensor, nn

from vitrail.data.catalog import cache_folder
from vitrail.data.examples import ArrayPictures, Examples, FilePictures, Pictures
from vitrail.data.shards import ShardPictures
from vitrail.errors import FileError, ImageError
from vitrail.model import Model
from vitrail.predict.engines import Engine, TorchEngine
from vitrail.predict.examples import stream_examples
from vitrail.predict.many import BATCH_SIZE, THREADS
from vitrail.predict.predictor import Predictor
from vitrail.weights.durable import write_safetensors

LIMIT = 2 * 2**30  # bytes of the cache
Ints = NDArray[np.int64]


class Said(NamedTuple):
    """Of the pictures `indices`, those that could be read, in the order asked for."""

    indices: Ints  # N
    values: NDArray[np.float32]  # N x F


class Reading(NamedTuple):
    """How to go through pictures; `complain` hears of those that cannot be read, `advance` of each that is done."""

    complain: Callable[[ImageError], None] = lambda _: None
    advance: Callable[[int], None] = lambda _: None
    batch_size: int = BATCH_SIZE
    threads: int = THREADS


PLAINLY = Reading()


def features(predictor: Predictor, examples: Examples, indices: Ints, reading: Reading = PLAINLY) -> Said:
    """What the model's head would see of some pictures, each read as when the model is used."""
    engine = TorchEngine(_Features(predictor.model), predictor.preprocessing)  # type: ignore[arg-type]
    return _remembered("features", engine, predictor, examples, indices, reading)


def logits(predictor: Predictor, examples: Examples, indices: Ints, reading: Reading = PLAINLY) -> Said:
    """What the model answers to some pictures."""
    return _remembered("logits", predictor.engine, predictor, examples, indices, reading)


class _Features(nn.Module):
    """A model without its head."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        return self.model.features(images)


def _remembered(
    kind: str, engine: Engine, predictor: Predictor, examples: Examples, indices: Ints, reading: Reading
) -> Said:
    stamp = pictures_stamp(examples.pictures, indices)
    if stamp is None:
        return _compute(engine, predictor, examples, indices, reading)
    words = json.dumps([kind, predictor.preprocessing.to_dict(), model_stamp(predictor.model), stamp])
    path = cache_folder() / "features" / f"{hashlib.sha256(words.encode()).hexdigest()}.safetensors"
    if (found := _read(path)) is not None:
        reading.advance(len(indices))
        return found
    found = _compute(engine, predictor, examples, indices, reading)
    if found.values.nbytes <= LIMIT:
        _keep(path, found)
    return found


def _compute(engine: Engine, predictor: Predictor, examples: Examples, indices: Ints, reading: Reading) -> Said:
    kept, values = [], []
    pace = {"threads": reading.threads, "batch_size": reading.batch_size}
    for index, found in stream_examples(engine, predictor, examples, indices.tolist(), **pace):
        if isinstance(found, ImageError):
            reading.complain(found)
        else:
            kept.append(index)
            values.append(found)
        reading.advance(1)
    if not kept:
        raise FileError("none of the pictures can be read", where=examples.name, fix="vitrail doctor tells more")
    return Said(np.array(kept, np.int64), np.stack(values))


# ---- the cache ----------------------------------------------------------------------------------------------------


def model_stamp(model: Model) -> str:
    """The same for the same weights in the same configuration."""
    digest = hashlib.sha256(json.dumps(model.config.to_dict(), sort_keys=True).encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def pictures_stamp(pictures: Pictures, indices: Ints) -> str | None:
    """The same for the same pictures in the same order; None for a kind of which that cannot be told."""
    parts = _stamps(pictures, indices)
    if parts is None:
        return None
    digest = hashlib.sha256()
    with suppress(OSError):  # a file that is gone has no stamp; reading it will say so
        for part in parts:
            digest.update(part)
        return digest.hexdigest()
    return None


def _stamps(pictures: Pictures, indices: Ints) -> Iterator[bytes] | None:
    if isinstance(pictures, ArrayPictures):
        blocks = np.array_split(indices, 1 + len(indices) // 1024)
        return (pictures.pixels[block].tobytes() for block in blocks)
    if isinstance(pictures, FilePictures):
        return (_file_stamp(pictures.paths[index]) for index in indices)
    if isinstance(pictures, ShardPictures):
        shards = [_file_stamp(path) for path in pictures.shards]
        return iter([*shards, pictures.places[indices].tobytes()])
    return None


def _file_stamp(path: Path) -> bytes:
    status = path.stat()
    return f"{path.absolute()}\0{status.st_size}\0{status.st_mtime_ns}\n".encode(errors="surrogateescape")


def _read(path: Path) -> Said | None:
    """A file that is damaged counts as none."""
    try:
        found = load_file(path)
        path.touch()  # the least used go first
        return Said(found["indices"], found["values"])
    except (OSError, KeyError, ValueError, SafetensorError):
        return None


def _keep(path: Path, found: Said) -> None:
    """Without room or permission, nothing is kept, and nothing is wrong."""
    with suppress(OSError, FileError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_safetensors(path, {name: torch.from_numpy(value) for name, value in found._asdict().items()})
        _make_room(path.parent)


def _make_room(folder: Path) -> None:
    files = sorted(folder.glob("*.safetensors"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    total = 0
    for path in files:
        total += path.stat().st_size
        if total > LIMIT:
            path.unlink()
