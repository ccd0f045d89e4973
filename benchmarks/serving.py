"""`vitrail serve`, and one by one, beside LitServe with the same model: one run, interleaved.

    python benchmarks/serving.py [--model RUN] [--clients 1 4 16] [--requests 200] [--rounds 3] [--out serving.json]

All servers are up all the time and asked in turn, so that whatever else the machine does falls on all of them alike.
Each is asked as its own documentation does it: ours with the picture as the body, LitServe with base64 in JSON. Both
read the picture and answer with the five most probable classes. LitServe computes with torch; ours with the engine that
it measures to be the fastest, as `vitrail serve` does, and once more with torch. Without --model, a Ti/16 of random
weights. Beside the times stands what an answer costs: milliseconds of the processor, of the server with all that it
started, and of those who ask, who share the cores with it.
"""

from __future__ import annotations

import argparse
import base64
import http.client
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
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from vitrail import Artefact, Preprocessing, create_model

OURS = """
import sys
from vitrail.cli.serve import say, streams_of
from vitrail.deploy.engines import load_with
from vitrail.serve.app import run
from vitrail.serve.settings import Settings
engine, batching = sys.argv[3].split()
predictor, settings = load_with(sys.argv[1], engine), Settings(port=int(sys.argv[2]), batching=batching == "on")
run(predictor, settings, say, streams_of(predictor, sys.argv[1]))
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


Ask = Callable[[http.client.HTTPConnection, bytes], None]


class Server(NamedTuple):
    port: int
    session: int  # of its processes
    ask: Ask


class Load(NamedTuple):
    """What so many requests took: seconds in all and of each, and of the processor for the server and for asking."""

    whole: float
    each: list[float]
    server: float
    asking: float


def ask_ours(connection: http.client.HTTPConnection, picture: bytes) -> None:
    connection.request("POST", "/v1/predict", picture, {"Content-Type": "image/jpeg"})
    heard(connection)


def ask_litserve(connection: http.client.HTTPConnection, picture: bytes) -> None:
    body = json.dumps({"picture": base64.b64encode(picture).decode()})
    connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
    heard(connection)


def heard(connection: http.client.HTTPConnection) -> None:
    answer = connection.getresponse()
    answer.read()
    if answer.status != 200:
        raise ConnectionError(f"answered {answer.status}")


def start_all(stack: ExitStack, folder: Path, model: Path) -> dict[str, Server]:
    kinds: list[tuple[str, str, str, Ask]] = [
        ("vitrail, as it chooses", OURS, "auto on", ask_ours),
        ("vitrail, one by one", OURS, "auto off", ask_ours),
        ("vitrail, torch", OURS, "torch on", ask_ours),
        ("litserve, batches of 8", LITSERVE, "8", ask_litserve),
        ("litserve, one by one", LITSERVE, "1", ask_litserve),
    ]
    servers = {}
    for name, code, how, ask in kinds:
        script = folder / (re.sub(r"\W+", "_", name) + ".py")
        script.write_text(code)
        servers[name] = stack.enter_context(started(script, model, how, ask))
    return servers


@contextmanager
def started(script: Path, model: Path, how: str, ask: Ask) -> Iterator[Server]:
    """A server in a session of its own, once it answers."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [sys.executable, str(script), str(model), str(port), how]
    with (script.with_suffix(".log")).open("w") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, env=os.environ, start_new_session=True)
    try:
        wait_for(port, ask, process, script.with_suffix(".log"))
        yield Server(port, process.pid, ask)
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """With all that it started, some of which outlives it."""
    for signal_ in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal_)
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)


def wait_for(port: int, ask: Ask, process: subprocess.Popen[bytes], log: Path) -> None:
    while process.poll() is None:
        with suppress(OSError, http.client.HTTPException), connected(port) as connection:
            return ask(connection, pictures()[0])
        time.sleep(0.3)
    raise SystemExit(f"{log.stem} did not start:\n{log.read_text()[-2000:]}")


def connected(port: int) -> closing[http.client.HTTPConnection]:
    return closing(http.client.HTTPConnection("127.0.0.1", port, timeout=120))


def measure(
    servers: dict[str, Server], files: list[bytes], clients: list[int], requests: int, rounds: int
) -> list[dict[str, Any]]:
    found: dict[tuple[str, int], list[Load]] = {}
    for _ in range(rounds):
        for count in clients:
            for name, server in servers.items():
                found.setdefault((name, count), []).append(load(server, files, count, requests))
    return [summary(name, count, runs) for (name, count), runs in found.items()]


def load(server: Server, files: list[bytes], clients: int, requests: int) -> Load:
    """So many requests by so many clients, each of whom waits for its answer before it asks again."""
    left, lock = iter(range(requests)), threading.Lock()

    def work(_: int) -> list[float]:
        seconds = []
        with connected(server.port) as connection:
            while True:
                with lock:
                    number = next(left, None)
                if number is None:
                    return seconds
                start = time.perf_counter()
                server.ask(connection, files[number % len(files)])
                seconds.append(time.perf_counter() - start)

    start, before, asking = time.perf_counter(), processor_seconds(server.session), time.process_time()
    with ThreadPoolExecutor(clients) as pool:
        each = [seconds for group in pool.map(work, range(clients)) for seconds in group]
    whole, asking = time.perf_counter() - start, time.process_time() - asking
    return Load(whole, each, processor_seconds(server.session) - before, asking)


def processor_seconds(session: int) -> float:
    """What all processes of a session have used so far."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def summary(name: str, clients: int, runs: list[Load]) -> dict[str, Any]:
    each = np.array([seconds for run in runs for seconds in run.each])
    return {
        "server": name,
        "clients": clients,
        "requests_a_second": round(statistics.median(len(run.each) / run.whole for run in runs), 2),
        "p50_ms": round(float(np.quantile(each, 0.5)) * 1000, 1),
        "p99_ms": round(float(np.quantile(each, 0.99)) * 1000, 1),
        "server_processor_ms": round(sum(run.server for run in runs) / len(each) * 1000, 1),
        "asking_processor_ms": round(sum(run.asking for run in runs) / len(each) * 1000, 1),
    }


COLUMNS = {
    "requests_a_second": "requests/s",
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "server_processor_ms": "server CPU ms",
    "asking_processor_ms": "asking CPU ms",
}


def show(rows: list[dict[str, Any]]) -> None:
    print(f"{'server':26}{'clients':>8}" + "".join(f"{words:>15}" for words in COLUMNS.values()))
    for row in sorted(rows, key=lambda row: row["clients"]):
        print(f"{row['server']:26}{row['clients']:>8}" + "".join(f"{row[key]:>15}" for key in COLUMNS))


if __name__ == "__main__":
    sys.exit(main())
