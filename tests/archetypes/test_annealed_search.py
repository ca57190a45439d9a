from dataclasses import replace

import numpy as np
import pytest
from helpers import rest_slow, sample, subspace

from hopfed.archetypes.overlap import retrieval
from hopfed.archetypes.patterns import Search, search_candidates
from hopfed.archetypes.subspace import Subspace


def test_search_finds_all_and_nothing_false():
    xi, eta = sample(40, 400, 4000, 0.8, 0)
    score = retrieval(search_candidates(subspace(eta), Search(), 1), xi)
    assert (score.found(), score.false_discoveries) == (40, 0)


def test_known_patterns_are_kept_and_not_found_again():
    xi, eta = sample(6, 300, 2000, 0.8, 1)
    found = search_candidates(subspace(eta), Search(), 1, known=xi[:4])
    np.testing.assert_array_equal(found[:4], xi[:4])
    assert len(found) == 6
    assert retrieval(found, xi).found() == 6


def test_states_that_rest_but_attract_nothing_are_not_archetypes():
    """Beyond the load limit rest states of a random subspace score as archetypes do."""
    rng = np.random.default_rng(0)
    V = np.linalg.qr(rng.standard_normal((200, 104)))[0]
    space = Subspace(V, np.ones(104), np.ones(104))
    few = Search(starts=8, sweeps=20, patience=1, reluctance=1, early_stop=False, slack=2.0)
    anything = search_candidates(space, replace(few, flips=0.0), 0)
    assert len(anything) > 0
    assert len(search_candidates(space, few, 0)) < len(anything)


@pytest.mark.parametrize(("K", "N"), rest_slow([(16, 40), (36, 100), (24, 64), (72, 200)], 1))
def test_loads_above_a_third_are_recovered_where_examples_are_clean(K, N):
    xi, eta = sample(K, N, 20 * N, 0.95, 1)
    score = retrieval(search_candidates(subspace(eta), Search(), 1), xi)
    assert score.found() >= 0.9
    assert score.false_discoveries == 0
