"""Search, kernels, votes and mixes against brute force."""

import subprocess
import sys

import numpy as np
import pytest
from clouds import examples
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed")

from hopfed.errors import ArgumentError, BackendError  # noqa: E402
from hopfed.neural.memory import neighbours  # noqa: E402
from hopfed.neural.memory.neighbours import (  # noqa: E402
    GRID,
    Index,
    Neighbours,
    choose_weight,
    expected_weight,
    log_kernel,
    mix,
)
from hopfed.neural.memory.prototypes import fit_prototypes  # noqa: E402


def brute(queries, keys, k, own=None):
    """All pairs in float64; ties to the row that came first."""
    queries, keys = (np.asarray(a, np.float32).astype(float) for a in (queries, keys))
    squared = ((queries[:, None] - keys) ** 2).sum(axis=2)
    if own is not None:
        squared[np.arange(len(queries)), own] = np.inf
    rows = np.argsort(squared, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(squared, rows, axis=1), rows


def brute_probabilities(queries, keys, labels, classes, k, kernel, sigma):
    """(6) and its variant, one query and one neighbour after the other."""
    squared, rows = brute(queries, keys, k)
    p = np.zeros((len(queries), classes))
    for q in range(len(queries)):
        for D, i in zip(squared[q], rows[q], strict=True):
            far = np.sqrt(D) / sigma if kernel == "paper" else D / (keys.shape[1] * sigma)
            p[q, labels[i]] += np.exp(-far)
    return p / p.sum(axis=1, keepdims=True)


@given(st.integers(1, 60), st.integers(1, 12), st.integers(1, 70), st.integers(0, 10**6))
def test_exact_search_is_all_pairs_compared(n, d, k, seed):
    rng = np.random.default_rng(seed)
    # Few values: many ties, of which the first rows must win.
    keys, queries = rng.integers(-2, 3, (n, d)), rng.integers(-2, 3, (7, d))
    squared, rows = Index(keys).search(queries, k)
    expected, where = brute(queries, keys, min(k, n))
    np.testing.assert_array_equal(squared, expected)
    np.testing.assert_array_equal(rows, where)


def test_exact_search_does_not_rely_on_sums_in_float32():
    rng = np.random.default_rng(0)
    keys = (1000 + 0.01 * rng.standard_normal((400, 64))).astype(np.float32)
    queries = (1000 + 0.01 * rng.standard_normal((20, 64))).astype(np.float32)
    expected, where = brute(queries, keys, 10)
    index = Index(keys)
    squared, rows = index.search(queries, 10)
    np.testing.assert_array_equal(rows, where)
    np.testing.assert_allclose(squared, expected, rtol=1e-12)
    assert (index._candidates(queries, 10) != where).mean() > 0.5  # float32 has lost them


@pytest.mark.parametrize("index", ["exact", "ivf:3"])
def test_a_store_is_not_asked_for_its_own_points(index):
    keys, *_ = examples()
    keys[7] = keys[3]  # a copy is another point and stays
    squared, rows = Index(keys, index).search(keys, 5, own=np.arange(len(keys)))
    assert (rows != np.arange(len(keys))[:, None]).all()
    assert rows[7, 0] == 3
    assert squared[7, 0] == 0
    if index == "exact":
        np.testing.assert_array_equal(rows, brute(keys, keys, 5, np.arange(len(keys)))[1])


def test_a_single_point_without_itself_leaves_nothing():
    squared, rows = Index(np.ones((1, 3))).search(np.ones((1, 3)), 4, own=np.array([0]))
    assert squared.shape == rows.shape == (1, 0)
    assert Index(np.ones((0, 3))).search(np.ones((2, 3)), 4)[1].shape == (2, 0)


@pytest.mark.parametrize("index", ["ivf:1", "ivf:8"])
def test_approximate_search_finds_most_and_always_enough(index):
    keys, _, queries, _ = examples(n=2000, d=16, queries=200)
    squared, rows = Index(keys, index).search(queries, 10)
    expected, where = brute(queries, keys, 10)
    shared = [len(set(a) & set(b)) for a, b in zip(rows.tolist(), where.tolist(), strict=True)]
    assert np.mean(shared) / 10 > (0.2 if index == "ivf:1" else 0.95)
    assert (squared >= expected - 1e-9).all()
    assert (np.diff(squared) >= 0).all()
    again = Index(keys, index).search(queries, 10)[1]
    np.testing.assert_array_equal(rows, again)
    everything = Index(keys[:30], index).search(queries, 40)[1]
    assert (np.sort(everything) == np.arange(30)).all()


def test_more_effort_finds_more():
    keys, _, queries, _ = examples(n=3000, d=32, classes=1, queries=100)
    where = brute(queries, keys, 10)[1]

    def recall(index):
        rows = Index(keys, index).search(queries, 10)[1]
        return np.mean([len(set(a) & set(b)) for a, b in zip(rows, where, strict=True)]) / 10

    assert recall("ivf:1") < recall("ivf:8") < recall("ivf:54") == 1
    assert Index(keys, "ivf").nbytes > Index(keys).nbytes == keys.nbytes


def test_many_dimensions_are_searched_along_their_axes():
    """Keys of 200 dimensions that vary along 20 directions: few axes find them, and cost little."""
    rng = np.random.default_rng(0)
    n, d = neighbours.TRAINING * neighbours.AXES, 200
    directions = rng.standard_normal((20, d))
    noise = 0.01 * rng.standard_normal((n + 50, d))
    points = (rng.standard_normal((n + 50, 20)) @ directions + noise).astype(np.float32)
    keys, queries = points[:n], points[n:]
    lists, axes = neighbours.layout(n, d)
    assert (axes, neighbours.layout(n - 1, d)[1]) == (neighbours.AXES, d)
    index = Index(keys, "ivf:20")
    squared, rows = index.search(queries, 10)
    expected, where = Index(keys).search(queries, 10)
    shared = np.mean([np.isin(a, b).mean() for a, b in zip(where, rows, strict=True)])
    assert shared > 0.9
    np.testing.assert_allclose(squared[:, 0], ((keys[rows[:, 0]] - queries) ** 2).sum(1), rtol=1e-4)
    # Keys, 64 axes and a number of each, centroids, and the axes themselves: one copy of the keys.
    held = 4 * (n * d + n * axes + 2 * n + lists * axes + d * axes + d * d)
    assert held - 4 * d * d < index.nbytes < 1.05 * held


def test_keys_are_copied_and_cannot_be_changed():
    keys, *_ = examples()
    held = Index(keys).keys
    assert not np.shares_memory(held, keys)
    assert not held.flags.writeable


@pytest.mark.parametrize(("kernel", "sigma"), [("paper", 1.0), ("paper", 0.3), ("program", 0.5)])
@pytest.mark.parametrize("k", [1, 10, 500])
def test_probabilities_are_those_of_brute_force(kernel, sigma, k):
    keys, labels, queries, _ = examples()
    memory = Neighbours(Index(keys), labels, 4, k, kernel, sigma)
    expected = brute_probabilities(queries, keys, labels, 4, min(k, len(keys)), kernel, sigma)
    np.testing.assert_allclose(memory(queries), expected, atol=1e-6)
    np.testing.assert_allclose(memory(queries).sum(axis=1), 1)
    assert memory.nbytes == keys.nbytes + len(keys)


def test_a_kernel_too_narrow_for_floats_is_the_nearest_neighbour():
    keys, labels, queries, _ = examples()
    p = Neighbours(Index(keys), labels, 4, 10, "paper", 1e-6)(queries)
    np.testing.assert_array_equal(p.argmax(axis=1), labels[brute(queries, keys, 1)[1][:, 0]])
    assert np.isfinite(p).all()


logits_and_p = st.integers(0, 10**6).map(
    lambda seed: (
        np.random.default_rng(seed).normal(0, 3, (6, 4)).astype(np.float32),
        np.random.default_rng(seed + 1).dirichlet(np.ones(4), 6),
    )
)


@given(logits_and_p, st.floats(0, 1), st.sampled_from(neighbours.MIXINGS))
def test_a_mix_is_a_law_between_its_ends(both, weight, mixing):
    logits, p = both
    model = mix(logits, p, 0, mixing)
    np.testing.assert_array_equal(model, mix(logits, np.empty(0), 0.0, mixing))
    np.testing.assert_array_equal(mix(logits, p, 1, mixing), np.log(p))
    found = np.exp(mix(logits, p, weight, mixing))
    np.testing.assert_allclose(found.sum(axis=1), 1)
    if mixing == "probabilities":
        expected = weight * p + (1 - weight) * np.exp(model)
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_mixed_logits_are_the_programs_scores():
    logits, p = np.array([[2.0, 0.0, 1.0]]), np.array([[0.0, 0.9, 0.1]])
    found = mix(logits, p, 0.7, "logits")
    scores = 0.7 * p + 0.3 * logits
    np.testing.assert_allclose(found - found[:, :1], scores - scores[:, :1])


@pytest.mark.parametrize("mixing", ["probabilities", "logits"])
@pytest.mark.parametrize("count", [1, 5, 200])
def test_the_expected_weight_is_the_mean_over_the_posterior(mixing, count):
    rng = np.random.default_rng(count)
    logits, labels = rng.standard_normal((count, 4)), rng.integers(0, 4, count)
    p = rng.dirichlet(np.full(4, 0.2), count)
    likely = np.ones(len(GRID))
    for i, weight in enumerate(GRID):
        for row in range(count):
            likely[i] *= (
                4
                * np.exp(mix(logits[row : row + 1], p[row : row + 1], weight, mixing))[
                    0, labels[row]
                ]
            )
    expected = (likely * GRID).sum() / likely.sum()
    assert expected_weight(logits, p, labels, mixing) == pytest.approx(expected, rel=1e-9)


def test_a_memory_that_is_wrong_once_for_certain_is_not_trusted_alone():
    p = np.tile([1.0, 0.0], (20, 1))
    right, wrong = np.zeros(20, int), np.append(np.zeros(19, int), 1)
    assert expected_weight(np.zeros((20, 2)), p, right) > 0.95
    assert 0.5 < expected_weight(np.zeros((20, 2)), p, wrong) < 0.95
    assert expected_weight(np.zeros((20, 2)), p[:, ::-1], right) < 0.05


def test_of_tied_weights_the_middle_one_is_taken():
    logits = np.zeros((1, 3), np.float32)
    assert choose_weight(logits, np.array([[1.0, 0, 0]]), np.array([0])) == 0.5  # all of them
    assert choose_weight(logits, np.array([[1.0, 0, 0]]), np.array([2])) == 0.5
    sure = np.array([[10.0, 0, 0]], np.float32)
    # Right from .5 on: .5, .7, .9, 1, of which the lower middle one.
    assert choose_weight(sure, np.array([[0, 1.0, 0]]), np.array([1])) == 0.7
    assert choose_weight(sure, np.array([[0, 1.0, 0]]), np.array([0])) == 0.1
    assert {0.0, 1.0} < set(GRID)


def test_faiss_and_torch_live_together_on_one_thread_each():
    code = """
import numpy as np, torch
torch.set_num_threads(1)
from hopfed.neural.memory.neighbours import Index, faiss
x = torch.randn(100, 32, generator=torch.Generator().manual_seed(0))
for turn in range(3):
    rows = Index(x.numpy(), "ivf").search(x.numpy(), 1)[1][:, 0]
    layer = torch.nn.Linear(32, 8)
    layer(x).square().mean().backward()
    assert (rows == np.arange(100)).all() and torch.isfinite(layer.weight.grad).all()
print(faiss().omp_get_max_threads(), torch.get_num_threads())
"""
    # In this process torch came first.
    answer = subprocess.run(
        [sys.executable, "-c", "import faiss\n" + code], capture_output=True, text=True, check=True
    )
    assert answer.stdout.split() == ["1", "1"]


def test_without_faiss_one_line_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(BackendError, match=r"^faiss is not installed: pip install 'hopfed\[neural"):
        Index(np.ones((2, 2)), "ivf")
    assert len(Index(np.ones((2, 2)))) == 2  # an exact search does without


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Index(np.ones(3)), r"keys must be of shape \(n, d\)"),
        (lambda: Index(np.full((2, 2), np.nan)), "keys must be finite"),
        (lambda: Index(np.ones((2, 2)), "tree"), r"index must be exact or ivf\[:LISTS\]"),
        (lambda: Index(np.ones((2, 2)), "exact:3"), "index must be exact"),
        (lambda: Index(np.ones((2, 2)), "ivf:0"), "index must be exact"),
        (lambda: Index(np.ones((2, 2))).search(np.ones((1, 2)), 0), "k must be at least 1"),
        (lambda: log_kernel(np.ones(1), "box", 1.0, 1), "kernel must be one of paper, program"),
        (lambda: mix(np.ones((1, 2)), np.ones((1, 2)), 0.5, "x"), "mixing must be one of prob"),
        (lambda: fit_prototypes(np.ones((2, 2)), np.zeros(2, int), 2, count=0), "count must be"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(ArgumentError, match=message):
        call()
