"""Where pictures come from: `open_data` turns any source into `Examples`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from vitrail.data import catalog
from vitrail.data.arrays import is_idx, open_idx, open_npz
from vitrail.data.examples import NO_LABEL, Examples
from vitrail.data.folders import open_folder
from vitrail.data.labels import PICTURE_SUFFIXES, SPLIT_WORDS, check_two_classes, fit_classes
from vitrail.data.manifest import TABLE_SUFFIXES, is_there, open_manifest
from vitrail.data.shards import open_shards
from vitrail.data.split import read_split, split_examples
from vitrail.errors import FileError, did_you_mean


def open_data(
    source: str | Path,
    *,
    labelled: bool = True,
    val: float | None = None,
    test: float = 0.0,
    seed: int = 0,
    split_file: Path | None = None,
    classes: tuple[str, ...] | None = None,
) -> Examples:
    """The pictures of a source: a folder, a table (CSV, TSV, Parquet), tar shards, an .npz, idx files, or a known name.

    Splits that the source names stay as they are. `val` and `test` are parts of the training pictures to take where
    there is no such split; `val=None` takes a tenth where the source names no split at all, and nothing otherwise.
    `split_file` restores the splits of an earlier run instead. `labelled=False` neither asks for labels nor reads them.
    `classes` are a model's, in its order: labels that it does not know are an error.
    """
    examples = _read(source, labelled)
    if classes is not None and labelled:
        examples = fit_classes(examples, classes)
    elif labelled:
        check_two_classes(examples)
    if split_file is not None:
        return read_split(split_file, examples)
    as_given = val is None and set(examples.splits) != {"train"}
    return split_examples(examples, val=0.0 if as_given else val, test=test, seed=seed)


def _read(source: str | Path, labelled: bool) -> Examples:
    path = Path(source)
    known = str(source) in catalog.CATALOG
    if known and not path.exists():
        found = catalog.get(str(source))
        return found if labelled else found.replace(targets=np.full_like(found.targets, NO_LABEL), classes=())
    examples = _reader(path)(path, labelled=labelled)
    if known:
        note = f"{source} is read from the path of that name here, not from the catalog"
        return examples.replace(notes=(note, *examples.notes))
    return examples


def _reader(path: Path) -> Callable[..., Examples]:
    """Who reads a path: by what a folder holds, else by the end of the name."""
    suffix = path.suffix.lower()
    if not is_there(path):
        if suffix == ".tar":  # perhaps a pattern, which does not exist as such
            return open_shards
        raise _not_there(path)
    if path.is_dir():
        return _folder_reader(path)
    if suffix == ".tar":
        return open_shards
    if suffix in TABLE_SUFFIXES:
        return open_manifest
    if suffix == ".npz":
        return open_npz
    if is_idx(path):
        return open_idx
    if suffix in PICTURE_SUFFIXES:
        raise FileError("one picture is not a data set", where=path, fix="give the folder that holds the class folders")
    kinds = "a folder, .csv, .tsv, .parquet, .tar, .npz or an idx file"
    raise FileError(f"data of an unknown kind ({suffix or 'no suffix'})", where=path, fix=f"give {kinds}")


def _folder_reader(folder: Path) -> Callable[..., Examples]:
    """Shards may lie in folders of the splits; any other folder is a class, and a tar beside it an accident."""
    try:
        inside = [path for path in folder.iterdir() if not path.name.startswith(".")]
        splits = [path for path in inside if path.is_dir() and path.name.lower() in SPLIT_WORDS]
        inside += [path for split in splits for path in split.iterdir()]
    except OSError as error:
        raise FileError(f"cannot be listed ({error.strerror})", where=folder, fix="check its permissions") from error
    if any(is_idx(path) for path in inside):
        return open_idx
    only_files = all(path in splits or not path.is_dir() for path in inside)
    return open_shards if only_files and any(path.suffix == ".tar" for path in inside) else open_folder


def _not_there(path: Path) -> FileError:
    near = did_you_mean(str(path), catalog.CATALOG)
    if re.fullmatch(r"[\w-]+", str(path)):
        return FileError("no such folder or file, and no data set of that name", where=path, fix=near)
    return FileError("no such folder or file", where=path, fix="check the path")
