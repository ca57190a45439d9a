"""Owners as files: several paths in one call."""

import numpy as np
import pytest

import hopfed
from hopfed.errors import DataError


def test_a_list_of_paths_is_one_owner_each(tmp_path):
    rng = np.random.default_rng(4)
    signs = rng.integers(0, 2, (2, 20))
    parts = []
    for name, words in (("a.csv", ("nein", "ja")), ("b.csv", ("n", "y"))):
        rows = np.where(rng.random((200, 20)) < 0.15, 1, 0) ^ signs[rng.integers(2, size=200)]
        lines = [",".join(f"q{j}" for j in range(20))]
        lines += [",".join(words[v] for v in row) for row in rows]
        path = tmp_path / name
        path.write_text("\n".join(lines))
        parts.append(path)
    found = hopfed.recover(parts, seed=0)
    assert len(found) == 2
    assert found.columns[:2] == ("q0", "q1")
    with pytest.raises(DataError, match="no such file"):
        hopfed.recover([parts[0], tmp_path / "c.csv"])
