"""kNN-Per: identities with FedAvg, its store, its lambda, what it says of little; and the prior."""

import warnings

import numpy as np
import pytest
import torch
from asked import examples, play
from helpers import rest_slow
from scipy.special import log_softmax

from hopfed.errors import ArgumentError
from hopfed.federation.contract import EVERYONE
from hopfed.neural.memory import SmallStoreWarning
from hopfed.neural.methods.fedavg import FedAvg, FedAvgPrior
from hopfed.neural.methods.knn_per import KNNPer
from hopfed.neural.training.evaluation import Network
from hopfed.neural.training.task import TaskSpec
from hopfed.neural.training.training import Training

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
    with pytest.warns(SmallStoreWarning, match="k = 10 is more than the examples of a store"):
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
