"""Memories as files: what comes back is what was stored, and foreign files are told apart."""

from dataclasses import replace

import h5py
import numpy as np
import pytest
from memory.oracle import corrupted, random_signs

from hopfed import load
from hopfed.errors import ArgumentError, RunFileError
from hopfed.memory.associative import AssociativeMemory
from hopfed.memory.rules import Dense, Dreamed, Exponential, Hebb, Layered, Projector
from hopfed.memory.run_file import memory_to_run
from hopfed.runs import Run
from hopfed.spectral.operators import FactorOperator

RULES = [Hebb(), Projector(), Dreamed(2.5), Dreamed(float("inf")), Layered(4, 0.1, "linear", 0.0),
         Layered(), Dense(5), Exponential(0.25)]  # fmt: skip


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_a_memory_comes_back(rule, tmp_path):
    xi = random_signs((5, 77), 1)
    memory = AssociativeMemory.store(xi, rule, weights=np.linspace(0.5, 1, 5))
    memory.save(tmp_path / "m.h5")
    back = load(tmp_path / "m.h5")
    assert back.rule == rule
    np.testing.assert_array_equal(back.patterns, xi)
    np.testing.assert_array_equal(back.weights, memory.weights)
    cues = corrupted(xi, 0.3, 2)
    np.testing.assert_array_equal(back.recall(cues).states, memory.recall(cues).states)


def test_graded_and_operator_memories_come_back(tmp_path):
    means = np.array([[0.5, -0.3, 1.0, 0.0], [1.0, 0.0, 1.0, 0.0]])
    graded = AssociativeMemory.store(means, weights=[1, 2])
    for k in (0, 1):  # the second row alone would be bits, if it were given
        memory = replace(graded, patterns=graded.patterns[k:], weights=graded.weights[k:])
        memory.save(tmp_path / f"graded{k}.h5")
        assert load(tmp_path / f"graded{k}.h5").patterns.tolist() == means[k:].tolist()
    operator = FactorOperator.from_examples(random_signs((4, 30), 1))
    memory = AssociativeMemory.store(operator, "projector", rank=3)
    memory.save(tmp_path / "operator.h5")
    cues = random_signs((6, 30), 2)
    np.testing.assert_array_equal(
        load(tmp_path / "operator.h5").recall(cues).states, memory.recall(cues).states
    )


def test_a_memory_takes_the_name_of_no_other_file(tmp_path):
    memory = AssociativeMemory.store(random_signs((4, 30), 1))
    for name in ("m.csv", "m.npy", "m"):
        with pytest.raises(ArgumentError, match=r"path must be a \.h5 or \.hdf5 file"):
            memory.save(tmp_path / name)
    with h5py.File(tmp_path / "table.h5", "w") as file:
        file["x"] = np.ones((2, 2))
    with pytest.raises(ArgumentError, match="path must be a new file, or a run file of hopfed"):
        memory.save(tmp_path / "table.h5")


def test_foreign_files_are_told_apart(tmp_path):
    with pytest.raises(RunFileError, match="no such run file"):
        load(tmp_path / "none.h5")
    Run("bbp", {}, {}, {}).save(tmp_path / "other.h5")
    with pytest.raises(RunFileError, match="without archetypes"):
        load(tmp_path / "other.h5")
    run = memory_to_run(AssociativeMemory.store(random_signs((2, 9), 1)))
    del run.arrays["memory/bits"]
    run.save(tmp_path / "torn.h5")
    with pytest.raises(RunFileError, match="not a readable memory"):
        load(tmp_path / "torn.h5")


def test_layers_of_a_file_of_a_few_kb_do_not_fill_the_memory(tmp_path):
    """Of 7 kB and 15,000 layers, GB were taken for minutes."""
    run = memory_to_run(AssociativeMemory.store(np.array([[1, -1, 1]]), "layered"))
    run.config["settings"]["g"] = []  # as files of 0.2 have it
    run.save(tmp_path / "old.h5")
    assert load(tmp_path / "old.h5").rule == Layered()
    run.config["settings"].update(layers=15_000, repulsion=0.0)
    run.save(tmp_path / "m.h5")
    with pytest.raises(RunFileError, match=r"layers must be in 1 \.\. 1,000, got 15000"):
        load(tmp_path / "m.h5")
