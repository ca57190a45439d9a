"""Graded patterns: recall is Bayes' rule."""

import itertools

import numpy as np

from hopfed.memory.associative import AssociativeMemory


def brute(cue, means, shares):
    """Responsibilities, expectations and evidence by the definition, entry by entry."""
    like = shares / shares.sum()
    for mu, row in enumerate(means):
        for x, mean in zip(cue, row, strict=True):
            if x:
                like[mu] *= (1 + x * mean) / 2
    return like / like.sum(), like / like.sum() @ means, like.sum()


def test_recall_is_bayes_rule_for_every_cue():
    means = np.random.default_rng(0).uniform(-0.95, 0.95, (3, 4))
    shares = np.array([0.5, 0.2, 0.3])
    memory = AssociativeMemory.store(means, weights=shares)
    assert memory.is_graded
    cues = np.array(list(itertools.product([-1, 0, 1], repeat=4)))
    found = memory.recall(cues, hold=False)
    for i, cue in enumerate(cues):
        share, mean, evidence = brute(cue, means, shares)
        np.testing.assert_allclose(found.overlaps[i], share, rtol=1e-10)
        np.testing.assert_allclose(found.states[i], mean, atol=1e-12)
        np.testing.assert_allclose(found.energy[i], -np.log(evidence), atol=1e-12)
    kept = memory.recall(cues).states
    gaps = (cues == 0).any(axis=1)
    np.testing.assert_array_equal(kept[gaps][cues[gaps] != 0], cues[gaps][cues[gaps] != 0])
    np.testing.assert_allclose(kept[~gaps], found.states[~gaps])


def test_signs_of_one_quality_are_the_exponential_memory():
    """With means r xi the log-odds are beta xi: one step of attention with beta = artanh r."""
    rng = np.random.default_rng(1)
    xi = rng.choice(np.array([-1.0, 1.0]), (6, 30))
    cues = rng.choice(np.array([-1, 1]), (9, 30))
    found = AssociativeMemory.store(0.6 * xi).recall(cues)
    a = np.exp(np.arctanh(0.6) * (cues @ xi.T))
    np.testing.assert_allclose(found.overlaps, a / a.sum(axis=1, keepdims=True), rtol=1e-9)
