"""Sums over groups of rows, along directions of a server, from which no row follows."""

import numpy as np
import pytest
from asking import ask, method, refused, rows_in, signs, site

from hopfed import kernels
from hopfed._lib.random import stream
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.client import on_grid, project, spread

SITES, HALF = 60, 29


def gate(row, scale, size=1.0):
    """Directions of which the first, when rounded, is 0 in all rows but those near to one."""
    V = np.zeros((SITES, HALF + 1), np.float32)
    V[SITES - 2, 0], V[SITES - 1, 0] = 2.0**24, -(2.0**24)
    V[:HALF, 0] = row[:HALF] * np.float32(scale)
    V[np.arange(HALF, SITES - 2), np.arange(1, HALF + 1)] = 1
    V[:, 0] *= np.float32(size)
    return V


def test_a_sum_over_a_group_is_not_one_over_a_row_by_rounding(tmp_path):
    """Two equal columns of large weight cancel; what is beside them is rounded to a threshold.

    Who knows the first half of a row learnt the second, of 200 rows in one group.
    """
    rows = signs(200, SITES, 0.5).copy()
    rows[:, SITES - 2 :] = 1
    packed = kernels.pack(rows)
    opened = [kernels.matmat(packed, gate(rows[7], s))[:, 0] for s in (0.05, 0.06)]
    assert [np.flatnonzero(values).tolist() for values in opened] == [[7], [7]]
    beside = [k * (k + 1) // 2 for k in range(1, HALF + 1)]
    column = project(packed, gate(rows[7], 0.05), 1, 0, 0)["groups"][0][beside]
    assert rows_in([rows[7, HALF : SITES - 2]], [np.sign(column)]) == 1

    node, asked = site(tmp_path, rows), method(columns=SITES, groups=1)
    started = ask(node, asked)
    down = {"basis": gate(rows[7], 0.05)}
    refused(ask(node, asked, 0, 1, started.state, down), "longer than 1")
    down = {"basis": gate(rows[7], 0.05, 2.0**-25)}
    assert not ask(node, asked, 0, 1, started.state, down).up["groups"][0][beside].any()


@pytest.mark.parametrize(("M", "columns"), [(50, 40), (400, 784), (1000, 3000)])
def test_on_a_grid_sums_are_those_of_whole_numbers(M, columns):
    rng = np.random.default_rng(M)
    rows = rng.choice([-1, 1], (M, columns))
    V = np.linalg.qr(rng.standard_normal((columns, 6)))[0].astype(np.float32)
    rounded = on_grid(V)
    assert np.abs(rounded - V).max() <= 2.0**-12
    scaled = [[int(v) for v in row] for row in (rounded * 2.0**30).astype(np.int64)]
    X = rows.astype(object) @ np.array(scaled, dtype=object)
    exact = X.T @ X
    found = project(kernels.pack(rows), V, 1, 0, 0, 50)["groups"][0]
    want = [np.float32(float(exact[i, j]) / 2.0**60) for i in range(6) for j in range(i + 1)]
    assert found.tolist() == want


def test_groups_along_single_columns_do_not_show_single_rows(tmp_path):
    """Of 50 columns that are most alike, two differ in one row of 50, and give away its others."""
    rng = stream(0, "fragments")
    rows = draw_examples(rademacher(3, 200, rng), 500, 0.9, rng)[0]
    alike = np.argsort(-np.abs(rows[:, 0] @ rows.astype(int)))[:50]
    V = np.zeros((200, 50), np.float32)
    V[alike, np.arange(50)] = 1
    packed = kernels.pack(rows)
    once = project(packed, V, 10, 0, 0)
    assert shown(once, rows[:, alike]) > 50
    node, asked = site(tmp_path, rows, smallest_set=1), method(columns=200, groups=8)
    started = ask(node, asked)
    assert not started.fault
    assert shown(ask(node, asked, 0, 1, started.state, {"basis": V}).up, rows[:, alike]) == 0


def shown(answer, rows):
    """Number of rows that are among differences of two lines of a group's table."""
    guesses = []
    for triangle, size in zip(answer["groups"], answer["sizes"], strict=True):
        S = symmetric_of(triangle, rows.shape[1])
        for a, b in zip(*np.nonzero(np.triu((size - np.abs(S)) // 2 == 1, 1)), strict=True):
            row = (S[a] - np.sign(S[a, b]) * S[b]) // 2
            guesses += [row, -row]
    return rows_in(rows, guesses)


def test_a_row_that_two_columns_set_apart_in_a_group_is_not_read_off_as_digits(tmp_path):
    """Of the 3 rows of a batch in which two columns differ, a random group often has one alone.

    Beside that direction, others with powers of 2 as entries gave 198 values of 200 of the row.
    """
    rng, bits, columns = np.random.default_rng(5), 12, 200
    rows = draw_examples(rademacher(3, columns, rng), 400, 0.8, rng)[0]
    apart = [11, 222, 333]
    rows[:, 1] = rows[:, 0]
    rows[apart, 1] *= -1
    V = np.zeros((columns, 1 + -(-(columns - 2) // bits)), np.float32)
    V[0, 0], V[1, 0] = 0.5, -0.5
    for i in range(columns - 2):
        V[2 + i, 1 + i // bits] = 2.0 ** -(1 + i % bits)

    def read(answer):
        found = []
        for triangle in answer["groups"]:
            line = [triangle[k * (k + 1) // 2] for k in range(V.shape[1])]
            row = []
            for rest in line[1:] if line[0] == 1 else ():
                for bit in range(bits):
                    row.append(np.sign(rest))
                    rest -= row[-1] * 2.0 ** -(1 + bit)
            found += [row[: columns - 2], [-value for value in row[: columns - 2]]]
        return rows_in(rows[apart, 2:], found)

    assert read(project(kernels.pack(rows), V, 2, 3, 0)) == 1
    node, asked = site(tmp_path, rows), method(columns=columns, groups=8)
    started = ask(node, asked)
    reply = ask(node, asked, 0, 1, started.state, {"basis": V})
    assert reply.up["sizes"].tolist() == [400] + 7 * [0]
    assert read(reply.up) == 0
    mixed = np.linalg.qr(np.random.default_rng(0).standard_normal(2 * V.shape[1:]))[0]
    assert not spread(kernels.pack(rows), on_grid(V) @ mixed, 2, 3, 0)


def symmetric_of(triangle, K):
    full = np.zeros((K, K))
    full[np.tri(K, dtype=bool)] = np.rint(triangle)
    return (full + full.T - np.diag(np.diag(full))).astype(int)
