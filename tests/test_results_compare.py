"""Results that hold arrays are compared, hashed, copied and pickled without an error.

Two arrays have no one answer to ==, and the comparison of fields that a dataclass makes of its own
raises. So such a result equals itself alone, as an array would that is asked `a is b`.
"""

import copy
import dataclasses
import pickle
from pydoc import locate

import numpy as np
import pytest

import hopfed
from hopfed.hopfield.channel import small_sample

RESULTS = """
archetypes.archetypes.Archetypes archetypes.session.Recovery archetypes.overlap.Retrieval
archetypes.verdict.ClassMeasures archetypes.verdict.Residual hopfield.federation.Simulation
hopfield.announcement.Announcement privacy.private_operator.PrivateOperator runs.Run
spectral.eigenpairs.Spectrum spectral.operators.DenseOperator spectral.operators.FactorOperator
spectral.operators.PooledOperator spectral.operators.ScaledOperator spectral.rank.RankEstimate
theory.assignment.Assignment theory.graded.Classes theory.graded_planning.GradedPlan
theory.planning.Plan theory.profile.ProfileSpikes theory.spikes.Prediction theory.study.Promises
theory.tyler.Shape
"""


@pytest.mark.parametrize("name", RESULTS.split())
def test_a_result_with_arrays_equals_itself_alone(name):
    kind = locate(f"hopfed.{name}")
    assert dataclasses.is_dataclass(kind)
    assert kind.__eq__ is object.__eq__
    assert kind.__hash__ is object.__hash__


def test_a_recovery_is_pickled_and_copied():
    found = hopfed.recover(small_sample()[1])
    for made in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found), copy.copy(found)):
        assert (made.status, made.coding) == (found.status, found.coding)
        for field in ("patterns", "scores", "exposures", "matches"):
            np.testing.assert_array_equal(getattr(made, field), getattr(found, field))
