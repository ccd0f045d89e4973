"""Loads files while an audit hook, a clock and the kernel's memory high-water mark look on; run as a program.

`python watched_loads.py FOLDER NAME...` loads every file of FOLDER by every named load path and prints one JSON line
for each. A new way to load a model is tested against all hostile files by adding a row to `LOAD_PATHS`.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import vitrail
from vitrail.cli import convert, inspect
from vitrail.errors import VitrailError
from vitrail.weights.safe import npz_header, read_tensors, safetensors_header, write_safetensors


@dataclass(frozen=True)
class LoadPath:
    """A way to open a model file; some only list what is in it."""

    load: Callable[[Path], Any]
    reads_values: bool = True


def unsafe_load(path: Path) -> Any:
    """What nobody should do: the control that shows that the hook sees a gadget run."""
    return pickle.loads(path.read_bytes())


def inspect_file(path: Path) -> Any:
    return inspect.command(str(path))


def convert_file(path: Path) -> Any:
    """Beside the file; a refused file must leave nothing there."""
    return convert.command(str(path), path.with_name(path.name + ".converted.safetensors"))


LOAD_PATHS = {
    "vitrail.load": LoadPath(vitrail.load),
    "vitrail inspect": LoadPath(inspect_file),
    "vitrail convert": LoadPath(convert_file),
    "read_tensors": LoadPath(read_tensors),
    "safetensors_header": LoadPath(safetensors_header, reads_values=False),
    "npz_header": LoadPath(npz_header, reads_values=False),
}
CONTROL = {"unsafe": LoadPath(unsafe_load)}

WATCHED = {
    *("exec", "compile", "marshal.loads", "pickle.find_class", "code.__new__", "ctypes.dlopen"),
    *("os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "subprocess.Popen"),
    *("socket.connect", "socket.bind", "socket.getaddrinfo", "urllib.Request"),
    *("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown"),
    *("shutil.rmtree", "shutil.move", "shutil.copyfile", "tempfile.mkstemp", "tempfile.mkdtemp"),
}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Watch:
    """Audit events of the kinds above, recorded while `watching`."""

    def __init__(self) -> None:
        self.watching, self.events = False, list[str]()
        sys.addaudithook(self.hook)

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.watching:
            return
        if event in WATCHED or (event == "open" and arguments[2] & WRITING):
            self.events.append(f"{event} {arguments!r}"[:200])

    def run(self, load: Callable[[Path], Any], path: Path) -> dict[str, Any]:
        self.events.clear()
        outcome: dict[str, Any] = {"error": None, "message": "", "ours": False}
        before, start = _reset_high_water_mark(), time.perf_counter()
        self.watching = True
        try:
            load(path)
        except BaseException as error:
            outcome = {"error": type(error).__name__, "message": str(error), "ours": isinstance(error, VitrailError)}
        self.watching = False
        seconds, memory = time.perf_counter() - start, _kilobytes("VmHWM") - before
        return {**outcome, "seconds": seconds, "memory": memory * 1024, "events": list(self.events)}


def _kilobytes(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def _reset_high_water_mark() -> int:
    Path("/proc/self/clear_refs").write_text("5")
    return _kilobytes("VmRSS")


def warm_up() -> None:
    """Good and bad files by every path, so that no lazy import is taken for an act of a hostile file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_safetensors(folder / "good.safetensors", {"w": torch.ones(2)})
        torch.save({"w": torch.ones(2)}, folder / "good.pt")
        np.savez(folder / "good.npz", w=np.ones(2))
        (folder / "bad.pt").write_bytes(b"PK\x03\x04")
        for path in sorted(folder.iterdir()):
            for way in LOAD_PATHS.values():
                try:
                    way.load(path)
                except VitrailError:
                    continue


def main(folder: str, *names: str) -> None:
    warm_up()
    watch = Watch()
    for path in sorted(Path(folder).iterdir()):
        for name in names:
            print(json.dumps({"file": path.name, "by": name, "started": True}), flush=True)
            result = watch.run((LOAD_PATHS | CONTROL)[name].load, path)
            print(json.dumps({"file": path.name, "by": name, "size": path.stat().st_size, **result}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
