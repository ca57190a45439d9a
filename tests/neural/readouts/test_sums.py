"""Sums with noise: what is guaranteed, sent and lost; and sums of those who come and leave."""

from functools import reduce
from operator import add

import numpy as np
import pytest
from asked import examples, known, play
from hypothesis import given, settings
from hypothesis import strategies as st

from hopfed.errors import ArgumentError
from hopfed.federation.contract import EVERYONE, Context
from hopfed.federation.messages import bad_form
from hopfed.memory.rules import dream
from hopfed.neural.collected_sums import Collected
from hopfed.neural.methods.hebbian import Hebbian, add_client_sums, state_for_clients
from hopfed.neural.readouts.ridge import (
    PrivateSums,
    Spectrum,
    Sums,
    best_ridge,
    predicted_error,
    weigh_other_clients,
)
from hopfed.neural.training.task import TaskSpec
from hopfed.theory.private import noise_multiplier


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
    found = mechanism.scale / noise_multiplier(1.0, 1e-5)
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
    assert sent.operator.dtype == sent.by_class.dtype == np.int64  # so that sums are exact
    noise = numbers(sent.operator, sent.by_class) - exact(z, y, mechanism)
    assert len(noise) == 65 * 32 + 195
    scale = noise_multiplier(1.0, 1e-5) * (65 + 8**2)
    np.testing.assert_allclose(mechanism.scale, scale)
    assert abs(noise.std() / scale - 1) < 5 / np.sqrt(2 * len(noise))
    assert abs(noise.mean()) < 5 * scale / np.sqrt(len(noise))
    without = PrivateSums(65, 3, epsilon=np.inf, delta=1e-5)
    released, wanted = without.release(z, y, np.random.default_rng(0)), Sums.of(z, y, 3)
    found = without.read(released, 200)
    np.testing.assert_array_equal(found.operator, wanted.operator)
    np.testing.assert_array_equal(found.by_class, wanted.by_class)
    np.testing.assert_allclose(found.counts, wanted.counts, atol=1e-6)


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
            sent = reduce(add, (mechanism.release(*part, rng) for part in parts))
            W = Spectrum.of(mechanism.read(sent, 2000)).readouts((ridge,))[0]
            measured.append(((z[2000:] @ W).argmax(axis=1) == y[2000:]).mean())
        error = np.std(measured) / np.sqrt(12)
        assert abs(predicted - np.mean(measured)) < 0.02 + 4 * error
        accuracies.append(predicted)
    assert accuracies[1] - accuracies[0] > 0.1  # so there was something to predict


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
    assert bad_form(message, method.expects({**down, "members": []}, Context(0, 0, 2, 1))) is None
    logs = method.classifier(*known(played.state, 0), 0)(examples(method, 0)[0])
    np.testing.assert_allclose(logs.exp().sum(dim=1), 1.0)


def method(clients=4, **own):
    own = {"filters": 5, "bits": "public", "choose": "own", "keep": True} | own
    return Hebbian(TaskSpec(models=("mlp",), clients=clients, examples=300), **own)


def equal(one, other):
    """Names, kinds of numbers, shapes and bits."""
    assert one.keys() == other.keys()
    for name, array in one.items():
        a, b = np.asarray(array), np.asarray(other[name])
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes()), name


def message(client):
    rng = np.random.default_rng(client)
    counts = rng.integers(-20_000, 20_000, size=6).astype(np.int16)
    by_class = rng.integers(-9, 9, size=(4, 3)).astype(np.int32)
    return {"counts": counts, "by_class": by_class, "examples": np.asarray(20_000)}


def forgotten(state, client):
    return Collected(method(), state).forget(client).state


@given(st.lists(st.integers(0, 5), max_size=30))
@settings(max_examples=60, deadline=None)
def test_only_who_is_there_counts(moves):
    """A client that is named comes, or leaves if it is there."""
    state = {}
    for c in moves:
        there = c in set(np.asarray(state.get("members", ())).tolist())
        state = forgotten(state, c) if there else add_client_sums(state, {c: message(c)}, keep=True)
    left = {c for c in moves if moves.count(c) % 2}
    equal(state, add_client_sums({}, {c: message(c) for c in left}, keep=True) if left else {})


def test_a_choice_of_all_does_not_outlive_who_made_it_and_clients_do_not_see_what_each_gave():
    state = both() | {"choice": np.asarray(3)}
    assert "choice" not in forgotten(state, 1)
    assert "choice" not in add_client_sums(state, {2: message(2)}, keep=True)
    assert sorted(state_for_clients(both())) == ["by_class", "counts", "examples", "members"]


def test_clients_come_and_leave_without_a_trace():
    made = method()
    whole, few = Collected.of(made, range(4)), Collected.of(made, [3, 0])
    played = play(made).state.server  # and so it is in a federation
    equal({n: played[n] for n in whole.state}, whole.state)
    equal(play(made, 8, rate=0.3).state.server, played)  # also where clients come late
    equal(whole.forget(2).forget(1).state, few.state)
    equal(few.admit(1).admit(2).state, whole.state)
    assert few.accuracy().shape == (4,)
    assert few.accuracy().mean() > 0.5
    nobody = few.forget(0).forget(3)
    assert nobody.members == []
    assert nobody.admit(2).members == [2]


