"""Patterns added and removed one by one give the couplings of those that are left."""

import numpy as np
import pytest
from memory.oracle import corrupted, random_signs

from hopfed.memory.associative import AssociativeMemory
from hopfed.memory.rules import Dense, Dreamed, Exponential, Hebb, Layered, Projector

CLOSE = 1e-10  # of the largest entry: what changed couplings may differ by from built ones
RULES = [Projector(), Dreamed(0.5), Dreamed(50.0), Layered(2, t=3.0)]


def dense(memory):
    W, scale = memory.coupling_factor
    if memory.couplings is not None:
        return memory.couplings.dense()
    return scale * W.astype(float) @ W.T


def assert_same(changed, built):
    np.testing.assert_array_equal(changed.patterns, built.patterns)
    a, b = dense(changed), dense(built)
    np.testing.assert_allclose(a, b, rtol=0, atol=CLOSE * max(np.abs(b).max(), 1e-300))


@pytest.mark.parametrize("rule", [*RULES, Hebb()], ids=repr)
def test_a_walk_of_changes_ends_where_a_rebuild_does(rule):
    rng = np.random.default_rng(0)
    pool = random_signs((150, 120), 1)
    weights = rng.uniform(0.5, 2, 150) if rule.time < np.inf else np.ones(150)
    held = list(range(30))
    memory = AssociativeMemory.store(pool[:30], rule, weights=weights[:30])
    for k in range(30, 150):
        memory = memory.add(pool[k], weights[k : k + 1])
        held.append(k)
        if len(held) > 60 or rng.random() < 0.5:
            out = rng.choice(len(held), 2, replace=False)
            memory = memory.remove(out)
            held = [h for i, h in enumerate(held) if i not in out]
    assert_same(memory, AssociativeMemory.store(pool[held], rule, weights=weights[held]))
    cues = corrupted(pool[held[:10]], 0.1, 2)
    np.testing.assert_array_equal(
        memory.recall(cues).states, AssociativeMemory.store(
            pool[held], rule, weights=weights[held]).recall(cues).states,
    )  # fmt: skip


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_dependent_and_equal_patterns(rule):
    xi = random_signs((6, 40), 1)
    memory = AssociativeMemory.store(xi, rule).add(xi[2]).add(-xi[4])
    built = AssociativeMemory.store(np.concatenate([xi, xi[2:3], -xi[4:5]]), rule)
    assert_same(memory, built)
    assert_same(
        memory.remove([2]), AssociativeMemory.store(built.patterns[[0, 1, *range(3, 8)]], rule)
    )
    assert_same(memory.remove([6, 7]), AssociativeMemory.store(xi, rule))
    assert_same(memory.remove(range(1, 8)), AssociativeMemory.store(xi[:1], rule))


@pytest.mark.parametrize("rule", [Hebb(), Dreamed(1.0), Projector(), Dense(3), Exponential(0.3)])
def test_an_emptied_memory_takes_patterns_again(rule):
    xi = random_signs((3, 30), 1)
    memory = AssociativeMemory.store(xi, rule).remove([0, 1, 2])
    assert len(memory) == 0
    again = memory.add(xi)
    np.testing.assert_array_equal(again.recall(xi).states, xi)


def test_a_fading_memory_keeps_the_newest_patterns_without_end():
    """Hebb's rule drowns at this load; fading keeps the last ones (palimpsest)."""
    xi = random_signs((300, 400), 1)
    fading = AssociativeMemory.store(xi[:1])
    plain = AssociativeMemory.store(xi[:1])
    for pattern in xi[1:]:
        fading = fading.forget(0.97, floor=1e-3).add(pattern)
        plain = plain.add(pattern)
    assert len(fading) < 300
    newest = xi[-5:]
    kept = np.diagonal(fading.recall(newest).states.astype(int) @ newest.T) / 400
    lost = np.diagonal(plain.recall(newest).states.astype(int) @ newest.T) / 400
    assert kept.min() > 0.95
    assert lost.max() < 0.8


@pytest.mark.parametrize("rule", [Dreamed(2.0), Projector(), Dense(3), Exponential(0.3), Hebb()])
def test_forgetting_is_storing_with_less_weight(rule):
    xi = random_signs((8, 50), 1)
    weights = np.linspace(0.2, 1, 8)
    memory = AssociativeMemory.store(xi, rule, weights=weights).forget(0.5, floor=0.2)
    kept = weights * 0.5 >= 0.2
    built = AssociativeMemory.store(xi[kept], rule, weights=weights[kept] * 0.5)
    np.testing.assert_array_equal(memory.weights, built.weights)
    cues = corrupted(xi, 0.2, 3)
    np.testing.assert_array_equal(memory.recall(cues).states, built.recall(cues).states)


def test_any_dreaming_time_lies_between_hebb_and_the_projector():
    """Rows of a short dream fit single precision; a long one of equal patterns is the projector."""
    xi = random_signs((6, 81), 1)
    twice, cues = np.concatenate([xi, xi]), corrupted(xi, 0.2, 2)
    for t, limit in ((1e-90, Hebb()), (1e-310, Hebb()), (1e17, Projector()), (1e308, Projector())):
        found, wanted = (AssociativeMemory.store(twice, rule) for rule in (Dreamed(t), limit))
        np.testing.assert_allclose(dense(found), dense(wanted), atol=1e-12)
        np.testing.assert_array_equal(found.recall(cues).states, wanted.recall(cues).states)
