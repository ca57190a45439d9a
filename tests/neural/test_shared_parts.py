"""What single methods do beside their equations: parts, public examples, clusters, processes."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from asked import Asked, examples, known, play
from hypothesis import given
from hypothesis import strategies as st

from hopfed.errors import DataError
from hopfed.federation.contract import EVERYONE
from hopfed.neural.method import below, pack
from hopfed.neural.methods import method
from hopfed.neural.methods.fedavg import bipartition
from hopfed.neural.methods.heads import supervised_contrast
from hopfed.neural.methods.stepwise import seed_set
from hopfed.neural.training.evaluation import Network
from hopfed.neural.training.losses import Batch, Net
from hopfed.neural.training.task import TaskSpec, task_of
from hopfed.neural.training.training import Training

TASK = TaskSpec(models=("mlp:20",), clients=4, examples=300, partition="classes:4")


def make(name, task=TASK, training=Training(lr=0.05, way="sequential"), **settings):  # noqa: B008
    return method(name)(task, training, **settings)


def test_a_row_whose_holders_are_absent_keeps_its_history():
    made = make("fedssa")
    start = made.server_start(0)
    start["head"][:] = 9.0
    seen = np.stack([made.seen(c) for c in range(4)])
    only = seen[0] & ~seen[1:].any(axis=0)
    few = {c: {"rows": np.zeros((seen[c].sum(), 21), np.float32)} for c in (1, 2, 3)}
    after, *_ = made.play(start, Asked(few))
    assert (after["head"][only] == 9).all()
    assert (after["head"][seen[1]] == 0).all()


@pytest.mark.parametrize("labels", [[0, 0, 1], [0, 0, 0], [0, 1, 2], [3]])
def test_a_contrast_has_a_gradient_also_without_features_or_others_of_a_class(labels):
    for z in (torch.zeros(len(labels), 4), torch.randn(len(labels), 4)):
        loss = supervised_contrast(z.requires_grad_(), torch.tensor(labels), None, 0.1)
        (gradient,) = torch.autograd.grad(loss, z)
        assert gradient.isfinite().all()


def test_the_nearest_prototype_wins_and_unknown_classes_never():
    made = make("fedproto", nearest=True)
    x, _ = examples(made, 0)
    assert isinstance(made.classifier({}, {}, 0), Network)
    features = made.loaded.model(0).features.eval()(x).detach().numpy()
    down = {"labels": np.array([7, 2]), "rows": features[:2]}
    scores = made.classifier(pack(made.initial(0)), down, 0)(x)
    assert scores.argmax(dim=1)[:2].tolist() == [7, 2]
    assert torch.isinf(scores[:, [0, 1, 3, 4, 5, 6, 8, 9]]).all()


def test_labels_of_nobody_are_left_out():
    message = {"labels": np.array([3, 99, -1]), "rows": np.ones((3, 20), np.float32)}
    _, counts = make("fedproto").table(message)
    assert np.flatnonzero(counts).tolist() == [3]


def test_a_client_that_fits_its_examples_is_not_divided_by_nothing():
    sure = torch.tensor([[40.0, 0.0]])
    net = Net(lambda *_: [(torch.zeros(1, 2), sure), (torch.ones(1, 2), sure)], {})
    batch = Batch(torch.zeros(1), torch.tensor([0]))
    assert float(make("fedkd").objective(net, batch)) == pytest.approx(2 / 0.1)


def test_both_ends_of_fedkd_hold_the_same_model_whoever_was_absent_or_late():
    made, kinds = make("fedkd", proxy="mlp:8", rounds=6), set()

    def check(played):
        server = {n[6:]: a for n, a in played.state.server.items() if n.startswith("model/")}
        for c in range(4):
            own, down = known(played.state, c)
            kinds.add(any(n.startswith("update/") for n in down))
            for name, tensor in below(made.begin(*made.readied(own, down, c)), "shared").items():
                np.testing.assert_array_equal(tensor.numpy(), server[name])

    play(made, 6, each=check, rate=0.75, late=0.4, delay=2)
    assert kinds == {True, False}


ROTATED = TaskSpec(
    partition="rotation:0,20,40,60:20:same", clients=4, models=("mlp:16",), shares=(75, 10, 15)
)
SGD = Training("sgd", lr=0.05, batch=16, way="sequential")


@pytest.mark.parametrize("share", [0.05, 0.1, 0.15])
def test_public_and_private_are_the_training_examples_of_each_node(share):
    made, seeds = task_of(ROTATED), seed_set(ROTATED, share)
    labels = made.split.dataset.labels
    for client, rows in enumerate(made.split.train):
        private, public = seeds.private[client], seeds.public[client]
        assert len(public) == round(share * 200)
        np.testing.assert_array_equal(np.sort(np.concatenate([private, public])), rows)
        assert np.ptp(np.bincount(labels[public], minlength=10)) <= 1
    other = seed_set(replace(ROTATED, seed=1), share)
    assert any((a != b).any() for a, b in zip(seeds.public, other.public, strict=True))
    groups = made.split.dataset.group  # of an image and its rotations
    tested, shown = (groups[np.concatenate(rows)] for rows in (made.split.test, seeds.public))
    assert len(np.unique(tested)) == 30
    assert not set(tested) & set(shown)


def test_a_node_keeps_a_private_example():
    spec = TaskSpec(partition="iid", clients=10, models=("mlp:16",), examples=30)
    with pytest.raises(DataError, match=r"client 0 of 10 has 1 training examples, too few"):
        seed_set(spec, 0.1)
    assert [len(rows) for rows in seed_set(spec, 0).private] == [1] * 10


@pytest.mark.parametrize("kl", [True, False])
def test_pairs_hear_their_partner_alone_and_who_has_none_makes_its_local_step(kl):
    made = make("fedh2l", ROTATED, SGD, pairs=True, kl=kl)
    circles = [made.circles(0, t) for t in range(12)]
    assert all(sorted(i for c in circle for i in c) == [0, 1, 2, 3] for circle in circles)
    three = TaskSpec(partition="iid", clients=3, models=("mlp:16",), examples=240)
    made = make("fedh2l", three, SGD, pairs=True, kl=kl)
    (alone,) = next(c for c in made.circles(0, 0) if len(c) == 1)
    played = play(made)
    conflict = played.client_metrics["conflict"]
    assert np.flatnonzero(np.isnan(conflict)).tolist() == [alone]
    assert np.flatnonzero(played.traffic.down == 0).tolist() == ([alone] if kl else [0, 1, 2])


FIVE = TaskSpec(partition="dirichlet:0.3", clients=5, models=("mlp:20",), examples=300)


@given(st.integers(2, 7), st.integers(0, 10**6))
def test_single_linkage_has_the_least_similarity_across(n, seed):
    x = np.random.default_rng(seed).standard_normal((n, 5))
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    cos = x @ x.T
    part = bipartition(cos, "single")
    assert 0 < part.sum() < len(x)
    assert not part[0]
    every = [np.array((False, *rest)) for rest in product([False, True], repeat=len(x) - 1)]
    across = [cos[np.ix_(~second, second)].max() for second in (part, *every[1:])]
    assert across[0] <= min(across[1:]) + 1e-12


MOVES = {0: 0.1, 1: -0.1, 2: 0.1, 4: -0.1}  # client 3 is absent


def sent(made, moves, cluster=0):
    """Messages of clients whose models have moved from the initial one."""
    base = made.loaded.initial(0)
    return {
        c: pack({n: t + move * torch.ones_like(t) for n, t in base.items()})
        | {"examples": np.asarray(10), "cluster": np.asarray(cluster)}
        for c, move in moves.items()
    }


def test_a_late_message_does_not_assign_its_client_to_a_cluster_that_was_split():
    made = make("clustered-fl", FIVE)
    state, down, metrics = made.play({}, Asked(sent(made, MOVES)))
    assert metrics["clusters"] == 2
    assert state["cluster_of"].tolist() == [0, 1, 0, -1, 1]
    assert set(down) == {0, 1, 2, 4, EVERYONE}
    state, down, _ = made.play(state, Asked(sent(made, {3: 0.1}), 1, {3: 1}))
    assert state["cluster_of"].tolist() == [0, 1, 0, -1, 1]
    assert 3 not in down  # so that it gets all models, and chooses
