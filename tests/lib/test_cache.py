"""What is kept of results of pure functions."""

import numpy as np

from hopfed._lib.cache import Recent


def test_what_was_asked_for_long_ago_is_let_go():
    recent = Recent(room=100)
    for key in range(20):
        recent.get(key, lambda: np.zeros(5))
    assert list(recent.held) == [18, 19]
    assert recent.used == 80
    recent.get(20, lambda: np.zeros(1000))  # too large for the room, and kept as the last
    assert list(recent.held) == [20]


def test_what_is_held_is_not_made_again():
    made = []
    recent = Recent(room=100)
    for key in (1, 1, 2, 1):
        recent.get(key, lambda key=key: made.append(key) or np.zeros(1))
    assert made == [1, 2]
