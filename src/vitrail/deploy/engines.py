"""The same model behind another engine, for this machine and this moment: exported in memory and compared, or chosen
by measuring. Needs no torch where the model is an exported file."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from vitrail.config import one_of
from vitrail.deploy.parity import certify, waves
from vitrail.errors import ConfigError, VitrailError
from vitrail.predict.engines import Engine, Mirrored, OnnxEngine, OpenVinoEngine
from vitrail.predict.exported import kind_of
from vitrail.predict.predictor import EXPORTED, Predictor, load

ENGINES = ("auto", "torch", "compile", "onnx", "openvino")
CANDIDATES = ("torch", "onnx", "openvino")  # compiling takes longer than most who ask for "auto" will compute
ROUNDS = 5
REST = 0.06  # seconds; the threads of a runtime wait for more work by spinning, for a while


def load_with(source: str | Path, engine: str | None = None, *, mirror: bool = False, **settings: Any) -> Predictor:
    """A model ready for use behind an engine; None: the one its file is made for."""
    if engine is not None:
        one_of("engine", engine, ENGINES)
    kind = kind_of(source)
    if kind is not None:
        if engine not in (None, "auto", kind):
            raise ConfigError(f"the file is made for the {kind} engine", where=source, fix="leave --engine out")
        return load(source, mirror=mirror, **settings)
    if engine in (None, "torch", "compile"):
        return load(source, mirror=mirror, compiled=engine == "compile", **settings)
    assert engine is not None
    plain = load(source, **settings)
    chosen = fastest(plain) if engine == "auto" else engine_of(plain, engine)
    return Predictor(
        Mirrored(chosen) if mirror else chosen,
        plain.decision,
        plain.preprocessing,
        plain.channels,
        notes=(*plain.notes, f"the {chosen.name} engine was the fastest here") if engine == "auto" else plain.notes,
        artefact=plain.artefact,
    )


def engine_of(plain: Predictor, name: str) -> Engine:
    """The model behind this engine, compared with torch on pictures drawn by a formula."""
    if name == "torch":
        return plain.engine
    made = _export(plain, name)
    pictures = waves(plain.preprocessing.size, plain.channels, 4)
    certify(plain.engine, made, pictures, source=plain.source, target=f"the {name} engine", batches=(1, 3))
    return made


def _export(plain: Predictor, name: str, **how: Any) -> Engine:
    if name == "openvino":
        from vitrail.deploy.openvino import openvino_model

        return OpenVinoEngine(*openvino_model(plain.artefact), plain.source, **how)
    from vitrail.deploy.onnx import exported_of, onnx_bytes

    content = onnx_bytes(plain.artefact)
    return OnnxEngine(content, exported_of(content, plain.source), plain.source, **how)


def in_streams(predictor: Predictor, source: str | Path, streams: int) -> Engine | None:
    """The same model behind the same engine for so many calls at once, each with its share of the cores.

    None where the engine has no such form: torch has one pool of threads for all.
    """
    name = predictor.engine.name
    if streams < 2 or name not in EXPORTED:
        return None
    how = {"streams": streams} if name == "openvino" else {"threads": max(1, (os.cpu_count() or 1) // streams)}
    kind = kind_of(source)
    return EXPORTED[kind].open(Path(source), **how) if kind is not None else _export(predictor, name, **how)


def fastest(plain: Predictor, batch_size: int = 1) -> Engine:
    """Of the engines that are installed and agree with torch, the one that answers first on this machine."""
    engines = []
    for name in CANDIDATES:
        with suppress(VitrailError):  # what is not installed, cannot be exported, or says something else
            engines.append(engine_of(plain, name))
    pictures = waves(plain.preprocessing.size, plain.channels, batch_size)
    seconds = race([partial(engine, pictures) for engine in engines])
    return engines[min(range(len(engines)), key=lambda i: statistics.median(seconds[i]))]


def race(calls: Sequence[Callable[[], object]], rounds: int = ROUNDS) -> list[list[float]]:
    """Seconds of each call, a number a round; all take turns, so all see the same machine.

    A rest before each, or the one after a runtime whose threads still spin would pay for them.
    """
    seconds: list[list[float]] = [[] for _ in calls]
    for number in range(rounds + 1):  # the first round warms up and does not count
        for call, kept in zip(calls, seconds, strict=True):
            time.sleep(REST)
            start = time.perf_counter()
            call()
            if number:
                kept.append(time.perf_counter() - start)
    return seconds
