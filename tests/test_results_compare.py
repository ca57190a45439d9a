"""Results that hold arrays are compared, hashed, copied and pickled without an error.

Two arrays have no one answer to ==, and the comparison of fields that a dataclass makes of its own
raises. So such a result equals itself alone, as an array would that is asked `a is b`.
"""

import copy
import dataclasses
import pickle
from importlib import import_module

import numpy as np
import pytest

import hopfed
from hopfed.hopfield.channel import small_sample
from hopfed.recovery.recover import run_recovery
from hopfed.theory import spikes

XI = small_sample()[0]
RESULTS = {
    "archetypes.archetypes": ["Archetypes"],
    "archetypes.session": ["Recovery"],
    "archetypes.overlap": ["Retrieval"],
    "archetypes.status": ["ClassMeasures", "Residual"],
    "hopfield.federation": ["Simulation"],
    "hopfield.announcement": ["Announcement"],
    "privacy.mechanism": ["PrivateOperator"],
    "runs": ["Run"],
    "spectral.eigenpairs": ["Spectrum"],
    "spectral.operators": ["DenseOperator", "FactorOperator", "PooledOperator", "ScaledOperator"],
    "spectral.rank": ["RankEstimate"],
    "theory.assignment": ["Assignment"],
    "theory.graded": ["Classes"],
    "theory.graded_planning": ["GradedPlan"],
    "theory.planning": ["Plan"],
    "theory.profile": ["ProfileSpikes"],
    "theory.spikes": ["Prediction"],
    "theory.study": ["Promises"],
    "theory.tyler": ["Shape"],
}


@pytest.mark.parametrize(("module", "kind"), [(m, k) for m, held in RESULTS.items() for k in held])
def test_a_result_with_arrays_equals_itself_alone(module, kind):
    kind = getattr(import_module(f"hopfed.{module}"), kind)
    assert dataclasses.is_dataclass(kind)
    assert kind.__eq__ is object.__eq__
    assert kind.__hash__ is object.__hash__


@pytest.fixture(scope="module")
def x():
    return small_sample()[1]


def test_two_recoveries_are_compared_without_an_error(x):
    for make in (hopfed.recover, run_recovery):
        found, other = make(x), make(x)
        again = found
        assert found == again
        assert found != other
        assert len({found, other, found}) == 2
        assert found in [other, found]


def test_they_are_pickled_and_copied_as_before(x):
    found = hopfed.recover(x)
    for made in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found), copy.copy(found)):
        assert made.status == found.status
        assert made.coding == found.coding
        for field in ("patterns", "scores", "exposures", "matches"):
            np.testing.assert_array_equal(getattr(made, field), getattr(found, field))
    assert dataclasses.replace(found, status="x").patterns is found.patterns


def test_predictions_are_compared_without_an_error():
    first, second = (spikes.finite_size(XI, [0.5, 0.3, 0.2], 0.8, 900) for _ in "ab")
    assert first != second
    assert hash(first) != hash(second)
