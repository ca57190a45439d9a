"""Rounds of minibatch steps: the seed set, AGG, and scores by domain."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from hopfed.errors import ArgumentError, DataError  # noqa: E402
from hopfed.federation.contract import Context  # noqa: E402
from hopfed.federation.engines import Call  # noqa: E402
from hopfed.federation.engines.local import LocalEngine  # noqa: E402
from hopfed.federation.rounds import play_round  # noqa: E402
from hopfed.neural.methods.agg import AGG  # noqa: E402
from hopfed.neural.public import seed_set  # noqa: E402
from hopfed.neural.training.cost import measure  # noqa: E402
from hopfed.neural.training.evaluation import Network, correct, domains  # noqa: E402
from hopfed.neural.training.task import TaskSpec, task_of  # noqa: E402
from hopfed.neural.training.training import Training  # noqa: E402

ROTATED = TaskSpec(
    partition="rotation:0,20,40,60:20:same", clients=4, models=("mlp",), shares=(75, 10, 15)
)
SGD = Training("sgd", lr=0.05, batch=16, way="sequential")
AMSGRAD = Training("amsgrad", lr=1e-3, weight_decay=1e-4, batch=16, way="sequential")


def play(method, rounds=1, seed=0, **settings):
    state, played = None, []
    for t in range(rounds):
        played.append(
            play_round(
                method,
                state,
                t,
                seed=seed,
                clients=method.task.clients,
                engine=LocalEngine(),
                **settings,
            )
        )
        state = played[-1].state
    return played


# The seed set


@pytest.mark.parametrize("share", [0.05, 0.1, 0.15])
def test_public_and_private_are_the_training_examples_of_each_node(share):
    made, seeds = task_of(ROTATED), seed_set(ROTATED, share)
    assert made.split.sizes.tolist() == [[150, 20, 30]] * 4
    labels = made.split.dataset.labels
    for client, rows in enumerate(made.split.train):
        private, public = seeds.private[client], seeds.public[client]
        assert len(public) == round(share * 200)
        np.testing.assert_array_equal(np.sort(np.concatenate([private, public])), rows)
        counts = np.bincount(labels[public], minlength=10)
        assert np.ptp(counts) <= 1
    assert seed_set(ROTATED, share) is seeds
    other = seed_set(replace(ROTATED, seed=1), share)
    assert any((a != b).any() for a, b in zip(seeds.public, other.public, strict=True))


def test_public_images_are_no_rotations_of_test_images():
    split, seeds = task_of(ROTATED).split, seed_set(ROTATED, 0.15)
    tested = split.dataset.group[np.concatenate(split.test)]
    shown = split.dataset.group[np.concatenate(seeds.public)]
    assert len(np.unique(tested)) == 30
    assert not set(tested) & set(shown)


def test_every_node_draws_the_same_public_minibatches():
    seeds = seed_set(ROTATED, 0.1)
    first = seeds.batches(3, 7, 16)
    for rows, public in zip(first, seeds.public, strict=True):
        assert len(np.unique(rows)) == 16
        assert set(rows) <= set(public)
    drawn = seed_set(replace(ROTATED, seed=0), 0.1).batches(3, 7, 16)
    np.testing.assert_array_equal(first, drawn)
    assert (np.array(first) != np.array(seeds.batches(3, 8, 16))).any()
    assert [len(rows) for rows in seeds.batches(3, 7, 64)] == [20] * 4


def test_a_node_keeps_a_private_example():
    spec = TaskSpec(partition="iid", clients=10, models=("mlp",), examples=30)
    with pytest.raises(DataError, match=r"client 0 of 10 has 1 training examples, too few"):
        seed_set(spec, 0.1)
    assert [len(rows) for rows in seed_set(spec, 0).private] == [1] * 10


# Steps


def reference(made, client, batches, optimizer):
    """Plain PyTorch over the given minibatches."""
    model = made.build(made.names[client])
    opt = optimizer(model.parameters())
    for rows in batches:
        x, y = made.tensors.batch(made.tensors.rows(rows))
        opt.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        opt.step()
    return model.state_dict()


def test_agg_is_plain_pytorch_whose_optimizer_goes_on_from_round_to_round():
    method = AGG(ROTATED, AMSGRAD, images=40)
    state = play(method, rounds=3)[-1].state
    for client in (0, 3):
        batches = [
            rows
            for t in range(3)
            for rows in method.plans(Call({}, {}, Context(0, t, 0, client)))[0]
        ]
        assert [len(rows) for rows in batches] == [16, 16, 8] * 3
        expected = reference(
            method.loaded,
            client,
            batches,
            lambda p: torch.optim.Adam(p, 1e-3, weight_decay=1e-4, amsgrad=True, foreach=False),
        )
        for n, t in expected.items():
            # To the bit on most processors; on some the vector code of the root and the quotient
            # in one of the two rounds otherwise.
            got = state.clients[client][f"model/{n}"]
            np.testing.assert_allclose(got, t.numpy(), rtol=1e-5, atol=1e-7)


def test_agg_draws_from_its_private_and_all_public_examples():
    method = AGG(ROTATED, SGD, images=10_000)
    (rows,) = (np.concatenate(method.plans(Call({}, {}, Context(0, 0, 0, 2)))[0]),)
    seeds = method.seeds
    expected = np.concatenate([seeds.private[2], *seeds.public])
    np.testing.assert_array_equal(np.unique(rows), np.sort(expected))
    alone = AGG(ROTATED, SGD, public=0.0)
    np.testing.assert_array_equal(alone.rows(2, "all"), method.loaded.split.train[2])


def test_agg_sends_nothing_and_counts_the_images_it_sees():
    one, four = (play(AGG(ROTATED, SGD, images=n))[0] for n in (0, 64))
    assert not one.traffic.up.any()
    assert not one.traffic.down.any()
    made = task_of(ROTATED)
    x, _ = made.tensors.batch(made.tensors.rows(made.split.train[0][:2]))
    per_image = measure(made.model(0), x).training
    np.testing.assert_allclose(one.client_metrics["flops"], 16 * per_image)
    np.testing.assert_allclose(four.client_metrics["flops"], 64 * per_image)


def test_stacked_steps_of_clients_of_different_age_agree_with_sequential_ones():
    from hopfed.federation.participation import Participation

    spec = replace(ROTATED, partition="dirichlet:0.5", clients=4, examples=120)
    ends = []
    for way in ("sequential", "stacked"):
        training = replace(AMSGRAD, way=way, lr=0.01)
        method = AGG(spec, training, images=40)
        played = play(method, rounds=4, participation=Participation(rate=0.5))
        ends.append(played[-1].state.clients)
    ages = {int(state["moments/count"]) for state in ends[0].values()}
    assert len(ages) > 1
    for client, state in ends[0].items():
        for n, array in state.items():
            np.testing.assert_allclose(array, ends[1][client][n], rtol=2e-3, atol=2e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"public": 1.0}, "public must be at least 0 and below 1"),
        ({"labelled": False}, "labelled must be true for agg"),
        ({"images": -1}, "images must be at least 0"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ArgumentError, match=message):
        AGG(ROTATED, SGD, **settings)


# Scores by domain


@pytest.mark.parametrize("clients", [4, 8])
def test_scores_within_and_across_domains_count_every_test_example(clients):
    made = task_of(replace(ROTATED, clients=clients))
    split = made.split
    networks = [Network(made.model(c), noisy(made.initial(c), c)) for c in range(clients)]
    found = domains(networks, made.tensors, split)
    assert found.sizes.tolist() == [30] * 4
    of = np.arange(clients) * 4 // clients
    tests = [
        np.concatenate([rows for rows, k in zip(split.test, of, strict=True) if k == d])
        for d in range(4)
    ]
    for c, network in enumerate(networks):
        right = [correct(network, made.tensors, rows) for rows in tests]
        others = np.concatenate([r for d, r in enumerate(right) if d != of[c]])
        assert found.wdp[c] == right[of[c]].mean()
        np.testing.assert_allclose(found.cdp[c], others.mean())
        np.testing.assert_allclose(found.acc[c], np.concatenate(right).mean())
    assert found.accuracy.std() > 0
    assert found.means()["CDP"] == found.cdp.mean()


def test_shared_classifiers_are_scored_once_and_clients_without_domains_are_their_own():
    made = task_of(TaskSpec(partition="dirichlet:0.5", clients=3, models=("mlp",), examples=200))
    shared = [Network(made.model(0), noisy(made.initial(0), 0))] * 3
    found = domains(shared, made.tensors, made.split, "validation")
    assert found.own.tolist() == [0, 1, 2]
    assert found.sizes.tolist() == made.split.sizes[:, 1].tolist()
    assert (found.accuracy == found.accuracy[0]).all()
    np.testing.assert_allclose(found.acc, found.acc[0])


def test_there_is_no_score_across_domains_where_there_is_one():
    made = task_of(TaskSpec(partition="iid", clients=1, models=("mlp",), examples=100))
    found = domains([Network(made.model(0), made.initial(0))], made.tensors, made.split)
    assert np.isnan(found.cdp).all()
    assert found.wdp == found.acc


def noisy(params, seed):
    generator = torch.Generator().manual_seed(seed)
    return {n: t + torch.randn(t.shape, generator=generator) / 10 for n, t in params.items()}
