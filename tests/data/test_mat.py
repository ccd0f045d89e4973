"""MATLAB 5 files beside scipy's own writer."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.io import savemat

from vitrail.data.mat import read_mat
from vitrail.errors import FileError


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.uint16, np.int32, np.float64])
@pytest.mark.parametrize("size", [1, 3, 200])
def test_whole_numbers_come_back(packed: bool, kind: type, size: int, tmp_path: Path) -> None:
    arrays = {"labels": (np.arange(size) % 100).astype(kind)[None], "x": np.array([[7]], kind)}
    savemat(tmp_path / "a.mat", arrays, do_compression=packed)
    found = read_mat(tmp_path / "a.mat")
    assert list(found) == ["labels", "x"]
    np.testing.assert_array_equal(found["labels"], arrays["labels"][0])


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 1000), value=st.integers(0, 255), packed=st.booleans())
def test_damage_gives_only_our_errors(place: int, value: int, packed: bool, tmp_path: Path) -> None:
    savemat(tmp_path / "a.mat", {"labels": np.arange(50, dtype=np.uint8)}, do_compression=packed)
    data = bytearray((tmp_path / "a.mat").read_bytes())
    data[place % len(data)] = value
    (tmp_path / "a.mat").write_bytes(data)
    with contextlib.suppress(FileError):
        read_mat(tmp_path / "a.mat")
