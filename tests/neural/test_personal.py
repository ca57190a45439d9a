"""Ditto, FedRep, APFL (Clustered FL where alike): steps by hand, what is kept, who never came."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from hopfed.errors import ArgumentError  # noqa: E402
from hopfed.federation.contract import EVERYONE, Context  # noqa: E402
from hopfed.federation.engines.local import LocalEngine  # noqa: E402
from hopfed.federation.faults import Fault  # noqa: E402
from hopfed.federation.messages import malformed, nbytes  # noqa: E402
from hopfed.federation.participation import Participation  # noqa: E402
from hopfed.federation.rounds import play_round  # noqa: E402
from hopfed.neural.method import below, pack, unpack  # noqa: E402
from hopfed.neural.methods.apfl import APFL  # noqa: E402
from hopfed.neural.methods.clustered_fl import ClusteredFL  # noqa: E402
from hopfed.neural.methods.ditto import Ditto  # noqa: E402
from hopfed.neural.methods.fedavg import FedAvg  # noqa: E402
from hopfed.neural.methods.fedrep import FedRep  # noqa: E402
from hopfed.neural.methods.standalone import Standalone  # noqa: E402
from hopfed.neural.training.evaluation import Network, accuracies  # noqa: E402
from hopfed.neural.training.task import TaskSpec  # noqa: E402
from hopfed.neural.training.training import Training  # noqa: E402

SPEC = TaskSpec(partition="dirichlet:0.3", clients=4, models=("mlp",), examples=300)
TRAINING = Training(lr=0.05, way="sequential")
METHODS = (ClusteredFL, Ditto, FedRep, APFL)


def made(cls, training=TRAINING, spec=SPEC, **settings):
    return cls(spec, training, **settings)


def trained(method, rounds=2, state=None, **settings):
    n = len(method.loaded.split)
    for t in range(rounds):
        played = play_round(method, state, t, seed=0, clients=n, engine=LocalEngine(), **settings)
        state = played.state
    return played


def down_of(played, client):
    return played.state.down.get(client, played.state.down.get(EVERYONE, {}))


def same(a, b, **tolerance):
    assert a.keys() == b.keys()
    for name, tensor in a.items():
        torch.testing.assert_close(tensor, b[name], **(tolerance or {"rtol": 0, "atol": 0}))


def personal(method, played, client):
    state = played.state.clients.get(client, {})
    return method.personal(state, down_of(played, client), client)


def shared(played):
    return unpack(down_of(played, 0))


def one_step(cls, state, down, **settings):
    """State and message of client 0 after one plain step on all of its examples."""
    training = Training(lr=0.1, momentum=0.0, batch=1000, way="sequential")
    method = made(cls, training, **settings)
    return method, *method.client_step(state, down, Context(0, 1, 0, 0))[:2]


def loss_of(method, params):
    """Cross-entropy of client 0's examples as a function of its model's weights."""
    rows = method.loaded.tensors.rows(method.loaded.split.train[0])
    x, y = method.loaded.tensors.batch(rows)
    logits = torch.func.functional_call(method.loaded.model(0), params, (x,))
    return torch.nn.functional.cross_entropy(logits, y)


def moved(seed, params):
    draws = torch.Generator().manual_seed(seed)
    return {n: p + 0.05 * torch.randn(p.shape, generator=draws) for n, p in params.items()}


def test_ditto_without_its_pull_is_fedavg_and_standalone_to_the_bit():
    a, b = trained(made(Ditto, lam=0.0)), trained(made(FedAvg))
    same(shared(a), shared(b))
    alone = trained(made(Standalone))
    for c in range(4):
        same(personal(made(Ditto), a, c), personal(made(Standalone), alone, c))
    same(shared(trained(made(Ditto, lam=3.0))), shared(b))  # whatever the pull
    np.testing.assert_array_equal(a.traffic.up, b.traffic.up)


def test_a_step_of_ditto_by_hand_pulls_to_the_model_received():
    initial = made(Ditto).loaded.initial(0)
    v, w = moved(1, initial), moved(2, initial)
    state, down = pack({f"own.{n}": t for n, t in v.items()}), pack(w)
    method, after, message = one_step(Ditto, state, down, lam=0.7)
    v = {n: t.requires_grad_() for n, t in v.items()}
    grads = torch.autograd.grad(loss_of(method, v), list(v.values()))
    by_hand = {
        n: t - 0.1 * (g + 0.7 * (t - w[n])) for (n, t), g in zip(v.items(), grads, strict=True)
    }
    same(below(unpack(after), "own"), by_hand, rtol=1e-5, atol=1e-6)
    w = {n: t.requires_grad_() for n, t in w.items()}
    grads = torch.autograd.grad(loss_of(method, w), list(w.values()))
    step = {n: t - 0.1 * g for (n, t), g in zip(w.items(), grads, strict=True)}
    same(unpack(message), step, rtol=1e-5, atol=1e-6)


def test_a_strong_pull_of_ditto_ends_at_the_model_received_not_the_mixed_one():
    method = made(Ditto, replace(TRAINING, lr=0.01, momentum=0.0, epochs=3), lam=90.0)
    first = trained(method, 1)
    second = trained(method, 1, first.state)

    def far(a, b):
        return float(sum(((a[n] - b[n]) ** 2).sum() for n in a))

    v, received, mixed = personal(method, second, 0), shared(first), shared(second)
    assert far(v, received) < 0.5 * far(v, mixed)


NORMED = replace(SPEC, models=("mobilenet-v2",), norm="batch", clients=2, examples=60)


@pytest.mark.parametrize("spec", [SPEC, NORMED])
def test_what_fedrep_freezes_does_not_move_its_statistics_neither(spec):
    training = replace(TRAINING, lr=0.002, batch=13)
    first = trained(made(FedRep, training, spec, head=1), 1).state
    down, state = first.down[EVERYONE], first.clients[0]
    context = Context(0, 1, 0, 0)
    heads = made(FedRep, replace(training, epochs=0), spec, head=2)
    after, message, _ = heads.client_step(state, down, context)
    for name, array in message.items():
        if name != "examples":
            np.testing.assert_array_equal(array, down[name], err_msg=name)
    assert any((after[n] != state[n]).any() for n in after)
    bodies = made(FedRep, training, spec, head=0)
    after, message, _ = bodies.client_step(state, down, context)
    for name, array in after.items():
        np.testing.assert_array_equal(array, state[name], err_msg=name)
    assert np.mean([(message[n] != down[n]).any() for n in down]) > 0.9


def test_stacked_clients_keep_what_is_frozen_too():
    training = Training(lr=0.002, batch=13, epochs=0, way="stacked")
    method = made(FedRep, training, NORMED, head=1)
    start = pack(below(method.loaded.initial(0), "features"), "body")
    played = trained(method, 1)
    for name, array in played.state.down[EVERYONE].items():
        np.testing.assert_allclose(array, start[name], rtol=1e-6, err_msg=name)


def test_fedrep_sends_the_body_and_classifies_by_its_head_on_the_latest_one():
    method = made(FedRep, head=2)
    played = trained(method)
    model = personal(method, played, 1)
    same(below(model, "features"), unpack(down_of(played, 1), "body"))
    same(below(model, "head"), unpack(played.state.clients[1], "head"))
    body = sum(t.numel() for t in below(model, "features").values())
    np.testing.assert_array_equal(played.traffic.up, 4 * [4 * body + 8])
    np.testing.assert_array_equal(played.traffic.down, 4 * [4 * body])


@pytest.mark.parametrize(("alpha", "twin"), [(0.0, FedAvg), (1.0, Standalone)])
def test_apfl_at_its_ends_is_fedavg_and_standalone_to_the_bit(alpha, twin):
    method, other = made(APFL, alpha=alpha, learn=False), made(twin)
    a, b = trained(method), trained(other)
    for c in range(4):
        theirs = other.personal(b.state.clients.get(c, {}), b.state.down.get(EVERYONE, {}), c)
        same(personal(method, a, c), theirs)
    same(shared(a), shared(trained(made(FedAvg))))


def test_a_step_of_apfl_by_hand():
    initial = made(APFL).loaded.initial(0)
    v, w, alpha = moved(1, initial), moved(2, initial), torch.tensor([0.3])
    state = pack({f"own.{n}": t for n, t in v.items()} | {"alpha": alpha})
    method, after, message = one_step(APFL, state, pack(w))
    mixed = {n: (0.3 * v[n] + 0.7 * w[n]).requires_grad_() for n in v}
    slopes = torch.autograd.grad(loss_of(method, mixed), list(mixed.values()))
    grads = dict(zip(mixed, slopes, strict=True))
    by_hand = {n: v[n] - 0.1 * 0.3 * grads[n] for n in v}
    same(below(unpack(after), "own"), by_hand, rtol=1e-5, atol=1e-6)
    slope = sum(float(((v[n] - w[n]) * g).sum()) for n, g in grads.items())
    assert abs(float(after["model/alpha"][0]) - (0.3 - 0.1 * slope)) < 1e-5
    w = {n: t.requires_grad_() for n, t in w.items()}
    own = torch.autograd.grad(loss_of(method, w), list(w.values()))
    step = {n: t - 0.1 * g for (n, t), g in zip(w.items(), own, strict=True)}
    same(unpack(message), step, rtol=1e-5, atol=1e-6)


def test_the_local_model_of_apfl_is_kept():
    method = made(APFL)
    first = trained(method, 1)
    before = first.state.clients[0]
    # The others go on without it; then it comes back to what it had.
    played = play_round(
        method,
        first.state,
        1,
        seed=0,
        clients=4,
        engine=LocalEngine(),
        participation=Participation(leaves=(1,)),
    )
    for name, array in played.state.clients[0].items():
        np.testing.assert_array_equal(array, before[name])
    start = method.start_params(played.state.clients[0], down_of(played, 0), 0)
    same(below(start, "own"), below(unpack(before), "own"))
    same(below(start, "shared"), shared(played))
    assert not any("own" in n or "alpha" in n for n in played.state.down[EVERYONE])


@pytest.mark.parametrize("start", [0.0, 1.0])
def test_alpha_stays_between_its_ends_and_can_leave_them(start):
    training = replace(TRAINING, lr=0.2, epochs=3)
    method = made(APFL, training, alpha=start)
    played = trained(method, 3)
    found = [float(s["model/alpha"][0]) for s in (played.state.clients[c] for c in range(4))]
    assert all(0 <= a <= 1 for a in found)
    assert len({start, *found}) > 1


@pytest.mark.parametrize("cls", METHODS)
def test_stacked_and_sequential_agree(cls):
    plain, stacked = (
        trained(made(cls, replace(TRAINING, lr=0.02, way=way))) for way in ("sequential", "stacked")
    )
    for name, array in plain.state.down[EVERYONE].items():
        np.testing.assert_allclose(
            array, stacked.state.down[EVERYONE][name], rtol=1e-3, atol=1e-5, err_msg=name
        )
    for c in range(4):
        for name, array in plain.state.clients[c].items():
            np.testing.assert_allclose(array, stacked.state.clients[c][name], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("cls", [Ditto, FedRep, APFL])
def test_a_client_that_never_took_part_adapts_what_the_others_learned(cls):
    method = made(cls)
    played = trained(method, participation=Participation(joins=(0, 0, 0, 99)))
    assert 3 not in played.state.clients
    down = down_of(played, 3)
    received = method.start_params({}, down, 3)
    plain = Network(method.loaded.model(3), below(received, "shared") or received)
    found, before = (
        accuracies([way], method.loaded.tensors, [[method.loaded.split.train[3]]])[0, 0]
        for way in (method.classifier({}, down, 3), plain)
    )
    assert found > before
    same(method.personal({}, down, 3), method.personal({}, down, 3))  # and the same each time


@pytest.mark.parametrize("cls", METHODS)
def test_one_that_sends_nan_and_one_that_is_absent_spoil_nothing(cls):
    class Sick(cls):
        def finish_at(self, call, params):
            if call.context.client == 1:
                params = {n: t * float("nan") for n, t in params.items()}
            return super().finish_at(call, params)

    played = trained(Sick(SPEC, TRAINING), participation=Participation(leaves=(9, 9, 1)))
    assert played.faults.codes.tolist() == [0, Fault.NOT_FINITE, Fault.ABSENT, 0]
    assert all(np.isfinite(a).all() for a in played.state.down[EVERYONE].values())


@pytest.mark.parametrize("cls", METHODS)
def test_only_what_is_expected_crosses_the_wire(cls):
    method = made(cls)
    context = Context(0, 0, 0, 2)
    _, message, _ = method.client_step({}, {}, context)
    spec = method.expects({}, context)
    assert malformed(message, spec) is None
    assert "is missing" in malformed({n: message[n] for n in list(message)[1:]}, spec)
    assert nbytes(message) <= nbytes(pack(method.loaded.initial(2))) + 16


@pytest.mark.parametrize("cls", METHODS)
def test_a_client_of_one_example_a_batch_trains(cls):
    method = made(cls, replace(TRAINING, batch=1, way="stacked"), replace(SPEC, examples=60))
    played = trained(method, 1)
    assert not played.faults.words()
    assert np.isfinite(played.client_metrics["loss"]).all()


@pytest.mark.parametrize(
    ("cls", "settings", "message"),
    [
        (Ditto, {"lam": -1.0}, "lam must be at least 0"),
        (APFL, {"alpha": 1.5}, r"alpha must be in \[0, 1\]"),
        (APFL, {"learn": 1}, "learn must be true or false"),
        (FedRep, {"head": -1}, "head must be at least 0"),
        (ClusteredFL, {"tol_1": -0.1}, "tol_1 must be at least 0"),
        (ClusteredFL, {"linkage": "ward"}, "linkage must be one of complete, single"),
    ],
)
def test_bad_settings(cls, settings, message):
    with pytest.raises(ArgumentError, match=message):
        made(cls, **settings)


@pytest.mark.parametrize("cls", METHODS)
def test_all_need_one_architecture(cls):
    with pytest.raises(ArgumentError, match="models must be one architecture"):
        made(cls, spec=replace(SPEC, models=("mlp", "lenet")))
