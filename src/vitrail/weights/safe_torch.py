"""`torch.save` checkpoints: records checked, pickle read without running it, then `torch.load(weights_only=True)`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeVar

import torch

from vitrail.errors import UnsafeFileError, WeightsError
from vitrail.weights.safe_pickle import MAX_PICKLE_BYTES, RESAVE, TensorRef, scan_pickle
from vitrail.weights.safe_zip import CheckedZip

WRAPPERS = ("state_dict", "model", "teacher")  # the keys under which trainers keep the weights
MAX_NAME = 1_000
SAVE_STATE_DICT = "save model.state_dict()"

_RECORD = re.compile(
    r"([^/]+)/(data\.pkl|version|byteorder|\.format_version|\.storage_alignment|\.data/serialization_id|data/([0-9]+))"
)

Leaf = TypeVar("Leaf")


def read_torch(archive: CheckedZip) -> dict[str, torch.Tensor]:
    """The tensors of a checkpoint by name; a state dict kept under one key is unwrapped."""
    root, storages = _records(archive)
    described = scan_pickle(_pickle_of(archive, f"{root}/data.pkl"), storages, archive.where)
    promised = _state_dict(described, TensorRef, archive.where)
    _check_checksums(archive)
    tensors = _state_dict(_load(archive), torch.Tensor, archive.where)
    if {name: TensorRef(tensor.dtype, tuple(tensor.shape)) for name, tensor in tensors.items()} != promised:
        raise UnsafeFileError("torch reads other tensors than its pickle describes", where=archive.where, fix=RESAVE)
    return {name: tensor.detach() for name, tensor in tensors.items()}


def _records(archive: CheckedZip) -> tuple[str, dict[str, int]]:
    """The folder all records lie in, and the bytes of each storage."""
    roots, storages = set(), {}
    for name in archive.names:
        match = _RECORD.fullmatch(name)
        if match is None or archive.is_compressed(name):
            raise UnsafeFileError(f"record {name!r} is not part of a plain checkpoint", where=archive.where, fix=RESAVE)
        roots.add(match[1])
        if match[3] is not None:
            storages[match[3]] = archive.size(name)
    if len(roots) != 1:
        raise UnsafeFileError("it holds two checkpoints in one", where=archive.where, fix=RESAVE)
    return roots.pop(), storages


def _pickle_of(archive: CheckedZip, name: str) -> bytes:
    if archive.size(name) > MAX_PICKLE_BYTES:
        raise UnsafeFileError("its pickle is larger than any state dict", where=archive.where, fix=RESAVE)
    with archive.record(name) as record:
        pickled = bytes(record.read(archive.size(name)))
        record.finish()
    return pickled


def _check_checksums(archive: CheckedZip) -> None:
    """Torch does not compare them, and a flipped bit in a weight would go unnoticed."""
    for name in archive.names:
        with archive.record(name) as record:
            record.finish()


def _load(archive: CheckedZip) -> Any:
    archive.file.seek(0)
    try:
        return torch.load(archive.file, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever torch raises here is a file it cannot read
        reason = str(error).partition("\n")[0]
        raise WeightsError(f"torch cannot read it ({reason})", where=archive.where, fix=RESAVE) from error


def _state_dict(tree: Any, leaf: type[Leaf], where: object) -> dict[str, Leaf]:
    """{name: tensor} of a checkpoint; of a wrapped one, the part that holds the weights."""
    if not isinstance(tree, dict):
        raise WeightsError("it holds no dictionary of tensors", where=where, fix=SAVE_STATE_DICT)
    if not _holds(tree, leaf):
        tree = _unwrapped(tree, leaf, where)
    found = dict(_leaves(tree, leaf, where))
    if not found:
        raise WeightsError("it holds no tensors", where=where, fix=SAVE_STATE_DICT)
    return found


def _holds(part: dict[Any, Any], leaf: type[Leaf]) -> bool:
    return any(isinstance(value, leaf) for value in part.values())


def _unwrapped(tree: dict[Any, Any], leaf: type[Leaf], where: object) -> dict[Any, Any]:
    """The one entry that is a state dict; what lies beside it (epoch, optimiser) is left out."""
    once = {id(part): key for key, part in tree.items() if isinstance(part, dict)}
    parts: dict[Any, dict[Any, Any]] = {key: tree[key] for key in once.values()}
    usual = [key for key in WRAPPERS if key in parts]
    choice = usual if len(usual) == 1 else [key for key, part in parts.items() if _holds(part, leaf)] or list(parts)
    if len(choice) != 1:
        what = "several state dicts" if choice else "no dictionary of tensors"
        raise WeightsError(f"it holds {what}", where=where, fix="save the state dict you want on its own")
    return parts[choice[0]]


def _leaves(tree: dict[Any, Any], leaf: type[Leaf], where: object) -> Iterator[tuple[str, Leaf]]:
    """Names, joined by dots through nested dictionaries, and tensors."""
    waiting, entered, names = [("", tree)], {id(tree)}, set()
    while waiting:
        prefix, branch = waiting.pop()
        for key, value in branch.items():
            name = f"{prefix}{key}"
            if not isinstance(key, str) or name in names or len(name) > MAX_NAME:
                raise WeightsError(f"{name[:80]!r} is not the name of a tensor", where=where, fix=SAVE_STATE_DICT)
            names.add(name)
            if isinstance(value, leaf):
                yield name, value
            elif isinstance(value, dict):
                if id(value) in entered:  # shared dictionaries could unfold without end
                    raise UnsafeFileError(f"{name!r} is a dictionary seen before", where=where, fix=SAVE_STATE_DICT)
                entered.add(id(value))
                waiting.append((f"{name}.", value))
            else:
                what = f"{name!r} is not a tensor but {type(value).__name__}"
                raise WeightsError(what, where=where, fix=SAVE_STATE_DICT)
