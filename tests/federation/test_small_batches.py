"""Rows read off exact tables of no more rows than columns, which are not sent."""

import numpy as np
from asking import ask, method, refused, rows_in, site
from scipy.optimize import linprog

from hopfed import kernels
from hopfed._lib.random import stream
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.encoding import symmetric
from hopfed.hopfield.leaks.columns_apart import set_apart
from hopfed.hopfield.site.limits import Limits

COLUMNS, M = 200, 80


def nearest(operator, archetype, column):
    """The vector in the range, of entries from -1 to 1, nearest to an archetype but in a column."""
    values, vectors = np.linalg.eigh(operator)
    V = vectors[:, values > 1e-3]
    found = linprog(
        -(V.T @ archetype),
        A_ub=np.vstack([V, -V]),
        b_ub=np.ones(2 * len(V)),
        A_eq=V[column : column + 1],
        b_eq=[-archetype[column]],
        bounds=(None, None),
        method="highs",
    )
    return None if found.x is None else np.sign(V @ found.x).astype(int)


def test_rows_nearest_to_an_archetype_are_read_off_and_are_not_sent(tmp_path):
    """More than 5 roots of the columns, which independent component analysis does not rebuild."""
    rng = np.random.default_rng(0)
    xi = rademacher(3, COLUMNS, rng)
    rows = draw_examples(xi, M, 0.8, rng)[0].astype(int)
    there = {tuple(row) for row in rows} | {tuple(-row) for row in rows}
    asked = method(columns=COLUMNS)
    mine = site(tmp_path / "open", rows, smallest_batch=M, smallest_set=1)
    S = symmetric(ask(mine, asked).up["counts"], COLUMNS, M)
    found = [nearest(S, xi[i % 3].astype(float), i) for i in range(12)]
    assert len({tuple(row) for row in found if row is not None} & there) >= 3
    default = site(tmp_path, rows, smallest_set=1, smallest_batch=0)
    refused(ask(default, asked), "fewer than the 400 rows")


def reduced(basis):
    """Coefficients of a basis of the same lattice that is short: Lenstra, Lenstra and Lovasz."""
    B, k = basis.copy(), 1
    own = np.eye(len(B), dtype=int)
    while k < len(B):
        Q, R = np.linalg.qr(B[: k + 1].T)
        star, mu = Q.T * np.diag(R)[:, None], (R / np.diag(R)[:, None]).T
        for j in range(k - 1, -1, -1):
            q = int(np.rint(mu[k, j]))
            B[k] -= q * B[j]
            own[k] -= q * own[j]
            mu[k] -= q * mu[j]
        size = np.square(star).sum(axis=1)
        if size[k] >= (0.99 - mu[k, k - 1] ** 2) * size[k - 1]:
            k += 1
        else:
            B[[k, k - 1]], own[[k, k - 1]] = B[[k - 1, k]], own[[k - 1, k]]
            k = max(k - 1, 1)
    return own


def short_vectors(S):
    """Vectors of +-1 that are short by the inverse of an operator, as its own rows are."""
    lattice = 2 * np.eye(len(S), dtype=int)
    lattice[0] = 1
    found = reduced(lattice @ np.linalg.cholesky(np.linalg.inv(S))) @ lattice
    return found[(np.abs(found) == 1).all(axis=1)]


def test_rows_as_many_as_columns_are_short_vectors_of_a_lattice_and_are_not_sent(tmp_path):
    """Sixty of either, in which no column and no two set a row apart."""
    rng = stream(5, "lattice")
    rows = draw_examples(rademacher(3, 60, rng), 60, 0.8, rng)[0]
    assert not set_apart(kernels.pack(rows), 3)
    up = ask(site(tmp_path / "open", rows, questions=0, smallest_set=1), method(columns=60)).up
    found = short_vectors(symmetric(up["counts"], 60, 60))
    assert rows_in(rows, [*found, *-found]) >= 5
    default = site(tmp_path / "default", rows, questions=0, smallest_set=1, smallest_batch=0)
    refused(ask(default, method(columns=60)), "fewer than the 400 rows")
    assert Limits().batch(60) == 400