def test_noise_is_drawn_from_a_secret_for_each_client():
    private = method(epsilon=30.0)
    one, same, other = (Collected.of(private, [0, 1], bytes([k]) * 32).state for k in (1, 1, 2))
    equal(one, same)
    for name in ("sent/0/counts", "sent/0/by_class", "sent/1/counts"):
        assert not np.array_equal(one[name], other[name])
    exact = Collected.of(method(), [0, 1]).state
    noise = [one[f"sent/{c}/counts"] - exact[f"sent/{c}/counts"] for c in (0, 1)]
    assert abs(np.corrcoef(*noise)[0, 1]) < 0.1
    assert abs(np.std(noise) / private.private.scale - 1) < 0.1


def both():
    return add_client_sums({}, {0: message(0), 1: message(1)}, keep=True)


SHORT = "secret must be 32 bytes"


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: forgotten(both(), 7), "client must be among"),
        (lambda: add_client_sums(both(), {1: message(1)}), "client must be absent from the sums"),
        (lambda: Collected.of(method(keep=False), [0]), "keep must be"),
        (lambda: Collected.of(method(choose="all"), [0]), "choose must be own"),
        (lambda: Collected.of(method(bits="pooled"), [0]), "bits must be public"),
        (lambda: Collected.of(method(epsilon=30.0), [0], b""), SHORT),
        (lambda: Collected.of(method(epsilon=30.0), [0], bytes(32)).admit(1, b"short"), SHORT),
    ],
)
def test_what_cannot_be_is_told(act, words):
    with pytest.raises(ArgumentError, match=words):
        act()


# Ridges from sums, and what examples of a client are worth to another one


def test_a_read_out_is_an_operator_that_has_dreamed():
    """``W = t / D (B - t / (1 + t) J(t) B) / n`` with J = A / (n D) and t = D / rho."""
    rho, D = 0.3, 9
    z, y = drawn(40, D)
    sums, t = Sums.of(z, y, 3), D / rho
    B, found = sums.by_class / 40, Spectrum.of(sums).readouts((rho,))[0]
    values, V = np.linalg.eigh(z.T.astype(float) @ z / z.size)
    dreamed = (V * dream(values.clip(0), t)) @ (V.T @ B)
    np.testing.assert_allclose(found, t / D * (B - t / (1 + t) * dreamed), atol=1e-10)


@pytest.mark.parametrize("n", [60, 15])  # more examples than bits, and fewer
def test_cross_validation_is_the_formula_of_the_smoother(n):
    z, y = drawn(n, 20)
    Y, rho, spectrum = np.eye(3)[y], 0.4, Spectrum.of(Sums.of(z, y, 3))
    z = z.astype(float)
    smoother = z @ np.linalg.solve(z.T @ z + rho * n * np.eye(20), z.T)
    residual = ((Y - smoother @ Y) ** 2).sum()
    wanted = n * residual / np.trace(np.eye(n) - smoother) ** 2
    np.testing.assert_allclose(predicted_error(spectrum, rho), wanted)


def test_the_ridge_is_nearly_as_good_as_the_best_for_new_examples():
    z, y = drawn(4000, 60)
    seen = Spectrum.of(Sums.of(z[:80], y[:80], 3))

    def error(rho):
        scores = z[80:].astype(float) @ seen.readouts((rho,))[0]
        return ((scores - np.eye(3)[y[80:]]) ** 2).sum(axis=1).mean()

    best = min(error(rho) for rho in np.geomspace(1e-3, 1e2, 40))
    assert error(best_ridge(seen)) < 1.03 * best
    assert error(1e-3) > 1.1 * best  # so there was something to choose


def test_no_examples_have_no_ridge():
    empty = Spectrum.of(Sums.of(np.zeros((0, 8), np.int8), np.zeros(0, np.int64), 3))
    assert best_ridge(empty) == 1.0
    assert not empty.readouts((1.0,)).any()


def valued(seed, kinds, counts, D=400):
    """What clients are worth to each other, each kind with its own rates (D, C) of bits."""
    rng, counts = np.random.default_rng(seed), np.asarray(counts)
    rates, every = rng.random((max(kinds) + 1, D, counts.shape[1])), []
    for kind, n in zip(kinds, counts, strict=True):
        ones = rng.binomial(np.broadcast_to(n, rates[kind].shape), rates[kind])
        every.append(Sums(np.eye(D) * n.sum(), 2 * ones - n, n))
    return weigh_other_clients(every), 2 * rates - 1


@pytest.mark.parametrize("seed", range(5))
def test_clients_of_one_kind_count_whole_and_others_little(seed):
    kinds = [0, 0, 1, 1]
    found, means = valued(seed, kinds, np.full((4, 3), 60))
    same = np.equal.outer(kinds, kinds)
    assert found[same].min() > 0.85
    squared, variance = ((means[0] - means[1]) ** 2).sum(), (1 - means**2).sum(axis=(1, 2)).mean()
    np.testing.assert_allclose(found[~same], 1 / (1 + 60 * squared / variance), rtol=0.1)


def test_numbers_and_labels_of_examples_alone_do_not_make_clients_unlike():
    """In all, another kind counts for its variance over the difference's square."""
    found, _ = valued(0, [0, 1, 1], [[50] * 3, [200] * 3, [3200] * 3])
    assert found[0, 1] * 200 == pytest.approx(found[0, 2] * 3200, rel=0.1)
    assert valued(2, [0] * 6, np.random.default_rng(1).integers(2, 200, (6, 3)))[0].min() > 0.8
    for counts in ([[50, 0, 1], [0, 50, 1]], [[0], [0]]):  # that share no class
        np.testing.assert_array_equal(valued(0, [0, 1], counts)[0], np.ones((2, 2)))
