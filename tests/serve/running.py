"""A real server: `vitrail serve` in a process of its own, and what a test asks of it."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import numpy as np
from PIL import Image

from oracles import randomise
from vitrail import Artefact, Preprocessing, create_model
from vitrail.model import Model

CLASSES = ("ant", "bee", "<script>alert(1)</script>")
# `vitrail serve`, with settings that have no option
START = """
import json, sys
from vitrail import load
from vitrail.cli.serve import say
from vitrail.serve.app import run
from vitrail.serve.settings import Settings
from vitrail.serve.watch import start_logging
import torch
torch.set_num_threads(1)
start_logging(True)
model = load(sys.argv[1])
sys.stdin.readline()
run(model, Settings(**json.loads(sys.argv[2])), say)
"""


def save_tiny(path: Path, **facts: Any) -> Path:
    """Two blocks, width 64, 32 pixels, 4 x 4 patches; a name among its classes is an attack."""
    model = create_model(
        "Ti/16", image_size=32, patch_size=8, depth=2, dim=64, heads=2, dim_head=32, mlp_dim=128, num_classes=3
    )
    return save_model(path, model, 32, **facts)


def save_model(path: Path, model: Model, size: int, **facts: Any) -> Path:
    """With weights that are not what they begin as, so that answers differ."""
    steps = Preprocessing(size=size, mean=(0.5,) * 3, std=(0.5,) * 3)
    Artefact(randomise(model), CLASSES, steps, **{"temperature": 1.3, **facts}).save(path)
    return path


def picture(seed: int = 0, kind: str = "PNG", size: tuple[int, int] = (40, 48)) -> bytes:
    """A file of noise in blocks, of its own colours."""
    blocks = np.random.default_rng(seed).integers(0, 256, (5, 6, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(blocks).resize(size[::-1], Image.Resampling.NEAREST).save(file, kind)
    return file.getvalue()


class Running:
    """Use with `with`, or prepare one, and let it `listen` later. `url` is where it is; `client` asks it."""

    def __init__(self, model: Path, port: int = 0, **settings: Any) -> None:
        words = [sys.executable, "-W", "error", "-c", START, str(model)]
        chosen = {"name": "tiny", "port": port, **settings}
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        # A pipe that nobody reads would fill up, and the server wait
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._said}
        self.process = subprocess.Popen([*words, json.dumps(chosen)], text=True, env=environment, **pipes)

    def listen(self) -> Self:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.port = self._port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = httpx.Client(base_url=self.url, timeout=60)
        return self

    def _port(self) -> int:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if found := re.search(r"http://localhost:(\d+)/$", line):
                return int(found[1])
        raise AssertionError(self.log)

    def __enter__(self) -> Self:
        return self.listen()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self.client.close()
        if self.process.poll() is None:
            self.stop()
        self._said.close()

    def stop(self, seconds: float = 60) -> int:
        """SIGTERM, and the exit code."""
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=seconds)
        return self.process.returncode

    @property
    def log(self) -> str:
        """What it said on stderr until now."""
        self._said.seek(0)
        return self._said.read()

    def send(self, data: bytes, seconds: float = 60) -> bytes:
        """Bytes as they are, and all that comes back until the server closes or falls silent."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection:
            try:
                connection.sendall(data)
                answer = b""
                while piece := connection.recv(65536):
                    answer += piece
                    if complete(answer):
                        break
            except (ConnectionResetError, BrokenPipeError):
                pass
        return answer

    def files(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def threads(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/task").iterdir()))

    def resident(self) -> int:
        """Bytes of memory."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


def complete(answer: bytes) -> bool:
    """Whether a whole answer with a Content-Length is there."""
    head, ended, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    return bool(ended and length and len(body) >= int(length[1]))


def status(answer: bytes) -> int:
    """Of an answer as bytes; 0 where the connection was closed without one."""
    found = re.match(rb"HTTP/1\.1 (\d{3})", answer)
    return int(found[1]) if found else 0
