"""`vitrail serve` with and without batches, beside LitServe with the same model: one run, interleaved.

    python benchmarks/serving.py [--model RUN] [--clients 1 4 16] [--requests 200] [--rounds 3] [--out serving.json]

All servers are up all the time and asked in turn, so that whatever else the machine does falls on all of them alike.
Each is asked as its own documentation does it: ours with the picture as the body, LitServe with base64 in JSON. Both
read the picture and answer with the five most probable classes. LitServe computes with torch; ours with the engine that
it measures to be the fastest, as `vitrail serve` does, and once more with torch. Without --model, a Ti/16 of random
weights.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from PIL import Image

from vitrail import Artefact, Preprocessing, create_model

OURS = """
import sys
from vitrail.cli.serve import say
from vitrail.deploy.engines import load_with
from vitrail.serve.app import run
from vitrail.serve.settings import Settings
engine, batching = sys.argv[3].split()
run(load_with(sys.argv[1], engine), Settings(port=int(sys.argv[2]), batching=batching == "on"), say)
"""
LITSERVE = """
import base64, sys
import numpy as np
import litserve
from vitrail import load

class Api(litserve.LitAPI):
    def setup(self, device):
        self.predictor = load(sys.argv[1])
    def decode_request(self, request):
        return self.predictor.read(base64.b64decode(request["picture"]))
    def predict(self, pictures):
        many = isinstance(pictures, list)
        answers = self.predictor.decision.answers(self.predictor.engine(np.stack(pictures if many else [pictures])), 5)
        return [answer.to_dict() for answer in answers] if many else answers[0].to_dict()
    def batch(self, pictures):
        return pictures
    def encode_response(self, answer):
        return answer

if __name__ == "__main__":
    size = int(sys.argv[3])
    server = litserve.LitServer(Api(max_batch_size=size, batch_timeout=0.01), accelerator="cpu")
    server.run(port=int(sys.argv[2]), generate_client_file=False, log_level="error")
"""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--model", type=Path)
    options.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16])
    options.add_argument("--requests", type=int, default=200)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--out", type=Path)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        model = chosen.model or make_model(Path(folder) / "model.safetensors")
        servers = start_all(stack, Path(folder), model)
        rows = measure(servers, pictures(), chosen.clients, chosen.requests, chosen.rounds)
    document = {"model": str(chosen.model or "Ti/16, random"), "requests": chosen.requests, "rows": rows}
    if chosen.out:
        chosen.out.write_text(json.dumps(document, indent=1) + "\n")
    show(rows)
    return 0


def make_model(path: Path) -> Path:
    model = create_model("Ti/16", num_classes=100)
    Artefact(model, preprocessing=Preprocessing(size=224, mean=(0.5,) * 3, std=(0.5,) * 3)).save(path)
    return path


def pictures() -> list[bytes]:
    """Eight photographs' worth of noise, 640 x 480."""
    generator = np.random.default_rng(0)
    made = []
    for _ in range(8):
        noise = Image.fromarray(generator.integers(0, 256, (12, 16, 3), np.uint8))
        file = io.BytesIO()
        noise.resize((640, 480), Image.Resampling.BICUBIC).save(file, "JPEG", quality=90)
        made.append(file.getvalue())
    return made


Ask = Callable[[httpx.Client, bytes], httpx.Response]


def ask_ours(client: httpx.Client, picture: bytes) -> httpx.Response:
    return client.post("/v1/predict", content=picture, headers={"Content-Type": "image/jpeg"})


def ask_litserve(client: httpx.Client, picture: bytes) -> httpx.Response:
    return client.post("/predict", json={"picture": base64.b64encode(picture).decode()})


def start_all(stack: ExitStack, folder: Path, model: Path) -> dict[str, tuple[str, Ask]]:
    kinds: list[tuple[str, str, str, Ask]] = [
        ("vitrail, batches", OURS, "auto on", ask_ours),
        ("vitrail, one by one", OURS, "auto off", ask_ours),
        ("vitrail, torch, batches", OURS, "torch on", ask_ours),
        ("litserve, batches of 8", LITSERVE, "8", ask_litserve),
        ("litserve, one by one", LITSERVE, "1", ask_litserve),
    ]
    servers = {}
    for name, code, how, ask in kinds:
        script = folder / (re.sub(r"\W+", "_", name) + ".py")
        script.write_text(code)
        servers[name] = (stack.enter_context(started(script, model, how, ask)), ask)
    return servers


@contextmanager
def started(script: Path, model: Path, how: str, ask: Ask) -> Iterator[str]:
    """A server in a process of its own, once it answers."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [sys.executable, str(script), str(model), str(port), how]
    with (script.with_suffix(".log")).open("w") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, env=os.environ, start_new_session=True)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for(url, ask, process, script.with_suffix(".log"))
        yield url
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """With all that it started, some of which outlives it."""
    for signal_ in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal_)
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)


def wait_for(url: str, ask: Ask, process: subprocess.Popen[bytes], log: Path) -> None:
    with httpx.Client(base_url=url, timeout=60) as client:
        while process.poll() is None:
            try:
                if ask(client, pictures()[0]).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.3)
    raise SystemExit(f"{log.stem} did not start:\n{log.read_text()[-2000:]}")


def measure(
    servers: dict[str, tuple[str, Ask]], files: list[bytes], clients: list[int], requests: int, rounds: int
) -> list[dict[str, Any]]:
    found: dict[tuple[str, int], list[tuple[float, list[float]]]] = {}
    for _ in range(rounds):
        for count in clients:
            for name, (url, ask) in servers.items():
                found.setdefault((name, count), []).append(load(url, ask, files, count, requests))
    return [summary(name, count, runs) for (name, count), runs in found.items()]


def load(url: str, ask: Ask, files: list[bytes], clients: int, requests: int) -> tuple[float, list[float]]:
    """Requests a second, and the seconds of each, with so many clients that each wait for their answer."""
    left, lock = iter(range(requests)), threading.Lock()

    def work(_: int) -> list[float]:
        seconds = []
        with httpx.Client(base_url=url, timeout=120) as client:
            while True:
                with lock:
                    number = next(left, None)
                if number is None:
                    return seconds
                start = time.perf_counter()
                ask(client, files[number % len(files)]).raise_for_status()
                seconds.append(time.perf_counter() - start)

    start = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        seconds = [each for group in pool.map(work, range(clients)) for each in group]
    return requests / (time.perf_counter() - start), seconds


def summary(name: str, clients: int, runs: list[tuple[float, list[float]]]) -> dict[str, Any]:
    seconds = np.array([each for _, group in runs for each in group])
    return {
        "server": name,
        "clients": clients,
        "requests_a_second": round(statistics.median(rate for rate, _ in runs), 2),
        "p50_ms": round(float(np.quantile(seconds, 0.5)) * 1000, 1),
        "p99_ms": round(float(np.quantile(seconds, 0.99)) * 1000, 1),
    }


def show(rows: list[dict[str, Any]]) -> None:
    print(f"{'server':26}{'clients':>8}{'requests/s':>12}{'p50 ms':>9}{'p99 ms':>9}")
    for row in sorted(rows, key=lambda row: row["clients"]):
        rate, p50, p99 = row["requests_a_second"], row["p50_ms"], row["p99_ms"]
        print(f"{row['server']:26}{row['clients']:>8}{rate:>12}{p50:>9}{p99:>9}")


if __name__ == "__main__":
    sys.exit(main())
