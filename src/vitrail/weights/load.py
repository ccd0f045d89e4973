"""From a source, whatever it is, to a model: a file, a run, a folder in timm's or Hugging Face's layout, a hub name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vitrail.config import Pair, Preprocessing, ViTConfig
from vitrail.errors import ConfigError, FileError, VitrailError, WeightsError
from vitrail.model.sizes import ModelConfig
from vitrail.weights import huggingface
from vitrail.weights.adapt import adapt, build_with
from vitrail.weights.artefact import Artefact, read_artefact
from vitrail.weights.description import KEY
from vitrail.weights.formats import detect
from vitrail.weights.safe import WeightsFile, read_tensors

WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin", "model.pth", "model.pt")
SUFFIXES = (".safetensors", ".npz", ".bin", ".pt", ".pth")
HUB, LOCAL = "hf-hub:", "local-dir:"
MAX_JSON = 16 * 2**20  # a config.json with names for a million classes is still smaller


def is_stored(source: str | Path) -> bool:
    """Does this name something stored (even if it is missing), rather than a model by name?"""
    name = str(source)
    return name.startswith((HUB, LOCAL)) or Path(name).suffix in SUFFIXES or Path(name).exists()


def load(
    source: str | Path,
    *,
    image_size: int | Pair | None = None,
    num_classes: int | None = None,
    channels: int | None = None,
    any_size: bool | None = None,
    check: bool = False,
    **settings: Any,
) -> Artefact:
    """A model from `source`, adapted if asked: positions to another image size, a new head, other channels.

    `settings` say what foreign weights cannot tell, such as `heads=8`. `check=True` compares the answers stored in
    one of our files with the model's.
    """
    artefact = _read(source, {**settings, **({} if image_size is None else {"image_size": image_size})})
    if check:
        artefact.check()
    changes = {"image_size": image_size, "num_classes": num_classes, "channels": channels}
    return _adapted(artefact, any_size, {name: value for name, value in changes.items() if value is not None})


def _read(source: str | Path, settings: Mapping[str, Any]) -> Artefact:
    name = str(source)
    if name.startswith(HUB):
        from vitrail.weights.hub import download  # the hub's client is an extra

        return _read_folder(download(name.removeprefix(HUB)), settings, name)
    path = Path(name.removeprefix(LOCAL))
    return _read_folder(path, settings, name) if path.is_dir() else _read_file(path, settings, {})


def _read_folder(folder: Path, settings: Mapping[str, Any], source: str) -> Artefact:
    try:
        names = {path.name for path in folder.iterdir()}
    except OSError as error:
        raise FileError(f"cannot be opened: {error.strerror}", where=source, fix="check the folder") from error
    found = [name for name in WEIGHT_FILES if name in names]
    if not found:
        raise FileError(f"no weights in this folder (looked for {', '.join(WEIGHT_FILES)})", where=source)
    described = _read_json(folder / "config.json") if "config.json" in names else {}
    preprocessor = _read_json(folder / "preprocessor_config.json") if "preprocessor_config.json" in names else {}
    return _read_file(folder / found[0], settings, described, preprocessor)


def _read_file(
    path: Path, settings: Mapping[str, Any], described: Mapping[str, Any], preprocessor: Mapping[str, Any] | None = None
) -> Artefact:
    file = read_tensors(path)
    if KEY in file.metadata:
        return read_artefact(file.tensors, file.metadata, str(path))
    try:
        return _read_foreign(file, settings, described, preprocessor or {}, path)
    except VitrailError as error:
        raise WeightsError(error.what, where=error.where or path, fix=error.fix) from error
    except (KeyError, IndexError, TypeError, ValueError, ZeroDivisionError) as error:
        raise WeightsError(f"its tensors make no model ({error!r})", where=path, fix="is the file complete?") from error


def _read_foreign(
    file: WeightsFile,
    settings: Mapping[str, Any],
    described: Mapping[str, Any],
    preprocessor: Mapping[str, Any],
    path: Path,
) -> Artefact:
    found = detect({name: tuple(tensor.shape) for name, tensor in file.tensors.items()})
    config, state = found.read(file.tensors, {**described, **settings})
    return Artefact(
        model=build_with(config, state),
        classes=_classes(described, config.num_classes),
        preprocessing=_preprocessing(described, preprocessor, config),
        source=f"{path} ({found.name})",
    )


def _read_json(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MAX_JSON:
            raise FileError("is too large to be a configuration", where=path)
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise FileError(f"cannot be read as JSON ({error})", where=path) from error
    if not isinstance(values, dict):
        raise FileError("is not a JSON object", where=path)
    return values


def _classes(described: Mapping[str, Any], count: int) -> tuple[str, ...] | None:
    names = described.get("label_names")  # timm
    classes = tuple(map(str, names)) if isinstance(names, list) else huggingface.classes_of(described)
    return classes if classes and len(classes) == count else None


def _preprocessing(
    described: Mapping[str, Any], preprocessor: Mapping[str, Any], config: ModelConfig
) -> Preprocessing | None:
    """timm's `pretrained_cfg` or Hugging Face's preprocessor_config.json; None when neither is there or makes sense."""
    timm = described.get("pretrained_cfg")
    stated = timm if isinstance(timm, Mapping) else preprocessor
    mean, std = stated.get("mean", stated.get("image_mean")), stated.get("std", stated.get("image_std"))
    if mean is None or std is None or len(mean) != config.channels:
        return None
    try:
        crop = float(stated.get("crop_pct") or 1.0)
        return Preprocessing(size=config.image_size, mean=tuple(mean), std=tuple(std), crop=crop)
    except (ConfigError, TypeError, ValueError):
        return None


def _adapted(artefact: Artefact, any_size: bool | None, changes: dict[str, Any]) -> Artefact:
    old = artefact.model.config
    config, state = adapt(old, artefact.model.state_dict(), **changes)
    if any_size is not None and isinstance(config, ViTConfig):
        config = config.replace(any_size=any_size)
    if config == old:
        return artefact
    same_classes = config.num_classes == old.num_classes
    preprocessing = artefact.preprocessing
    if preprocessing is not None and config.channels == old.channels:
        preprocessing = preprocessing.replace(size=config.image_size)
    return Artefact(
        model=build_with(config, state),
        classes=artefact.classes if same_classes else None,
        preprocessing=preprocessing if config.channels == old.channels else None,
        multi_label=artefact.multi_label and same_classes,
        data_fingerprint=artefact.data_fingerprint,
        source=artefact.source,
    )
