"""Memories made of examples: Hopfield retrieval, archetypes of classes, prototypes."""

import numpy as np
import pytest
from clouds import examples

torch = pytest.importorskip("torch", reason="torch is not installed")

from hopfed.neural.memory.associative import class_archetypes, signs, stored_examples, unit  # noqa: E402
from hopfed.neural.memory.neighbours import Index, Neighbours, log_kernel, vote  # noqa: E402
from hopfed.neural.memory.prototypes import fit_prototypes  # noqa: E402


def test_hopfield_retrieval_is_the_programs_kernel_on_keys_of_one_norm():
    keys, labels, queries, _ = examples()
    beta, d = 7.0, keys.shape[1]
    memory = stored_examples(keys, labels, 4, beta)
    # The update of a modern Hopfield network, as in Ramsauer et al. (2021).
    X, q = memory.keys, unit(queries - keys.mean(axis=0, dtype=float))
    e = np.exp(beta * q @ X.T)
    attention = e / e.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(memory.update(queries), attention @ X, atol=1e-12)
    np.testing.assert_allclose(memory(queries), attention @ np.eye(4)[labels], atol=1e-12)
    # The softmax over squared distances, with sigma = 2 / (beta d).
    squared = ((q[:, None] - X) ** 2).sum(axis=2)
    weights = log_kernel(squared, "program", 2 / (beta * d), d)
    np.testing.assert_allclose(memory(queries), vote(weights, np.eye(4)[labels]), atol=1e-12)
    # And so kNN-Per with all keys as neighbours, up to the float32 of its index.
    all_of = Neighbours(Index(X), labels, 4, len(X), "program", 2 / (beta * d))
    np.testing.assert_allclose(memory(queries), all_of(q), atol=1e-5)


def test_updates_settle_at_a_stored_key():
    keys, labels, *_ = examples(n=8, classes=8)
    memory = stored_examples(keys, np.arange(8), 8, beta=60.0)
    state = memory.keys + 0.1 * np.random.default_rng(1).standard_normal(memory.keys.shape)
    for _ in range(3):
        state = memory.update(state + memory.mean)
    np.testing.assert_allclose(state, memory.keys, atol=1e-5)


def test_keys_far_apart_in_norm_break_the_identity():
    keys, labels, queries, _ = examples()
    keys = keys * np.linspace(0.2, 3, len(keys))[:, None]
    e = np.exp(keys @ queries.T).T
    squared = ((queries[:, None] - keys) ** 2).sum(axis=2)
    weights = vote(-squared / 2, np.eye(len(keys)))
    assert np.abs(e / e.sum(axis=1, keepdims=True) - weights).max() > 0.1


def test_archetypes_are_recovered_where_a_class_has_several():
    rng = np.random.default_rng(3)
    xi = rng.choice([-1, 1], (4, 200))  # two for each of two classes
    which = rng.integers(4, size=800)
    noisy = xi[which] * rng.choice([-1, 1], (800, 200), p=[0.2, 0.8])
    features = 5 + noisy * rng.uniform(0.5, 2, 200)
    memory = class_archetypes(features, which // 2, 2, beta=20.0, seed=0)
    overlap = np.abs(np.sign(memory.keys) @ signs(xi, np.zeros(200)).T) / 200
    # The mean over unequal archetypes shifts the cut of some features; most signs remain.
    assert len(memory) == 4
    assert (overlap.max(axis=0) > 0.8).all()
    np.testing.assert_array_equal(memory.counts.sum(), 800)
    assert (memory(features).argmax(axis=1) == which // 2).mean() > 0.99
    assert memory.nbytes < features.astype(np.float32).nbytes / 200


def test_a_class_of_few_is_its_majority():
    x = np.array([[1.0, 1, 1], [1, -1, 1], [-1, -1, -1], [-2, -2, -2]])
    memory = class_archetypes(x, np.array([0, 0, 3, 3]), 5, beta=4.0, seed=0)
    assert memory.values.argmax(axis=1).tolist() == [0, 3]
    assert memory.counts.tolist() == [2, 2]
    p = memory(x)
    assert p.argmax(axis=1).tolist() == [0, 0, 3, 3]
    assert (p[:, [1, 2, 4]] == 0).all()


def test_prototypes_learn_what_k_means_cannot_see():
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=300)
    x = rng.standard_normal((300, 10)) * np.r_[0.4, 5 * np.ones(9)]  # the classes lie in axis 0
    x[:, 0] += 2 * labels - 1
    # A quarter of the examples is kept apart.
    train, test = slice(75, None), slice(75)

    def right(**settings):
        made = fit_prototypes(x[train], labels[train], 2, count=6, **settings)
        return (made(x[test]).argmax(axis=1) == labels[test]).mean(), made

    (blind, _), (learned, made) = right(steps=0), right(steps=150)
    assert learned > max(blind + 0.1, 0.85)
    np.testing.assert_allclose(made(x[test]).sum(axis=1), 1)
    assert made.nbytes < 4 * x[train].size / 10
    again = fit_prototypes(x[train], labels[train], 2, count=6, steps=150)
    np.testing.assert_array_equal(made(x[test]), again(x[test]))


def test_k_means_prototypes_vote_by_the_labels_of_their_clusters():
    x = np.repeat([[0.0, 0.0], [10.0, 0.0]], [4, 6], axis=0)
    made = fit_prototypes(x, np.r_[np.zeros(3, int), 1, np.ones(6, int)], 2, count=9, steps=0)
    assert len(made) == 2  # as many as there are different examples
    np.testing.assert_allclose(made(x[[0, 9]])[:, 0], [3.1 / 4.2, 0.1 / 6.2], atol=0.01)


@pytest.mark.parametrize("n", [1, 2])
def test_one_or_two_examples_make_a_memory(n):
    x, labels = np.ones((n, 3)), np.arange(n)
    for memory in (
        fit_prototypes(x, labels, 2, count=5, dim=1),
        stored_examples(x, labels, 2, 3.0),
        class_archetypes(x, labels, 2, 3.0, seed=0),
        Neighbours(Index(x), labels, 2),
    ):
        p = memory(np.array([[1.0, 2.0, 3.0]]))
        np.testing.assert_allclose(p, [np.bincount(labels, minlength=2) / n], atol=0.1)
