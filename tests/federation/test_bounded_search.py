"""A client with many archetypes of its own does not keep the server searching for long."""

import numpy as np
import pytest
from liars import assert_found, served

import hopfed.hopfield.patterns as server
from hopfed.archetypes.patterns import Search, search_candidates
from hopfed.archetypes.subspace import Subspace
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.memory.layered import LayeredMemory


def test_what_one_client_ships_does_not_make_the_search_long(monkeypatch):
    """Of ten clients one has 40 archetypes of its own."""

    def shipped(xi, rng):
        return draw_examples(rademacher(40, 200, rng), 600, 0.9, rng)[0]

    searches, real = [], server.factorize

    def counting(spectrum, rank, **options):
        searches.append((rank.n_detected, options["search"].most))
        return real(spectrum, rank, **options)

    monkeypatch.setattr(server, "factorize", counting)
    xi, told, _ = served([shipped], 9, M=400)
    assert_found(told, xi)
    assert max(directions for directions, _ in searches) > 40, "nothing to bound"
    assert len(searches) <= 5, "all, three groups, and those that are explained best"
    assert all(most <= server.EFFORT * max(directions, 1) for directions, most in searches)


@pytest.mark.parametrize(("most", "passes"), [(1, 1), (32 * 150 * 40 + 1, 2)])
def test_a_search_gives_up_after_so_many_steps(most, passes):
    """In a space of 40 directions, where it would go on."""
    made = []

    class Counting(LayeredMemory):
        def run(self, *arguments, **options):
            made.append(1)
            return super().run(*arguments, **options)

    vectors = np.linalg.qr(np.random.default_rng(0).standard_normal((200, 40)))[0]
    space = Subspace(vectors, np.full(40, 20.0), np.full(40, 0.9), 0.1)
    search_candidates(space, Search(memory=Counting(layers=1, order="serial"), most=most), 0)
    assert len(made) == passes
