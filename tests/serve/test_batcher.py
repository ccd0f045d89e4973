"""Pictures that wait together are answered together; each gets its own answer."""

from __future__ import annotations

import asyncio
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vitrail.serve.batcher import NEAR_BEST, WORTH, Batcher, Streams, choose, measure


class Adding:
    """An engine whose logits tell which picture they are of; it can be held up, and it remembers its batches."""

    name = "adding"

    def __init__(self) -> None:
        self.go, self.sizes, self.threads = threading.Event(), [], set()
        self.go.set()

    def __call__(self, batch):
        self.go.wait()
        self.sizes.append(len(batch))
        self.threads.add(threading.get_ident())
        if batch.max() == 255:
            raise RuntimeError("broken")
        return batch.reshape(len(batch), -1).astype(np.float32).sum(axis=1, keepdims=True)


def pictures(*values):
    return [np.full((2, 2, 1), value, np.uint8) for value in values]


def served(scenario, batch, streams=None):
    engine = Adding()
    batcher = Batcher(engine, batch, lambda _size, _seconds: None, streams)
    try:
        return asyncio.run(scenario(engine, batcher)), engine
    finally:
        batcher.close()


@settings(max_examples=40)
@given(st.lists(st.lists(st.integers(0, 200), min_size=1, max_size=5), min_size=1, max_size=12), st.integers(1, 8))
def test_everyone_gets_the_answers_of_their_own_pictures(groups, batch):
    async def scenario(_, batcher):
        return await asyncio.gather(*(batcher.logits(pictures(*group)) for group in groups))

    answers, engine = served(scenario, batch)
    assert [answer[:, 0].tolist() for answer in answers] == [[4.0 * value for value in group] for group in groups]
    assert max(engine.sizes) <= batch
    assert sum(engine.sizes) == sum(map(len, groups))
    assert len(engine.threads) == 1


@settings(max_examples=40)
@given(st.lists(st.lists(st.integers(0, 200), min_size=1, max_size=5), min_size=1, max_size=12), st.integers(2, 4))
def test_streams_answer_each_picture_once(groups, number):
    async def scenario(_, batcher):
        return await asyncio.gather(*(batcher.logits(pictures(*group)) for group in groups))

    several = Streams(Adding(), number)
    answers, alone = served(scenario, 1, several)
    assert [answer[:, 0].tolist() for answer in answers] == [[4.0 * value for value in group] for group in groups]
    assert len(alone.sizes) + len(several.engine.sizes) == sum(map(len, groups))
    assert len(several.engine.threads) <= number


def test_streams_work_at_once_and_a_lone_picture_has_all_cores():
    both = threading.Barrier(2, timeout=10)  # passed only by two calls at the same time

    def meet(batch):
        both.wait()
        return batch.reshape(len(batch), -1).astype(np.float32).sum(axis=1, keepdims=True)

    async def scenario(engine, batcher):
        alone = await batcher.logits(pictures(5))
        assert engine.sizes == [1]
        return alone, await batcher.logits(pictures(1, 2, 3, 4))

    (alone, several), engine = served(scenario, 1, Streams(meet, 2))
    assert alone.tolist() == [[20.0]]
    assert several[:, 0].tolist() == [4.0, 8.0, 12.0, 16.0]
    assert engine.sizes == [1]


def test_a_stream_that_fails_fails_its_own_picture():
    async def scenario(_, batcher):
        return await asyncio.gather(*(batcher.logits(pictures(v)) for v in (1, 255, 2)), return_exceptions=True)

    one, failed, two = served(scenario, 1, Streams(Adding(), 2))[0]
    assert (one.tolist(), two.tolist()) == ([[4.0]], [[8.0]])
    assert isinstance(failed, RuntimeError)


def test_what_gathers_while_the_engine_works_is_one_batch():
    async def scenario(engine, batcher):
        engine.go.clear()
        tasks = [asyncio.create_task(batcher.logits(pictures(value))) for value in range(9)]
        await asyncio.sleep(0.05)
        engine.go.set()
        await asyncio.gather(*tasks)

    _, engine = served(scenario, 4)
    assert engine.sizes == [4, 4, 1]


def test_those_who_leave_are_not_computed():
    async def scenario(engine, batcher):
        engine.go.clear()
        first = asyncio.create_task(batcher.logits(pictures(1)))
        await asyncio.sleep(0.05)
        leaving = [asyncio.create_task(batcher.logits(pictures(2))) for _ in range(5)]
        await asyncio.sleep(0)
        for task in leaving:
            task.cancel()
        engine.go.set()
        await asyncio.gather(first, *leaving, return_exceptions=True)
        return await batcher.logits(pictures(7))

    answer, engine = served(scenario, 4)
    assert answer.tolist() == [[28.0]]
    assert engine.sizes == [1, 1]


def test_a_failing_batch_fails_its_own_and_nobody_else():
    async def scenario(_, batcher):
        with pytest.raises(RuntimeError, match="broken"):
            await batcher.logits(pictures(255))
        return await batcher.logits(pictures(3))

    assert served(scenario, 4)[0].tolist() == [[12.0]]


def test_batches_are_used_only_where_they_pay():
    assert choose({1: 1.0, 2: 0.99, 4: 0.95}).batch == 1
    assert choose({1: 1.0, 2: 0.7, 4: 0.5, 8: 0.49}) == (4, 0.5, 2.0, 1)
    assert choose({1: 1.0}).batch == 1
    assert choose({1: 1.0, 4: 0.8}, (2, 0.5)) == (1, 0.5, 2.0, 2)
    assert choose({1: 1.0, 4: 0.4}, (2, 0.5)).batch == 4
    assert choose({1: 1.0}, (2, 0.95)) == (1, 1.0, 1.0, 1)


@given(st.dictionaries(st.sampled_from((2, 4, 8, 16)), st.floats(0.01, 10)), st.floats(0.01, 10))
def test_the_choice_is_never_slower_than_one_by_one(others, alone):
    pace = choose({1: alone, **others})
    assert pace.seconds <= alone
    assert pace.batch == 1 or alone / pace.seconds >= WORTH
    assert pace.batch == 1 or pace.seconds <= min(others.values()) * NEAR_BEST


def test_streams_are_measured_too():
    slow = Adding()
    assert measure(lambda batch: time.sleep(0.02 * len(batch)), pictures(1)[0], Streams(slow, 2)).streams == 2
    assert set(slow.sizes) == {1}


def test_measuring_stops_when_patience_ends():
    engine = Adding()
    measure(engine, pictures(1)[0], repeats=1, patience=-1.0)
    assert engine.sizes == [1, 1]
