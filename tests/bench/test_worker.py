"""The process at the other end of the pipe, and what happens when it ends."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import types
from pathlib import Path

import pytest

from bench.tiny import TINY
from vitrail.bench import peers
from vitrail.bench.memory import in_child
from vitrail.bench.process import WorkerError, WorkerProcess
from vitrail.bench.worker import GemmWorker, ModelWorker, Worker, serve


def test_orders_are_answered_line_by_line() -> None:
    orders = io.StringIO('{"order": "build", "side": 8}\n{"order": "measure"}\n{"order": "build", "side": "x"}\n')
    answers = io.StringIO()
    serve(GemmWorker(), orders, answers)
    built, measured, refused = map(json.loads, answers.getvalue().splitlines())
    assert built == {}
    assert measured["seconds"] > 0
    assert "TypeError" in refused["error"]


def test_quick_work_is_called_often_enough() -> None:
    worker = Worker()
    assert worker.calibrate(0.01)["calls"] == worker.calls > 10


def test_training_changes_the_logits_and_inference_does_not(tmp_path: Path) -> None:
    worker = ModelWorker(peers.PEERS["vitrail"])
    weights = str(tmp_path / "weights.safetensors")
    worker._make_weights(config=TINY.to_dict(), path=weights, seed=0)
    for mode, changes in (("inference", False), ("training", True)):
        worker.build(TINY.to_dict(), weights, mode, batch=2)
        before = worker.logits()
        worker.measure()
        assert (worker.logits() != before) is changes


def test_work_in_a_child_answers_fails_and_dies() -> None:
    assert in_child(lambda: {"pid": os.getpid()})["pid"] != os.getpid()
    assert in_child(lambda: {"never": 1 // 0}) == {"error": "ZeroDivisionError: integer division or modulo by zero"}
    assert "status -9" in in_child(lambda: {"never": os.kill(os.getpid(), signal.SIGKILL)})["error"]


def test_refusal_and_end_of_a_worker_are_errors_that_name_it() -> None:
    with WorkerProcess("gemm", threads=1) as worker:
        with pytest.raises(WorkerError, match="gemm memory: AttributeError"):
            worker.ask("memory")
        worker._process.kill()
        with pytest.raises(WorkerError, match="gemm: the process was ended by signal 9"):
            worker.ask("hello")
        assert not worker.alive


def test_worker_that_cannot_start_says_why() -> None:
    with (
        WorkerProcess("gemm", threads=0) as worker,
        pytest.raises(WorkerError, match=r"exit code 1: RuntimeError: .*positive"),
    ):
        worker.ask("hello")


@pytest.mark.parametrize(("fault", "mended"), [(None, False), (ImportError, False), (RuntimeError, True)])
def test_torchvision_is_mended_only_where_its_operators_are_missing(
    fault: type[Exception] | None, mended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def import_module(name: str) -> types.ModuleType:
        if fault is not None:
            raise fault("operator torchvision::nms does not exist")
        return types.ModuleType(name)

    monkeypatch.setitem(sys.modules, "torchvision._meta_registrations", types.ModuleType("as it was"))
    monkeypatch.setattr(peers.importlib, "import_module", import_module)
    peers.mend_torchvision()
    assert (sys.modules["torchvision._meta_registrations"].__name__ != "as it was") is mended
