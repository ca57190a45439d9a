"""Clients whose rows are made of the others' archetypes, also where these are faint."""

from itertools import product as all_of

import numpy as np
import pytest
from helpers import rest_slow
from liars import assert_found, claiming, served

from hopfed.hopfield.channel import rademacher


def of_each(patterns):
    return np.asarray(patterns)[np.arange(300) % len(patterns)].astype(np.int8)


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


def majorities(xi, rng):
    """Two majorities, whose difference is that of two archetypes: no direction is their own."""
    signs = np.array([[-1, 1, -1], [1, -1, -1]])
    return of_each(np.sign(signs @ xi[:3].astype(int)))


def product(xi, rng):
    """Rows of what the archetypes give when they are multiplied."""
    return of_each([xi.prod(axis=0)])


def majority(xi, rng):
    """Rows of the majority of three archetypes: half their sum less half their product."""
    return of_each([np.sign(xi.sum(axis=0))])


FAINT = {"N": 200, "M": 200, "r": 0.5}
ASKING = {"groups": 4, "votes": True}
LIES = [mixed, with_own, turned_alike, majorities]
FALSE = [(product, 2, False), (majority, 4, True), (product, 9, True), (majority, 9, False)]


@pytest.mark.parametrize(("make", "honest"), rest_slow(all_of(LIES, (2, 4, 9)), 4))
def test_one_client_changes_nothing_where_archetypes_are_faint(make, honest):
    xi, told, _ = served([make], honest, claiming(3), **FAINT)
    assert_found(told, xi, 0.95)


@pytest.mark.slow
@pytest.mark.parametrize("make", [with_own, mixed, majorities])
def test_nor_do_three_of_thirty_together(make):
    xi, told, _ = served([make] * 3, 27, claiming(3), **FAINT)
    assert_found(told, xi, 0.95)


@pytest.mark.parametrize(("make", "honest", "asking"), rest_slow(FALSE, 4))
def test_one_client_does_not_replace_archetypes_by_halves_of_them(make, honest, asking):
    """Three archetypes and their product are, as a sum, four others: half of each of the four."""
    xi, told, _ = served([make], honest, claiming(3), settings=ASKING if asking else {})
    assert_found(told, xi)


@pytest.mark.parametrize("rows", [60, 100])
def test_archetypes_are_not_lost_where_votes_would_be_of_few_rows(rows):
    """Clients of few rows agree to questions, and send no votes or only some."""
    xi, told, _ = served([], 9, settings=ASKING, M=rows)
    assert_found(told, xi, 0.98)
