"""The read-out as a memory: classes are recalled from damaged examples."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")

from hopfed.experiments.worked import memory_of_classes as page


def test_classes_are_recalled_from_damaged_examples(capsys):
    found = page.main(examples=700)
    right = found["recalled"]
    assert right[0] > 0.75
    assert right[2] > 0.6  # a fifth of the bits turned around
    assert right[0] > right[-1] > 0.2
    assert found["read-out"][0] > right[0]
    assert min(found["kinds"]) >= 1
    assert found["by kinds"][0] > right[0]
    assert capsys.readouterr().out.count("recalled") == len(page.DAMAGE)


def test_a_pattern_is_recalled_and_the_opposite_of_it_is_not():
    patterns = np.where(np.random.default_rng(1).random((4, 300)) < 0.5, 1, -1).astype(np.int8)
    cues = patterns[[3, 1, 1, 0]]
    assert page.recalled(patterns, cues, 0.3, seed=0).tolist() == [3, 1, 1, 0]
    assert page.recalled(patterns, -cues[:1], 0.0, seed=0)[0] != 3
