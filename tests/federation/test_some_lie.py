"""Clients whose rows are made of the others' archetypes, where these are faint, or of too many."""

from itertools import product as all_of

import numpy as np
import pytest
from helpers import rest_slow
from liars import assert_found, claiming, own, served

import hopfed.hopfield.pattern_channel as server
from hopfed.archetypes.patterns import Search, search_candidates
from hopfed.archetypes.subspace import Subspace
from hopfed.federation.contract import Fault, Outcome
from hopfed.federation.engines import LocalEngine
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.memory.layered_memory import LayeredMemory


def made(patterns):
    """Rows of what is made of the archetypes: one pattern each, in turns."""

    def rows(xi, rng):
        u = rademacher(1, xi.shape[1], np.random.default_rng(99))[0]  # a pattern of one's own
        made = np.array(patterns(xi.astype(int), u))
        return np.sign(made)[np.arange(300) % len(made)].astype(np.int8)

    return rows


MIXED = made(lambda xi, u: [xi.prod(axis=0), xi.sum(axis=0), xi[0]])
WITH_OWN = made(lambda xi, u: [xi[0] * xi[1] * u, xi.prod(axis=0), u * xi[2] * xi[0], u])
# two majorities, whose difference is that of two archetypes: no direction is their own
MAJORITIES = made(lambda xi, u: [xi[1] - xi[0] - xi[2], xi[0] - xi[1] - xi[2]])
PRODUCT = made(lambda xi, u: [xi.prod(axis=0)])
MAJORITY = made(lambda xi, u: [xi.sum(axis=0)])
FAINT, ASKING = {"N": 200, "M": 200, "r": 0.5}, {"settings": {"groups": 4, "votes": True}}
LIES = [([lie], L, FAINT) for lie, L in all_of((MIXED, WITH_OWN, MAJORITIES), (2, 9))]
LIES += [([lie] * 3, 27, FAINT) for lie in (WITH_OWN, MIXED)]
# Three archetypes and their product are, as a sum, four others: half of each of the four.
LIES += [([PRODUCT], 2, {}), ([MAJORITY], 4, ASKING), ([PRODUCT], 9, ASKING)]


@pytest.mark.parametrize(("liars", "honest", "how"), rest_slow(LIES, 6))
def test_liars_neither_blur_archetypes_nor_replace_them_by_what_is_made_of_them(liars, honest, how):
    xi, told, _ = served(liars, honest, claiming(3), **how)
    assert_found(told, xi, 0.95 if how is FAINT else 1)


@pytest.mark.parametrize("rows", [60, 100])
def test_archetypes_are_not_lost_where_votes_would_be_of_few_rows(rows):
    """Clients of few rows agree to questions, and send no votes or only some."""
    xi, told, _ = served([], 9, M=rows, **ASKING)
    assert_found(told, xi, 0.98)


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


class Sixteen(LocalEngine):
    """The first sixteen clients answer, and the others are not there."""

    def step(self, method, calls):
        missing = Outcome(fault=Fault.TIMED_OUT, reason="it is not there")
        found = zip(calls, super().step(method, calls), strict=True)
        return [each if call.context.client < 16 else missing for call, each in found]


LIARS = [(1, 3, 3), (1, 2, 0), (2, 4, 4), (1, 10, 3), (2, 10, 4), (3, 30, 3), (4, 30, 4)]
CASES = [(*case, LocalEngine()) for case in LIARS]
CASES.append((3, 30, 3, Sixteen()))  # a tenth of all, not of those heard


@pytest.mark.parametrize(("liars", "clients", "told", "engine"), rest_slow(CASES, 4))
def test_how_many_liars_the_page_for_owners_speaks_of(liars, clients, told, engine):
    """Archetypes of which three are true; where there are four, one is that of the liars."""
    M = 60 if clients == 30 else 300
    how = {"M": M, "engine": engine}
    xi, found, _ = served([own(M)] * liars, clients - liars, claiming(3_000_000), **how)
    assert len(found) == told
    assert (np.abs(found.astype(int) @ xi.T) == 200).sum() == min(told, 3)


def test_a_search_gives_up_after_so_many_steps():
    class Counting(LayeredMemory):
        def run(self, *arguments, **options):
            passes.append(1)
            return super().run(*arguments, **options)

    passes, memory = [], Counting(layers=1, order="serial")
    vectors = np.linalg.qr(np.random.default_rng(0).standard_normal((200, 40)))[0]
    space = Subspace(vectors, np.full(40, 20.0), np.full(40, 0.9), 0.1)
    search_candidates(space, Search(memory=memory, most=1), 0)
    assert len(passes) == 1, "where it would go on"
