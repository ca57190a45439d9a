"""One table of planted tables: the status, the number and the channel of each are known."""

import re

import numpy as np
import pytest
from helpers import rest_slow
from scipy.special import expit

import hopfed
from hopfed.hopfield.channel import draw_examples, rademacher

NOT = "structure, but not classes"
UNSURE = {"detected, not resolved", "incomplete", "poor fit"}


def patterns(K, N, M, *qualities):
    """Rows of patterns of +-1, of an owner for each quality."""

    def made(rng):
        xi = rademacher(K, N, rng)
        owners = [draw_examples(xi, M, r, rng)[0] for r in qualities]
        return owners if len(owners) > 1 else owners[0]

    return made


def signs(rng, p, missing=0.0):
    x = np.where(rng.random(p.shape) < p, 1.0, -1.0)
    x[rng.random(p.shape) < missing] = np.nan
    return x


def classes(K, N, M, a=1.0, b=1.0, missing=0.0):
    """Rows of classes whose rates are from a Beta law."""
    return lambda rng: signs(rng, rng.beta(a, b, (K, N))[rng.integers(K, size=M)], missing)


def kinds(K, N, M, low=0.15):
    def made(rng):
        rates = np.where(rng.random((K, N)) < 0.5, low, 1 - low)
        return signs(rng, rates[rng.integers(K, size=M)])

    return made


def trait(M, N, slope=1.0, spread=1.0, missing=0.0):
    def made(rng):
        ability = rng.standard_normal((M, 1))
        return signs(rng, expit(slope * (ability - rng.normal(0, spread, N))), missing)

    return made


def peaks(M, N, width, around=0):
    """Species along a slope, or through a year that comes `around`: each is common at its place."""

    def made(rng):
        far = np.abs(rng.random((M, 1)) - np.arange(N) / (N - 1 + around))
        far = np.minimum(far, 1 - far) if around else far
        return signs(rng, 0.05 + 0.85 * np.exp(-(far**2) / 2 / width**2))

    return made


def mixed(K, N, M, alpha):
    """Rows that belong to several classes in part."""
    return lambda rng: signs(rng, rng.dirichlet(np.full(K, alpha), M) @ rng.beta(0.7, 0.7, (K, N)))


def of_qualities(levels, parts, M, N):
    """Rows of three kinds, each row of its own quality."""

    def made(rng):
        T, r = rng.uniform(-1, 1, (3, N)), rng.choice(levels, M, p=parts)[:, None]
        return signs(rng, (1 + r * T[rng.integers(3, size=M)]) / 2)

    return made


def a_faded_kind(rng):
    """Three classes, and one of them once more at a quality of 0.4."""
    T = rng.uniform(-1, 1, (3, 120))
    T = np.vstack([T, 0.4 * T[:1]])
    return signs(rng, (1 + T[rng.integers(4, size=1500)]) / 2)


def a_row_that_comes_back(rng):
    x = classes(3, 40, 400)(rng)
    return rng.permutation(np.vstack([x, np.repeat(x[:1], 60, axis=0)]))


def by_column(rng):
    xi, r = rademacher(6, 200, rng), rng.uniform(0.2, 1, 200)
    return signs(rng, (1 + r * xi[rng.integers(6, size=1000)]) / 2)


def opposite(rng):
    """Two classes, though the spectrum has one direction."""
    T = 0.6 * rng.choice([-1, 1], 100)
    return signs(rng, (1 + np.stack([T, -T])[rng.integers(2, size=1000)] * 0.9) / 2, 0.1)


