"""kNN-Per and its memories: against brute force, its store, its lambda, what it says of little."""

from contextlib import nullcontext

import clouds
import numpy as np
import pytest
import torch
from asked import examples, play
from helpers import rest_slow
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax

from hopfed.federation.contract import EVERYONE
from hopfed.neural.memory import (
    Hopfield,
    Index,
    Neighbours,
    Prototypes,
    SmallStoreWarning,
    mix_with_memory,
    normalise_rows,
)
from hopfed.neural.methods.fedavg import FedAvg
from hopfed.neural.methods.knn_per import KNNPer
from hopfed.neural.training.evaluation import Network
from hopfed.neural.training.job import Training
from hopfed.neural.training.task import TaskSpec


def test_hopfield_retrieval_is_the_programs_kernel_on_keys_of_one_norm():
    keys, labels, queries, _ = clouds.examples()
    beta, d = 7.0, keys.shape[1]
    memory = Hopfield(keys, labels, 4, beta)
    # The update of a modern Hopfield network, as in Ramsauer et al. (2021).
    X, q = memory.keys, normalise_rows(queries - keys.mean(axis=0, dtype=float))
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
    found = []
    for steps in (0, 150, 150):
        made = Prototypes(x[75:], labels[75:], 2, count=6, steps=steps)
        assert len(made) == 6
        found.append(made(x[:75]))
    np.testing.assert_allclose(found[1].sum(axis=1), 1)
    np.testing.assert_array_equal(found[1], found[2])
    blind, learned, _ = ((p.argmax(axis=1) == labels[:75]).mean() for p in found)
    assert learned > max(blind + 0.1, 0.85)


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


@given(st.integers(1, 60), st.integers(1, 12), st.integers(1, 70), st.integers(0, 10**6))
def test_exact_search_is_all_pairs_compared(n, d, k, seed):
    rng = np.random.default_rng(seed)
    # Few values: many ties, of which any row may be taken, each once. Far from 0, sums in float32
    # would not do.
    for scale, place in ((1, 0), (0.01, 1000)):
        keys, queries = (
            np.float32(place + scale * rng.integers(-2, 3, (size, d))).astype(float)
            for size in (n, 7)
        )
        squared, rows = Index(keys).search(queries, k)
        every = ((queries[:, None] - keys) ** 2).sum(axis=2)
        np.testing.assert_allclose(squared, np.sort(every, axis=1)[:, :k], rtol=1e-12)
        np.testing.assert_allclose(np.take_along_axis(every, rows, axis=1), squared, rtol=1e-12)
        assert all(len(set(row)) == len(row) for row in rows.tolist())


@given(st.integers(0, 10**6), st.floats(0, 1), st.sampled_from(["probabilities", "logits"]))
def test_a_mix_is_a_law_between_its_ends(seed, weight, mixing):
    rng = np.random.default_rng(seed)
    logits, p = rng.normal(0, 3, (6, 4)).astype(np.float32), rng.dirichlet(np.ones(4), 6)
    model = mix_with_memory(logits, p, 0, mixing)
    np.testing.assert_array_equal(model, mix_with_memory(logits, np.empty(0), 0.0, mixing))
    np.testing.assert_array_equal(mix_with_memory(logits, p, 1, mixing), np.log(p))
    found = mix_with_memory(logits, p, weight, mixing)
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1)
    if mixing == "probabilities":
        due = weight * p + (1 - weight) * np.exp(model)
        np.testing.assert_allclose(np.exp(found), due, atol=1e-12)
    elif weight < 1:  # as in the authors' program
        due = log_softmax(weight * p + (1 - weight) * logits.astype(float), axis=1)
        np.testing.assert_allclose(found, due, atol=1e-12)


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


def test_nothing_is_embedded_or_built_twice(down, monkeypatch):
    calls, real = [], Network.embed
    monkeypatch.setattr(Network, "embed", lambda *a: calls.append(len(a[2])) or real(*a))
    fresh = {n: a + np.float32(0.5) if n.endswith("head.bias") else a for n, a in down.items()}
    first = made().classifier({}, fresh, 3)
    assert calls == [len(getattr(made().loaded.split, p)[3]) for p in ("train", "validation")]
    assert made().classifier({}, dict(fresh), 3) is first
    made(k=2, sigma=3.0, store="hopfield").classifier({}, fresh, 3)  # a sweep reads on
    assert len(calls) == 2
    for other in ((down, 3), (fresh, 2)):
        assert made().classifier({}, *other) is not first


@pytest.mark.parametrize("capacity", [1.0, 0.25, 7.0, 1e9])
def test_capacity_is_a_share_or_a_number_beyond_which_k_takes_what_there_is(down, capacity):
    method = made(capacity=capacity, lam=1.0)
    n = len(method.loaded.split.train[1])
    count = int(min(n, capacity) if capacity > 1 else round(capacity * n))
    assert len(method.remember(down, 1)[0]) == count
    words = "k = 10 exceeds the number of examples"
    with pytest.warns(SmallStoreWarning, match=words) if count < 10 else nullcontext():
        found = method.classifier({}, down, 1)
    assert found.nbytes == count * (4 * 200 + 8)
    x, _ = examples(method, 1)
    few = made(capacity=capacity, lam=1.0, k=min(10, count)).classifier({}, down, 1)
    np.testing.assert_array_equal(found(x), few(x))


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
