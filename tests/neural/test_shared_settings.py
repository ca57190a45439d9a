"""Settings that a run, its task and its training share are of one kind and have one default."""

from dataclasses import fields

import pytest

pytest.importorskip("torch", reason="needs the extra neural")

from hopfed.experiments import fl
from hopfed.experiments.shared.cells import Bench
from hopfed.neural.training.task import TaskSpec
from hopfed.neural.training.training import Training

PART = {"rounds", "seed", "seen"}  # which a run sets for its parts


def declared(cls):
    """Default of each setting, by name."""
    return {f.name: f.default for f in fields(cls) if f.name not in PART}


@pytest.mark.parametrize("part", [TaskSpec, Training])
def test_a_run_has_every_setting_of_its_parts(part):
    assert declared(part).items() <= declared(fl.Config).items()


def test_cells_are_trained_as_a_run_is():
    training = declared(Training)
    assert {name: declared(Bench)[name] for name in training} == training
