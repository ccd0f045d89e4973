"""Checkpoints that are there whole or not at all.

    checkpoints/step-00000120/
        tensors.safetensors   weights, averages, optimiser, random state
        state.json            everything that is not a tensor
        manifest.json         the step, size and SHA-256 of the two, written last

A checkpoint is written into a temporary folder, made safe on disk, and renamed; only then are older ones removed. The
manifest is compared before anything is parsed, so a damaged checkpoint is named and passed over, never half read.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from vitrail.data.placing import sync
from vitrail.errors import FileError
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
    final = _place(folder, step)
    temporary = folder / f"{_TEMPORARY}{secrets.token_hex(8)}"
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True)
            sync(folder.parent)
        temporary.mkdir()
        try:
            _write(temporary, step, tensors, state)
            _take_name(temporary, final)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except (OSError, FileError) as error:
        why = error.strerror if isinstance(error, OSError) else error.what
        raise FileError(f"the checkpoint: {why}", where=final, fix="check the free space; then --resume") from error
    _prune(folder, step, keep)
    return final


def _write(folder: Path, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
    write_safetensors(folder / TENSORS, tensors)
    write_text(folder / STATE, json.dumps(state, indent=1))
    described = {name: _fingerprint(folder / name) for name in (TENSORS, STATE)}
    write_text(folder / MANIFEST, json.dumps({"step": step, **described}, indent=1))


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
        return Checkpoint(step, load_file(path / TENSORS), state)
    except (OSError, ValueError, SafetensorError) as error:
        raise FileError(f"this checkpoint cannot be read: {error}", where=path) from error


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
    return next((fault for name in (TENSORS, STATE) if (fault := _file_fault(path / name, manifest))), None)


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
