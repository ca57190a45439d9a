"""Parts of networks that clients share: heads, projections, matrices, truncated updates, rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed")

from asked import Asked  # noqa: E402

from hopfed._lib.random import stream  # noqa: E402
from hopfed.federation.contract import EVERYONE, Context  # noqa: E402
from hopfed.federation.engines.local import LocalEngine  # noqa: E402
from hopfed.federation.participation import Participation  # noqa: E402
from hopfed.federation.rounds import play_round  # noqa: E402
from hopfed.neural.method import Client, below, pack  # noqa: E402
from hopfed.neural.methods import method  # noqa: E402
from hopfed.neural.methods.lg_fedavg import supervised_contrast  # noqa: E402
from hopfed.neural.methods.pairs import truncate  # noqa: E402
from hopfed.neural.training.evaluation import Network  # noqa: E402
from hopfed.neural.training.losses import Batch, Net  # noqa: E402
from hopfed.neural.training.task import TaskSpec  # noqa: E402
from hopfed.neural.training.training import Training  # noqa: E402

TASK = TaskSpec(models=("mlp:20",), clients=4, examples=300, partition="classes:4")


def make(name, task=TASK, **settings):
    return method(name)(task, Training(lr=0.05, way="sequential"), **settings)


def play(made, rounds, participation=None, each=None):
    state, who = None, participation
    for t in range(rounds):
        played = play_round(
            made, state, t, seed=0, clients=4, engine=LocalEngine(), participation=who
        )
        state = played.state
        if each:
            each(played)
    return played


def test_the_schedule_of_fedssa_at_its_ends():
    made = make("fedssa", fusion="normalised", stable=10, mu_0=0.5)
    assert made.mu(0) == 0.5
    assert made.mu(10) == pytest.approx(0, abs=1e-15)
    assert made.mu(11) == 0
    assert made.mu(5) == pytest.approx(0.5 * np.sqrt(0.5))


def test_rows_that_nobody_sent_or_that_a_client_has_not_seen_keep_their_history():
    made = make("fedssa")
    seen = made.seen(0)
    rows = np.ones((seen.sum(), 21), np.float32)
    rows[1] = 0  # nobody has sent this one yet
    params = made.blended(Client(made, {}, Context(0, 1, 0, 0)), {"rows": rows})
    own, kept = made.initial(0)["head.bias"], ~seen
    kept[np.flatnonzero(seen)[1]] = True
    np.testing.assert_array_equal(params["head.bias"][kept], own[kept])
    assert (params["head.bias"][~kept] != own[~kept]).all()
    # Without client 0 a class that it alone holds keeps the last global row.
    start = made.server_start(0)
    start["head"][:] = 9.0
    only = seen & ~np.stack([made.seen(c) for c in (1, 2, 3)]).any(axis=0)
    few = {c: {"rows": np.zeros((made.seen(c).sum(), 21), np.float32)} for c in (1, 2, 3)}
    after, *_ = made.play(start, Asked(few))
    assert (after["head"][only] == 9).all()
    assert (after["head"][made.seen(1)] == 0).all()


def test_the_five_models_of_the_paper_share_one_head():
    task = TaskSpec(models=tuple(f"cnn-{n}" for n in range(1, 6)), clients=5, examples=100)
    made = make("fedssa", task)
    forms = [made.expects({}, Context(0, 0, 0, c))["rows"].shape for c in range(5)]
    assert forms == [(made.seen(c).sum(), 501) for c in range(5)]


def test_what_a_client_of_lg_fedavg_is_scored_by():
    own, mean = make("lg-fedavg").initial(0), {"head/bias": np.ones(10, np.float32)}
    kept, given_ = (
        m.personal(*m.readied(pack(own), mean, 0))["head.bias"]
        for m in (make("lg-fedavg", scored=how) for how in ("local", "global"))
    )
    assert torch.equal(kept, own["head.bias"])
    assert (given_ == 1).all()


@pytest.mark.parametrize("labels", [[0, 1, 0, 1, 2], [0, 0, 0, 0, 0], [0, 1, 2, 3, 4], [3]])
def test_rows_that_pad_a_batch_are_not_contrasted(labels):
    z = np.random.default_rng(0).standard_normal((len(labels), 4))
    features, y = torch.as_tensor(z).requires_grad_(), torch.tensor(labels)
    loss = supervised_contrast(features, y, None, 0.3)
    (gradient,) = torch.autograd.grad(loss, features)
    assert gradient.isfinite().all()
    padded = torch.cat([features, torch.full((2, 4), 7.0, dtype=features.dtype)])
    mask = torch.tensor([1.0] * len(labels) + [0.0] * 2, dtype=features.dtype)
    more = supervised_contrast(padded, torch.cat([y, y[:1], y[:1]]), mask, 0.3)
    torch.testing.assert_close(more, loss)
    zeros = torch.zeros(3, 4, requires_grad=True)
    (gradient,) = torch.autograd.grad(
        supervised_contrast(zeros, torch.tensor([0, 0, 1]), None, 0.1), zeros
    )
    assert gradient.isfinite().all()


def test_the_nearest_prototype_wins_and_unknown_classes_never():
    made = make("fedproto", nearest=True)
    x = made.loaded.tensors.batch(made.loaded.tensors.rows(made.loaded.split.test[0]))[0]
    assert isinstance(made.classifier({}, {}, 0), Network)
    features = made.loaded.model(0).features.eval()(x).detach().numpy()
    down = {"labels": np.array([7, 2]), "rows": features[:2]}
    scores = made.classifier(pack(made.initial(0)), down, 0)(x)
    assert scores.argmax(dim=1)[:2].tolist() == [7, 2]
    assert torch.isinf(scores[:, [0, 1, 3, 4, 5, 6, 8, 9]]).all()


def test_prototypes_outlive_their_holders_and_labels_of_nobody_are_left_out():
    made = make("fedproto")

    def rows(labels, value):
        values = np.full((len(labels), 20), value, np.float32)
        counts = np.ones(len(labels), np.int32)
        return {"labels": np.array(labels, np.int32), "rows": values, "counts": counts}

    state, *_ = made.play(made.server_start(0), Asked({0: rows([1, 3], 2)}))
    state, down, _ = made.play(state, Asked({1: rows([3, 99], 5)}))
    assert down[EVERYONE]["labels"].tolist() == [1, 3]
    np.testing.assert_array_equal(down[EVERYONE]["rows"][:, 0], [2, 5])
    assert made.play(state, Asked({}))[1][EVERYONE]["labels"].tolist() == [1, 3]


def test_a_client_that_fits_its_examples_is_not_divided_by_nothing():
    sure = torch.tensor([[40.0, 0.0]])
    net = Net(lambda *_: [(torch.zeros(1, 2), sure), (torch.ones(1, 2), sure)], {})
    batch = Batch(torch.zeros(1), torch.tensor([0]))
    assert float(make("fedkd").objective(net, batch)) == pytest.approx(2 / 0.1)


def test_both_ends_of_fedkd_hold_the_same_model_whoever_was_absent_or_late():
    made, kinds = make("fedkd", proxy="mlp:8", rounds=6), set()
    np.testing.assert_allclose([made.energy(t) for t in (0, 5, 9)], [0.95, 0.98, 0.98])

    def check(played):
        server = {n[6:]: a for n, a in played.state.server.items() if n.startswith("model/")}
        for c in range(4):
            own = played.state.clients.get(c, {})
            down = played.state.down.get(c, played.state.down[EVERYONE])
            kinds.add(any(n.startswith("update/") for n in down))
            for name, tensor in below(made.begin(*made.readied(own, down, c)), "shared").items():
                np.testing.assert_array_equal(tensor.numpy(), server[name])

    play(made, 6, Participation(rate=0.75, late=0.4, delay=2), check)
    assert kinds == {True, False}


@given(st.integers(0, 99), st.integers(1, 7), st.integers(1, 7), st.sampled_from([0.3, 0.95, 1.0]))
def test_the_truncation_is_that_of_a_singular_value_decomposition(seed, m, n, energy):
    matrix = stream(seed, "matrix").normal(size=(m, n))
    rows = truncate(matrix, energy)
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    shares, k = np.cumsum(values**2) / (values**2).sum(), len(rows)
    assert shares[k - 1] >= energy - 1e-9
    assert k == 1 or shares[k - 2] < energy + 1e-9
    expected = (left[:, :k] * values[:k]) @ right[:k]
    np.testing.assert_allclose(rows[:, :m].T @ rows[:, m:], expected, atol=1e-8)


def test_one_direction_is_always_kept_and_what_is_not_finite_stays_visible():
    for matrix in (np.zeros((4, 3)), np.zeros((1, 1)), np.diag([5.0, 1e-9, 0.0])):
        assert truncate(matrix, 0.95).shape == (1, sum(matrix.shape))
    assert np.isnan(truncate(np.array([[np.inf, 1.0], [0.0, 1.0]]), 0.9)).all()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_a_band_of_fedral_has_the_entries_of_its_diagonals(share):
    made = make("fedral", least=share, levels=2)
    b = int(np.ceil(share * 19))
    assert made.band(0).all()
    assert made.band(1).sum() == 20 * (2 * b + 1) - b * (b + 1)
    kept = play(made, 1).state.clients[1]["model/shared.weight"]
    np.testing.assert_array_equal(kept[~made.band(1)], 0)
