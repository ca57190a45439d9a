"""What somebody who knows a row, whole or in part, learns from an exact table."""

import numpy as np
import pytest
from asking import ask, method, refused, site

from hopfed._lib.random import stream
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.encoding import symmetric
from hopfed.hopfield.leaks.known_rows import told_member, told_value
from hopfed.hopfield.site.limits import Limits


def sent(up):
    """Inverse of the operator in a message."""
    S = symmetric(up["counts"], len(up["columns"]), int(up["examples"]))
    return np.linalg.inv(S)


def completed(inverse, row, unknown):
    """The row that is shortest by the inverse operator, of those that have the known values."""
    known = np.setdiff1d(np.arange(len(row)), unknown)
    guess = row.astype(float)
    within = inverse[np.ix_(unknown, unknown)]
    guess[unknown] = -np.linalg.solve(within, inverse[np.ix_(unknown, known)] @ guess[known])
    guess[unknown] = np.where(guess[unknown] < 0, -1, 1)
    while True:
        change = np.diag(inverse)[unknown] - guess[unknown] * (inverse @ guess)[unknown]
        if change.min() >= -1e-12:
            return guess
        guess[unknown[change.argmin()]] *= -1


def test_the_rest_of_a_row_that_is_known_in_part_is_found_and_is_not_sent(tmp_path):
    """From a few rows more than columns; of twice as many none is found whole."""
    rng, columns = stream(0, "insider"), 300
    exact = {}
    for M in (330, 600):
        rows = draw_examples(rademacher(3, columns, rng), M, 0.6, rng)[0]
        up = ask(site(tmp_path / f"{M}", rows, smallest_batch=M), method(columns=columns)).up
        inverse = sent(up)
        found = []
        for row in rows[:10]:
            unknown = rng.choice(columns, 60, replace=False)
            found.append((completed(inverse, row, unknown) == row).all())
        exact[M] = sum(found)
    assert exact[330] == 10
    assert exact[600] == 0
    few = draw_examples(rademacher(3, 500, rng), 900, 0.6, rng)[0]
    default = site(tmp_path / "default", few, questions=0, smallest_batch=0)
    refused(ask(default, method(columns=500)), "fewer than the 1000 rows")
    assert Limits().batch(784) == 2 * 784


@pytest.mark.parametrize(("M", "columns"), [(220, 200), (400, 200), (1200, 300)])
def test_what_who_knows_a_row_learns_is_as_it_is_said(M, columns):
    """The numbers that a dry run prints, of tables whose columns have nothing in common."""
    values, members = [], []
    for seed in range(4):
        x = stream(seed, "told", M, columns).choice([-1.0, 1.0], (2 * M, columns))
        inverse = np.linalg.inv(x[:M].T @ x[:M])
        said = x[:M] @ inverse
        values.append((np.diag(inverse) > x[:M] * said).mean())
        short = np.einsum("mn,mn->m", x @ inverse, x)
        middle = (short[:M].mean() * short[M:].std() + short[M:].mean() * short[:M].std()) / (
            short[:M].std() + short[M:].std()
        )
        members.append(((short[:M] < middle).mean() + (short[M:] > middle).mean()) / 2)
    assert np.mean(values) == pytest.approx(told_value(M, columns), abs=0.01)
    assert np.mean(members) == pytest.approx(told_member(M, columns), abs=0.02)


def test_a_dry_run_says_what_who_knows_a_row_learns(hopfed, tmp_path, monkeypatch):
    monkeypatch.setenv("HOPFED_HOME", str(tmp_path / "home"))
    rng = stream(1, "dry")
    np.save(tmp_path / "d.npy", draw_examples(rademacher(3, 200, rng), 800, 0.6, rng)[0])
    status, text, _ = hopfed("join", "--data", tmp_path / "d.npy", "--dry-run")
    assert status == 0
    words = " ".join(text.split())
    assert "whether it is in a batch of 400 rows, and is right in 100 of 100 cases" in words
    assert "right in 84 of 100 (chance is 50" in words
    _, text, _ = hopfed("join", "--data", tmp_path / "d.npy", "--dry-run", "--epsilon", 1)
    assert "Whoever knows" not in text
