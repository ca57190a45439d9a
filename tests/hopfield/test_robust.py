"""Aggregates: what order, signs and liars can do to them, and the law of their noise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed import kernels
from hopfed.errors import ArgumentError
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.encoding import Encoding
from hopfed.hopfield.evidence import Evidence
from hopfed.hopfield.guard import EVERYBODY, Robust, _spread, loss
from hopfed.spectral.rank import TracyWidom

N = 24
KINDS = [Robust("median"), Robust("trimmed", 0.1), Robust("trimmed", 0.3)]
ENTRYWISE = pytest.mark.parametrize("robust", KINDS, ids=lambda r: f"{r.kind} {r.share}")


def sent(batches, encoding=None):
    """Operators, messages and weights of clients with these examples, as the server has them."""
    encoding = encoding or Encoding(batches[0].shape[1], width=8)
    messages = {
        c: encoding.encode(kernels.pack(x)) | {"columns": x.sum(axis=0, dtype=np.int32)}
        for c, x in enumerate(batches)
    }
    return (
        {c: encoding.decode(m) for c, m in messages.items()},
        messages,
        dict.fromkeys(messages, 1.0),
    )


def batches(clients, M, n=N, seed=0, K=2, r=0.7):
    rng = np.random.default_rng(seed)
    xi = rademacher(K, n, rng)
    return [draw_examples(xi, M, r, rng)[0] for _ in range(clients)]


def aggregate(robust, *heard):
    """The one batch that joins the evidence: C, mean of the examples, number of examples."""
    [(owner, op, columns, weight)] = robust.pooled(*heard)
    assert owner == EVERYBODY
    assert op.mass == op.sum_sq_weights
    return op.matrix / op.mass, columns / op.mass, op.mass, weight


def lie(rng, scale, claim):
    """Operator, message and weight of a client that says anything."""
    matrix = scale * rng.standard_normal((N, N))
    counts = (matrix + matrix.T)[np.tri(N, k=-1, dtype=bool)]
    columns = (scale * rng.standard_normal(N)).astype(np.int64)
    message = {"counts": counts, "examples": np.asarray(claim), "columns": columns}
    return Encoding(N, width=8).decode(message), message, 1.0


def within(values, honest, cell=0.0):
    """Whether all is between the least and the largest honest value, up to a lattice cell."""
    cell += 1e-9
    low, high = honest.min(axis=0) - cell, honest.max(axis=0) + cell
    return bool(((low <= values) & (values <= high)).all())


@ENTRYWISE
@given(seed=st.integers(0, 99), scale=st.sampled_from([1.0, 1e3, 1e8]), claim=st.integers(1, 10**9))
def test_one_liar_moves_nothing_beyond_the_honest(robust, seed, scale, claim):
    rng = np.random.default_rng(seed)
    M, clients = 6, 10
    heard = sent(batches(clients, M, seed=seed))
    honest = np.array([op.matrix / M for op in heard[0].values()])[1:]
    means = np.array([m["columns"] / M for m in heard[1].values()])[1:]
    for part, value in zip(heard, lie(rng, scale, claim), strict=True):
        part[0] = value
    C, mean, examples, weight = aggregate(robust, *heard)
    assert within(C, honest, 1 / M)
    assert within(mean, means)
    assert examples <= clients * M
    assert weight == 1


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=12))
def test_equal_entries_are_spread_evenly_over_their_cell(values):
    column = np.array(values, dtype=float)[:, None]
    spread = _spread(column, 0.5).ravel()
    assert (np.diff(spread) > 0).all()
    np.testing.assert_allclose(spread.mean(), column.mean(), atol=1e-12)
    assert (np.abs(spread - np.sort(values)) < 0.5).all()
    single = np.unique(values, return_counts=True)
    alone = single[0][single[1] == 1]
    assert np.isin(alone, spread).all()
    np.testing.assert_allclose(_spread(-column, 0.5).ravel(), -spread[::-1], atol=1e-12)


@pytest.mark.parametrize("share", [0.05, 0.1, 0.25, 0.4, 0.5])
def test_the_loss_is_that_of_normal_values(share):
    rng = np.random.default_rng(0)
    L = 201
    x = np.sort(rng.standard_normal((4000, L)), axis=1)
    cut = min(int(share * L), (L - 1) // 2)
    kept = x[:, cut : L - cut].mean(axis=1)
    assert kept.var() * L == pytest.approx(loss(share), rel=0.08)


@pytest.mark.parametrize("M", [8, 40])
@ENTRYWISE
def test_the_count_of_a_robust_operator_is_right_round_after_round(robust, M):
    """With plain medians none was."""
    n, K, clients = 100, 3, 20
    for seed in range(2):
        rng = np.random.default_rng((seed, M))
        xi = rademacher(K, n, rng)
        evidence = Evidence(Encoding(n))
        for _ in range(4):
            x = [draw_examples(xi, M, 0.8, rng)[0] for _ in range(clients)]
            evidence = evidence.faded(0.5).extend(robust.pooled(*sent(x)))
            C = evidence.operator.matrix / evidence.mass
            values = np.linalg.eigvalsh(C)[::-1]
            assert TracyWidom(1e-3)(evidence.sample(values, True)).n_detected == K


def test_only_counts_have_entries():
    heard = sent(batches(4, 6), Encoding(N, "factors", width=8))
    with pytest.raises(ArgumentError, match="kind must be mean unless operators travel as counts"):
        list(Robust("median").pooled(*heard))
    assert len(list(Robust().pooled(*heard))) == 4
