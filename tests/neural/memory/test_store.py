"""Blends, gates, and the bounded store."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed.errors import ArgumentError
from hopfed.neural.memory.store import Store, blend, gate


@given(st.floats(0, 1), st.floats(-1e3, 1e3), st.floats(-1e3, 1e3))
def test_a_blend_lies_between_and_reaches_both_ends(w, a, b):
    old, new = np.array([a]), np.array([b])
    mixed = float(blend(old, new, w)[0])
    slack = 1e-12 * (1 + abs(a) + abs(b))
    assert min(a, b) - slack <= mixed <= max(a, b) + slack
    assert blend(old, new, 0)[0] == a
    assert blend(old, new, 1)[0] == b


def test_repeated_blends_are_the_exponential_average():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((6, 3))
    kept = x[0]
    for new in x[1:]:
        kept = blend(kept, new, 0.3)
    weights = np.array([0.7**5, *(0.3 * 0.7 ** (4 - i) for i in range(5))])
    np.testing.assert_allclose(kept, weights @ x)


def test_gates_work_on_tensors_with_their_gradients():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    old, new = torch.ones(3), torch.full((3,), 2.0, requires_grad=True)
    take = torch.tensor([0.0, 0.5, 1.0])
    out = gate(old, new, 1 - take, take)
    out.sum().backward()
    np.testing.assert_allclose(out.detach(), [1, 1.5, 2])
    np.testing.assert_allclose(new.grad, take)


batches = st.lists(st.integers(1, 7), min_size=1, max_size=6)


def filled(store, sizes):
    start = 0
    for n in sizes:
        rows = np.arange(start, start + n)
        store = store.add({"x": rows, "y": rows.astype(float) * 2})
        start += n
    return store, start


@given(batches, st.integers(0, 9), st.sampled_from(["fifo", "fixed"]))
def test_a_store_never_exceeds_its_capacity_and_keeps_rows_whole(sizes, capacity, rule):
    store, total = filled(Store(capacity, rule), sizes)
    assert len(store) == min(capacity, total)
    assert store.seen == total
    x = store.columns["x"]
    np.testing.assert_array_equal(store.columns["y"], 2 * x)
    assert len(np.unique(x)) == len(x)
    if rule == "fifo":
        np.testing.assert_array_equal(x, np.arange(total - len(x), total))
    if rule == "fixed":
        np.testing.assert_array_equal(x, np.arange(len(x)))


@given(batches, st.integers(1, 9))
def test_how_rows_are_batched_does_not_matter_to_a_queue(sizes, capacity):
    many, total = filled(Store(capacity, "fifo"), sizes)
    one, _ = filled(Store(capacity, "fifo"), [total])
    np.testing.assert_array_equal(many.columns["x"], one.columns["x"])


def test_a_store_without_a_limit_keeps_everything():
    store, total = filled(Store(), [3, 4])
    np.testing.assert_array_equal(store.columns["x"], np.arange(total))


def test_tensors_stay_tensors():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    store = Store(2, "fifo").add({"x": torch.arange(3)}).add({"x": torch.arange(3, 4)})
    assert isinstance(store.columns["x"], torch.Tensor)
    assert store.columns["x"].tolist() == [2, 3]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: blend(np.ones(2), np.ones(2), 1.5), "weight must be in"),
        (lambda: blend(np.ones(2), np.ones(3), 0.5), "new must be of the shape"),
        (lambda: Store(3), "capacity must be given, except"),
        (lambda: Store(None, "fifo"), "capacity must be given, except"),
        (lambda: Store(-1, "fifo"), "capacity must be at least 0"),
        (lambda: Store(1, "lru"), "rule must be one of"),
        (lambda: Store().add({}), "columns must be at least one"),
        (lambda: Store().add({"x": np.ones(2), "y": np.ones(3)}), "columns must be at least one"),
        (lambda: Store().add({"x": np.ones(2)}).add({"z": np.ones(1)}), "of the names x"),
    ],
)
def test_bad_input_is_one_clear_line(call, message):
    with pytest.raises(ArgumentError, match=message):
        call()
