"""A client counts for no more than a multiple of the round's median."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed import kernels
from hopfed.hopfield.channel import rademacher
from hopfed.hopfield.encoding import FORMS, Encoding
from hopfed.hopfield.guard import bounded


def messages(sizes, form="counts", N=24):
    encoding = Encoding(N, form, width=8)
    sent = {}
    for i, m in enumerate(sizes):
        x = rademacher(m, N, np.random.default_rng(i))
        sent[i] = encoding.encode(kernels.pack(x)) | {"columns": x.sum(axis=0, dtype=np.int32)}
    return encoding, sent


@given(st.lists(st.integers(1, 60), min_size=1, max_size=6), st.floats(1, 5))
def test_all_but_the_excess_is_believed(sizes, most):
    sent = messages(sizes)[1]
    heard = bounded(sent, most)
    limit = most * np.sort(sizes)[(len(sizes) - 1) // 2]
    np.testing.assert_allclose([heard[c]["examples"] for c in heard], np.minimum(sizes, limit))
    for c, m in enumerate(sizes):
        if m <= limit:
            assert heard[c] is sent[c]


def test_of_two_clients_the_one_that_claims_more_does_not_choose_the_bound():
    sent = messages([20, 20])[1]
    sent[1] = sent[1] | {"examples": np.asarray(10**9)}
    assert [float(m["examples"]) for m in bounded(sent, 3.0).values()] == [20, 60]


@pytest.mark.parametrize("form", FORMS)
def test_the_operator_of_a_client_that_is_cut_is_the_same_of_fewer_examples(form):
    encoding, sent = messages([10, 12, 80], form)
    heard = bounded(sent, 2.0)[2]
    whole, part = encoding.decode(sent[2]), encoding.decode(heard)
    assert part.mass == part.n_examples == 24
    X = np.eye(24)
    np.testing.assert_allclose(part.matmat(X), whole.matmat(X), atol=1e-6)
    np.testing.assert_allclose(heard["columns"] / 24, sent[2]["columns"] / 80)
