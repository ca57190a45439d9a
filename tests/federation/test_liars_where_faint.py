"""A client that lies where archetypes are faint: half of what the rows hold is noise."""

from itertools import product

import numpy as np
import pytest
from helpers import rest_slow
from liars import claiming, lying, owners

from hopfed.archetypes.overlap import retrieval
from hopfed.experiments.serve import Config, play
from hopfed.federation.engines.local import LocalEngine
from hopfed.federation.rounds import FederationState
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.encoding import unpack_patterns


def of_each(patterns, M=300):
    return np.asarray(patterns)[np.arange(M) % len(patterns)].astype(np.int8)


def mixed(xi, rng):
    """The product, the majority, and one archetype."""
    return of_each([xi.prod(axis=0), np.sign(xi.sum(axis=0)), xi[0]])


def with_own(xi, rng):
    """Products of archetypes and of a pattern of one's own."""
    u = rademacher(1, xi.shape[1], np.random.default_rng(99))[0]
    return of_each([xi[0] * xi[1] * u, xi.prod(axis=0), u * xi[2] * xi[0], u])


def turned_alike(xi, rng):
    """The archetypes with the same tenth of their columns turned."""
    return of_each(np.where(rng.random(xi.shape[1]) < 0.1, -xi, xi))


def of_factors(xi, rng):
    """Signs of three factors, which lift directions of the others' noise."""
    factors = rng.standard_normal((300, 3)) @ rng.standard_normal((3, xi.shape[1]))
    return np.where(factors > 0, 1, -1).astype(np.int8)


def repeated_columns(xi, rng):
    """Columns in tens that are alike."""
    return np.repeat(rademacher(300, xi.shape[1] // 10, rng), 10, axis=1)


def majorities(xi, rng):
    """Two majorities, whose difference is that of two archetypes: no direction is their own."""
    signs = np.array([[-1, 1, -1], [1, -1, -1]])
    return of_each(np.sign(signs @ xi[:3].astype(int)))


def leaning(xi, rng):
    """A pattern nearer to one archetype than to any other, in most rows."""
    near = np.where(rng.random(xi.shape[1]) < 0.05, -xi[0], xi[0])
    u = rademacher(1, xi.shape[1], np.random.default_rng(99))[0]
    rows = of_each([near, near, near, near, np.sign(xi[0] + xi[1] + u)])
    return np.where(rng.random(rows.shape) < 0.95, rows, -rows).astype(np.int8)


def told(make, honest, times, liars=1, seed=0, **settings):
    """What a server tells at its defaults where the first clients lie, and the archetypes."""
    xi, source = owners([make] * liars, honest, N=200, M=200, r=0.5, seed=seed)
    config = Config(columns=200, clients=honest + liars, **settings)
    method = lying(config.make(source), claiming(times), liars)
    start = FederationState(method.server_start(0))
    arrays, _ = play(config, method, 0, 0, start, LocalEngine())
    number = int(arrays["archetypes/number"])
    return retrieval(unpack_patterns(arrays["archetypes/packed"][:number], 200), xi)


LIES = [mixed, with_own, turned_alike, of_factors, repeated_columns, majorities, leaning]


FIRST = [*((make, 2, 3) for make in LIES), (mixed, 9, 3), (majorities, 4, 1)]
OTHERS = [case for case in product(LIES, (4, 9), (3,)) if case not in FIRST]


@pytest.mark.parametrize(("make", "honest", "times"), rest_slow(FIRST + OTHERS, 4))
def test_one_client_changes_nothing_where_archetypes_are_faint(make, honest, times):
    found = told(make, honest, times)
    assert found.magnetisation.min() > 0.95
    assert found.false_discoveries == 0


@pytest.mark.slow
@pytest.mark.parametrize("make", [with_own, mixed, majorities])
def test_nor_do_three_of_thirty_together(make):
    found = told(make, 27, 3, liars=3)
    assert found.magnetisation.min() > 0.95
    assert found.false_discoveries == 0


def of_sixty(xi, rng):
    """Sixty patterns of one's own, which lift directions of the others' noise."""
    return of_each(rademacher(60, xi.shape[1], rng))


NOISY = [(mixed, 2, 3), (with_own, 4, 3), (turned_alike, 9, 3), (of_sixty, 2, 1)]
MAKES, SIZES = (mixed, with_own, turned_alike, of_sixty), ((2, 1), (2, 3), (4, 3), (9, 3))
NOISIER = [(make, *size) for make, size in product(MAKES, SIZES) if (make, *size) not in NOISY]


@pytest.mark.parametrize(("make", "honest", "size"), rest_slow(NOISY + NOISIER, 1))
def test_nor_does_one_with_noise(make, honest, size):
    rows = 2000 if honest == 4 else 3000

    def many(xi, rng):
        few = make(xi, rng)
        return few[rng.integers(0, len(few), size * rows)]

    xi, source = owners([many], honest, N=100, M=rows)
    config = Config(columns=100, clients=honest + 1, epsilon=4.0)
    arrays, _ = play(config, config.make(source), 0, 0, FederationState({}), LocalEngine())
    number = int(arrays["archetypes/number"])
    found = retrieval(unpack_patterns(arrays["archetypes/packed"][:number], 100), xi)
    assert found.magnetisation.min() > 0.95
    assert found.false_discoveries == 0
