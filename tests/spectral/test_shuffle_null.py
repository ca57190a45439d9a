import numpy as np
import pytest
from helpers import sample

from hopfed import kernels
from hopfed._lib.random import stream
from hopfed.errors import ArgumentError
from hopfed.spectral.operators import FactorOperator
from hopfed.spectral.shuffle_null import null_eigenvalues, scramble


def largest(x):
    return np.linalg.eigvalsh(x @ x.T.astype(float))[-1] / len(x)


@pytest.mark.parametrize("null", ["signs", "permute"])
def test_each_owner_scrambles_its_own_rows(null):
    parts = [sample(2, 70, m, 0.9, m)[1] for m in (30, 50)]
    operators = [FactorOperator.from_examples(part) for part in parts]
    got = null_eigenvalues(operators, repeats=3, null=null, seed=4)
    for i, top in enumerate(got):
        streams = [stream(4, "shuffle", null, i, c) for c in range(2)]
        copies = [
            kernels.unpack(scramble(kernels.pack(part), null, rng))
            for part, rng in zip(parts, streams, strict=True)
        ]
        assert top == pytest.approx(largest(np.vstack(copies)), rel=1e-5)


@pytest.mark.parametrize("null", ["signs", "permute"])
@pytest.mark.parametrize("packed", [True, False])
def test_what_scrambling_keeps(null, packed):
    x = sample(2, 70, 40, 0.9, 1)[1]
    copy = scramble(kernels.pack(x) if packed else x, null, np.random.default_rng(2))
    copy = kernels.unpack(copy) if packed else copy
    assert (copy != x).any()
    if null == "permute":
        np.testing.assert_array_equal(np.sort(copy, axis=0), np.sort(x, axis=0))
    else:
        assert abs((copy * x).mean()) < 5 / np.sqrt(x.size)
    with pytest.raises(ArgumentError, match="null must be one of signs, permute"):
        scramble(x, "bootstrap", np.random.default_rng(0))


@pytest.mark.parametrize("shape", [(150, 220), (220, 150)])
@pytest.mark.parametrize("limits", [{"FULL_LIMIT": 50}, {"FULL_LIMIT": 50, "EXPLICIT_LIMIT": 50}])
def test_the_null_of_large_samples_is_as_high(monkeypatch, shape, limits):
    # Where not all eigenvalues are computed the largest must have converged: a null that is too
    # low lets noise pass.
    x = np.random.default_rng(0).choice(np.array([-1, 1], np.int8), shape)
    operators = [FactorOperator.from_examples(x)]
    want = null_eigenvalues(operators, repeats=3, seed=1)
    for name, limit in limits.items():
        monkeypatch.setattr(f"hopfed.spectral.eigenpairs.{name}", limit)
    np.testing.assert_allclose(null_eigenvalues(operators, repeats=3, seed=1), want, rtol=2e-3)


def test_signs_leave_the_edge_of_noise_alone():
    x = sample(3, 400, 200, 0.9, 3)[1]
    tops = null_eigenvalues([FactorOperator.from_examples(x)], repeats=5, seed=0)
    assert tops.mean() == pytest.approx((1 + np.sqrt(2)) ** 2, rel=0.05)
