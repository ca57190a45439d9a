"""Nearest prototypes, nearest neighbours and Gaussian processes on the bits of the read-out."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from hopfed.errors import ArgumentError  # noqa: E402
from hopfed.experiments import fl  # noqa: E402
from hopfed.federation.contract import EVERYONE  # noqa: E402
from hopfed.federation.engines.local import LocalEngine  # noqa: E402
from hopfed.federation.rounds import play_round  # noqa: E402
from hopfed.neural.methods.frozen import Frozen  # noqa: E402
from hopfed.neural.methods.hebbian import Hebbian  # noqa: E402
from hopfed.neural.readouts.evidence import best_ridge  # noqa: E402
from hopfed.neural.readouts.ridge import Spectrum  # noqa: E402
from hopfed.neural.training.task import TaskSpec  # noqa: E402

TASK = TaskSpec(models=("mlp",), clients=3, examples=500, partition="dirichlet:1")


def played(cls=Frozen, **own):
    method = cls(TASK, filters=8, **own)
    found = play_round(method, None, 0, seed=0, clients=3, engine=LocalEngine())
    assert not found.faults.words()
    return method, found.state


def test_they_have_the_bits_and_sums_of_the_read_out(one_thread):
    _, wanted = played(Hebbian)
    for reader in ("prototypes", "neighbours"):
        _, state = played(reader=reader)
        for name in ("kernel", "thresholds", "counts", "by_class"):
            np.testing.assert_array_equal(state.server[name], wanted.server[name])


def test_prototypes_are_the_nearest_means_of_all(one_thread):
    method, state = played(reader="prototypes")
    down = state.down.get(EVERYONE)
    z, y = (
        np.concatenate(parts)
        for parts in zip(*(method.bits_of(down, c, "train") for c in range(3)), strict=True)
    )
    means = np.array([z[y == k].mean(axis=0) for k in range(10)])
    x, _ = method.loaded.tensors.batch(method.loaded.tensors.rows(method.loaded.split.test[1]))
    bits, _ = method.bits_of(down, 1, "test")
    nearest = ((bits[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    found = method.classifier(state.clients.get(1), down, 1)(x).argmax(dim=1)
    np.testing.assert_array_equal(found.numpy(), nearest)


def test_without_neighbours_it_is_the_read_out_of_all(one_thread):
    method, state = played(reader="neighbours")
    down = state.down.get(EVERYONE)
    spectrum = Spectrum.of(method.pooled_sums(down))
    W = spectrum.readouts((best_ridge(spectrum, "gcv"),))[0]
    bits, _ = method.bits_of(down, 1, "test")
    reader = method._reader(down, 1)
    np.testing.assert_array_equal(
        reader((0.0, 8.0))(bits).argmax(axis=1), (bits @ W).argmax(axis=1)
    )
    own, labels = method.bits_of(down, 1, "train")
    _, first = np.unique(own, axis=0, return_index=True)
    memory = reader((1.0, 8.0))(own[first]).argmax(axis=1)  # each is its own nearest neighbour
    assert (memory == labels[first]).mean() > 0.85


@pytest.mark.parametrize("reader", ["prototypes", "neighbours", "process"])
def test_they_learn(reader, one_thread):
    if reader == "process":
        pytest.importorskip("gpytorch", reason="gpytorch is not installed")
    method, state = played(reader=reader)
    assert fl.scores_of(method, state)[1].mean() > 0.7
    x, _ = method.loaded.tensors.batch(method.loaded.tensors.rows(method.loaded.split.test[0]))
    logs = method.classifier(state.clients.get(0), state.down.get(EVERYONE), 0)(x)
    np.testing.assert_allclose(logs.exp().sum(dim=1), 1.0, atol=1e-6)


def test_a_reader_is_one_of_three():
    with pytest.raises(ArgumentError, match="reader must be one of prototypes"):
        Frozen(TASK, reader="oracle")
