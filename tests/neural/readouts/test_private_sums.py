"""Read-outs from sums with noise: what is guaranteed, what is sent, and what it costs."""

import numpy as np
from asked import examples, known, play

from hopfed.federation.contract import EVERYONE, Context
from hopfed.federation.messages import malformed
from hopfed.neural.methods.hebbian import Hebbian
from hopfed.neural.readouts.private_sums import PrivateSums
from hopfed.neural.readouts.ridge import Spectrum, Sums
from hopfed.neural.training.task import TaskSpec


def drawn(n, width=17, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    patterns = np.where(rng.random((classes, width)) < 0.5, 1, -1)
    z = np.where(rng.random((n, width)) < 0.75, 1, -1) * patterns[y]
    z[:, -1] = 1
    return z.astype(np.int8), y


def numbers(operator, by_class):
    below = np.tri(len(operator), k=-1, dtype=bool)
    return np.concatenate([operator[below], by_class.ravel()])


def exact(z, y, mechanism):
    """The numbers of a release without its noise, one after the other."""
    z = z.astype(float)
    by_class = mechanism.weight * z.T @ np.eye(mechanism.classes)[y]
    return numbers(z.T @ z, by_class)


def test_no_example_moves_a_release_by_more_than_the_sensitivity():
    mechanism = PrivateSums(17, 3, epsilon=1.0, delta=1e-5)
    assert mechanism.weight == 4
    found = mechanism.mechanism.sensitivity(17 + 3)
    np.testing.assert_allclose(found, 17 + 4**2)  # D + w^2
    rng, largest = np.random.default_rng(0), 0.0
    base = exact(*drawn(5), mechanism)
    for _ in range(500):
        z = np.where(rng.random((2, 17)) < rng.choice([0.1, 0.5, 0.9]), 1, -1)
        z[1, rng.random(17) < 0.5] *= rng.choice([-1, 1])
        z[:, -1] = 1
        y = rng.integers(3, size=2)
        one, other = (base + exact(z[i : i + 1], y[i : i + 1], mechanism) for i in (0, 1))
        largest = max(largest, float(np.linalg.norm(one - other)))
    assert 0.85 * found < largest <= found + 1e-9


def test_noise_is_what_the_mechanism_says():
    mechanism = PrivateSums(65, 3, epsilon=1.0, delta=1e-5)
    z, y = drawn(200, 65)
    sent = mechanism.release(z, y, np.random.default_rng(0))
    noise = numbers(sent.operator, sent.by_class) - exact(z, y, mechanism)
    assert len(noise) == 65 * 32 + 195
    scale = mechanism.mechanism.noise_multiplier * (65 + 8**2)
    np.testing.assert_allclose(mechanism.scale, scale)
    assert abs(noise.std() / scale - 1) < 5 / np.sqrt(2 * len(noise))
    assert abs(noise.mean()) < 5 * scale / np.sqrt(len(noise))


def test_releases_are_integers_that_add_up_exactly():
    mechanism = PrivateSums(17, 3, epsilon=0.5, delta=1e-6)
    rng = np.random.default_rng(1)
    sent = [mechanism.release(*drawn(40, seed=c), rng) for c in range(5)]
    assert all(each.operator.dtype == each.by_class.dtype == np.int64 for each in sent)
    back = Sums.sum(sent) - sent[3]
    np.testing.assert_array_equal(back.operator, Sums.sum(sent[:3] + sent[4:]).operator)


def test_accuracy_is_predicted():
    """From the sums without noise, against the mean over draws of the noise; ridges at its norm."""
    width, clients = 41, 4
    z, y = drawn(4000, width, classes=4)
    parts = [(z[i:2000:clients], y[i:2000:clients]) for i in range(clients)]
    whole = Spectrum.of(Sums.of(z[:2000], y[:2000], 4))
    accuracies = []
    for epsilon in (0.25, 4.0):
        mechanism = PrivateSums(width, 4, epsilon, 1e-5)
        ridge = 1 + mechanism.radius(clients) / 2000
        predicted = mechanism.predicted_accuracy(whole, ridge, clients, z[2000:], y[2000:])
        measured = []
        for seed in range(12):
            rng = np.random.default_rng(seed)
            sent = Sums.sum([mechanism.release(*part, rng) for part in parts])
            W = Spectrum.of(mechanism.read(sent, 2000)).readouts((ridge,))[0]
            measured.append(((z[2000:] @ W).argmax(axis=1) == y[2000:]).mean())
        error = np.std(measured) / np.sqrt(12)
        assert abs(predicted - np.mean(measured)) < 0.02 + 4 * error
        accuracies.append(predicted)
    assert accuracies[1] - accuracies[0] > 0.1  # so there was something to predict


def test_without_noise_nothing_changes():
    mechanism = PrivateSums(17, 3, epsilon=np.inf, delta=1e-5)
    z, y = drawn(60)
    found = mechanism.read(mechanism.release(z, y, np.random.default_rng(0)), 60)
    wanted = Sums.of(z, y, 3)
    np.testing.assert_array_equal(found.operator, wanted.operator)
    np.testing.assert_array_equal(found.by_class, wanted.by_class)
    np.testing.assert_allclose(found.counts, wanted.counts, atol=1e-6)


def test_in_a_federation_only_noisy_sums_leave_a_client():
    task = TaskSpec(models=("mlp",), clients=3, examples=400)
    method = Hebbian(task, filters=4, bits="public", choose="own", epsilon=5.0)
    played = play(method)
    assert not played.faults.words()
    numbers = 33 * 16 + 33 * 10 + 1
    assert played.traffic.up.max() <= 4 * numbers + 8  # one message, nothing else
    down = played.state.down.get(EVERYONE)
    state, message, _ = method.client_step({}, down | {"members": []}, Context(0, 0, 2, 1))
    assert not np.array_equal(message["counts"], state["counts"])  # which the client keeps
    assert malformed(message, method.expects({**down, "members": []}, Context(0, 0, 2, 1))) is None
    logs = method.classifier(*known(played.state, 0), 0)(examples(method, 0)[0])
    np.testing.assert_allclose(logs.exp().sum(dim=1), 1.0)
