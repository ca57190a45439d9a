"""A client whose rows are the product or the majority of the others' archetypes."""

import numpy as np
import pytest
from helpers import rest_slow
from liars import claiming, lying, owners

from hopfed.archetypes.overlap import retrieval
from hopfed.errors import DataError
from hopfed.experiments.serve import Config, play
from hopfed.federation.engines.local import LocalEngine
from hopfed.federation.rounds import FederationState
from hopfed.hopfield.encoding import unpack_patterns


def product(xi, rng):
    """Rows of what the archetypes give when they are multiplied."""
    return np.repeat(xi.prod(axis=0)[None], 300, axis=0).astype(np.int8)


def majority(xi, rng):
    """Rows of the majority of three archetypes: half their sum less half their product."""
    return np.repeat(np.sign(xi.sum(axis=0))[None], 300, axis=0).astype(np.int8)


def told(make, honest, asking, silent=False, **settings):
    """Archetypes, and what a server tells at its defaults where the first client lies."""
    xi, source = owners([make], honest, N=200)
    questions = {"groups": 4, "votes": True} if asking else {}
    config = Config(columns=200, clients=honest + 1, **(settings | questions))
    liar = lying(config.make(source), claiming(3))

    class Silent(type(liar)):
        def client_step(self, state, down, context):
            if silent and context.client and context.exchange:
                raise DataError("no questions")
            return super().client_step(state, down, context)

    method = Silent(**vars(liar))
    start = FederationState(method.server_start(0))
    arrays, _ = play(config, method, 0, 0, start, LocalEngine())
    number = int(arrays["archetypes/number"])
    return retrieval(unpack_patterns(arrays["archetypes/packed"][:number], 200), xi)


FIRST = [(product, 2, False), (majority, 4, True), (product, 9, True), (majority, 9, False)]
MANY = [(make, L, asking) for make in (product, majority) for L in (2, 4, 9) for asking in (0, 1)]
OTHERS = [case for case in MANY if case not in FIRST]


@pytest.mark.parametrize(("make", "honest", "asking"), rest_slow(FIRST + OTHERS, len(FIRST)))
def test_one_client_does_not_replace_archetypes_by_halves_of_them(make, honest, asking):
    """Three archetypes and their product are, as a sum, four others: half of each of the four."""
    found = told(make, honest, asking)
    assert found.magnetisation.min() == 1
    assert found.false_discoveries == 0


@pytest.mark.parametrize(
    ("make", "honest"),
    rest_slow([(product, 2), (majority, 9), (product, 9), (product, 4), (majority, 2)], 2),
)
def test_nor_where_the_liar_alone_answers_questions(make, honest):
    found = told(make, honest, True, silent=True)
    assert found.magnetisation.min() > 0.99
    assert found.false_discoveries == 0


@pytest.mark.parametrize(
    ("honest", "size"), rest_slow([(2, 3000), (9, 750), (4, 1500), (4, 9000)], 2)
)
def test_nor_do_they_with_noise(honest, size):
    """As a product of the archetypes, with as many rows as make the sum look like others."""

    def make(xi, rng):
        return np.repeat(xi.prod(axis=0)[None], size, axis=0).astype(np.int8)

    xi, source = owners([make], honest, N=100, M=3000)
    config = Config(columns=100, clients=honest + 1, epsilon=4.0)
    start = FederationState({})
    arrays, _ = play(config, config.make(source), 0, 0, start, LocalEngine())
    number = int(arrays["archetypes/number"])
    found = retrieval(unpack_patterns(arrays["archetypes/packed"][:number], 100), xi)
    assert found.magnetisation.min() > 0.95
    assert found.false_discoveries == 0


@pytest.mark.parametrize("rows", [60, 100])
def test_archetypes_are_not_lost_where_votes_would_be_of_few_rows(rows):
    """Clients of few rows agree to questions, and send no votes or only some."""
    xi, source = owners([], 9, N=200, M=rows)
    config = Config(columns=200, clients=9, groups=4, votes=True)
    start = FederationState({"secret": np.array(1)})
    arrays, _ = play(config, config.make(source), 0, 0, start, LocalEngine())
    number = int(arrays["archetypes/number"])
    assert number == 3
    found = retrieval(unpack_patterns(arrays["archetypes/packed"][:number], 200), xi)
    assert found.magnetisation.min() > 0.98
