"""How much operators speak for patterns: the law of the scores, and what leaves them unchanged."""

import numpy as np
import pytest

from hopfed import kernels
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.support import Support
from hopfed.spectral.operators import DenseOperator

N = 100


def clients(xi, sizes, qualities, seed):
    """Examples of clients of these sizes and qualities."""
    rng = np.random.default_rng(seed)
    return [draw_examples(xi, M, r, rng)[0] for M, r in zip(sizes, qualities, strict=True)]


def measure(batches, patterns, qualities=None, weights=None, **options):
    r = np.full(len(batches), 0.7) if qualities is None else np.array(qualities)
    w = np.ones(len(batches)) if weights is None else weights
    operators = [DenseOperator.from_examples(kernels.pack(x)) for x in batches]
    return Support.of(operators, patterns, w, 1 - r**2, **options)


@pytest.mark.parametrize(
    ("sizes", "qualities", "weights"),
    [
        ((300,), (0.0,), (1.0,)),
        ((200,) * 3, (0.7,) * 3, (1.0,) * 3),
        ((400, 100, 50), (0.9, 0.5, 0.1), (1.0, 0.3, 2.0)),
    ],
)
def test_scores_of_patterns_that_nobody_sees_are_standard_normal(sizes, qualities, weights):
    """Mean 0 and variance 1 over 40 draws of 25 patterns, with archetypes beside them."""
    scores = []
    for seed in range(40):
        rng = np.random.default_rng((seed, 7))
        xi, unseen = rademacher(3, N, rng), rademacher(25, N, rng)
        batches = clients(xi, sizes, qualities, seed)
        support = measure(batches, np.concatenate([xi, unseen]), qualities, weights)
        scores.append(support.scores()[3:])
    z = np.ravel(scores)
    assert abs(z.mean()) < 0.12
    assert 0.9 < z.std() < 1.1
    assert (z > 3).mean() < 0.01


def test_a_mixture_of_archetypes_has_no_support_beside_them():
    xi = rademacher(3, N, np.random.default_rng(2))
    mixture = np.sign(xi.sum(axis=0, dtype=int)).astype(np.int8)
    batches = clients(xi, (300,) * 4, (0.7,) * 4, 5)
    alone = measure(batches, mixture[None]).scores()[0]
    scores = measure(batches, np.vstack([xi, mixture])).scores()
    assert alone > 50
    assert abs(scores[3]) < 4
    assert (scores[:3] > 20).all()


def test_an_archetype_is_agreed_on_and_a_spike_is_where_it_was_put():
    rng = np.random.default_rng(0)
    xi, spike = rademacher(3, N, rng), rademacher(1, N, rng)[0]
    batches = clients(xi, (20,) * 20, (0.7,) * 20, 2)
    for c in (0, 1, 7):  # half of their examples
        batches[c][:10] = spike
    groups = np.array_split(np.arange(20), 10)
    support = measure(batches, np.vstack([xi, spike]))
    np.testing.assert_allclose(support.agreement(groups), [1, 1, 1, 0.2])
    assert support.scores()[3] > 20


def test_without_the_strongest_supporters_only_what_others_show_is_left():
    """Pattern 0 is everybody's, 1 that of one client, 2 that of two."""
    xi = rademacher(3, N, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    held = [[0, 1, 2], [0, 2], [0], [0], [0], [0]]
    batches = [draw_examples(xi[mine], 300, 0.7, rng)[0] for mine in held]
    support = measure(batches, xi, careful=True)
    assert (support.scores() > 3).all()
    assert (support.doubted(0) > 3).all()
    assert (support.doubted(1) > 3).tolist() == [True, False, True]
    assert (support.doubted(2) > 3).tolist() == [True, False, False]
    assert ((support.alone() > 3) == [[k in mine for k in range(3)] for mine in held]).all()
