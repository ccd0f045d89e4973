"""From a model to a file that others can run: written aside, compared with the model, and only then put in place."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from vitrail.config import Pair, ViTConfig, one_of
from vitrail.data.examples import Pixels
from vitrail.data.placing import sync
from vitrail.deploy.onnx import onnx_bytes
from vitrail.deploy.parity import TOLERANCE, Certificate, certify, waves
from vitrail.deploy.resample import at_size, steps_of
from vitrail.errors import ConfigError, FileError
from vitrail.predict.engines import Engine, OnnxEngine, OpenVinoEngine, TorchEngine
from vitrail.weights.artefact import Artefact


class Format(NamedTuple):
    """How a file is written, and opened to be compared."""

    suffix: str
    write: Callable[..., None]  # (artefact, path, pixels=)
    open: Callable[[Path, Artefact], Engine]
    beside: tuple[str, ...] = ()  # endings of more files that belong to it


def write_onnx(artefact: Artefact, path: Path, *, pixels: bool = False) -> None:
    path.write_bytes(onnx_bytes(artefact, pixels=pixels))


def _write_openvino(artefact: Artefact, path: Path, *, pixels: bool = False) -> None:
    from vitrail.deploy.openvino import write_openvino

    write_openvino(artefact, path, pixels=pixels)


def _write_program(artefact: Artefact, path: Path, *, pixels: bool = False) -> None:
    from vitrail.deploy.program import write_program

    write_program(artefact, path, pixels=pixels)


def _open_program(path: Path, artefact: Artefact) -> Engine:
    from vitrail.deploy.program import ProgramEngine

    return ProgramEngine(path, steps_of(artefact))


FORMATS = {
    "onnx": Format(".onnx", write_onnx, lambda path, _: OnnxEngine.open(path)),
    "openvino": Format(".xml", _write_openvino, lambda path, _: OpenVinoEngine.open(path), (".bin",)),
    "torch": Format(".pt2", _write_program, _open_program),
}


def export(
    artefact: Artefact,
    target: Path,
    to: str,
    *,
    size: Pair | None = None,
    pixels: bool = False,
    sample: Pixels | None = None,
    overwrite: bool = False,
    tolerance: float = TOLERANCE,
) -> Certificate:
    """Write `target`, and beside it the certificate, as JSON and as text. On any failure nothing is left behind.

    `sample` are prepared pictures (N x rows x columns x channels) to compare on beside the waves; `pixels` puts the
    normalisation into the graph.
    """
    one_of("to", to, tuple(FORMATS))
    layout = FORMATS[to]
    _check_target(target, layout, overwrite)
    artefact = at_size(artefact, size)
    with tempfile.TemporaryDirectory(prefix=".vitrail-", dir=target.parent) as workshop:
        draft = Path(workshop) / target.name
        layout.write(artefact, draft, pixels=pixels)
        certificate = _compare(artefact, layout.open(draft, artefact), target.name, sample, tolerance)
        return put_in_place(draft, target, certificate, layout.beside)


def _check_target(target: Path, layout: Format, overwrite: bool) -> None:
    if target.suffix != layout.suffix:
        raise ConfigError(f"{target.name!r} should end in {layout.suffix}", fix=f"use {target.stem}{layout.suffix}")
    if not overwrite and target.exists():
        raise FileError("is already there", where=target, fix="choose another name, or pass --overwrite")
    if not target.parent.is_dir():
        raise FileError("its folder does not exist", where=target, fix=f"mkdir -p {target.parent}")


def _compare(artefact: Artefact, made: Engine, target: str, sample: Pixels | None, tolerance: float) -> Certificate:
    config = artefact.model.config
    pictures, own = waves(steps_of(artefact).size, config.channels), 0
    if sample is not None and len(sample):
        pictures, own = np.concatenate([pictures, sample]), len(sample)
    original = TorchEngine(artefact.model, steps_of(artefact))
    named = {"source": artefact.source or "the model", "target": target, "own_pictures": own}
    # Which of two equally alike patches is merged is decided by the last digit, and engines differ in that.
    exact = not (isinstance(config, ViTConfig) and config.merge)
    return certify(original, made, pictures, tolerance=tolerance, exact=exact, **named)


def put_in_place(draft: Path, target: Path, certificate: Certificate, beside: tuple[str, ...] = ()) -> Certificate:
    """The files of a draft, the certificate and last the file itself take their names, each by one rename."""
    content = draft.read_bytes()
    certificate = dataclasses.replace(certificate, sha256=hashlib.sha256(content).hexdigest(), bytes=len(content))
    said = {
        ".certificate.json": json.dumps(certificate.to_dict(), indent=1) + "\n",
        ".certificate.txt": certificate.text(),
    }
    names = [target.stem + ending for ending in beside]
    for ending, words in said.items():
        names.append(target.name + ending)
        (draft.parent / names[-1]).write_text(words, encoding="utf-8")
    try:
        for name in (*names, target.name):
            sync(draft.parent / name)
            (draft.parent / name).replace(target.parent / name)
        sync(target.parent)
    except OSError as error:
        raise FileError(f"cannot be written: {error.strerror}", where=target, fix="check the folder") from error
    return certificate
