"""Checkpoints that are there whole or not at all.

    checkpoints/step-00000120/
        tensors.safetensors   weights, averages, optimiser, random state
        state.json            everything that is not a tensor
        manifest.json         the step, size and SHA-256 of the others, written last

Where weights are split over processes (FSDP), each writes its part, through torch.distributed.checkpoint, to a
safetensors file of its own; any number of processes can read them.

A checkpoint is written into a temporary folder, made safe on disk, and renamed; only then are older ones removed. The
manifest is compared before anything is parsed, so a damaged checkpoint is named and passed over, never half read.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from vitrail.data.placing import sync
from vitrail.errors import FileError
from vitrail.train.distributed import World
from vitrail.weights.durable import write_safetensors, write_text

TENSORS, STATE, MANIFEST = "tensors.safetensors", "state.json", "manifest.json"
_NAME = re.compile(r"step-(\d{8,})")
_TEMPORARY = ".saving-"


class Checkpoint(NamedTuple):
    step: int
    tensors: dict[str, Tensor]
    state: dict[str, Any]


def save(folder: Path, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any], keep: int = 2) -> Path:
    """Write a checkpoint below `folder`, then remove all but the newest `keep`."""
    with _said_by_place(_place(folder, step)) as final:
        temporary = _begin(folder)
        try:
            write_safetensors(temporary / TENSORS, tensors)
            _complete(temporary, final, step, state)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    _prune(folder, step, keep)
    return final


def save_by_first(
    folder: Path, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any], world: World
) -> Path:
    """The first process saves; the others, which hold the same, wait until it has."""
    return world.of_first(lambda: save(folder, step, tensors, state))


def save_together(
    folder: Path, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any], world: World, keep: int = 2
) -> Path:
    """Every process writes its part of the tensors; when all are on disk, the first one completes the checkpoint."""
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    from torch.distributed.checkpoint.state_dict_saver import save as save_parts

    with _said_by_place(_place(folder, step)) as final:
        temporary = world.of_first(lambda: _begin(folder))
        try:
            save_parts(dict(tensors), storage_writer=HuggingFaceStorageWriter(str(temporary), save_distributed=True))
            world.of_first(lambda: _complete(temporary, final, step, state))
        except CheckpointException as error:  # the same in every process; it names the process at fault
            raise OSError(None, " ".join(str(error).split())) from error
        finally:
            if world.first:
                shutil.rmtree(temporary, ignore_errors=True)
    world.of_first(lambda: _prune(folder, step, keep))
    return final


@contextmanager
def _said_by_place(final: Path) -> Iterator[Path]:
    try:
        yield final
    except (OSError, FileError) as error:
        why = error.strerror if isinstance(error, OSError) else error.what
        raise FileError(f"the checkpoint: {why}", where=final, fix="check the free space; then --resume") from error


def _begin(folder: Path) -> Path:
    """A temporary folder to write into."""
    if not folder.is_dir():
        folder.mkdir(parents=True)
        sync(folder.parent)
    temporary = folder / f"{_TEMPORARY}{secrets.token_hex(8)}"
    temporary.mkdir()
    return temporary


def _complete(temporary: Path, final: Path, step: int, state: Mapping[str, Any]) -> None:
    """State and manifest beside the tensors, and the name that makes it a checkpoint."""
    write_text(temporary / STATE, json.dumps(state, indent=1))
    described = {name: _fingerprint(temporary / name) for name in sorted(_files(temporary))}
    write_text(temporary / MANIFEST, json.dumps({"step": step, **described}, indent=1))
    _take_name(temporary, final)


def _files(folder: Path) -> set[str]:
    """What a manifest describes: the state and every file of tensors."""
    return {STATE, *(path.name for path in folder.glob("*.safetensors"))}


def _take_name(temporary: Path, final: Path) -> None:
    """A folder cannot be renamed onto one that is not empty: a damaged one of the same step goes first."""
    if final.exists():
        final.rename(temporary / "replaced")
    temporary.rename(final)
    shutil.rmtree(final / "replaced", ignore_errors=True)
    sync(final.parent)


def _prune(folder: Path, step: int, keep: int) -> None:
    """Old checkpoints of this run, and what an interrupted save left behind.

    Those of later steps go too: they were passed over as damaged, and would be kept in the place of whole ones.
    """
    found = sorted(steps_in(folder))
    here = found.index(step) + 1
    for old in found[: max(0, here - keep)] + found[here:]:
        shutil.rmtree(_place(folder, old), ignore_errors=True)
    for debris in folder.glob(f"{_TEMPORARY}*"):
        shutil.rmtree(debris, ignore_errors=True)


def steps_in(folder: Path) -> list[int]:
    """The steps of the checkpoints in a folder, damaged ones too."""
    paths = folder.iterdir() if folder.is_dir() else ()
    return [int(match[1]) for path in paths if (match := _NAME.fullmatch(path.name))]


def load_newest(folder: Path) -> tuple[Checkpoint | None, list[FileError]]:
    """The newest checkpoint that is whole, and what is wrong with newer ones."""
    faults: list[FileError] = []
    for step in sorted(steps_in(folder), reverse=True):
        try:
            return load(folder, step), faults
        except FileError as error:
            faults.append(error)
    return None, faults


def load_together(folder: Path, world: World) -> tuple[Checkpoint | None, list[FileError]]:
    """The newest that is whole, the same in every process: the first one looks for it, and says what is wrong."""
    found, faults = load_newest(folder) if world.first else (None, [])
    step = world.tell(None if found is None else found.step)
    return (found if world.first or step is None else load(folder, step)), faults


def has_whole(folder: Path) -> bool:
    """Is there a checkpoint to go on from?"""
    return any(_fault(folder, step) is None for step in sorted(steps_in(folder), reverse=True))


def load(folder: Path, step: int) -> Checkpoint:
    """A checkpoint, its manifest checked first."""
    path, fault = _place(folder, step), _fault(folder, step)
    if fault is not None:
        raise FileError(
            f"this checkpoint is damaged: {fault}", where=path, fix="an earlier one is used if there is one"
        )
    try:
        state = json.loads((path / STATE).read_text(encoding="utf-8"))
        whole = (path / TENSORS).is_file()
        return Checkpoint(step, load_file(path / TENSORS) if whole else _put_together(path), state)
    except (OSError, ValueError, SafetensorError) as error:
        raise FileError(f"this checkpoint cannot be read: {error}", where=path) from error


def _put_together(folder: Path) -> dict[str, Tensor]:
    """Whole tensors from the parts that several processes wrote."""
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata
    from torch.distributed.checkpoint.state_dict_loader import load as load_parts

    reader = HuggingFaceStorageReader(str(folder))
    tensors = {}
    for name, described in reader.read_metadata().state_dict_metadata.items():
        assert isinstance(described, TensorStorageMetadata)  # safetensors hold nothing else
        tensors[name] = torch.empty(described.size, dtype=described.properties.dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that every process reads for itself is meant
        load_parts(tensors, storage_reader=reader, no_dist=True)
    return tensors


def _fault(folder: Path, step: int) -> str | None:
    """What is wrong with a checkpoint, by its manifest alone; None: it is whole."""
    path = _place(folder, step)
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        manifest = None
    if not isinstance(manifest, dict):
        return "its manifest is missing or damaged"
    if manifest.get("step") != step:
        return "it is that of another step"
    described = manifest.keys() - {"step"}
    names = sorted(described | _files(path) | (set() if described - {STATE} else {TENSORS}))
    return next((fault for name in names if (fault := _file_fault(path / name, manifest))), None)


def _file_fault(path: Path, manifest: Mapping[str, Any]) -> str | None:
    if not path.is_file():
        return f"{path.name} is missing"
    try:
        same = manifest.get(path.name) == _fingerprint(path)
    except OSError as error:  # as a failing disk says it
        return f"{path.name} cannot be read ({error.strerror})"
    return None if same else f"{path.name} is not what was saved"


def _place(folder: Path, step: int) -> Path:
    return folder / f"step-{step:08d}"


def _fingerprint(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    return {"bytes": path.stat().st_size, "sha256": digest.hexdigest()}
