"""A client with many archetypes of its own does not keep the server searching for long."""

import numpy as np
import pytest
from liars import owners

import hopfed.hopfield.patterns as server
from hopfed.archetypes.annealed_search import Search, search_candidates
from hopfed.archetypes.subspace import Subspace
from hopfed.experiments import serve
from hopfed.federation.engines import LocalEngine
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.encoding import unpack_patterns
from hopfed.memory.layered import LayeredMemory


def test_what_one_client_ships_does_not_make_the_search_long(monkeypatch):
    """Of ten clients one has 40 archetypes of its own."""
    columns, honest, own = 200, 3, 40

    def shipped(xi, rng):
        return draw_examples(rademacher(own, columns, rng), 600, 0.9, rng)[0]

    xi, source = owners([shipped], 9, N=columns, M=400, K=honest)
    searches, real = [], server.factorize

    def counting(spectrum, rank, **options):
        searches.append((rank.n_detected, options["search"].most))
        return real(spectrum, rank, **options)

    monkeypatch.setattr(server, "factorize", counting)
    config = serve.Config(columns=columns, clients=10)
    arrays, _ = serve.measure_round(0, config, 0, None, LocalEngine(), config.make(source))
    told = unpack_patterns(arrays["archetypes/packed"][: int(arrays["archetypes/number"])], columns)
    assert sorted(np.abs(told @ xi.T.astype(int)).max(axis=0)) == [columns] * honest
    assert len(told) == honest
    assert max(directions for directions, _ in searches) > own, "nothing to bound"
    assert len(searches) <= 5, "all, three groups, and those that are explained best"
    assert all(most <= server.EFFORT * max(directions, 1) for directions, most in searches)


@pytest.mark.parametrize(("most", "passes"), [(1, 1), (32 * 150 * 40 + 1, 2), (np.inf, 3)])
def test_a_search_gives_up_after_so_many_steps(most, passes):
    """In a space of 40 directions, where it would go on."""
    rng, made = np.random.default_rng(0), []
    vectors = np.linalg.qr(rng.standard_normal((200, 40)))[0]
    space = Subspace(vectors, np.full(40, 20.0), np.full(40, 0.9), 0.1)

    class Counting(LayeredMemory):
        def run(self, *arguments, **options):
            made.append(1)
            return super().run(*arguments, **options)

    memory = Counting(layers=1, order="serial")
    search_candidates(space, Search(memory=memory, most=most), 0)
    assert len(made) == passes or (most == np.inf and len(made) >= passes)
