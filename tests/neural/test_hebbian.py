"""The Hebbian read-out: its sums, its closed form, and what comes of them in a federation."""

import numpy as np
import pytest
import torch
from asked import examples, known, play

from hopfed.federation.contract import EVERYONE, Context
from hopfed.federation.messages import bad_form
from hopfed.neural.methods.hebbian import AFL, Hebbian, SAFLe, pack_sums, unpack_sums
from hopfed.neural.readouts.codes import CODES, Components
from hopfed.neural.readouts.ridge import (
    ReadoutChoice,
    Spectrum,
    Sums,
    best_ridge,
    log_probabilities,
    mix_readouts,
    solve_readout,
)
from hopfed.neural.training.task import TaskSpec


def played(rounds=1, rate=1.0, **own):
    """The method, all rounds of it, and what it sends to everyone after the last one."""
    task, found = TaskSpec(models=("mlp",), clients=3, examples=300), []
    method = Hebbian(task, filters=6, **own)
    play(method, rounds, each=found.append, rate=rate)
    return method, found, found[-1].state.down[EVERYONE]


def test_an_image_and_its_mirror_image_are_two_examples_and_read_alike():
    (method, _, down), (plain, _, _) = played(mirror=True), played()
    x, _ = examples(method, 0, "train")
    z, y = method.bits_of(down, 0, "train")
    once, labels = plain.bits_of(down, 0, "train")
    assert set(np.unique(z)) == {-1, 1}
    assert len(z) == 2 * len(once) == 2 * len(x)
    np.testing.assert_array_equal(np.sort(y), np.sort(np.repeat(labels, 2)))
    assert int(down["examples"]) == 2 * sum(len(r) for r in method.loaded.split.train)
    bits = method._bits(down)
    torch.testing.assert_close(bits(x), bits(x.flip(-1)))
    torch.testing.assert_close(bits(x), (plain._bits(down)(x) + plain._bits(down)(x.flip(-1))) / 2)
    # Filters and thresholds follow from the images alone: only the operator costs twice as much.
    spent = [[m._flops_of(question, 0) for question in m.questions] for m in (method, plain)]
    np.testing.assert_allclose(np.divide(*spent), [1, 1, 2, 1])


def test_one_round_is_enough_also_for_a_client_that_never_took_part():
    method, (first, second), later = played(rounds=2)
    assert first.traffic.up.min() > 0
    assert second.traffic.up.tolist() == [0, 0, 0]
    np.testing.assert_equal(first.state.down[EVERYONE], later)
    x, _ = examples(method, 1)
    there = method.classifier(*known(second.state, 1), 1)(x)
    np.testing.assert_array_equal(method.classifier({}, later, 1)(x), there)
    assert method.classifier({}, {}, 1)(x).shape == (len(x), 10)


def test_what_no_bits_give_is_malformed():
    method, _, down = played()
    down = {n: a for n, a in down.items() if n != "members"}
    context = Context(0, 0, 2, 0)
    _, message, _ = method.client_step({}, down, context)
    spec = method.expects(down, context)
    assert bad_form(message, spec) is None
    for name, value in (
        ("by_class", message["by_class"] * 1000),
        ("classes", -message["classes"]),
        ("counts", message["counts"].astype(np.int64) * 10**6),
        ("examples", np.asarray(0)),
    ):
        assert bad_form(message | {name: value}, spec) is not None, name


def test_a_prior_shifts_what_is_likely_and_likely_settings_are_mixed_by_their_shares():
    even = log_probabilities(
        np.zeros((1, 2)), ReadoutChoice(1.0, 0.0, 4.0, 0.5), np.log([9.0, 1.0])
    )
    np.testing.assert_allclose(np.exp(even), [[0.75, 0.25]])
    choice, shares = ReadoutChoice(1.0, 0.0, 1.0, 0.0), np.array([0.25, 0.75])
    each = [log_probabilities(row[None], choice, np.zeros(2)) for row in np.eye(2)]
    logs = mix_readouts(np.array(each), shares)
    e = np.e / (1 + np.e)
    np.testing.assert_allclose(np.exp(logs), [shares @ [[e, 1 - e], [1 - e, e]]])


