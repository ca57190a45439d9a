"""FedSSA, LG-FedAvg and FedClassAvg: what is averaged of a head, blended, sent and contrasted."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from hopfed.errors import ArgumentError  # noqa: E402
from hopfed.experiments import fl  # noqa: E402
from hopfed.federation.contract import EVERYONE, Context  # noqa: E402
from hopfed.federation.engines import Call  # noqa: E402
from hopfed.federation.engines.local import LocalEngine  # noqa: E402
from hopfed.federation.faults import Fault  # noqa: E402
from hopfed.federation.participation import Participation  # noqa: E402
from hopfed.federation.rounds import play_round  # noqa: E402
from hopfed.neural.method import unpack  # noqa: E402
from hopfed.neural.methods.fedclassavg import supervised_contrast  # noqa: E402
from hopfed.neural.methods.fedssa import FedSSA  # noqa: E402
from hopfed.neural.training.sequential import train_sequential  # noqa: E402
from hopfed.neural.training.stacked import train_stacked  # noqa: E402


def make(name="fedssa", options="", **settings):
    small = {
        "clients": 3,
        "rounds": 3,
        "examples": 300,
        "models": ("mlp",),
        "lr": 0.05,
        "way": "sequential",
        "partition": "classes:4",
    }
    return fl.Config(method=name, options=options, **(small | settings)).make(0)


def play(method, rounds=3, **settings):
    state = None
    for t in range(rounds):
        played = play_round(
            method,
            state,
            t,
            seed=0,
            clients=len(method.loaded.split),
            engine=LocalEngine(),
            **settings,
        )
        state = played.state
    return played


def assert_same_clients(a, b):
    assert dict(a.state.clients).keys() == dict(b.state.clients).keys()
    for c, state in dict(a.state.clients).items():
        for name, array in state.items():
            np.testing.assert_array_equal(array, b.state.clients[c][name], err_msg=name)


def test_where_all_have_seen_all_and_nothing_is_kept_it_is_lg_fedavg_to_the_bit():
    even = {"partition": "iid", "examples": 400}
    ours = make(options="mu_0=0", **even)
    assert all(ours.seen(c).all() for c in range(3))
    a, b = play(ours), play(make("lg-fedavg", "weights=equal", **even))
    assert_same_clients(a, b)
    head, mean = a.state.server["head"], b.state.server
    np.testing.assert_array_equal(head[:, :-1], mean["head/weight"])
    np.testing.assert_array_equal(head[:, -1], mean["head/bias"])


def test_case_a_of_the_first_ablation_is_lg_fedavg_whatever_was_seen():
    ours = make(options="ablation=m1-a")
    assert not all(ours.seen(c).all() for c in range(3))
    assert_same_clients(play(ours), play(make("lg-fedavg", "weights=equal")))


def test_the_header_of_one_client_alone_is_its_own_training_to_the_bit():
    one = {"clients": 1, "partition": "iid"}
    alone = play(make("standalone", **one))
    for other in (make("lg-fedavg", **one), make(options="mu_0=0", **one)):
        assert_same_clients(alone, play(other))


def rows_of(method, value):
    """Messages of all clients: rows of `value` (client) of the classes each has seen."""
    sent = {}
    for c in range(len(method.loaded.split)):
        count = int(method.seen(c).sum())
        sent[c] = {"rows": np.full((count, 201), value(c), np.float32)}
    return sent


def test_a_class_is_averaged_over_the_participants_that_hold_it():
    method = make()
    seen = np.stack([method.seen(c) for c in range(3)])
    start = method.server_start(0)
    start["head"][:] = 9.0
    sent = rows_of(method, lambda c: 10.0**c)
    state, down = method.answer(start, sent)
    for s in range(10):
        held = [10.0**c for c in range(3) if seen[c, s]]
        np.testing.assert_allclose(state["head"][s], np.mean(held), rtol=1e-6)
    for c in range(3):
        np.testing.assert_array_equal(down[c]["rows"], state["head"][seen[c]])
    # Without client 0 a class that it alone holds keeps the last global row.
    only = seen[0] & ~seen[1:].any(axis=0)
    assert only.any()
    few = {c: sent[c] for c in (1, 2)}
    for before in (start, state):
        later, _ = method.answer(before, few)
        np.testing.assert_array_equal(later["head"][only], before["head"][only])


def head_of(params):
    return np.concatenate([params["head.weight"], params["head.bias"][:, None]], axis=1)


@pytest.mark.parametrize("t", [0, 1, 2, 3])
@pytest.mark.parametrize("fusion", ["literal", "normalised"])
def test_rows_of_seen_classes_are_blended_and_others_keep_their_history(fusion, t):
    method = make(options=f"fusion={fusion},mu_0=0.8")
    own = head_of(method.initial(0))
    seen = method.seen(0)
    rows = np.random.default_rng(0).standard_normal((seen.sum(), 201)).astype(np.float32)
    rows[1] = 0  # nobody has sent this one yet
    params = method.start_params_at(Call({}, {"rows": rows}, Context(0, t, 0, 0)))
    mu = {0: 0.8, 1: 0.8 * np.cos(np.pi / 4), 2: 0.0, 3: 0.0}[t]
    expected = own.copy()
    expected[seen] = (rows + mu * own[seen]) / (1 if fusion == "literal" else 1 + mu)
    untold = np.flatnonzero(seen)[1]
    expected[untold] = own[untold]
    np.testing.assert_allclose(head_of(params), expected, atol=1e-6)
    np.testing.assert_array_equal(head_of(params)[~seen], own[~seen])
    for name, t in method.initial(0).items():
        if not name.startswith("head."):
            torch.testing.assert_close(params[name], t, rtol=0, atol=0)


def test_the_schedule_at_its_ends():
    method = make(options="fusion=normalised,stable=10,mu_0=0.5")
    assert method.mu(0) == 0.5
    assert method.mu(10) == pytest.approx(0, abs=1e-15)
    assert method.mu(11) == 0
    assert all(method.mu(t) > method.mu(t + 1) for t in range(10))
    assert method.mu(5) == pytest.approx(0.5 * np.sqrt(0.5))


def test_before_anybody_has_sent_a_row_nothing_is_blended():
    method = make()
    for down in ({}, {"rows": np.zeros((int(method.seen(0).sum()), 201), np.float32)}):
        params = method.start_params_at(Call({}, down, Context(0, 1, 0, 0)))
        for name, t in method.initial(0).items():
            torch.testing.assert_close(params[name], t, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("ablation", "up", "down"),
    [
        ("", "seen", "seen"),
        ("m1-a", "all", "all"),
        ("m1-b", "all", "seen"),
        ("m2-a", "seen", "all"),
        ("m2-b", "seen", "seen"),
    ],
)
def test_numbers_on_the_wire(ablation, up, down):
    method = make(options=f"ablation={ablation}" if ablation else "")
    classes = {"all": [10] * 3, "seen": [int(method.seen(c).sum()) for c in range(3)]}
    assert max(classes["seen"]) < 10
    played = play(method, rounds=2)
    traffic = played.traffic
    assert traffic.parameters_up.tolist() == [201 * n for n in classes[up]]
    assert traffic.parameters_down.tolist() == [201 * n for n in classes[down]]
    assert traffic.up.tolist() == [4 * 201 * n for n in classes[up]]
    assert traffic.down.tolist() == [4 * 201 * n for n in classes[down]]


def test_numbers_on_the_wire_of_whole_headers():
    for name, options, more in (
        ("lg-fedavg", "", 8),
        ("lg-fedavg", "weights=equal", 0),
        ("fedclassavg", "", 8),
    ):
        traffic = play(make(name, options), rounds=2).traffic
        assert traffic.up.tolist() == [4 * 10 * 201 + more] * 3
        assert traffic.down.tolist() == [4 * 10 * 201] * 3


def test_the_five_models_of_the_paper_share_one_head():
    models = tuple(f"cnn-{n}" for n in range(1, 6))
    method = make(models=models, clients=5, examples=100, lr=0.01)
    played = play(method, rounds=1)
    seen = np.array([method.seen(c).sum() for c in range(5)])
    assert played.traffic.parameters_up.tolist() == (seen * (500 + 1)).tolist()
    assert [m["rows"].shape for _, m in sorted(dict(played.state.down).items())] == [
        (n, 501) for n in seen
    ]


def test_lg_fedavg_averages_by_size_and_keeps_bodies():
    method = make("lg-fedavg", partition="dirichlet:0.5")
    sizes = method.loaded.split.sizes[:, 0]
    assert len(set(sizes.tolist())) == 3
    played = play(method, rounds=1)
    clients = dict(played.state.clients)
    mean = played.state.down[EVERYONE]
    assert set(mean) == {"head/weight", "head/bias"}
    expected = np.average([clients[c]["model/head.bias"] for c in range(3)], axis=0, weights=sizes)
    np.testing.assert_allclose(mean["head/bias"], expected, rtol=1e-5, atol=1e-7)
    starts = method.start_params(clients[1], mean, 1)
    for name, t in unpack(clients[1]).items():
        if name.startswith("head."):
            t = torch.as_tensor(mean[f"head/{name.removeprefix('head.')}"])
        torch.testing.assert_close(starts[name], t, rtol=0, atol=0)


def test_what_a_client_of_lg_fedavg_is_scored_by():
    local, shared = make("lg-fedavg"), make("lg-fedavg", "scored=global")
    played = play(local, rounds=1)
    own, mean = played.state.clients[0], played.state.down[EVERYONE]
    kept = local.personal(own, mean, 0)["head.bias"]
    given = shared.personal(own, mean, 0)["head.bias"]
    np.testing.assert_array_equal(kept, own["model/head.bias"])
    np.testing.assert_array_equal(given, mean["head/bias"])
    assert (kept != given).any()


def test_fedclassavg_without_its_terms_is_lg_fedavg_to_the_bit():
    bare = play(make("fedclassavg", "rho=0,contrast=0"))
    assert_same_clients(play(make("lg-fedavg")), bare)
    for options in ("contrast=0,rho=1", "rho=0,contrast=1"):
        full = play(make("fedclassavg", options))
        name = "model/head.weight"
        assert (full.state.clients[0][name] != bare.state.clients[0][name]).any()


def test_the_terms_of_fedclassavg_by_hand():
    method = make("fedclassavg", "rho=0.5,contrast=2,temperature=0.7")
    params = method.initial(0)
    x, y = method.loaded.tensors.batch(method.loaded.tensors.rows(method.loaded.split.train[0][:8]))
    extra = {n: params[n] + 1 for n in ("head.weight", "head.bias")}
    features = torch.randn(8, 5, generator=torch.Generator().manual_seed(0))
    logits = torch.randn(8, 10, generator=torch.Generator().manual_seed(1))
    loss = method.objective(lambda p, x: (features, logits), params, x, y, None, extra)
    entropy = torch.nn.functional.cross_entropy(logits, y)
    contrast = supervised_contrast(features, y, None, 0.7)
    assert float(loss) == pytest.approx(float(entropy + 2 * contrast) + 0.25 * 10 * 201, rel=1e-6)
    assert set(method.extra({}, {}, 0)) == set(extra)


def contrast_by_hand(z, y, temperature):
    z = z / np.linalg.norm(z, axis=1, keepdims=True)
    found = []
    for i in range(len(z)):
        others = [j for j in range(len(z)) if j != i]
        like = [j for j in others if y[j] == y[i]]
        if like:
            total = sum(np.exp(z[i] @ z[j] / temperature) for j in others)
            found.append(
                np.mean([-np.log(np.exp(z[i] @ z[j] / temperature) / total) for j in like])
            )
    return np.mean(found) if found else 0.0


@pytest.mark.parametrize("labels", [[0, 1, 0, 1, 2], [0, 0, 0, 0, 0], [0, 1, 2, 3, 4], [3]])
def test_supervised_contrast_by_hand(labels):
    z = np.random.default_rng(0).standard_normal((len(labels), 4))
    features, y = torch.as_tensor(z).requires_grad_(), torch.tensor(labels)
    loss = supervised_contrast(features, y, None, 0.3)
    assert loss.item() == pytest.approx(contrast_by_hand(z, labels, 0.3), abs=1e-9)
    (gradient,) = torch.autograd.grad(loss, features)
    assert gradient.isfinite().all()
    # Rows that pad the batch neither are examples nor stand for any, whatever they hold.
    padded = torch.cat([features, torch.full((2, 4), 7.0, dtype=features.dtype)])
    mask = torch.tensor([1.0] * len(labels) + [0.0] * 2, dtype=features.dtype)
    more = supervised_contrast(padded, torch.cat([y, y[:1], y[:1]]), mask, 0.3)
    torch.testing.assert_close(more, loss)


def test_features_that_are_all_zero_have_a_finite_contrast():
    features = torch.zeros(3, 4, requires_grad=True)
    loss = supervised_contrast(features, torch.tensor([0, 0, 1]), None, 0.1)
    (gradient,) = torch.autograd.grad(loss, features)
    assert loss.isfinite()
    assert gradient.isfinite().all()


@pytest.mark.parametrize("name", ["fedclassavg", "fedssa"])
def test_stacked_and_sequential_agree(name):
    method = make(name, partition="dirichlet:0.5")
    jobs = [[method._job(Call({}, {}, Context(0, 0, 0, c))) for c in range(3)] for _ in range(2)]
    assert len({len(job.rows) for job in jobs[0]}) > 1
    settings = replace(method.training, epochs=1, batch=16)
    train_sequential(jobs[0], method.loaded.tensors, settings, method.objective)
    train_stacked(jobs[1], method.loaded.tensors, settings, method.objective)
    for a, b in zip(*jobs, strict=True):
        assert abs(a.loss - b.loss) < 1e-5
        for n in a.params:
            torch.testing.assert_close(a.params[n], b.params[n], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["fedssa", "lg-fedavg", "fedclassavg"])
@pytest.mark.parametrize("settings", [{"batch": 1, "lr": 0.001}, {"epochs": 0}])
def test_absent_clients_and_odd_batches(name, settings):
    method = make(name, examples=100, **settings)
    played = play(method, participation=Participation(0.5))
    assert (played.faults.codes == Fault.ABSENT).any()
    everyone = played.state.down.get(EVERYONE, {})
    for c in range(3):
        state = played.state.clients.get(c) or {}
        params = method.personal(state, played.state.down.get(c, everyone), c)
        assert all(t.isfinite().all() for t in params.values())


def test_a_client_that_sends_nan_is_left_out():
    class Sick(FedSSA):
        def finish(self, state, params, client):
            if client == 1:
                params = {n: t * float("nan") for n, t in params.items()}
            return super().finish(state, params, client)

    healthy = make()
    played = play(Sick(healthy.task, healthy.training))
    assert played.faults.codes.tolist() == [0, Fault.NOT_FINITE, 0]
    head = played.state.server["head"]
    heard = healthy.seen(0) | healthy.seen(2)
    assert np.isfinite(head).all()
    np.testing.assert_array_equal((head != 0).any(axis=1), heard)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("fedssa", "stable=3", "stable must be at most 2 with the literal sum.* try normalised"),
        ("fedssa", "fusion=sum", "fusion must be one of literal, normalised"),
        ("fedssa", "mu_0=1.5", r"mu_0 must be in \[0, 1\]"),
        ("fedssa", "stable=0", "stable must be at least 1"),
        ("fedssa", "ablation=c", "ablation must be one of m1-a, m1-b, m2-a, m2-b"),
        ("lg-fedavg", "weights=none", "weights must be one of size, equal"),
        ("lg-fedavg", "scored=best", "scored must be one of local, global"),
        ("fedclassavg", "rho=-1", "rho must be at least 0"),
        ("fedclassavg", "contrast=-1", "contrast must be at least 0"),
        ("fedclassavg", "temperature=0", "temperature must be above 0"),
    ],
)
def test_bad_settings(name, options, message):
    with pytest.raises(ArgumentError, match=message):
        make(name, options)


@pytest.mark.parametrize("name", ["fedssa", "lg-fedavg", "fedclassavg"])
def test_unlike_headers_are_refused_by_name(name):
    with pytest.raises(ArgumentError, match=r"one feature dimension .*lenet 84, mlp 200"):
        make(name, models=("mlp", "lenet"))
