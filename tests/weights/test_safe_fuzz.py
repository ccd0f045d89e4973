"""M2 for weights: mutated files load or are refused by our own errors; nothing else is raised, nothing hangs."""

from __future__ import annotations

import contextlib
import io
import zipfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save

from vitrail.errors import WeightsError
from vitrail.weights.safe import read_tensors
from weights.forging import checkpoint, npy, npz, safetensors, torch_saved, zipped

Edit = tuple[float, int, bytes]  # where (a fraction of the length), how many bytes go, which come

SHORT, FULL = 150, 20_000
NUMBERS = (b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"9", b"-1", b"1e9")
WORDS = (*NUMBERS, b".", b"(", b"}", b"]", b'"', b",", b"R", b"b", b"s", b"q\x00", b"h\x00", b"cos\nsystem\n", b"|O")

edits = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.sampled_from((0, 0, 1, 1, 1, 2, 4, 8, 1000)),
        st.one_of(st.binary(max_size=4), st.sampled_from(WORDS)),
    ),
    min_size=1,
    max_size=6,
)

MODULE = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2))
SAFETENSORS = save(dict(MODULE.state_dict()), {"config": '{"dim": 3}'})
TORCH = torch_saved({"model": MODULE.state_dict(), "epoch": 3})
PICKLE = zipfile.ZipFile(io.BytesIO(TORCH)).read("archive/data.pkl")
STORAGES = {str(key): zipfile.ZipFile(io.BytesIO(TORCH)).read(f"archive/data/{key}") for key in range(4)}
NPZ = npz(a=np.ones((2, 3), dtype=np.float32), b=np.zeros(4, dtype=np.int64))
HEADER_END = 8 + int.from_bytes(SAFETENSORS[:8], "little")


def mutated(content: bytes, changes: list[Edit]) -> bytes:
    for place, gone, new in changes:
        at = int(place * (len(content) + 1))
        content = content[:at] + new + content[at + gone :]
    return content


# The last three keep what surrounds the mutation valid (lengths, checksums), so that it reaches the inner parser.
TARGETS: dict[str, Callable[[list[Edit]], bytes]] = {
    "safetensors": lambda changes: mutated(SAFETENSORS, changes),
    "npz": lambda changes: mutated(NPZ, changes),
    "torch": lambda changes: mutated(TORCH, changes),
    "safetensors header": lambda changes: safetensors(
        mutated(SAFETENSORS[8:HEADER_END], changes), SAFETENSORS[HEADER_END:]
    ),
    "npy": lambda changes: zipped({"a.npy": mutated(npy(np.ones((2, 3))), changes)}),
    "pickle": lambda changes: checkpoint(mutated(PICKLE, changes), STORAGES),
}


def fuzz(target: str, path: Path, examples: int) -> None:
    @settings(
        max_examples=examples,
        deadline=timedelta(seconds=5),
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(edits)
    def loads_or_is_refused(changes: list[Edit]) -> None:
        path.write_bytes(TARGETS[target](changes))
        with contextlib.suppress(WeightsError):
            assert all(isinstance(value, torch.Tensor) for value in read_tensors(path).tensors.values())

    loads_or_is_refused()


@pytest.mark.parametrize("target", TARGETS)
def test_unchanged_files_load(target: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(TARGETS[target]([]))
    assert read_tensors(tmp_path / "file").tensors


@pytest.mark.parametrize("target", TARGETS)
def test_mutated_files(target: str, tmp_path: Path) -> None:
    fuzz(target, tmp_path / "file", SHORT)


@pytest.mark.full
@pytest.mark.parametrize("target", TARGETS)
def test_mutated_files_in_full(target: str, tmp_path: Path) -> None:
    fuzz(target, tmp_path / "file", FULL)


@pytest.mark.parametrize("target", ["safetensors", "npz", "torch"])
def test_every_cut_and_every_flipped_byte(target: str, tmp_path: Path) -> None:
    """A cut file never loads; a flipped byte never raises anything but our error."""
    content, path = TARGETS[target]([]), tmp_path / "file"
    for at in range(0, len(content), 7):
        path.write_bytes(content[:at])
        with pytest.raises(WeightsError):
            read_tensors(path)
        path.write_bytes(content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :])
        with contextlib.suppress(WeightsError):
            read_tensors(path)
