"""Scores: every example once, by client and by domain."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from hopfed.experiments import fl  # noqa: E402
from hopfed.neural.training.evaluation import (  # noqa: E402
    Network,
    accuracies,
    bottom_decile,
    correct,
    domains,
    low_quantile,
)
from hopfed.neural.training.task import TaskSpec, task_of  # noqa: E402

ROTATED = TaskSpec(
    partition="rotation:0,20,40,60:20:same", clients=4, models=("mlp:16",), shares=(75, 10, 15)
)


def networks(made):
    """A network of each client, with weights of its own."""
    draws = [torch.Generator().manual_seed(c) for c in range(len(made.split))]
    noisy = [
        {n: t + torch.randn(t.shape, generator=g) / 10 for n, t in made.initial(c).items()}
        for c, g in enumerate(draws)
    ]
    return [Network(made.model(c), params) for c, params in enumerate(noisy)]


def test_scores_count_every_example_once():
    made = task_of(TaskSpec(models=("mlp:16",), clients=4, examples=400))
    parts, first = (made.split.validation, made.split.test), networks(made)[0]
    apart = accuracies([Network(first.model, first.params) for _ in range(4)], made.tensors, parts)
    np.testing.assert_array_equal(apart, accuracies([first] * 4, made.tensors, parts))
    counts = apart * made.split.sizes[:, 1:].T
    np.testing.assert_allclose(counts, counts.round(), atol=1e-9)


@pytest.mark.parametrize("clients", [4, 8])
def test_scores_within_and_across_domains_count_every_test_example(clients):
    made = task_of(replace(ROTATED, clients=clients))
    split, of = made.split, np.arange(clients) * 4 // clients
    found = domains(networks(made), made.tensors, split)
    assert found.sizes.tolist() == [30] * 4
    pairs = list(zip(split.test, of, strict=True))
    tests = [np.concatenate([rows for rows, k in pairs if k == d]) for d in range(4)]
    for c, network in enumerate(networks(made)):
        right = [correct(network, made.tensors, rows) for rows in tests]
        others = np.concatenate([r for d, r in enumerate(right) if d != of[c]])
        assert found.wdp[c] == right[of[c]].mean()
        np.testing.assert_allclose(found.cdp[c], others.mean())
        np.testing.assert_allclose(found.acc[c], np.concatenate(right).mean())
    assert found.accuracy.std() > 0


def test_clients_without_domains_are_their_own_and_one_has_no_others():
    made = task_of(TaskSpec(partition="dirichlet:0.5", clients=3, models=("mlp:16",), examples=200))
    found = domains(networks(made)[:1] * 3, made.tensors, made.split, "validation")
    assert found.own.tolist() == [0, 1, 2]
    assert found.sizes.tolist() == made.split.sizes[:, 1].tolist()
    assert (found.accuracy == found.accuracy[0]).all()
    alone = task_of(TaskSpec(partition="iid", clients=1, models=("mlp:16",), examples=100))
    found = domains(networks(alone), alone.tensors, alone.split)
    assert np.isnan(found.cdp).all()
    assert found.wdp == found.acc


def test_means_by_size_and_quantiles_are_named_apart():
    accuracy = np.linspace(0.05, 1, 20)
    assert bottom_decile(accuracy) == pytest.approx(0.075)
    assert low_quantile(accuracy) == pytest.approx(0.1)
    assert bottom_decile(np.array([0.5, 0.1, 0.9])) == low_quantile([0.5, 0.1, 0.9]) == 0.1
    sizes = np.zeros((1, 1, 2, 3), int)
    sizes[0, 0, :, 2] = 30, 10
    found = fl.scores_over_clients(np.array([[1.0, 0.5]]), {"sizes": sizes})
    assert found["weighted"].tolist() == [0.875]
