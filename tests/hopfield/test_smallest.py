"""The operator in the form of fewest bytes, from which the server has the same exact integers."""

import numpy as np
import pytest
from asking import ask, method, site

import hopfed
from hopfed.federation.messages import malformed, nbytes
from hopfed.hopfield.channel import draw_examples, rademacher
from hopfed.hopfield.encoding import Encoding
from hopfed.hopfield.liars.impossible_messages import operator_complaint
from hopfed.kernels import column_sums
from hopfed.tables.examples import as_examples


def rows(M, N, seed=0):
    rng = np.random.default_rng(seed)
    return as_examples(draw_examples(rademacher(2, N, rng), M, 0.7, rng)[0])


@pytest.mark.parametrize(("M", "N"), [(5, 60), (14, 60), (15, 60), (16, 60), (200, 60), (90, 400)])
def test_it_is_the_smaller_of_both_and_exact(M, N):
    x = rows(M, N)
    sent, counts = Encoding(N, "smallest").encode(x), Encoding(N).encode(x)
    factors = Encoding(N, "factors", min(M, N)).encode(x)
    assert nbytes(sent) == min(nbytes(counts), nbytes(factors))
    assert malformed(sent, Encoding(N, "smallest").spec) is None
    told = Encoding(N, "smallest").whole(sent)
    np.testing.assert_array_equal(told["counts"], counts["counts"])
    one, other = (Encoding(N, f).decode(m) for f, m in (("smallest", sent), ("counts", counts)))
    np.testing.assert_array_equal(one.matrix, other.matrix)


def test_what_no_rows_give_is_refused():
    x, encoding = rows(10, 60), Encoding(60, "smallest")
    sent = dict(encoding.encode(x)) | {"columns": column_sums(x)}
    assert operator_complaint(encoding, sent, check=True) is None
    for wrong in (
        {"counts": np.zeros(60 * 59 // 2, np.int16)},  # both
        {"values": sent["values"][:0], "vectors": sent["vectors"][:0]},  # neither
        {"counts": np.zeros(7, np.int16)},
        {"values": np.zeros(31, "f4"), "vectors": np.zeros((31, 60), "f4")},
        {"examples": np.array(9)},
        {"examples": np.array(31)},  # of which counts are fewer bytes
        {"examples": np.array(2**40)},  # whose counts would overflow
    ):
        words = operator_complaint(encoding, sent | wrong, check=False)
        assert "are no operator" in words
    lie = sent | {"values": sent["values"] * np.float32(1.3)}
    assert operator_complaint(encoding, lie, check=True) is not None


def test_factors_say_no_more_than_as_many_examples_can():
    """One direction of length 1 in every column counted 60 times as much as its ten examples."""
    lie = {
        "counts": np.zeros(0, np.int16),
        "values": np.array([60.0], np.float32),
        "vectors": np.ones((1, 60), np.float32),
        "examples": np.array(10),
    }
    encoding = Encoding(60, "smallest")
    assert malformed(lie, encoding.spec) is None
    assert np.abs(encoding.decode(lie).matrix).max() == 10


def test_few_rows_of_many_columns_send_less_and_say_the_same():
    rng = np.random.default_rng(3)
    xi = rademacher(2, 300, rng)
    tables = [draw_examples(xi, 40, 0.9, rng)[0] for _ in range(4)]
    small = hopfed.simulate(tables, 1, seed=2, groups=0, votes=False)
    counts = hopfed.simulate(tables, 1, seed=2, groups=0, votes=False, encoding=Encoding(300))
    assert small.traffic.up.max() < 0.6 * counts.traffic.up.min()
    np.testing.assert_array_equal(small.patterns, counts.patterns)


def test_a_client_sends_either_and_counts_what_left(tmp_path):
    x = rows(20, 200)
    node = site(tmp_path, x, smallest_batch=10, smallest_set=1)
    asked = method(columns=200)
    asked = type(asked)(asked.source, Encoding(200, "smallest"))
    sent = ask(node, asked).up
    assert sent["counts"].size == 0
    assert sent["vectors"].shape == (20, 200)
