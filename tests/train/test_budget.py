"""Progress runs from 0 to 1 and ends with the budget, whatever the machine does meanwhile."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vitrail.train.budget import Seconds, Steps


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def take(pace, clock, seconds):
    clock.now += seconds
    pace.advance()


@given(st.integers(1, 500))
def test_steps_end_at_one(total):
    pace, seen = Steps(total), []
    while not pace.done:
        seen.append(pace.progress)
        pace.advance()
    assert len(seen) == total
    assert seen == sorted(seen)
    assert (seen[0], pace.progress, pace.steps_left()) == (0.0, 1.0, 0)


def test_steps_go_on_where_they_were():
    pace = Steps(10)
    for _ in range(4):
        pace.advance()
    again = Steps(10)
    again.restore(pace.state())
    assert (again.progress, again.steps_left(), again.done) == (pace.progress, 6, False)


@settings(max_examples=30)
@given(st.floats(0.2, 1.0), st.floats(0.3, 3.0), st.integers(0, 2**31))
def test_the_schedule_ends_with_the_time(usual, change, seed):
    """At a speed that changes half-way, and by chance up to ten per cent from step to step."""
    chance, clock = random.Random(seed), Clock()
    pace, last = Seconds(200.0, clock), 0.0
    while not pace.done:
        speed = usual * (change if pace.elapsed > 100 else 1.0)
        take(pace, clock, speed * chance.uniform(0.9, 1.1))
        assert last <= pace.progress <= 1.0
        last = pace.progress
    assert pace.progress > 0.95  # the learning rate has come down
    assert pace.elapsed <= 200.0 + 1.1 * usual * max(1.0, change)


def test_time_between_steps_counts():
    clock = Clock()
    pace = Seconds(100.0, clock)
    for _ in range(10):
        take(pace, clock, 1.0)
    clock.now += 60.0  # a long validation
    pace.paused(60.0)
    steps = 0
    while not pace.done:
        take(pace, clock, 1.0)
        steps += 1
    assert 29 <= steps <= 31
    assert pace.progress > 0.95


@given(st.floats(1.0, 4.0), st.lists(st.integers(30, 600), min_size=1, max_size=3, unique=True))
def test_a_validation_does_not_hurry_the_schedule(seconds, places):
    """It takes longer than planning anew is apart, as where pictures are large: no step after it counts for more."""
    clock, shares = Clock(), []
    pace, taken = Seconds(100.0, clock), 0
    while not pace.done:
        before = pace.progress
        take(pace, clock, 0.1)
        shares.append(pace.progress - before)
        taken += 1
        if taken in places:
            clock.now += seconds
            pace.paused(seconds)
    assert pace.progress > 0.95
    settled = shares[20:-5]
    assert max(settled) <= 1.5 * min(settled)  # at most 12 of the last 40 seconds go by without a step


def test_what_is_reserved_is_left():
    clock = Clock()
    pace = Seconds(100.0, clock)
    pace.reserve(30.0)
    while not pace.done:
        take(pace, clock, 1.0)
    assert 69.0 <= pace.elapsed <= 71.0
    assert pace.progress > 0.95


@pytest.mark.parametrize("seconds", [0.0, -3.0])
def test_no_time_is_over_at_once(seconds):
    assert Seconds(seconds, Clock()).done


def test_seconds_of_all_sittings_count_together():
    clock = Clock()
    pace = Seconds(100.0, clock)
    pace.reserve(10.0)
    for _ in range(40):
        take(pace, clock, 1.0)
    state = pace.state()
    clock.now += 5_000  # nothing ran
    again = Seconds(98.0, clock)  # the second start took two seconds
    again.restore(state)
    assert again.elapsed == pytest.approx(40.0)
    assert again.progress == pace.progress
    again.reserve(10.0)
    while not again.done:
        take(again, clock, 1.0)
    assert 89.0 <= again.elapsed <= 91.0


def test_a_resumed_run_does_not_get_the_time_of_its_probe_back():
    """The first sitting had 60 of 100 seconds left after a probe; a second one must not begin anew with 100."""
    clock = Clock()
    pace = Seconds(60.0, clock)
    take(pace, clock, 1.0)
    again = Seconds(100.0, clock)
    again.restore(pace.state())
    again.reserve(5.0)
    while not again.done:
        take(again, clock, 1.0)
    assert again.elapsed <= 56.0
