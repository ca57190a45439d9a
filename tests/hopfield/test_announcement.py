"""The last word of a federation: what a server tells is read, or refused; files hold all of it."""

import numpy as np
import pytest

import hopfed
from hopfed.errors import DataError
from hopfed.hopfield.announcement import Announcement, read
from hopfed.hopfield.channel import rademacher

K, N = 3, 60


def sent():
    xi = rademacher(K, N, np.random.default_rng(0))
    means = np.full((K, N), 0.5, np.float32) * xi
    told = Announcement(xi, means, np.array([0.5, 0.3, 0.2]), judgement=("ok", "3 classes\x1b[2J."))
    return told.message() | {"quality": np.float32(0.6)}


def test_what_is_told_is_what_is_read():
    told = read(sent(), N)
    np.testing.assert_array_equal(told.patterns, np.sign(told.means))
    np.testing.assert_allclose(told.shares, [0.5, 0.3, 0.2], rtol=1e-6)
    assert round(told.quality, 6) == 0.6
    found = told.archetypes()
    assert (found.channel, round(found.quality, 6)) == ("graded", 0.5)
    assert found.status == "ok"
    assert found.advice.isprintable()


WRONG = {
    "shares": ([0.5, 0.3], [0.5, 0.3, -0.1], [0.9, 0.9, 0.9], [0.5, 0.3, np.nan]),
    "quality": (np.float32(np.inf), [0.5, 0.5], 1),
    "means": (np.full((K, N), 2.0),),
    "patterns": (np.zeros((K, N), np.uint8),),
    "status": (np.frombuffer(b"perfect", np.uint8),),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_such_word_is_refused(name):
    for value in WRONG[name]:
        with pytest.raises(DataError, match=f"malformed message from the server: .*{name}"):
            read(sent() | {name: np.asarray(value)}, N)


def test_without_a_quality_signs_are_kept_and_rows_get_one_line(tmp_path):
    xi = rademacher(K, N, np.random.default_rng(2))
    Announcement(xi).archetypes().save(tmp_path / "old.h5")
    found = hopfed.load(tmp_path / "old.h5")
    found.to_csv(tmp_path / "old.csv")
    assert "nan" not in (tmp_path / "old.csv").read_text().splitlines()[1][6:]
    with pytest.raises(DataError, match="older hopfed"):
        found.assign(xi)
