"""The paper's own factorisation: what it accepts."""

import numpy as np
import pytest
from helpers import sample, spectrum_and_rank

import hopfed
from hopfed.archetypes.overlap import retrieval
from hopfed.archetypes.patterns import Patterns
from hopfed.experiments.shared import paper_factorisation
from hopfed.experiments.shared.paper_factorisation import published_patterns


@pytest.mark.parametrize("least", [0.6, 0.99])
def test_what_it_accepts_scores_and_differs(monkeypatch, least):
    xi, eta = sample(4, 200, 1600, 0.8, 100)
    spectrum, rank = spectrum_and_rank(eta)
    monkeypatch.setattr(paper_factorisation, "SCORE", least)
    found = published_patterns(spectrum, rank, seed=0)
    scores = ((found @ spectrum.vectors[:, :4]) ** 2).sum(axis=1) / 200
    assert (scores > least).all()
    assert least > 0.6 or (len(found) >= rank.n_detected == 4 and scores.min() < 0.99)
    overlaps = np.abs(found @ found.T.astype(float)) / 200 - np.eye(len(found))
    assert overlaps.max(initial=0) < 0.4
    np.testing.assert_array_equal(found, published_patterns(spectrum, rank, seed=0))


def test_recover_says_when_it_accepted_too_many():
    xi, eta = sample(6, 400, 4000, 0.8, 100)
    patterns = Patterns(method=published_patterns)
    found = hopfed.recover(eta, seed=100, patterns=patterns, channel="symmetric")
    assert len(found) > found.n_detected == 6
    assert found.status == "poor fit"
    assert retrieval(found.patterns, xi).false_discoveries > 0
    assert hopfed.recover(eta, seed=100, channel="symmetric").status == "ok"
