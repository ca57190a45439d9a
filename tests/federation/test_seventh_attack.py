"""What a seventh attack on clients, servers and files found; each test fails on the code before."""

import numpy as np
import pytest

from hopfed import kernels
from hopfed.data.batches import Batches
from hopfed.hopfield.leaks.broken_relations import broken_by
from hopfed.hopfield.leaks.columns_apart import lines_apart, set_apart
from hopfed.hopfield.site.budget import Ledger, Terms
from hopfed.kernels import PackedBits


def test_a_row_among_many_millions_is_counted():
    """Sums in single precision lost one row of 33 million, which an exact table holds."""
    M = 2**25 + 2
    few = kernels.pack(np.array([[1, 1, 1], [1, -1, 1]])).words
    words = np.repeat(few[:1], M, axis=0)
    words[M // 2] = few[1]
    rows = PackedBits(words, 3)
    assert set_apart(rows, 3) == [(1,), (0, 1), (1, 2)]


def test_the_row_without_an_answer_among_five_hundred_is_found():
    """Of 40,000 rows, the one that breaks the relation was lost in rounding, and is in the table.

    The sum of the columns of all answers is the same in every row but that.
    """
    answers, M, at = 500, 40_000, 12_345
    rng = np.random.default_rng(0)
    x = np.hstack([2 * np.eye(answers)[np.arange(M) % answers] - 1, rng.choice([-1, 1], (M, 5))])
    x[at, :answers] = -1
    S, columns = x.T @ x, x.sum(axis=0)
    told = S[:, :answers].sum(axis=1) + (answers - 2) * columns
    assert (told / -2 == x[at]).all()
    rows = kernels.pack(x)
    assert set_apart(rows, 3) == []
    assert broken_by(rows, 3).tolist() == [at]


def test_votes_are_looked_at_in_either_precision(monkeypatch):
    rows = kernels.pack(np.random.default_rng(0).choice([-1, 1], (200, 12)))
    votes = np.where(np.arange(200) < 90, 1.0, 0.0)[:, None]
    cases = [(votes, 2), (votes, 120), (votes[:, :0], 2)]
    single = [lines_apart(rows, *case) for case in cases]
    monkeypatch.setattr("hopfed.hopfield.leaks.columns_apart.EXACT", 0)
    assert [lines_apart(rows, *case) for case in cases] == single == [None, 0, None]


# --- a budget of privacy that a sorted file exceeded


def batch_of(folder, x, secret):
    """Batch of three that each row of a data set is released in, in a new home with this secret."""
    ledger = Ledger(folder)
    folder.mkdir(parents=True)
    (folder / "secret").write_text(secret)
    rows, _ = ledger.charge(kernels.pack(x), Terms(1.0, 1e-5, 3))
    batches = Batches((rows,), 3)
    at = {row.tobytes(): t for t in range(3) for row in batches.examples(t, 0).words}
    return np.array([at[row.tobytes()] for row in kernels.pack(x).words])


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