def features():
    """Features (n, d), none below 0, and labels."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 300)
    return np.abs(rng.normal(size=(300, 12)) + 2 * np.eye(12)[labels]), labels


def down_of(made):
    return play(made).state.down[EVERYONE]


def of_features(kind, clients=3, data=None, **own):
    how = {"models": ("mlp:4",), "clients": clients, "scaling": "none", "partition": "iid"}
    return kind(TaskSpec(data=data or features(), **how), **own)


@pytest.mark.parametrize(("clients", "own"), [(2, {}), (30, {}), (30, {"random": 20})])
def test_afl_is_pooled_ridge_whoever_has_the_examples(clients, own):
    made = of_features(AFL, clients, **own)
    down, rows = down_of(made), np.concatenate(made.loaded.split.train)
    x, y = (a[rows] for a in features())
    inputs = torch.as_tensor(x, dtype=torch.float32)
    pooled = pack_sums(Sums.of(made._bits(down)(inputs).numpy(), y, 3), len(y))
    for name, array in pooled.items():
        np.testing.assert_array_equal(down[name], array)
    z = made._features(down)(inputs).double().numpy()
    z = np.c_[z, np.ones(len(z))]
    spectrum = Spectrum.of(unpack_sums(down))
    ridge = best_ridge(spectrum) / CODES["floats"] ** 2  # codes are so many times features
    wanted = z @ np.linalg.solve(z.T @ z + ridge * len(z) * np.eye(z.shape[1]), z.T @ np.eye(3)[y])
    found = made._bits(down)(inputs).numpy() @ made._weights({}, down, 0)[0](0.0, 0.0)
    np.testing.assert_allclose(found, wanted, atol=2e-3)  # features are rounded to 1 in 4,096


def test_the_discriminant_is_fishers():
    lda = pytest.importorskip("sklearn.discriminant_analysis")
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 400)
    x = np.rint(rng.normal(size=(400, 6)) * 8 + 9 * np.eye(6)[y] + 20)
    W = solve_readout(Sums.of(np.c_[x, np.full(400, 16)], y, 3), 1e-9, True)
    due = lda.LinearDiscriminantAnalysis(solver="lsqr").fit(x, y)
    ours = W[:-1] - W[:-1, :1]  # scores are known up to a constant of all classes, and a factor
    wanted = (due.coef_ - due.coef_[:1]).T
    factor = (wanted * ours).sum() / (ours**2).sum()
    np.testing.assert_allclose(factor * ours, wanted, rtol=1e-6, atol=1e-9)
    means = np.array([x[y == c].mean(axis=0) for c in range(3)]) - x.mean(axis=0)
    half = (factor * W[:-1].T * means).sum(axis=1) / 4  # of the offset, from the centre
    offset = 16 * factor * W[-1] + x.mean(axis=0) @ (factor * W[:-1])
    np.testing.assert_allclose(offset, -half, rtol=1e-6)


def test_components_are_those_of_a_gaussian_kernel():
    rng = np.random.default_rng(2)
    y = rng.integers(0, 2, 500)
    x = np.rint(3 * (rng.normal(size=(500, 3)) * [0.3, 0.5, 0.2] + 2 + y[:, None]))
    made = Components.of(Sums.of(np.c_[x, np.full(500, 3)], y, 2), 3, 100, seed=0)
    seen = torch.as_tensor(x[:60] / 3, dtype=torch.float32)
    found = torch.cdist(made(seen), made(seen)).numpy() ** 2
    placed = seen @ torch.as_tensor(made.metric)
    apart = torch.cdist(placed, placed).numpy() ** 2
    wanted = 1 - np.exp(-apart / made.size)  # half the squared distance of what the kernel maps to
    factor = (found * wanted).sum() / (wanted**2).sum()
    assert np.abs(found / factor - wanted).max() < 0.02


def test_rows_drawn_of_features_that_are_never_negative_have_their_moments_and_zeros():
    rng = np.random.default_rng(7)
    y = rng.integers(0, 2, 4000)
    x = np.maximum(rng.normal(size=(4000, 3)) + np.array([[-0.5, 0, 1], [0.5, -1, 2]])[y], 0)
    sums = Sums.of(np.c_[np.rint(300 * x), np.full(4000, 300)], y, 2)
    made = Components.of(sums, 300, 1500, seed=1)
    drawn = made.rows @ np.linalg.inv(made.metric)
    assert drawn.min() > -1e-4
    np.testing.assert_allclose(drawn.mean(axis=0), x.mean(axis=0), atol=0.06)
    np.testing.assert_allclose(np.cov(drawn.T), np.cov(x.T), atol=0.12)
    np.testing.assert_allclose((drawn < 1e-4).mean(axis=0), (x == 0).mean(axis=0), atol=0.06)


def test_components_read_classes_that_no_line_separates():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(600, 4)) + 4
    labels = (((x - 4) ** 2).sum(axis=1) > 3.4).astype(int)
    whole = {"components": 100, "reading": "global", "ridge": "gcv"}
    made = of_features(AFL, data=(x, labels)), of_features(Hebbian, data=(x, labels), **whole)
    right = []
    for method in made:
        read = method.classifier(*known(play(method).state, 0), 0)
        tests = [examples(method, c) for c in range(3)]
        right.append(np.concatenate([read(x).argmax(dim=1) == y for x, y in tests]).mean())
    assert right[1] > max(right[0] + 0.15, 0.8)


def test_safle_reads_bits_and_their_products():
    made = of_features(SAFLe)
    z, _ = made.bits_of(down_of(made), 1, "train")
    assert made.n_bits == z.shape[1] == 25
    np.testing.assert_array_equal(z[:, 12:24], z[:, 0:12] * np.roll(z[:, 0:12], -1, axis=1))


def cut(k):
    return lambda inputs: inputs[:, 0, k]


def net():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 9), torch.nn.ReLU())


@pytest.mark.parametrize("encoder", ["network", "rows", cut(2), net()])
def test_features_of_any_encoder_are_bits_at_their_means(encoder):
    method, _, down = played(encoder=encoder, code="bits")
    train, data = method.loaded.split.train, method.loaded.tensors
    own = {"network": method.loaded.model(0).features, "rows": torch.nn.Identity()}

    def seen(rows):
        with torch.no_grad():
            found = [own.get(encoder, encoder)(x) for x, _ in data.batches(rows)]
        return torch.cat(found).flatten(1).double().numpy()

    every = seen(np.concatenate(train))
    np.testing.assert_allclose(down["thresholds"], every.mean(axis=0), rtol=1e-5, atol=1e-6)
    bits, _ = method.bits_of(down, 1, "train")
    assert bits.shape[1] == method.n_bits == every.shape[1] + 1
    np.testing.assert_array_equal(bits[:, -1], 1)
    np.testing.assert_array_equal(bits[:, :-1] > 0, seen(train[1]) >= down["thresholds"])


def test_an_encoder_that_is_given_has_a_digest():
    mine = net()
    method, _, down = played(encoder=mine)
    with torch.no_grad():
        mine[1].weight += 1
    assert Hebbian(method.task, encoder=mine).encoder != method.encoder
    other = {n: a for n, a in down.items() if n != "members"} | {"encoder": down["encoder"] + 1}
    with pytest.raises(RuntimeError, match="encoder must be the encoder of the server"):
        method.client_step({}, other, Context(0, 0, 2, 0))
    assert len({Hebbian(method.task, encoder=cut(k)).encoder for k in (2, 3)}) == 2


@pytest.mark.parametrize(("code", "root"), [("auto", False), ("roots", True)])
def test_rows_are_read_in_steps_of_their_spread(code, root):
    made = of_features(Hebbian, code=code)
    z, _ = made.bits_of(down_of(made), 1, "train")
    x = np.sqrt(features()[0]) if root else features()[0]
    every = x[np.concatenate(made.loaded.split.train)]
    spread = np.sqrt(every.var(axis=0).mean())
    wanted = (x[made.loaded.split.train[1]] - every.mean(axis=0)) * 16 / spread
    np.testing.assert_allclose(z[:, :-1], wanted, atol=0.51)  # rounded to whole numbers
    np.testing.assert_array_equal(z[:, -1], 16)


def test_clients_that_turn_images_alike_help_each_other():
    """Mean over clients, of three rotations, of the loss of a test example."""
    how = {"partition": "rotation:0,60,180", "shares": (6.0, 1.0, 3.0)}
    losses = []
    for pooling in ("equal", "resembling"):
        method = Hebbian(TaskSpec(models=("mlp",), clients=6, **how), filters=16, pooling=pooling)
        state = play(method).state
        for c in range(6):
            x, y = examples(method, c)
            logs = method.classifier(*known(state, c), c)(x)
            losses.append(-float(logs[np.arange(len(y)), y].mean()))
    assert np.mean(losses[6:]) < 0.9 * np.mean(losses[:6])
