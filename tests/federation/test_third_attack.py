"""What a third attack on the defaults found, as tests."""

import re

import numpy as np
import pytest

from hopfed import kernels
from hopfed._lib.random import stream
from hopfed.archetypes.overlap import retrieval
from hopfed.data.channel import draw_examples, rademacher
from hopfed.errors import DataError
from hopfed.experiments.serve import Config, play
from hopfed.federation.engines.local import LocalEngine
from hopfed.federation.rounds import FederationState
from hopfed.hopfield.client import unpack_patterns
from hopfed.hopfield.encoding import symmetric
from hopfed.hopfield.leaks.columns_apart import set_apart
from hopfed.hopfield.leaks.rare_values import given_away
from hopfed.hopfield.site.limits import Limits
from tests.asking import ask, method, refused, rows_in, site
from tests.liars import claiming, lying, owners

WORDS = "rare values give rows of this batch away"


def sparse(rows, columns, values, rng):
    """Rows of so many rare values, of which each column has as many as any other."""
    deck = np.concatenate([rng.permutation(columns) for _ in range(rows * values // columns + 1)])
    x = -np.ones((rows, columns), np.int8)
    for m in range(rows):
        x[m, deck[m * values : (m + 1) * values]] = 1
    return x


def put_together(up):
    """Rows as a server puts them together: cliques of columns that occur together."""
    M, c = int(up["examples"]), up["columns"].astype(int)
    turned = np.where(c > 0, -1, 1)
    S, c = symmetric(up["counts"], len(c), M).astype(int) * turned[:, None] * turned, c * turned
    together = (M + c[:, None] + c + S) // 4
    occur = together > 0
    np.fill_diagonal(occur, False)
    found = set()
    for i, j in np.argwhere(np.triu(together == 1, 1)):
        clique, left = [i, j], occur[i] & occur[j]
        while left.any():
            at = np.flatnonzero(left)
            clique.append(at[occur[np.ix_(at, at)].sum(axis=1).argmax()])
            left &= occur[clique[-1]]
        found.add(tuple(sorted(map(int, clique))))
    return [turned * (2 * np.isin(np.arange(len(c)), each) - 1) for each in found]


def test_rows_of_a_sparse_table_are_put_together_and_are_not_sent(tmp_path):
    """No column and no two set a few apart, rows are thrice the columns, and all are read off."""
    rows = sparse(900, 300, 4, stream(0, "sparse"))
    assert not set_apart(kernels.pack(rows), 3)
    open_ = site(tmp_path / "open", rows, questions=0, smallest_set=1)
    up = ask(open_, method(columns=300, groups=0, votes=False)).up
    assert rows_in(rows, put_together(up)) > 850
    refused(ask(site(tmp_path / "default", rows, questions=0), method(columns=300)), WORDS)


@pytest.mark.parametrize("archetypes", [1, 2, 3])
def test_rows_near_to_their_archetypes_are_not_sent(tmp_path, archetypes):
    """What is rare is to differ from the others of an archetype, in 2 columns of 100."""
    rng = stream(1, "near", archetypes)
    rows = draw_examples(rademacher(archetypes, 300, rng), 500, 0.96, rng)[0]
    open_ = site(tmp_path / "open", rows, questions=0, smallest_set=1)
    up = ask(open_, method(columns=300)).up
    if archetypes == 1:
        assert rows_in(rows, put_together(up)) > 100
    assert given_away(kernels.pack(rows), 3) > 100
    default = site(tmp_path / "default", rows, questions=0)
    refused(ask(default, method(columns=300)), "of this batch")


def test_dense_columns_do_not_hide_rare_ones():
    rng = stream(2, "mixed")
    dense = np.where(rng.random((900, 60)) < 0.4, 1, -1)
    rows = np.concatenate([dense, sparse(900, 300, 5, rng)], axis=1)
    assert given_away(kernels.pack(rows), 3) > 800


def test_rows_with_many_values_off_and_rows_of_three_alike_are_sent(tmp_path):
    rng = stream(3, "dense")
    for archetypes, quality, M, N in ((1, 0.8, 1568, 784), (3, 0.7, 400, 100), (7, 0.6, 1600, 784)):
        rows = draw_examples(rademacher(archetypes, N, rng), M, quality, rng)[0]
        assert given_away(kernels.pack(rows), 3) == 0
        where = tmp_path / str(archetypes)
        assert not ask(site(where, rows, questions=0, smallest_batch=0), method(columns=N)).fault
    thrice = np.repeat(sparse(300, 200, 4, rng), 3, axis=0)
    assert given_away(kernels.pack(thrice), 3) == 0


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


def test_the_owner_is_told_how_many_before_a_server_is_asked(hopfed, tmp_path, monkeypatch):
    monkeypatch.setenv("HOPFED_HOME", str(tmp_path / "home"))
    rows = sparse(900, 300, 4, stream(0, "sparse"))
    np.save(tmp_path / "sparse.npy", rows)
    status, _, error = hopfed("join", "--data", tmp_path / "sparse.npy", "--dry-run")
    assert status == 2
    assert int(re.search(r"(\d+) of 900 rows can be put together", error)[1]) > 850
    assert not (tmp_path / "home").exists()
    noisy = "join", "--data", tmp_path / "sparse.npy", "--dry-run", "--epsilon", 1
    assert hopfed(*noisy)[0] == 0


def test_pairs_of_columns_are_looked_at_in_wide_tables(tmp_path):
    """Two columns that differ in one row, of more columns than are few."""
    rng = stream(4, "wide")
    rows = np.where(rng.random((60, 4200)) < 0.5, 1, -1).astype(np.int8)
    rows[:, 4150] = rows[:, 4000]
    rows[7, 4150] *= -1
    assert (4000, 4150) in set_apart(kernels.pack(rows), 3)


def product(xi, rng):
    """Rows of what the archetypes give when they are multiplied."""
    return np.repeat(xi.prod(axis=0)[None], 300, axis=0).astype(np.int8)


def majority(xi, rng):
    """Rows of the majority of three archetypes: half their sum less half their product."""
    return np.repeat(np.sign(xi.sum(axis=0))[None], 300, axis=0).astype(np.int8)


def told(make, honest, asking, silent=False, **settings):
    """Archetypes, and what a server tells at its defaults where the first client lies."""
    xi, source = owners([make], honest, N=200)
    questions = {"groups": 4, "votes": True} if asking else {}
    config = Config(columns=200, clients=honest + 1, **(settings | questions))
    liar = lying(config.make(source), claiming(3))

    class Silent(type(liar)):
        def client_step(self, state, down, context):
            if silent and context.client and context.exchange:
                raise DataError("no questions")
            return super().client_step(state, down, context)

    method = Silent(**vars(liar))
    start = FederationState(method.server_start(0))
    arrays, _ = play(config, method, 0, 0, start, LocalEngine())
    number = int(arrays["archetypes/number"])
    return retrieval(unpack_patterns(arrays["archetypes/packed"][:number], 200), xi)


@pytest.mark.parametrize("make", [product, majority])
@pytest.mark.parametrize("honest", [2, 4, 9])
@pytest.mark.parametrize("asking", [False, True])
def test_one_client_does_not_replace_archetypes_by_halves_of_them(make, honest, asking):
    """Three archetypes and their product are, as a sum, four others: half of each of the four."""
    found = told(make, honest, asking)
    assert found.magnetisation.min() == 1
    assert found.false_discoveries == 0


def test_archetypes_were_replaced_where_all_is_believed():
    found = told(product, 4, False, liars=0.0, check=False, support=0.0)
    assert found.magnetisation.max() < 0.7


@pytest.mark.parametrize("make", [product, majority])
@pytest.mark.parametrize("honest", [2, 4, 9])
def test_nor_where_the_liar_alone_answers_questions(make, honest):
    found = told(make, honest, True, silent=True)
    assert found.magnetisation.min() > 0.99
    assert found.false_discoveries == 0


@pytest.mark.parametrize(("honest", "size"), [(2, 3000), (4, 1500), (4, 9000), (9, 750)])
def test_nor_do_they_with_noise(honest, size):
    """As a product of the archetypes, with as many rows as make the sum look like others."""

    def make(xi, rng):
        return np.repeat(xi.prod(axis=0)[None], size, axis=0).astype(np.int8)

    xi, source = owners([make], honest, N=100, M=3000)
    config = Config(columns=100, clients=honest + 1, epsilon=4.0)
    start = FederationState({})
    arrays, _ = play(config, config.make(source), 0, 0, start, LocalEngine())
    number = int(arrays["archetypes/number"])
    found = retrieval(unpack_patterns(arrays["archetypes/packed"][:number], 100), xi)
    assert found.magnetisation.min() > 0.95
    assert found.false_discoveries == 0


@pytest.mark.parametrize("rows", [60, 100])
def test_archetypes_are_not_lost_where_votes_would_be_of_few_rows(rows):
    """Clients of few rows agree to questions, and send no votes or only some."""
    xi, source = owners([], 9, N=200, M=rows)
    config = Config(columns=200, clients=9, groups=4, votes=True)
    start = FederationState({"secret": np.array(1)})
    arrays, _ = play(config, config.make(source), 0, 0, start, LocalEngine())
    number = int(arrays["archetypes/number"])
    assert number == 3
    found = retrieval(unpack_patterns(arrays["archetypes/packed"][:number], 200), xi)
    assert found.magnetisation.min() > 0.98
