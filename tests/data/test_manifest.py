"""Tables of pictures: dialects of CSV, Parquet, several labels, splits and groups."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pyarrow
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from data.small_sets import table, write_picture
from vitrail.data.manifest import open_manifest
from vitrail.data.sources import open_data
from vitrail.errors import FileError, VitrailError


@pytest.mark.parametrize(
    "text",
    [
        "path,label\na.png,cat\nb.png,dog\n",
        "path;label\na.png;cat\nb.png;dog\n",
        "path\tlabel\na.png\tcat\nb.png\tdog\n",
        "\ufeffpath,label\r\na.png,cat\r\n\r\nb.png,dog",
        ' Filename , CLASS \n"a.png",cat\n b.png , dog \n',
        "id,image,weight,category\n1,a.png,3,cat\n2,b.png,4,dog\n",
        "label,path,label_note\ncat,a.png,x\ndog,b.png,y\n",
    ],
)
def test_dialects_of_csv(text: str, tmp_path: Path) -> None:
    found = open_manifest(table(tmp_path, text))
    assert found.classes == ("cat", "dog")
    assert found.targets.tolist() == [0, 1]
    assert found.pictures.name(1) == str(tmp_path / "b.png")


def test_paths_up_and_absolute(tmp_path: Path) -> None:
    away = write_picture(tmp_path / "away" / "x.png", 9)
    inner = tmp_path / "inner"
    inner.mkdir()
    found = open_manifest(table(inner, f"path,label\n../away/x.png,cat\n{inner / 'a.png'},dog\n"))
    assert found.pictures.name(0) == str(away)
    assert found.pictures.read(0)[0, 0, 0] == 9


def test_several_labels(tmp_path: Path) -> None:
    found = open_manifest(table(tmp_path, "path,labels\na.png,cat|dog\nb.png,dog; bird\nc.png,cat\n"))
    assert found.multi_label
    assert found.classes == ("bird", "cat", "dog")
    assert found.targets.tolist() == [[0, 1, 1], [1, 0, 1], [0, 1, 0]]


def test_numbers_as_labels_are_in_the_order_of_numbers(tmp_path: Path) -> None:
    found = open_manifest(table(tmp_path, "path,label\na.png,10\nb.png,9\nc.png,0\n"))
    assert found.classes == ("0", "9", "10")


def test_splits_and_groups(tmp_path: Path) -> None:
    text = "path,label,split,group\na.png,x,Training,p1\nb.png,y,train,\nc.png,x,valid,p2\nd.png,y,test,p3\n"
    found = open_manifest(table(tmp_path, text))
    assert {split: indices.tolist() for split, indices in found.splits.items()} == {
        "train": [0, 1],
        "val": [2],
        "test": [3],
    }
    assert found.groups == ("p1", str(tmp_path / "b.png"), "p2", "p3")


def test_without_labels(tmp_path: Path) -> None:
    found = open_data(table(tmp_path, "path\na.png\nb.png\n"), labelled=False, val=0.0)
    assert found.targets.tolist() == [-1, -1]


def test_parquet_reads_as_csv_does(tmp_path: Path) -> None:
    csv = open_manifest(table(tmp_path, "path,label,split\na.png,0,train\nb.png,1,train\nc.png,1,test\n"))
    columns = {
        "path": ["a.png", "b.png", "c.png"],
        "label": [0, 1, 1],
        "split": ["train", "train", "test"],
        "more": [b""] * 3,
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "data.parquet")
    found = open_manifest(tmp_path / "data.parquet")
    assert found.fingerprint() == csv.fingerprint()


def test_parquet_lists_are_several_labels(tmp_path: Path) -> None:
    write_picture(tmp_path / "a.png")
    write_picture(tmp_path / "b.png")
    rows = pyarrow.table({"path": ["a.png", "b.png"], "label": [["x", "y"], ["y"]]})
    parquet.write_table(rows, tmp_path / "data.parquet")
    assert open_manifest(tmp_path / "data.parquet").targets.tolist() == [[1, 1], [0, 1]]


PARQUET_FAULTS = {
    "null label": ({"path": ["a.png"], "label": [None]}, "row 1: an empty label"),
    "bytes for paths": ({"path": [b"\x89PNG"], "label": ["x"]}, "column 'path' holds bytes, not text"),
    "no label": ({"path": ["a.png"], "what": ["x"]}, "no column 'label'"),
}


@pytest.mark.parametrize("fault", PARQUET_FAULTS)
def test_parquet_faults(fault: str, tmp_path: Path) -> None:
    columns, said = PARQUET_FAULTS[fault]
    parquet.write_table(pyarrow.table(columns), tmp_path / "data.parquet")
    with pytest.raises(FileError, match=said):
        open_manifest(tmp_path / "data.parquet")


def test_damaged_parquet(tmp_path: Path) -> None:
    (tmp_path / "data.parquet").write_bytes(b"PAR1 and nothing else PAR1")
    with pytest.raises(FileError, match="cannot be read as Parquet"):
        open_manifest(tmp_path / "data.parquet")


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(noise=st.binary(max_size=80), start=st.sampled_from([b"", b"path,label\n", b"path,label,split,group\na.png,"]))
def test_whatever_the_bytes_only_our_errors(noise: bytes, start: bytes, tmp_path: Path) -> None:
    with contextlib.suppress(VitrailError):
        open_manifest(table(tmp_path, start + noise, pictures=("a.png",)))
