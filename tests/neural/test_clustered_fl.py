"""Clustered FL: how clusters are parted, who is told what, and those who choose."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed")

from asked import Asked  # noqa: E402

from hopfed.federation.contract import EVERYONE, Context  # noqa: E402
from hopfed.federation.engines.local import LocalEngine  # noqa: E402
from hopfed.federation.participation import Participation  # noqa: E402
from hopfed.federation.rounds import FederationState, play_round  # noqa: E402
from hopfed.neural.method import Client, pack, unpack  # noqa: E402
from hopfed.neural.methods.clustered_fl import ClusteredFL, bipartition  # noqa: E402
from hopfed.neural.training.evaluation import accuracies  # noqa: E402
from hopfed.neural.training.task import TaskSpec  # noqa: E402
from hopfed.neural.training.training import Training  # noqa: E402

FIVE = TaskSpec(partition="dirichlet:0.3", clients=5, models=("mlp",), examples=300)
TRAINING = Training(lr=0.05, way="sequential")


def made(cls, spec=FIVE, **settings):
    return cls(spec, TRAINING, **settings)


clusters = st.integers(2, 7).flatmap(
    lambda n: st.integers(0, 10**6).map(
        lambda seed: np.random.default_rng(seed).standard_normal((n, 5))
    )
)


@given(clusters)
def test_single_linkage_has_the_least_similarity_across(x):
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    cos = x @ x.T
    part = bipartition(cos, "single")
    assert 0 < part.sum() < len(x)
    assert not part[0]

    def across(second):
        return cos[np.ix_(~second, second)].max()

    every = [np.array((False, *rest)) for rest in product([False, True], repeat=len(x) - 1)]
    assert across(part) <= min(across(s) for s in every if s.any()) + 1e-12


@pytest.mark.parametrize("linkage", ["complete", "single"])
def test_groups_that_pull_apart_are_told_apart(linkage):
    rng = np.random.default_rng(0)
    ways = np.array([1, -1, -1, 1, -1])[:, None] * rng.standard_normal(200)
    updates = ways + 0.3 * rng.standard_normal((5, 200))
    updates /= np.linalg.norm(updates, axis=1, keepdims=True)
    assert bipartition(updates @ updates.T, linkage).tolist() == [False, True, True, False, True]


def sent(method, moves, cluster=0):
    """Messages of clients whose models have moved from the initial one."""
    base = method.loaded.initial(0)
    return {
        c: pack({n: t + move * torch.ones_like(t) for n, t in base.items()})
        | {"examples": np.asarray(10), "cluster": np.asarray(cluster)}
        for c, move in moves.items()
    }


def test_a_cluster_is_parted_at_rest_and_goes_on_in_two():
    method = made(ClusteredFL)
    moves = {0: 0.1, 1: -0.1, 2: 0.1, 4: -0.1}  # client 3 is absent
    state, down, metrics = method.play({}, Asked(sent(method, moves)))
    assert metrics["clusters"] == 2
    assert state["cluster_of"].tolist() == [0, 1, 0, -1, 1]
    base = method.loaded.initial(0)
    for c, move in moves.items():
        for name, tensor in unpack(down[c]).items():
            torch.testing.assert_close(tensor, base[name] + move)
    assert set(down) == {0, 1, 2, 4, EVERYONE}
    # The absent one chooses by its validation examples, among models good and bad.
    everything = dict(down[EVERYONE])
    for name in [n for n in everything if n.startswith("0/")]:
        everything[name] = np.zeros_like(everything[name])
    client = Client(method, {}, Context(0, 0, 0, 3))
    fits = [method._fits(unpack(everything, k), client) for k in ("0", "1")]
    chosen, params = method.choose(client, everything)
    assert chosen == int(np.argmax([f[0] + 1e-6 * f[1] for f in fits]))
    for name, tensor in unpack(everything, str(chosen)).items():
        assert (params[name] == tensor).all()
    # Cluster 0 goes on alone; cluster 1, not heard, keeps its model; client 3 joins.
    messages = sent(method, {0: 0.2, 2: 0.2, 3: 0.2})
    state, down, _ = method.play(state, Asked(messages, 1))
    assert state["cluster_of"].tolist() == [0, 1, 0, 0, 1]
    for name, tensor in unpack(down[1]).items():
        torch.testing.assert_close(tensor, base[name] - 0.1)
    for name, tensor in unpack(down[3]).items():
        torch.testing.assert_close(tensor, base[name] + 0.2)


def test_a_late_message_does_not_assign_its_client_to_a_cluster_that_was_split():
    method = made(ClusteredFL)
    state, *_ = method.play({}, Asked(sent(method, {0: 0.1, 1: -0.1, 2: 0.1, 4: -0.1})))
    late = sent(method, {3: 0.1})
    state, down, _ = method.play(state, Asked(late, 1, {3: 1}))
    assert state["cluster_of"].tolist() == [0, 1, 0, -1, 1]
    assert 3 not in down  # so that it gets all models, and chooses


@pytest.mark.parametrize(
    ("moves", "ages"),
    [
        ({0: 0.1, 1: 0.1, 2: 0.1, 3: 0.1}, {}),  # not at rest
        ({0: 0.001, 1: -0.001, 2: 0.001, 3: -0.001}, {}),  # nobody would go far
        ({0: 0.1, 1: -0.1}, {}),  # too few
        ({0: 0.1, 1: -0.1, 2: 0.1, 3: -0.1}, {2: 1, 3: 2}),  # late updates say nothing of now
    ],
)
def test_otherwise_a_cluster_stays_whole(moves, ages):
    method = made(ClusteredFL)
    state, down, metrics = method.play({}, Asked(sent(method, moves), 0, ages))
    assert metrics["clusters"] == 1
    assert set(down) == {EVERYONE}
    expected = np.mean(list(moves.values()))
    for name, tensor in unpack(down[EVERYONE]).items():
        torch.testing.assert_close(tensor, method.loaded.initial(0)[name] + expected)


def test_clusters_of_every_round_survive_absence_and_flattening():
    method = made(ClusteredFL, spec=replace(FIVE, clients=8, examples=600), tol_1=1e9, tol_2=0.0)
    state, counts, most = None, [], 0
    for t in range(4):
        played = play_round(
            method,
            state,
            t,
            seed=0,
            clients=8,
            engine=LocalEngine(),
            participation=Participation(rate=0.75),
        )
        assert not played.faults.words()
        counts.append(played.server_metrics["clusters"])
        most = max(most, played.traffic.down.max() / played.traffic.up.max())
        state = FederationState.unflatten(played.state.flatten())
    assert counts[0] == 2
    assert counts[-1] > counts[0]
    everyone = state.down[EVERYONE]
    accuracy = accuracies(
        [method.classifier({}, state.down.get(c, everyone), c) for c in range(8)],
        method.loaded.tensors,
        [method.loaded.split.test],
    )
    assert np.isfinite(accuracy).all()
    assert most > 1.9  # one that was absent got the models of all clusters
