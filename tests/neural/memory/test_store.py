"""Blends and gates."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopfed.errors import ArgumentError
from hopfed.neural.memory.store import blend, gate


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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: blend(np.ones(2), np.ones(2), 1.5), "weight must be in"),
        (lambda: blend(np.ones(2), np.ones(3), 0.5), "new must be of the shape"),
    ],
)
def test_bad_input_is_one_clear_line(call, message):
    with pytest.raises(ArgumentError, match=message):
        call()
