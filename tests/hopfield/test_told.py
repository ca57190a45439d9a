"""The last word of a federation: what a server tells is read, or refused; files hold all of it."""

import numpy as np
import pytest

import hopfed
from hopfed.archetypes.export import report_of
from hopfed.archetypes.storage import as_run
from hopfed.errors import DataError
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.told import Told, read
from hopfed.report.recovery import sections

K, N = 3, 60


def sent():
    xi = rademacher(K, N, np.random.default_rng(0))
    means = np.full((K, N), 0.5, np.float32) * xi
    return Told(xi, means, np.array([0.5, 0.3, 0.2])).message() | {"quality": np.float32(0.6)}


def test_what_is_told_is_what_is_read():
    told = read(sent(), N)
    np.testing.assert_array_equal(told.patterns, np.sign(told.means))
    np.testing.assert_allclose(told.shares, [0.5, 0.3, 0.2], rtol=1e-6)
    assert round(told.quality, 6) == 0.6
    found = told.archetypes()
    assert (found.channel, round(found.quality, 6)) == ("graded", 0.5)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("shares", np.array([0.5, 0.3], np.float32)),
        ("shares", np.array([0.5, 0.3, -0.1], np.float32)),
        ("shares", np.array([0.9, 0.9, 0.9], np.float32)),
        ("shares", np.array([0.5, 0.3, np.nan], np.float32)),
        ("quality", np.float32(np.inf)),
        ("quality", np.array([0.5, 0.5])),
        ("quality", np.array(1)),
        ("means", np.full((K, N), 2.0)),
        ("patterns", np.zeros((K, N), np.uint8)),
    ],
)
def test_what_is_no_such_word_is_refused(name, value):
    with pytest.raises(DataError, match=f"{name} of another form"):
        read(sent() | {name: np.asarray(value)}, N)


def test_files_of_a_recovery_and_of_a_federation_answer_alike(tmp_path):
    rng = np.random.default_rng(1)
    xi = rademacher(K, N, rng)
    x, labels = draw_examples(xi, 900, 0.7, rng)[:2]
    Told(xi, quality=0.7).archetypes().save(tmp_path / "told.h5")
    found = hopfed.load(tmp_path / "told.h5")
    assert (len(found), found.status) == (K, "not judged")
    assert "nan" not in found.summary() + repr(found)
    archetype, probability = found.assign(x, alpha=0)
    assert (archetype == labels).mean() > 0.99
    assert probability.mean() > 0.99


def test_without_a_quality_signs_are_kept_and_rows_get_one_line(tmp_path):
    xi = rademacher(K, N, np.random.default_rng(2))
    Told(xi).archetypes().save(tmp_path / "old.h5")
    found = hopfed.load(tmp_path / "old.h5")
    found.to_csv(tmp_path / "old.csv")
    assert "nan" not in (tmp_path / "old.csv").read_text().splitlines()[1][6:]
    with pytest.raises(DataError, match="older hopfed"):
        found.assign(xi)


def csv_of(found, folder):
    found.to_csv(folder / "found.csv")
    return (folder / "found.csv").read_text()


def test_signs_are_shown_without_rates(tmp_path):
    """One quality for all columns is no measured rate of any."""
    xi = np.random.default_rng(2).choice([-1, 1], (2, 30)).astype(np.int8)
    found = Told(xi, quality=0.8).archetypes(columns=[f"q{j}" for j in range(30)])
    assert found.signs_only
    for said in (found.summary(), found._repr_html_(), sections("run.h5", as_run(found))[1]):
        assert "more often" in said
        assert "%)" not in said
        assert "explains the rows" not in said
    head, first, _ = (line.split(",") for line in csv_of(found, tmp_path).splitlines())
    assert (head[2], set(first[2:])) == ("q0", {"1.0", "-1.0"})
    assert "means" not in report_of(found)
    graded = Told(xi, means=0.8 * xi, shares=np.array([0.5, 0.5])).archetypes()
    assert not graded.signs_only
    assert "95 of 100" not in sections("run.h5", as_run(graded))[1], "no interval is known"
    assert "%" in graded.summary()
