"""S2, S5, S6: overload, restarts under load, a long run. Every answer right, every refusal polite, nothing grows."""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import httpx
import numpy as np
import pytest

from serve.load import BAD, GOOD, KINDS, Asked, Load, check_all
from serve.running import Running, save_model, save_tiny
from vitrail import create_model, load


def labels_of(model):
    predictor = load(model)
    return {seed: predictor.predict(data).label for seed, data in GOOD.items()}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("model") / "tiny.safetensors")


@pytest.fixture(scope="module")
def labels(model):
    return labels_of(model)


class Overload(NamedTuple):
    asked: list[Asked]
    share: float  # good answers a second, as a share of those of a house that is just full


def overload(server: Running, labels, count: int, *, clients: int, rounds: int = 1) -> Overload:
    """Requests at four times the rate that can be answered, whatever becomes of them.

    What can be answered is measured before each round by the same caller, with as many clients as keep the engine busy.
    """
    good = [kind % len(GOOD) for kind in range(max(20, count // rounds // 10))]
    Load(server.port, good, clients=clients).run()
    everything, could, did = list[Asked](), 0.0, 0.0
    for _ in range(rounds):
        asked, seconds = Load(server.port, good, clients=clients).run()
        assert not check_all(asked, labels)
        capacity = len(good) / seconds
        asked, seconds = Load(server.port, [k % KINDS for k in range(count // rounds)], rate=4 * capacity).run()
        everything += asked
        could += capacity * seconds
        did += sum(each.status == 200 for each in asked)
    return Overload(everything, did / could)


def test_an_overloaded_server_refuses_politely_and_answers_rightly(model, labels):
    with Running(model, max_queue=4, idle_seconds=60.0) as server:
        found = overload(server, labels, 400, clients=4)
        assert check_all(found.asked, labels)
        assert server.stop() == 0
        assert '"traceback"' not in server.log


@pytest.mark.full
def test_overload_in_full(tmp_path, record_property):
    """A Ti/16 at 224 pixels: tens of milliseconds a picture, so that it is serving that is measured, and not HTTP."""
    model = save_model(tmp_path / "model.safetensors", create_model("Ti/16", num_classes=3), 224)
    with Running(model, idle_seconds=60.0) as server:
        labels = labels_of(model)
        found = overload(server, labels, 10_000, clients=16, rounds=10)
        refused = check_all(found.asked, labels)
        assert server.stop() == 0
        assert '"traceback"' not in server.log
    slowest = np.quantile([each.seconds for each in refused], 0.99)
    record_property(
        "figure", f"{len(refused):,} of 10,000 refused, p99 {1000 * slowest:.0f} ms; good {found.share:.0%} of capacity"
    )
    assert slowest <= 0.05
    assert found.share >= 0.9


def ask(client: httpx.Client, kind: int) -> Asked:
    start = time.perf_counter()
    answer = client.post("/v1/predict", content=(GOOD | BAD)[kind])
    seconds, wait = time.perf_counter() - start, answer.headers.get("Retry-After")
    label = answer.json()["predictions"][0]["label"] if answer.status_code == 200 else None
    return Asked(kind, answer.status_code, seconds, wait and int(wait), label)


def restart_under_load(model, labels, times: int) -> int:
    """Stop and start again while clients ask; how many were answered. A refused connection was never accepted."""
    answered, stop = list[Asked](), threading.Event()
    server = Running(model).listen()
    port = server.port

    def client() -> None:
        for kind in itertools.cycle(range(KINDS)):
            if stop.is_set():
                return
            try:
                with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as one:
                    answered.append(ask(one, kind))
            except httpx.ConnectError:
                pass
            time.sleep(0.03)

    with ThreadPoolExecutor(3) as pool:
        clients = [pool.submit(client) for _ in range(3)]
        try:
            for _ in range(times):
                following = Running(model, port=port)  # which imports meanwhile
                time.sleep(0.5)
                fell = watch_ready(server)
                assert server.stop() == 0
                assert fell.result() == 503
                server.close()
                server = following.listen()
        finally:
            stop.set()
    for each in clients:
        each.result()
    server.close()
    check_all(answered, labels)
    return len(answered)


def watch_ready(server: Running):
    """What `/ready` says first when it no longer says yes: 503 while connections are taken, 0 if they are not."""

    def watch() -> int:
        while True:
            try:
                status = httpx.get(f"{server.url}/ready").status_code
            except httpx.TransportError:
                return 0
            if status != 200:
                assert httpx.get(f"{server.url}/live").status_code == 200
                return status
            time.sleep(0.02)

    pool = ThreadPoolExecutor(1)
    found = pool.submit(watch)
    pool.shutdown(wait=False)
    return found


def test_restarts_lose_nothing(model, labels):
    assert restart_under_load(model, labels, 2) > 20


@pytest.mark.full
def test_restarts_in_full(model, labels, record_property):
    answered = restart_under_load(model, labels, 20)
    record_property("figure", f"20 restarts, {answered:,} answered, 0 lost")


def soak(model, labels, count: int, settled: int) -> tuple[int, int, int]:
    """Growth of memory, open files and threads after the first `settled` of `count` requests."""
    with Running(model, idle_seconds=60.0) as server:
        check_all(Load(server.port, [kind % KINDS for kind in range(settled)], clients=4).run()[0], labels)
        before = server.resident(), server.files(), server.threads()
        check_all(Load(server.port, [kind % KINDS for kind in range(count - settled)], clients=4).run()[0], labels)
        time.sleep(0.3)  # for the last connections to close
        after = server.resident(), server.files(), server.threads()
    memory, files, threads = (new - old for new, old in zip(after, before, strict=True))
    return memory, files, threads


def test_nothing_grows(model, labels):
    memory, files, threads = soak(model, labels, 500, 200)
    assert memory < 20e6
    assert files <= 4
    assert threads <= 0


@pytest.mark.full
def test_nothing_grows_in_full(model, labels, record_property):
    memory, files, threads = soak(model, labels, 50_000, 5_000)
    record_property("figure", f"{memory / 1e6:.1f} MB, {files} files, {threads} threads more after 45,000 requests")
    assert memory <= 10e6
    assert files <= 4
    assert threads <= 0
