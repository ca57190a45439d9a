"""Whether archetypes explain the operators of clients; tables of other kinds are a poor fit."""

import numpy as np
import pytest
from federations import announced
from helpers import rest_slow

from hopfed import kernels
from hopfed.experiments import serve
from hopfed.hopfield.announcement import read
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.stream import Batches
from hopfed.hopfield.support import misfit
from hopfed.spectral.operators import DenseOperator

M = 3_600


def rates(rng, R, M=M):
    """Rows of classes with rates of +-1 (K, N), in parts of .5, .3 and .2 as far as there are."""
    shares = np.array([0.5, 0.3, 0.2])[: len(R)]
    z = rng.choice(len(R), M, p=shares / shares.sum())
    return np.where(rng.random((M, R.shape[1])) < R[z], 1, -1)


def of_kind(kind, N, rng):
    """Rows (M, N) of +-1."""
    if kind == "classes of any rates":
        return rates(rng, rng.random((3, N)))
    if kind == "columns of any rates":
        return rates(rng, rng.random((1, N)))
    if kind == "a trait":
        degree = rng.normal(size=(M, 1)) + rng.normal(size=N)
        return np.where(rng.random((M, N)) < 1 / (1 + np.exp(-degree)), 1, -1)
    if kind == "archetypes and a category":
        x = draw_examples(rademacher(3, N, rng), M, 0.7, rng)[0]
        level = np.where(np.arange(4) == rng.integers(4, size=(M, 1)), 1, -1)
        return np.hstack([x[:, : N - 4], level])
    if kind == "columns of other quality":
        xi, y = rademacher(3, N, rng), rng.integers(3, size=M)
        return xi[y] * np.where(rng.random((M, N)) < rng.uniform(0, 0.4, N), -1, 1)
    return draw_examples(rademacher(3, N, rng), M, 0.7, rng)[0]


def served(x, clients=3, lie=None, **settings):
    """What a federation at its defaults tells."""
    parts = [part.astype(np.int8) for part in np.array_split(x, clients)]
    parts = parts if lie is None else [*parts[1:], lie]
    config = serve.Config(columns=x.shape[1], clients=len(parts), **settings)
    return announced(config, Batches(tuple(map(kernels.pack, parts))))[0]


OTHERS = (
    "classes of any rates",
    "columns of any rates",
    "a trait",
    "archetypes and a category",
    "columns of other quality",
)


CASES = [(kind, 13, {}) for kind in OTHERS[:-1]] + [(OTHERS[0], 20, {"epsilon": 4.0})]
CASES += [(OTHERS[-1], 13, {}), *((kind, 60, {}) for kind in OTHERS)]
CASES += [(kind, 20, {"epsilon": 4.0}) for kind in OTHERS[1:3]]


@pytest.mark.parametrize(("kind", "N", "settings"), rest_slow(CASES, len(OTHERS)))
def test_tables_of_another_kind_are_a_poor_fit(kind, N, settings):
    """Nor does noise hide it."""
    told = served(of_kind(kind, N, np.random.default_rng(100)), **settings)
    assert told.verdict[0] == "poor fit"
    found = read(told.message(), N).archetypes()
    assert (found.status, found.signs_only) == ("poor fit", len(found) > 0)
    assert "serve --graded" in found.advice


@pytest.mark.parametrize("settings", [{}, {"epsilon": 4.0}])
@pytest.mark.parametrize("N", [13, 60])
def test_archetypes_are_no_poor_fit(N, settings):
    for seed in (100, 101, 102):
        told = served(of_kind("archetypes", N, np.random.default_rng(seed)), **settings)
        assert len(told.patterns) == 3
        status = "not judged" if settings else "ok"  # noise hides what would speak against them
        assert read(told.message(), N).archetypes().status == status


def test_one_that_lies_decides_nothing():
    rng = np.random.default_rng(3)
    x = of_kind("archetypes", 40, rng)
    told = served(x, clients=4, lie=rates(rng, rng.random((3, 40)), 900).astype(np.int8))
    assert (len(told.patterns), told.verdict[0]) == (3, "incomplete")  # what one alone shows


def test_an_archetype_that_is_missing_shows():
    rng = np.random.default_rng(4)
    xi = rademacher(4, 2_500, rng)  # more columns than are looked at
    x = draw_examples(xi, 800, 0.6, rng)[0]
    operator = DenseOperator.from_examples(x)
    assert misfit(operator, xi, x.mean(axis=0)) < 0.9
    assert misfit(operator, xi[:3], x.mean(axis=0)) > 1.5
    assert misfit(operator, np.vstack([xi, xi[:1]]), x.mean(axis=0)) < 0.9  # one of them twice
