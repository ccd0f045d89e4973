"""How much of the minutes may go where, so that a run ends in time however many pictures there are.

A budget of steps or epochs has no such limits: everything is done in full.
"""

from __future__ import annotations

READING = 0.25  # all pictures into memory; where that takes longer they are read when they are needed
PROBING = 0.2  # the features that a first head is fitted to
VALIDATING = 0.05  # one validation
TESTING = 1 / 3  # the evaluation at the end
LEAST = 100  # pictures; fewer say nothing


def affordable(pictures: int, seconds: float, a_picture: float | None) -> int:
    """How many of so many pictures can be asked about in this time; all where it is not known how long one takes."""
    if not a_picture:
        return pictures
    return min(pictures, max(LEAST, int(min(pictures, seconds / a_picture))))
