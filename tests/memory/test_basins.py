"""Basins: cues are recalled below capacity and not above, beside theory."""

import numpy as np
import pytest

from hopfed.errors import ArgumentError
from hopfed.memory.basins import basins
from hopfed.memory.rules import Layered


@pytest.mark.parametrize("rule", ["hebb", "dreamed", "projector", "dense", "exponential"])
def test_small_damage_is_mended_below_capacity(rule):
    found = basins(rule, 200, [0.05, 0.9], [0.0, 0.1, 0.4], cues=20)
    assert found.patterns.tolist() == [10, 180]
    assert found.recalled[0, :2].tolist() == [1, 1]
    assert found.edge[0] > 0.2
    assert abs(found.overlap[0, 0] - found.law[0]) < 0.01
    above = rule in ("hebb", "dreamed")
    assert (found.law[1] == 0) == above
    assert (found.overlap[1, 0] < 0.9) == above
    assert np.isnan(found.apart).all()


@pytest.mark.parametrize(("rule", "load"), [("hebb", 0.1), ("dreamed", 0.34), ("projector", 0.5)])
def test_undamaged_cues_end_on_the_line_of_theory(rule, load):
    found = basins(rule, 1000, [load], [0.0], cues=30, seed=7)
    # Finite size adds of the order of 1 / sqrt(N) times the distance from 1.
    assert found.overlap[0, 0] == pytest.approx(found.law[0], abs=2e-3)


def test_the_edge_lies_between_the_shares_that_were_tried():
    found = basins("projector", 100, [0.4], np.linspace(0, 0.4, 9), cues=40)
    j = int(np.flatnonzero(found.recalled[0] < 0.5)[0])
    assert found.flips[j - 1] <= found.edge[0] <= found.flips[j]
    found = basins("projector", 100, [0.2, 1], [0, 0.05])  # with as many patterns nothing changes
    assert found.edge.tolist() == [0.05, 0]


def test_layers_take_mixtures_apart_where_few_patterns_are_stored():
    found = basins(Layered(3, 0.4), 200, [0.015, 0.3], [0.0], cues=20)
    assert found.apart[0] > 0.5 > found.apart[1]
    assert np.isnan(found.law).all()


def test_settings_out_of_range_are_refused():
    for wrong in ({"flips": [0.2, 0.1]}, {"flips": [0.6]}, {"loads": [0]}, {"cues": 0}):
        with pytest.raises(ArgumentError, match=next(iter(wrong))):
            basins(**wrong)
