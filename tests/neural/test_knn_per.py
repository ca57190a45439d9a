"""kNN-Per and its memories: against brute force, its store, its lambda, what it says of little."""

import warnings

import clouds
import numpy as np
import pytest
import torch
from asked import examples, play
from helpers import rest_slow
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax

from hopfed.errors import ArgumentError
from hopfed.federation.contract import EVERYONE
from hopfed.neural.memory import (
    MIXINGS,
    Hopfield,
    Index,
    Neighbours,
    Prototypes,
    SmallStoreWarning,
    choose_weight,
    mix,
    unit,
)
from hopfed.neural.methods.fedavg import FedAvg, FedAvgPrior
from hopfed.neural.methods.knn_per import KNNPer
from hopfed.neural.training.evaluation import Network
from hopfed.neural.training.task import TaskSpec
from hopfed.neural.training.training import Training


def test_hopfield_retrieval_is_the_programs_kernel_on_keys_of_one_norm():
    keys, labels, queries, _ = clouds.examples()
    beta, d = 7.0, keys.shape[1]
    memory = Hopfield(keys, labels, 4, beta)
    # The update of a modern Hopfield network, as in Ramsauer et al. (2021).
    X, q = memory.keys, unit(queries - keys.mean(axis=0, dtype=float))
    e = np.exp(beta * q @ X.T)
    attention = e / e.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(memory.weights(queries), attention, atol=1e-12)
    np.testing.assert_allclose(memory(queries), attention @ np.eye(4)[labels], atol=1e-12)
    # And so kNN-Per with all keys as neighbours, up to the float32 of its index.
    all_of = Neighbours(Index(X), labels, 4, len(X), "program", 2 / (beta * d))
    np.testing.assert_allclose(memory(queries), all_of(q), atol=1e-5)


def test_prototypes_learn_what_k_means_cannot_see():
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=300)
    x = rng.standard_normal((300, 10)) * np.r_[0.4, 5 * np.ones(9)]  # the classes lie in axis 0
    x[:, 0] += 2 * labels - 1
    # A quarter of the examples is kept apart.
    train, test = slice(75, None), slice(75)

    def right(**settings):
        made = Prototypes(x[train], labels[train], 2, count=6, **settings)
        return (made(x[test]).argmax(axis=1) == labels[test]).mean(), made

    (blind, _), (learned, made) = right(steps=0), right(steps=150)
    assert learned > max(blind + 0.1, 0.85)
    np.testing.assert_allclose(made(x[test]).sum(axis=1), 1)
    assert len(made) == 6
    again = Prototypes(x[train], labels[train], 2, count=6, steps=150)
    np.testing.assert_array_equal(made(x[test]), again(x[test]))


@pytest.mark.parametrize("n", [1, 2])
def test_one_or_two_examples_make_a_memory(n):
    x, labels = np.ones((n, 3)), np.arange(n)
    for memory in (
        Prototypes(x, labels, 2, count=5),
        Hopfield(x, labels, 2, 3.0),
        Neighbours(Index(x), labels, 2),
    ):
        p = memory(np.array([[1.0, 2.0, 3.0]]))
        np.testing.assert_allclose(p, [np.bincount(labels, minlength=2) / n], atol=0.1)


