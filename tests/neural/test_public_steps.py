"""Public examples and minibatch steps: FedH2L's projection and pairs, AGG, FedMD."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, nnls

torch = pytest.importorskip("torch", reason="torch is not installed")

from hopfed.errors import DataError  # noqa: E402
from hopfed.federation.contract import Context  # noqa: E402
from hopfed.federation.engines.local import LocalEngine  # noqa: E402
from hopfed.federation.rounds import play_round  # noqa: E402
from hopfed.neural.method import Client  # noqa: E402
from hopfed.neural.methods.fedh2l import FedH2L, project  # noqa: E402
from hopfed.neural.methods.stepwise import AGG, seed_set  # noqa: E402
from hopfed.neural.training.task import TaskSpec, task_of  # noqa: E402
from hopfed.neural.training.training import Training  # noqa: E402

ROTATED = TaskSpec(
    partition="rotation:0,20,40,60:20:same", clients=4, models=("mlp:16",), shares=(75, 10, 15)
)
SGD = Training("sgd", lr=0.05, batch=16, way="sequential")


def play(method, rounds=1, **settings):
    state, n = None, method.task.clients
    for t in range(rounds):
        played = play_round(method, state, t, seed=0, clients=n, engine=LocalEngine(), **settings)
        state = played.state
    return played


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


def test_public_images_are_no_rotations_of_test_images():
    split, seeds = task_of(ROTATED).split, seed_set(ROTATED, 0.15)
    tested = split.dataset.group[np.concatenate(split.test)]
    shown = split.dataset.group[np.concatenate(seeds.public)]
    assert len(np.unique(tested)) == 30
    assert not set(tested) & set(shown)


def test_a_node_keeps_a_private_example():
    spec = TaskSpec(partition="iid", clients=10, models=("mlp:16",), examples=30)
    with pytest.raises(DataError, match=r"client 0 of 10 has 1 training examples, too few"):
        seed_set(spec, 0.1)
    assert [len(rows) for rows in seed_set(spec, 0).private] == [1] * 10


numbers = st.floats(-10, 10, allow_subnormal=False).map(lambda v: 0.0 if abs(v) < 1e-3 else v)
pairs = st.integers(1, 12).flatmap(
    lambda n: st.tuples(*[st.lists(numbers, min_size=n, max_size=n)] * 2)
)


def named(vector):
    """A gradient of two parameters, the first with the first half of the numbers."""
    vector = torch.as_tensor(vector, dtype=torch.float64)
    return {"w": vector[: len(vector) // 2], "b": vector[len(vector) // 2 :]}


def flat(gradient):
    return torch.cat(list(gradient.values())).numpy()


@settings(max_examples=40)
@given(pairs)
def test_the_projection_solves_the_quadratic_program_and_its_dual(pair):
    public, local = map(np.asarray, pair)
    found = flat(project(named(public), named(local)))
    primal = minimize(
        lambda z: ((z - public) ** 2).sum() / 2,
        np.zeros_like(public),
        jac=lambda z: z - public,
        constraints={"type": "ineq", "fun": lambda z: local @ z, "jac": lambda z: local},
        method="SLSQP",
        options={"ftol": 1e-14},
    )
    np.testing.assert_allclose(found, primal.x, atol=1e-5)
    v, _ = nnls(local[:, None], -public)  # (14): the v of least |v g_loc + g_pub|^2
    np.testing.assert_allclose(found, public + v * local, atol=1e-10)
    if public @ local >= 0:
        np.testing.assert_array_equal(found, public)


@pytest.mark.parametrize("kl", [True, False])
def test_pairs_hear_their_partner_alone_and_who_has_none_makes_its_local_step(kl):
    method = FedH2L(replace(ROTATED, clients=4), SGD, pairs=True, kl=kl)
    circles = [method.circles(0, t) for t in range(12)]
    assert all(sorted(i for c in circle for i in c) == [0, 1, 2, 3] for circle in circles)
    three = TaskSpec(partition="iid", clients=3, models=("mlp:16",), examples=240)
    method = FedH2L(three, SGD, pairs=True, kl=kl)
    (alone,) = next(c for c in method.circles(0, 0) if len(c) == 1)
    played = play(method)
    conflict = played.client_metrics["conflict"]
    assert np.flatnonzero(np.isnan(conflict)).tolist() == [alone]
    assert np.flatnonzero(played.traffic.down == 0).tolist() == ([alone] if kl else [0, 1, 2])


def test_agg_draws_from_its_private_and_all_public_examples():
    method = AGG(ROTATED, SGD, images=10_000)
    client = Client(method, {}, Context(0, 0, 0, 2))
    rows = next(method.answer(client, "train", {})).rows
    expected = np.concatenate([method.seeds.private[2], *method.seeds.public])
    np.testing.assert_array_equal(np.unique(rows), np.sort(expected))
    alone = AGG(ROTATED, SGD, public=0.0)
    np.testing.assert_array_equal(alone.rows(2, "all"), method.loaded.split.train[2])
