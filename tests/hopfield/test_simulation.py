"""Rounds in one call: the same as the loop, from files of owners or from a stream."""

from dataclasses import replace

import numpy as np
import pytest
from federations import of_patterns, played
from helpers import assert_same

import hopfed
from hopfed.errors import ArgumentError, DataError
from hopfed.federation.rounds import Participation
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.stream import ArchetypeStream, Batches
from hopfed.tables.examples import as_examples


@pytest.fixture(scope="module")
def owners():
    rng = np.random.default_rng(0)
    xi = rademacher(3, 150, rng)
    return xi, [draw_examples(xi, 300, 0.8, rng)[0] for _ in range(3)]


def loop(method, rounds, clients, **options):
    up, how = [], {"seed": 4, "clients": clients, **options}
    last = played(method, rounds, each=lambda result: up.append(result.traffic.up), **how)
    return last.state, sum(up)


def test_it_is_the_loop_to_the_bit(owners):
    xi, tables = owners
    half = Participation(rate=0.7)
    found = hopfed.simulate(tables, 3, seed=4, participation=half, discount=0.8, persistence=2)
    source = Batches(tuple(as_examples(x) for x in tables), 3)
    method = of_patterns(source, 150, discount=0.8, persistence=2)
    state, up = loop(method, 3, 3, participation=half)
    assert_same(state.arrays(), found.state.arrays())
    np.testing.assert_array_equal(found.traffic.up, up)
    assert sorted(found.patterns.tolist()) == sorted(xi.tolist())
    assert len(found.metrics) == 3


def test_a_stream_is_played_to_its_end_or_as_far_as_is_asked(owners):
    xi, _ = owners
    source = ArchetypeStream(xi, np.full((4, 2, 3), 1 / 3), 80, 0.8, seed=0)
    whole = hopfed.simulate(source, seed=4)
    assert len(whole.metrics) == 4
    state, _ = loop(of_patterns(source, 150), 4, 2)
    np.testing.assert_array_equal(whole.patterns, state.server["memory/patterns"])
    assert len(hopfed.simulate(source, 2).metrics) == 2
    with pytest.raises(ArgumentError, match="rounds must be 1 to the 4 of the source, got 5"):
        hopfed.simulate(source, 5)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"clients": []}, "clients must be examples of at least one client"),
        ({"clients": np.ones((4, 3))}, "in a list"),
        ({"clients": [np.ones((4, 3)), np.ones((4, 2))]}, "of the same columns"),
        ({"rounds": 151}, "half the examples of the smallest owner"),
        ({"speed": 3}, "settings must be some of rule, ema, .* got speed"),
        ({"clients": [np.ones((4, 20_000))]}, "n_sites must be at most 16,384"),
        ({"rule": "structure"}, "rule must be a rule of plasticity"),
        ({"engine": "pool"}, "engine must be an engine"),
        ({"clients": [np.ones((2, 2)), [[1.0, np.nan], [-1.0, 1.0]]]}, r"clients\[1\]: .*missing"),
        ({"clients": [np.array([[1, 7], [1, 1]])]}, r"clients\[0\]: .*got 7"),
    ],
)
def test_wrong_arguments_are_refused_in_a_line(owners, arguments, words):
    with pytest.raises((ArgumentError, DataError), match=words):
        hopfed.simulate(**{"clients": owners[1]} | arguments)


def test_graded_classes_are_judged_by_the_rows_of_all_clients():
    rng = np.random.default_rng(0)
    T = rng.uniform(-1, 1, (2, 30))
    x = np.where(rng.random((600, 30)) < (1 + T[rng.integers(2, size=600)]) / 2, 1, -1)
    gappy = np.where(rng.random((300, 30)) < 0.1, 0, x[300:])
    found = hopfed.simulate([x[:300], gappy], channel="graded")
    assert str(found).startswith("2 classes after 1 round of 2 clients")
    assert found.verdict[0] == "ok"
    fewer = replace(found, classes=found.classes.select(np.array([0])))
    assert fewer.verdict[0] == "structure, but not classes"
    assert "the federation found fewer classes than there are" in fewer.verdict[1]
    unknown = replace(found, tables=())
    assert unknown.verdict == ("not judged", "A source drew the rows, which are not kept.")