def brute(queries, keys, k):
    """All pairs in float64; ties to the row that came first."""
    queries, keys = (np.asarray(a, np.float32).astype(float) for a in (queries, keys))
    squared = ((queries[:, None] - keys) ** 2).sum(axis=2)
    rows = np.argsort(squared, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(squared, rows, axis=1), rows


@given(st.integers(1, 60), st.integers(1, 12), st.integers(1, 70), st.integers(0, 10**6))
def test_exact_search_is_all_pairs_compared(n, d, k, seed):
    rng = np.random.default_rng(seed)
    # Few values: many ties, of which any row may be taken, each once.
    keys, queries = rng.integers(-2, 3, (n, d)), rng.integers(-2, 3, (7, d))
    squared, rows = Index(keys).search(queries, k)
    expected, _ = brute(queries, keys, min(k, n))
    np.testing.assert_array_equal(squared, expected)
    far = ((queries[:, None] - keys[rows]) ** 2).sum(axis=2)
    np.testing.assert_array_equal(far, expected)
    assert all(len(set(row)) == len(row) for row in rows.tolist())


def test_exact_search_does_not_rely_on_sums_in_float32():
    rng = np.random.default_rng(0)
    keys = (1000 + 0.01 * rng.standard_normal((400, 64))).astype(np.float32)
    queries = (1000 + 0.01 * rng.standard_normal((20, 64))).astype(np.float32)
    expected, where = brute(queries, keys, 10)
    squared, rows = Index(keys).search(queries, 10)
    np.testing.assert_array_equal(rows, where)
    np.testing.assert_allclose(squared, expected, rtol=1e-12)


@given(st.integers(0, 10**6), st.floats(0, 1), st.sampled_from(MIXINGS))
def test_a_mix_is_a_law_between_its_ends(seed, weight, mixing):
    rng = np.random.default_rng(seed)
    logits, p = rng.normal(0, 3, (6, 4)).astype(np.float32), rng.dirichlet(np.ones(4), 6)
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


def test_of_tied_weights_the_middle_one_is_taken():
    logits = np.zeros((1, 3), np.float32)
    assert choose_weight(logits, np.array([[1.0, 0, 0]]), np.array([0])) == 0.5  # all of them
    assert choose_weight(logits, np.array([[1.0, 0, 0]]), np.array([2])) == 0.5
    sure = np.array([[10.0, 0, 0]], np.float32)
    # Right from .5 on: .5, .7, .9, 1, of which the lower middle one.
    assert choose_weight(sure, np.array([[0, 1.0, 0]]), np.array([1])) == 0.7
    assert choose_weight(sure, np.array([[0, 1.0, 0]]), np.array([0])) == 0.1


SPEC = TaskSpec(partition="dirichlet:0.3", clients=4, models=("mlp",), examples=400)
STORES = ("neighbours", "prototypes", "hopfield")
TRAINING = Training(lr=0.05, way="sequential")


def made(cls=KNNPer, **settings):
    return cls(SPEC, TRAINING, **settings)


@pytest.fixture(scope="module")
def down():
    return play(made(FedAvg), 2).state.down[EVERYONE]


@pytest.mark.parametrize("mixing", ["probabilities", "logits"])
@pytest.mark.parametrize("store", STORES)
def test_without_weight_it_is_fedavg_and_with_all_the_memory_alone_to_the_bit(down, store, mixing):
    fedavg = made(FedAvg).classifier({}, down, 1)
    settings = {"store": store, "mixing": mixing, "steps": 5}
    ends = [made(lam=lam, **settings).classifier({}, down, 1) for lam in (0.0, 1.0)]
    with torch.inference_mode():
        x, _ = examples(made(), 1)
        logits = fedavg(x).numpy().astype(float)
        np.testing.assert_array_equal(ends[0](x), log_softmax(logits, axis=1))
        np.testing.assert_array_equal(ends[0](x).argmax(dim=1), fedavg(x).argmax(dim=1))
        features = ends[1].network.outputs(x)[0].numpy()
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(ends[1](x), np.log(ends[1].memory(features)))


def test_lambda_is_chosen_on_validation_examples_alone(down, monkeypatch):
    asked = []
    real = KNNPer.embedded

    def spy(self, message, client, part):
        asked.append(part)
        return real(self, message, client, part)

    monkeypatch.setattr(KNNPer, "embedded", spy)
    made(k=4).classifier({}, down, 0)
    assert asked == ["train", "validation"]


def test_nothing_is_embedded_or_built_twice(down, monkeypatch):
    calls = []
    real = Network.embed
    spy = lambda self, *a: calls.append(len(a[1])) or real(self, *a)  # noqa: E731
    monkeypatch.setattr(Network, "embed", spy)
    fresh = {n: a + np.float32(0.5) if n.endswith("head.bias") else a for n, a in down.items()}
    first = made().classifier({}, fresh, 3)
    assert calls == [len(made().loaded.split.train[3]), len(made().loaded.split.validation[3])]
    assert made().classifier({}, dict(fresh), 3) is first
    made(k=2, sigma=3.0, store="hopfield").classifier({}, fresh, 3)  # a sweep reads on
    assert len(calls) == 2
    assert made().classifier({}, down, 3) is not first
    assert made().classifier({}, fresh, 2) is not first


@pytest.mark.parametrize(("capacity", "count"), [(1.0, None), (0.25, 0.25), (7.0, 7), (1e9, None)])
def test_capacity_is_a_share_or_a_number(down, capacity, count):
    method = made(capacity=capacity)
    n = len(method.loaded.split.train[1])
    expected = n if count is None else count if count > 1 else round(count * n)
    assert len(method.remember(down, 1)[0]) == expected
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallStoreWarning)
        assert method.classifier({}, down, 1).nbytes == expected * (4 * 200 + 8)


