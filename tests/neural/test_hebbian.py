"""The Hebbian read-out: its sums, its closed form, and what comes of them in a federation."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from hopfed.errors import ArgumentError, HopfedError  # noqa: E402
from hopfed.federation.contract import EVERYONE, Context  # noqa: E402
from hopfed.federation.engines.local import LocalEngine  # noqa: E402
from hopfed.federation.messages import malformed  # noqa: E402
from hopfed.federation.participation import Participation  # noqa: E402
from hopfed.federation.rounds import play_round  # noqa: E402
from hopfed.kernels import pack  # noqa: E402
from hopfed.neural.methods.hebbian import Hebbian  # noqa: E402
from hopfed.neural.readouts.bits import Filters, Patches, as_bits  # noqa: E402
from hopfed.neural.readouts.ridge import Choice, Sums, log_probabilities, readouts  # noqa: E402
from hopfed.neural.training.task import TaskSpec  # noqa: E402
from hopfed.spectral.sharpening import dream, sharpened_product  # noqa: E402


def played(clients=3, rounds=1, participation=None, **own):
    method = Hebbian(TaskSpec(models=("mlp",), clients=clients, examples=300), filters=6, **own)
    state, found = None, []
    for t in range(rounds):
        found.append(
            play_round(
                method,
                state,
                t,
                seed=0,
                clients=clients,
                engine=LocalEngine(),
                participation=participation,
            )
        )
        state = found[-1].state
    return method, found


@given(st.integers(0, 10**6), st.sampled_from([0.1, 1.0, 7.0]), st.integers(1, 12))
@settings(max_examples=25, deadline=None)
def test_a_read_out_is_the_ridge_solution(seed, ridge, width):
    rng = np.random.default_rng(seed)
    z = np.where(rng.random((30, width)) < 0.5, 1, -1).astype(np.int8)
    y = rng.integers(4, size=30)
    found = readouts(Sums.of(pack(z), y, 4), (ridge,))[0]
    z = z.astype(float)
    wanted = np.linalg.solve(z.T @ z + ridge * 30 * np.eye(width), z.T @ np.eye(4)[y])
    np.testing.assert_allclose(found, wanted, atol=1e-10)


def test_a_read_out_is_an_operator_that_has_dreamed():
    """``W = t / D (B - t / (1 + t) J(t) B) / n`` with J = A / (n D) and t = D / rho."""
    rng = np.random.default_rng(1)
    z = np.where(rng.random((40, 9)) < 0.5, 1, -1).astype(np.int8)
    y, rho, D = rng.integers(3, size=40), 0.3, 9
    sums, t = Sums.of(pack(z), y, 3), D / rho
    B = sums.by_class / 40
    dreamed = sharpened_product(pack(z), B, t)
    np.testing.assert_allclose(
        readouts(sums, (rho,))[0], t / D * (B - t / (1 + t) * dreamed), atol=1e-10
    )
    values, vectors = np.linalg.eigh(sums.operator.matrix / (40 * D))
    through = vectors @ (dream(values, t)[:, None] * (vectors.T @ B))
    np.testing.assert_allclose(dreamed, through, atol=1e-10)


def test_sums_of_clients_are_sums():
    rng = np.random.default_rng(2)
    z = np.where(rng.random((50, 7)) < 0.5, 1, -1).astype(np.int8)
    y = rng.integers(3, size=50)
    whole = Sums.of(pack(z), y, 3)
    parts = Sums.of(pack(z[:20]), y[:20], 3) + Sums.of(pack(z[20:]), y[20:], 3)
    np.testing.assert_array_equal(parts.operator.matrix, whole.operator.matrix)
    np.testing.assert_array_equal(parts.by_class, whole.by_class)
    np.testing.assert_array_equal(readouts(parts, (0.1, 1.0)), readouts(whole, (0.1, 1.0)))


def test_bits_are_what_the_definition_says():
    images = torch.rand(4, 2, 7, 6, generator=torch.Generator().manual_seed(0))
    patches = Patches(2, 7, 6, 3)
    moments = patches.moments(iter([images]))
    filters = Filters.drawn(patches, moments, 5, 2, np.random.default_rng(0))
    features = filters(images)
    assert features.shape == (4, filters.length) == (4, 40)
    # One response by hand: the first patch of the first image under the first filter.
    patch = images[0, :, :3, :3].reshape(-1).numpy()
    patch = (patch - patch.mean()) / np.sqrt(patch.var() + 0.0025)
    response = (patch - filters.mean) @ filters.kernel[:, 0]
    np.testing.assert_allclose(patches.of(images)[0, 0].numpy(), patch, atol=1e-5)
    fine = Filters(patches, filters.kernel, filters.mean, fields=5)(images)  # one position each
    grid = fine.reshape(4, 10, 5, 5)[0, [0, 5], 0, 0]
    top = [max(response - 0.5, 0.0), max(-response - 0.5, 0.0)]
    assert grid.shape == (2,)
    np.testing.assert_allclose(fine.reshape(4, 10, 25)[0, :, 0][[0, 5]], top, atol=1e-5)
    bits = as_bits(features, np.zeros(40))
    assert set(bits.unique().tolist()) <= {-1.0, 1.0}
    assert (bits[:, -1] == 1).all()


def test_patches_larger_than_the_images_are_refused():
    with pytest.raises(ArgumentError, match="patch must be from 1 to 6 pixels"):
        Patches(2, 7, 6, 7)


def test_whitened_filters_see_noise_of_one_size():
    rng = np.random.default_rng(3)
    images = torch.as_tensor(rng.random((60, 1, 12, 12)).cumsum(axis=3), dtype=torch.float32)
    patches = Patches(1, 12, 12, 3)
    filters = Filters.drawn(patches, patches.moments(iter([images])), 200, 1, rng)
    seen = (patches.of(images).reshape(-1, 9).numpy() - filters.mean) @ filters.kernel
    spread = seen.std(axis=0)
    assert spread.max() < 1.1  # the first direction of such patches holds nearly all variance
    assert np.median(spread) > 0.3


def test_any_network_encodes_whose_features_are_bits_at_their_means():
    method, (first,) = played(encoder="network")
    down = first.state.down.get(EVERYONE)
    assert "kernel" not in down
    model, data = method.loaded.model(0), method.loaded.tensors
    rows = np.concatenate(method.loaded.split.train)
    with torch.inference_mode():
        seen = [model.features(x) for x, _ in data.batches(rows)]
    features = torch.cat(seen).flatten(1).double().numpy()
    assert method.n_bits == features.shape[1] + 1
    np.testing.assert_allclose(down["thresholds"], features.mean(axis=0), rtol=1e-5, atol=1e-6)
    bits, labels = method.bits_of(down, 0, "train")
    np.testing.assert_array_equal(bits[:, -1], 1)
    assert set(np.unique(bits)) == {-1, 1}
    found = method.classifier(first.state.clients.get(0), down, 0).of_bits(bits)
    assert (found.argmax(axis=1) == labels).mean() > 0.5
    assert first.traffic.up.max() < 4 * method.n_bits**2


def test_a_network_reads_text():
    task = TaskSpec(data="shakespeare", models=("lstm",), clients=2, examples=300)
    try:
        method = Hebbian(task, encoder="network")
        state = play_round(method, None, 0, seed=0, clients=2, engine=LocalEngine()).state
    except HopfedError as error:
        pytest.skip(str(error))
    down = state.down.get(EVERYONE)
    bits, labels = method.bits_of(down, 1, "test")
    assert method.classifier(state.clients.get(1), down, 1).of_bits(bits).shape[0] == len(labels)
    with pytest.raises(ArgumentError, match="mirror must be false but for images"):
        Hebbian(task, encoder="network", mirror=True).server_start(0)


def test_an_image_and_its_mirror_image_are_two_examples_and_read_alike():
    method, (first,) = played(mirror=True)
    plain, _ = played()
    down = first.state.down.get(EVERYONE)
    data, rows = method.loaded.tensors, method.loaded.split.train[0]
    z, y = method.bits_of(down, 0, "train")
    once, labels = plain.bits_of(down, 0, "train")
    assert set(np.unique(z)) == {-1, 1}
    assert len(z) == 2 * len(once) == 2 * len(rows)
    np.testing.assert_array_equal(np.sort(y), np.sort(np.repeat(labels, 2)))
    assert int(down["examples"]) == 2 * sum(len(r) for r in method.loaded.split.train)
    x, _ = next(iter(data.batches(rows)))
    bits = method._bits(down)
    torch.testing.assert_close(bits(x), bits(x.flip(-1)))
    torch.testing.assert_close(bits(x), (plain._bits(down)(x) + plain._bits(down)(x.flip(-1))) / 2)
    # Filters and thresholds follow from the images alone: only the operator costs twice as much.
    spent = [[m._flops_of(exchange, 0) for exchange in range(4)] for m in (method, plain)]
    np.testing.assert_allclose(np.divide(*spent), [1, 1, 2, 1])


def test_the_classifier_is_the_read_out_of_all_bits():
    method, (first,) = played(reading="global")
    down = first.state.down.get(EVERYONE)
    z, y = zip(*(method.bits_of(down, c, "train") for c in range(3)), strict=True)
    z, y = np.concatenate(z), np.concatenate(y)
    choice = method.choices()[int(down["choice"])]
    eye = choice.ridge * len(z) * np.eye(method.n_bits)
    weights = np.linalg.solve(z.T @ z + eye, z.T @ np.eye(10)[y])
    x, _ = method.loaded.tensors.batch(method.loaded.tensors.rows(method.loaded.split.test[0]))
    bits, _ = method.bits_of(down, 0, "test")
    wanted = log_probabilities(bits @ weights, choice, np.zeros(10))
    for client in range(3):
        found = method.classifier(first.state.clients.get(client), down, client)(x)
        np.testing.assert_allclose(found.numpy(), wanted, atol=1e-6)


def test_alone_no_other_client_matters():
    method, (first,) = played(reading="alone")
    down = dict(first.state.down.get(EVERYONE))
    x, _ = method.loaded.tensors.batch(method.loaded.tensors.rows(method.loaded.split.test[0]))
    before = method.classifier(first.state.clients.get(0), down, 0)(x)
    down["by_class"] = down["by_class"] * 0
    np.testing.assert_array_equal(method.classifier(first.state.clients.get(0), down, 0)(x), before)


def test_one_round_is_enough_and_later_ones_cost_nothing_up():
    method, (first, second) = played(rounds=2)
    assert first.traffic.up.min() > 0
    assert second.traffic.up.tolist() == [0, 0, 0]
    down, later = (p.state.down.get(EVERYONE) for p in (first, second))
    assert all(np.array_equal(down[name], later[name]) for name in down)
    assert set(down) == set(later)


def test_whoever_comes_later_is_added_exactly():
    method, (first,) = played()
    together = first.state.down.get(EVERYONE)
    _, rounds = played(rounds=6, participation=Participation(rate=0.4))
    sizes = [len(p.state.down.get(EVERYONE)["members"]) for p in rounds]
    assert sizes[0] < 3
    assert sizes[-1] == 3
    last = rounds[-1].state.down.get(EVERYONE)
    # With the filters of those who came first, the sums are those of all three.
    parts = [method.bits_of(last, c, "train")[0].astype(int) for c in range(3)]
    whole = np.concatenate(parts)
    operator = method.pooled_sums(last).operator.matrix
    np.testing.assert_array_equal(operator, whole.T @ whole)
    assert int(last["examples"]) == int(together["examples"]) == len(whole)


def test_a_client_that_never_took_part_has_a_read_out():
    method, (first,) = played()
    down = first.state.down.get(EVERYONE)
    x, _ = method.loaded.tensors.batch(method.loaded.tensors.rows(method.loaded.split.test[1]))
    there = method.classifier(first.state.clients.get(1), down, 1)(x)
    np.testing.assert_array_equal(method.classifier({}, down, 1)(x), there)
    assert method.classifier({}, {}, 1)(x).shape == (len(x), 10)


def test_what_no_bits_give_is_malformed():
    method, (first,) = played()
    down = {n: a for n, a in first.state.down.get(EVERYONE).items() if n != "members"}
    context = Context(0, 0, 2, 0)
    _, message, _ = method.client_step({}, down, context)
    spec = method.expects(down, context)
    assert malformed(message, spec) is None
    for name, value in (
        ("by_class", message["by_class"] * 1000),
        ("classes", -message["classes"]),
        ("counts", message["counts"].astype(np.int64) * 10**6),
        ("examples", np.asarray(0)),
    ):
        assert malformed(message | {name: value}, spec) is not None, name


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"filters": 0}, "filters must be at least 1"),
        ({"reading": "loud"}, "reading must be one of personal"),
        ({"patch": 9}, "patch must be from 1 to 8"),
        ({"encoder": "eye"}, "encoder must be one of patches, network"),
        ({"encoder": "network", "bits": "public"}, "bits must be pooled where a network encodes"),
    ],
)
def test_settings_are_checked(own, words):
    task = TaskSpec(models=("mlp",), clients=2, examples=100)
    with pytest.raises(ArgumentError, match=words):
        play_round(Hebbian(task, **own), None, 0, seed=0, clients=2, engine=LocalEngine())


def test_a_prior_shifts_what_is_likely():
    even = log_probabilities(np.zeros((1, 2)), Choice(1.0, 0.0, 4.0, 0.5), np.log([9.0, 1.0]))
    np.testing.assert_allclose(np.exp(even), [[0.75, 0.25]])
