"""SoHip's server as a Hopfield federation: memories in groups, one for each archetype."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")

from asked import Asked

from hopfed.federation.contract import EVERYONE
from hopfed.neural.methods.sohip import SoHip, group
from hopfed.neural.training.task import TaskSpec


def make(clients):
    task = TaskSpec(clients=clients, models=("mlp",), examples=300, partition="dirichlet:5")
    return SoHip(task, aggregation="hopfield")


def kinds(n, m=64, seed=0):
    """n memories, by turns of two kinds."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((2, m))[np.arange(n) % 2]
    return (rows + 0.2 * rng.standard_normal(rows.shape)).astype(np.float32)


def test_memories_are_grouped_by_archetype():
    memories = kinds(10)
    weights = np.arange(1.0, 11.0)
    found = group(memories, weights, seed=0)
    assert found.count == 2
    for parity in (0, 1):
        mine = np.arange(10) % 2 == parity
        assert len(set(found.labels[mine])) == 1
        mean = np.average(memories[mine], axis=0, weights=weights[mine])
        np.testing.assert_allclose(found.means[mine], np.tile(mean, (5, 1)), rtol=1e-5, atol=1e-6)


def test_opposite_memories_are_two_groups_and_noise_is_none():
    one = np.random.default_rng(0).standard_normal(64)
    found = group(np.outer([1, -1, 1, -1, 1], one), np.ones(5), seed=0)
    assert found.count == 2
    np.testing.assert_array_equal(found.labels == found.labels[0], [1, 0, 1, 0, 1])
    for seed in range(5):
        noise = np.random.default_rng(seed).standard_normal((10, 64))
        assert group(noise, np.ones(10), seed) is None


def hopfield_step(method, memories, state=None, t=0):
    sent = {c: {"memory": memory[None]} for c, memory in memories.items()}
    return method.play(state or {}, Asked(sent, t))


def test_every_client_gets_the_archetype_that_it_is_nearest_to():
    method = make(clients=10)
    memories = kinds(10)
    state, down, metrics = hopfield_step(method, dict(enumerate(memories[:9])))
    assert metrics == {"archetypes": 2}
    sizes = method.loaded.split.sizes[:9, 0]
    for c in range(9):
        mine = np.arange(9) % 2 == c % 2
        mean = np.average(memories[:9][mine], axis=0, weights=sizes[mine])
        np.testing.assert_allclose(down[c]["memory"][0], mean, rtol=1e-4, atol=1e-5)
    everyone = np.average(memories[:9], axis=0, weights=sizes)
    np.testing.assert_allclose(down[EVERYONE]["memory"][0], everyone, rtol=1e-4, atol=1e-5)
    assert 9 not in down
    # Who is absent in the next round is answered all the same, by what it sent last.
    _, later, _ = hopfield_step(method, {9: memories[9]}, state, t=1)
    assert set(later) == {EVERYONE, *range(10)}
    mine = np.arange(10) % 2 == 0
    mean = np.average(memories[mine], axis=0, weights=method.loaded.split.sizes[mine, 0])
    np.testing.assert_allclose(later[0]["memory"][0], mean, rtol=1e-4, atol=1e-5)


def test_without_evidence_everyone_gets_the_mean_and_the_metric_says_so():
    method = make(clients=4)
    noise = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
    for memories in ({0: noise[0]}, dict(enumerate(noise))):
        _, down, metrics = hopfield_step(method, memories)
        plain = SoHip(method.task)
        _, mean, _ = plain.play({}, Asked({c: {"memory": m[None]} for c, m in memories.items()}))
        assert metrics == {"archetypes": 0}
        assert set(down) == {EVERYONE}
        np.testing.assert_array_equal(down[EVERYONE]["memory"], mean[EVERYONE]["memory"])


def test_one_archetype_for_all_is_the_mean_to_the_bit():
    method = make(clients=4)
    memories = dict(enumerate(kinds(8)[::2]))
    _, down, metrics = hopfield_step(method, memories)
    assert metrics["archetypes"] == 1
    for c in range(4):
        np.testing.assert_array_equal(down[c]["memory"], down[EVERYONE]["memory"])
