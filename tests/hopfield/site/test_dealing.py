"""Rows are dealt out over the rounds by a secret, and not as they lie in a file."""

import numpy as np
import pytest

from hopfed import kernels
from hopfed.hopfield.batches import Batches
from hopfed.hopfield.ledger import Ledger, Terms


def batch_of(folder, x, secret):
    """Batch of three that each row of a data set is released in, in a new home with this secret."""
    ledger = Ledger(folder)
    folder.mkdir(parents=True)
    (folder / "secret").write_text(secret)
    rows, _ = ledger.charge(kernels.pack(x), Terms(1.0, 1e-5, 3))
    batches = Batches((rows,), 3)
    at = {row.tobytes(): t for t in range(3) for row in batches.examples(t, 0).signs}
    return np.array([at[row.tobytes()] for row in kernels.pack(x).signs])


@pytest.fixture
def sorted_rows():
    """300 rows of 20 columns that differ, in order of their values."""
    x = np.unique(np.random.default_rng(0).choice([-1, 1], (300, 20)), axis=0)
    assert len(x) == 300
    return x


def test_a_sorted_file_is_dealt_out_as_any_other(tmp_path, sorted_rows):
    """One row, in another place of its order, moved 191 of 300 others to another round."""
    order = np.random.default_rng(1).permutation(300)
    one = batch_of(tmp_path / "a", sorted_rows, "ab" * 32)
    other = batch_of(tmp_path / "b", sorted_rows[order], "ab" * 32)
    assert (one[order] == other).all()


def test_in_which_round_a_row_is_released_is_drawn_by_the_secret(tmp_path, sorted_rows):
    dealt = [batch_of(tmp_path / f"{k}", sorted_rows, f"{k:064x}") for k in range(100)]
    often = np.stack([(np.stack(dealt) == t).sum(axis=0) for t in range(3)])
    assert (often.sum(axis=1) == 100 * 100).all()  # of 100 homes, 100 rows in each round
    assert often.min() > 10  # of 33.3, with a spread of 4.7
    assert often.max() < 60
