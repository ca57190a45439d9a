"""Rows near to their archetypes, read off exact tables of fewer rows than columns."""

import numpy as np
from asking import ask, method, refused, site
from scipy.optimize import linprog

from hopfed.data.channel import draw_examples, rademacher
from hopfed.hopfield.encoding import symmetric

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
