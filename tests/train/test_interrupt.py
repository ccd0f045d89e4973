"""Signals noted, not obeyed at once."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from vitrail.train.interrupt import Interruption


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_is_noted(number):
    before = signal.getsignal(number)
    with Interruption() as interruption:
        assert not interruption.asked
        os.kill(os.getpid(), number)
        assert interruption.asked
    assert signal.getsignal(number) == before


def test_a_second_ctrl_c_interrupts_at_once():
    before = signal.getsignal(signal.SIGINT)  # a shell may have a background job ignore it
    with Interruption() as interruption:
        os.kill(os.getpid(), signal.SIGTERM)
        assert interruption.asked
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_sigterm_changes_nothing():
    """A supervisor that is impatient sends SIGKILL; until then there is a checkpoint to write."""
    with Interruption() as interruption:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert interruption.asked


def test_handlers_come_back_after_an_error():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(ValueError, match="x"), Interruption():
        raise ValueError("x")
    assert signal.getsignal(signal.SIGTERM) == before


def test_it_can_be_used_in_another_thread():
    """As a notebook or a server may; Python allows no handlers there."""
    found = []

    def work():
        with Interruption() as interruption:
            found.append(interruption.asked)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [False]