@pytest.mark.parametrize("store", rest_slow(["neighbours", "hopfield", "prototypes"], 2))
def test_weak_clients_keep_less_and_strong_ones_as_much_more(down, store):
    method, extreme = (made(capacity=0.5, spread=s, store=store) for s in (0.2, 0.5))
    for client, share in ((0, 0.3), (1, 0.7)):
        n = len(method.loaded.split.train[client])
        memory = method.classifier({}, down, client).memory
        assert len(memory) == round(share * n)
    assert len(extreme.remember(down, 1)[0]) == len(extreme.loaded.split.train[1])
    with pytest.warns(SmallStoreWarning, match="an empty store: the global model alone"):
        weak = extreme.classifier({}, down, 0)
    assert (weak.memory, weak.nbytes) == (None, 0)
    x, _ = examples(extreme, 0)
    torch.testing.assert_close(weak(x), made(lam=0.0).classifier({}, down, 0)(x))


def test_k_beyond_the_store_takes_what_there_is_and_says_so(down):
    method = made(capacity=5, lam=1.0)
    with pytest.warns(SmallStoreWarning, match="k = 10 exceeds the number of examples"):
        found = method.classifier({}, down, 2)
    five = made(capacity=5, lam=1.0, k=5).classifier({}, down, 2)
    x, _ = examples(method, 2)
    np.testing.assert_array_equal(found(x), five(x))


def test_a_prior_is_the_frequency_of_the_clients_labels(down):
    method = made(FedAvgPrior, smooth=2.0)
    x, _ = examples(method, 1)
    counts = method.loaded.split.counts("train")[1]
    prior = (counts + 0.2) / (counts.sum() + 2)
    with torch.no_grad():
        p = made(FedAvg).classifier({}, down, 1)(x).double().softmax(dim=1)
        expected = p * torch.as_tensor(prior)
        found = method.classifier({}, down, 1)(x)
    np.testing.assert_allclose(
        found.softmax(dim=1), expected / expected.sum(dim=1, keepdim=True), rtol=1e-5
    )
    strict = made(FedAvgPrior, smooth=0.0).classifier({}, down, 1)(x)
    assert (strict[:, counts == 0] == -np.inf).all()
    assert strict[:, counts > 0].isfinite().all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lam": -0.5}, r"lam must be in \[0, 1\], or -1"),
        ({"lam": 1.5}, r"lam must be in \[0, 1\]"),
        ({"capacity": 0.5, "spread": 0.6}, "spread must be a share such that"),
        ({"capacity": 9.0, "spread": 0.1}, "spread must be a share such that"),
        ({"rule": "lifo"}, "rule must be one of fifo, fixed, concatenate"),
        ({"rule": "concatenate", "capacity": 0.5}, "capacity must be 1 with the rule conc"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ArgumentError, match=message):
        made(**settings)
