"""What is kept of results of pure functions."""

from concurrent.futures import ThreadPoolExecutor

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


def test_threads_that_push_each_others_results_out_get_their_own():
    recent = Recent(room=16)

    def asked(seed):
        keys = np.random.default_rng(seed).integers(8, size=2_000).tolist()
        return all(recent.get(key, lambda key=key: np.full(1, key))[0] == key for key in keys)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(asked, range(4)))
    assert recent.used == sum(array.nbytes for array in recent.held.values())