def blocks(rng):
    z = 0.6 * rng.standard_normal((1000, 4))[:, np.arange(120) * 4 // 120]
    return np.sign(z + 0.8 * rng.standard_normal((1000, 120)))


def trend(rng):
    return signs(rng, expit(np.linspace(-1, 1, 1000)[:, None] * rng.standard_normal(120)))


def pairs_of_columns(rng):
    """Four classes that leave no dependence, but rest on four columns."""
    x = signs(rng, np.broadcast_to(rng.uniform(0.2, 0.8, 50), (3000, 50)))
    near = rng.random(3000) < 0.95
    x[:, 1], x[:, 9] = np.where(near, x[:, 0], -x[:, 0]), np.where(near, x[:, 8], -x[:, 8])
    return x


def one_sure_column(rng):
    y = rng.integers(2, size=600)
    x = signs(rng, rng.beta(0.3, 0.3, (2, 50))[y])
    x[:, 7] = np.where(rng.random(600) < 0.995, 2 * y - 1, 1 - 2 * y)
    return x


def rates(M, N, missing=0.0, constant=0):
    """Independent columns."""

    def made(rng):
        x = signs(rng, np.broadcast_to(rng.uniform(0.1, 0.9, N), (M, N)), missing)
        return np.hstack([np.ones((M, constant)), x])

    return made


def again(made, part):
    def twice(rng):
        x = made(rng)
        return np.vstack([x, x[: int(part * len(x))]])

    return twice


def few_of_the_last(rng):
    """Four rows of the last of three patterns: they are persons, not kinds."""
    label = np.repeat([0, 1, 2], [40, 40, 4])
    return signs(rng, (1 + 0.8 * rademacher(3, 600, rng)[label]) / 2)


def small_class(rng):
    y = np.r_[np.full(8, 2), rng.integers(2, size=592)]
    return signs(rng, rng.beta(0.5, 0.5, (3, 100))[y])


# Name -> table, status or those that it may have, number (None: any), channel (None: any).
TABLES = {
    "patterns": (patterns(6, 400, 1000, 0.8), "ok", 6, "symmetric"),
    "exact patterns": (patterns(3, 100, 60, 1.0), "ok", 3, "symmetric"),
    "one pattern": (patterns(1, 200, 600, 0.7), "one class", 1, "symmetric"),
    "near the load limit": (patterns(76, 200, 2000, 0.8), "ok", 76, "symmetric"),
    "faint patterns": (patterns(10, 400, 1000, 0.2), UNSURE, None, None),
    "few examples": (patterns(20, 1000, 60, 0.6), UNSURE, None, None),
    "two qualities": (patterns(3, 400, 200, 0.95, 0.5), "ok", 3, "symmetric"),
    "an owner of noise": (patterns(3, 400, 400, 0.9, 0.9, 0.9, 0.0), "ok", 3, "symmetric"),
    "few of the last": (few_of_the_last, "incomplete", 2, "symmetric"),
    "by column": (by_column, "ok", 6, "by column"),
    "graded": (classes(3, 200, 1000), "ok", 3, "graded"),
    "gaps": (classes(5, 120, 1500, missing=0.3), "ok", 5, "graded"),
    "rare gaps": (classes(3, 500, 200, 1, 4, 0.2), "ok", 3, "graded"),
    "many": (classes(8, 200, 2000, 0.3, 0.3, 0.2), "ok", 8, "graded"),
    "small class": (small_class, None, 3, None),
    "opposite": (opposite, "ok", 2, None),
    "one sure column": (one_sure_column, "ok", 2, None),
    "narrow kinds": (kinds(3, 12, 1000), "ok", 3, None),
    "narrow and few": (kinds(2, 24, 60), "ok", 2, None),
    "many rows": (kinds(2, 10, 50_000, 0.1), "ok", 2, None),
    "coins in place": (of_qualities([0.9, 0], [0.7, 0.3], 1200, 100), "ok", 4, None),
    "a faded kind": (a_faded_kind, "ok", 4, "graded"),
    "a row that comes back": (a_row_that_comes_back, "ok", 4, "graded"),
    "rates": (rates(1000, 200), "one class", 1, None),
    "rates with gaps": (rates(600, 60, 0.5), "one class", 1, None),
    "rates and constants": (rates(500, 20, constant=20), "one class", 1, None),
    "coins": (lambda rng: rng.choice([-1, 1], (500, 200)), "no signal", 0, None),
    "trait": (trait(1000, 200), NOT, None, None),
    "narrow trait": (trait(1000, 6, 3, 0.7), {NOT, "one class"}, None, None),
    "trait with gaps": (trait(3000, 50, 1.7, missing=0.5), NOT, None, None),
    "gradient": (peaks(400, 20, 0.15), NOT, None, None),
    "long gradient": (peaks(700, 60, 0.15), NOT, None, None),
    "ring": (peaks(800, 30, 0.12, 1), NOT, None, None),
    "mixed": (mixed(3, 120, 1000, 0.5), NOT, None, None),
    "narrow and mixed": (mixed(4, 50, 3000, 0.3), NOT, None, None),
    "weak rows": (of_qualities([1, 0.3], [0.8, 0.2], 3000, 50), NOT, None, None),
    "weak rows in one class": (of_qualities([0.9, 0.15], [0.5, 0.5], 1000, 50), NOT, 4, None),
    "row rates": (trait(1000, 120, spread=0.0), NOT, None, None),
    "blocks": (blocks, NOT, None, None),
    "trend": (trend, NOT, None, None),
    "pairs of columns": (pairs_of_columns, NOT, None, None),
    "some rows twice": (again(patterns(3, 60, 500, 0.6), 0.2), NOT, None, None),
    "rows twice": (again(patterns(3, 60, 500, 0.6), 1), "copies", None, None),
    "copies of rows": (again(classes(3, 30, 150), 1), "copies", None, None),
    "rows alike": (lambda rng: np.ones((500, 6)), "too little data", None, None),
    "two constants": (rates(500, 2, constant=8), "too little data", None, None),
    "few coins": (lambda rng: rng.integers(0, 2, (6, 40)), "too little data", None, None),
}

# What is said beside an "ok", of these tables and of no other.
CAUTIONS = {
    "coins in place": r"0 throughout: rows that answer like coins",
    "a faded kind": r"means of 1 of these classes are 0\.(3[5-9]|4[0-5]) of those of others",
    "a row that comes back": r"In 1 of these classes all rows are the same",
}


@pytest.mark.parametrize("seed", rest_slow([7, 8, 9], 1))
@pytest.mark.parametrize("name", TABLES)
def test_status_number_and_channel(name, seed):
    make, status, number, channel = TABLES[name]
    found = hopfed.recover(make(np.random.default_rng([seed, len(name)])), seed=seed)
    said = f"{found.status}, {len(found)}, {found.channel}: {found.advice}"
    assert status is None or found.status == status or found.status in status, said
    assert number in (None, len(found)), said
    assert channel in (None, found.channel), said
    cautions = {table for table, words in CAUTIONS.items() if re.search(words, said)}
    assert found.status != "ok" or cautions == CAUTIONS.keys() & {name}, said


@pytest.mark.slow
@pytest.mark.parametrize(("channel", "status"), [("auto", NOT), ("symmetric", "poor fit")])
def test_raw_digits_are_structure_but_not_classes(mnist_digits, channel, status):
    assert hopfed.recover(mnist_digits[:1000], seed=0, channel=channel).status == status


def test_few_rows_are_shown_where_few_are_enough():
    rows = few_of_the_last(np.random.default_rng(11))
    assert hopfed.recover(rows, support=1).status == "ok"
    hidden = hopfed.recover(rows)
    assert "1 pattern(s) that fewer than 5 examples resemble" in hidden.advice
