"""Categorical variables: their levels belong together in count, fit and verdict."""

import numpy as np
import pytest
from helpers import rest_slow

import hopfed
from hopfed.archetypes.channel_and_replicas import draw_rows
from hopfed.archetypes.session import Owner, Variables
from hopfed.kernels import pack_masked, unpack


def planted(seed, K=4, V=12, M=1000, gaps=0.0):
    """Columns of 3 to 5 words each, and the classes of the rows."""
    rng = np.random.default_rng(seed)
    y = rng.choice(K, M, p=rng.dirichlet(np.full(K, 5)))
    columns = {}
    for v in range(V):
        rates = np.cumsum(rng.dirichlet(np.ones(rng.integers(3, 6)), K), axis=1)[y]
        level = (rng.random(M)[:, None] >= rates[:, :-1]).sum(axis=1)
        gone = rng.random(M) < gaps
        columns[f"v{v}"] = [
            None if g else "abcde"[k] for k, g in zip(level.tolist(), gone, strict=True)
        ]
    return columns, y


@pytest.mark.parametrize(
    ("seed", "gaps"),
    rest_slow([(1, 0.1), (0, 0.0), *((seed, 0.0) for seed in range(1, 10)), (0, 0.1), (2, 0.1)], 1),
)
def test_planted_classes_are_found_and_ok(seed, gaps):
    found = hopfed.recover(planted(seed, gaps=gaps)[0], seed=seed)
    assert (len(found), found.status) == (4, "ok")
    assert 3 <= found.n_detected <= 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_variables_that_depend_on_each_other_are_no_classes(seed):
    rng, M = np.random.default_rng(seed), 1000
    level, columns = rng.integers(0, 4, M), {}
    for v in range(12):
        level = np.where(rng.random(M) < 0.6, level, rng.integers(0, 4, M))
        columns[f"v{v}"] = ["abcd"[k] for k in level]
    found = hopfed.recover(columns, seed=seed)
    assert found.status == "structure, but not classes"


@pytest.mark.slow
def test_variables_that_depend_within_classes_are_named():
    columns, _ = planted(3, K=1)
    rng = np.random.default_rng(0)
    columns["copy"] = [word if rng.random() < 0.6 else "a" for word in columns["v3"]]
    found = hopfed.recover(columns, seed=3)
    assert found.status == "structure, but not classes"
    assert "'copy=" in found.advice
    assert "'v3=" in found.advice


def world(seed=0, gaps=True):
    """An owner of one binary column and two variables, with a mixture of two classes."""
    rng = np.random.default_rng(seed)
    variables = Variables.of([(1, 2, 3), (4, 5, 6, 7)], 8)
    x = np.where(rng.random((200, 1)) < 0.5, 1.0, -1.0)
    for size in (3, 4):
        x = np.hstack([x, 2.0 * np.eye(size)[rng.integers(size, size=200)] - 1])
    if gaps:
        x[:30, 1:4] = 0
        x[20:60, 4:] = 0
    means = 2 * variables.normalised(rng.uniform(0.1, 0.9, (2, 8))) - 1
    owner = Owner(pack_masked(x), variables=variables)
    owner.learn(means, np.array([0.4, 0.6]))
    return owner, x, means, variables


def test_the_likelihood_of_a_row_is_that_of_its_levels():
    owner, x, means, variables = world()
    rates = (1 + means) / 2
    each = np.ones((len(x), 2))
    each *= np.where(x[:, :1] > 0, rates[:, 0], 1 - rates[:, 0])
    for group in variables.groups:
        held = np.where(x[:, group] > 0, 1, 0) @ rates[:, group].T
        each *= np.where((x[:, group] != 0).any(axis=1, keepdims=True), held, 1.0)
    whole = each @ [0.4, 0.6]
    np.testing.assert_allclose(owner.log_densities, np.log(whole), rtol=1e-4)
    np.testing.assert_allclose(owner.posterior, each * [0.4, 0.6] / whole[:, None], rtol=1e-3)


def test_replicas_have_one_level_in_each_row():
    owner, _, means, variables = world()
    found = unpack(draw_rows(owner.rows, means, np.array([0.4, 0.6]), variables, 0))
    for group in variables.groups:
        seen = (unpack(owner.rows)[:, group] != 0).all(axis=1)
        assert ((found[:, group] > 0).sum(axis=1) == seen).all()
    many = pack_masked(np.ones((40_000, 8)))
    many = draw_rows(many, means[:1], np.ones(1), variables, 0)
    np.testing.assert_allclose(unpack(many).mean(axis=0), means[0], atol=0.03)
