"""The lane of explanations: bounded, with one core, and no hindrance to predictions."""

from __future__ import annotations

import asyncio
import threading

import pytest
import torch

from serve.conftest import asking
from serve.running import picture
from vitrail.serve.lane import Lane
from vitrail.serve.problems import Refused


def test_more_than_fit_are_told_when_to_come_back():
    lane = Lane(1)
    with lane.place(), pytest.raises(Refused) as refused, lane.place():
        pass
    assert refused.value.status == 503
    assert refused.value.retry_after == 1
    with lane.place():
        pass
    lane.close()


def test_its_thread_uses_one_core_and_others_what_they_did():
    lane, found = Lane(1), []
    usual = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert asyncio.run(lane.run(torch.get_num_threads)) == 1
        fresh = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
        fresh.start()
        fresh.join()
        assert found == [torch.get_num_threads()] == [2]
    finally:
        torch.set_num_threads(usual)
        lane.close()


def test_what_is_given_up_before_it_begins_is_not_done():
    async def scenario() -> list[str]:
        go, done = threading.Event(), list[str]()
        first = asyncio.create_task(lane.run(lambda: (go.wait(), done.append("first"))))
        second = asyncio.create_task(lane.run(lambda: done.append("second")))
        await asyncio.sleep(0.05)
        second.cancel()
        await asyncio.wait([second])  # the executor hears of it in the loop's next round
        go.set()
        await first
        await lane.run(lambda: done.append("third"))
        return done

    lane = Lane(2)
    try:
        assert asyncio.run(scenario()) == ["first", "third"]
    finally:
        lane.close()


def test_predictions_are_answered_while_an_explanation_is_stuck(predictor):
    with asking(predictor) as client:
        go = threading.Event()
        client.portal.start_task_soon(client.service.lane.run, go.wait)
        try:
            assert client.post("/v1/predict", content=picture()).status_code == 200
            client.service.lane.inside = client.service.lane.most
            for path in ("/v1/attention", "/v1/predict?explain=rollout"):
                answer = client.post(path, content=picture())
                assert answer.status_code == 503
                assert int(answer.headers["Retry-After"]) >= 1
            client.service.lane.inside = 0
        finally:
            go.set()
        assert "overlay" in client.post("/v1/predict?explain=rollout", content=picture()).json()["predictions"][0]
