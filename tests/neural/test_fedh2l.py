"""FedH2L against its equations written out, its variants, its traffic, its faults; and FedMD."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from hopfed.errors import ArgumentError  # noqa: E402
from hopfed.federation.contract import EVERYONE, Context  # noqa: E402
from hopfed.federation.engines import Call  # noqa: E402
from hopfed.federation.engines.local import LocalEngine  # noqa: E402
from hopfed.federation.faults import Fault  # noqa: E402
from hopfed.federation.messages import nbytes  # noqa: E402
from hopfed.federation.participation import Participation  # noqa: E402
from hopfed.federation.rounds import FederationState, play_round  # noqa: E402
from hopfed.neural.methods.fedh2l import FedH2L  # noqa: E402
from hopfed.neural.methods.fedmd import FedMD  # noqa: E402
from hopfed.neural.training.cost import measure  # noqa: E402
from hopfed.neural.training.task import TaskSpec  # noqa: E402
from hopfed.neural.training.training import Training  # noqa: E402

TASK = TaskSpec(
    partition="rotation:0,40,80:20:same", clients=3, models=("mlp",), shares=(70, 10, 20)
)
SEED = 1
SGD = Training("sgd", lr=0.05, momentum=0.0, batch=16, way="sequential")
FEW = {FedH2L: {}, FedMD: {"transfer": 3}}
AMSGRAD = Training("amsgrad", lr=3e-3, weight_decay=1e-4, batch=16, way="sequential")


def play(method, rounds=1, state=None, first=0, **settings):
    clients = method.task.clients
    for t in range(first, first + rounds):
        played = play_round(
            method, state, t, seed=SEED, clients=clients, engine=LocalEngine(), **settings
        )
        state = played.state
    return played


def classify(model, made, rows):
    x, y = made.tensors.batch(made.tensors.rows(rows))
    return model(x), y


def gradient(model, loss):
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])


def step(model, optimizer, vector):
    sizes = [p.numel() for p in model.parameters()]
    for p, piece in zip(model.parameters(), vector.split(sizes), strict=True):
        p.grad = piece.reshape(p.shape).clone()
    optimizer.step()


def by_hand(method, rounds, make):
    """FedH2L as Algorithm 1 has it, one node and one equation after the other."""
    made, nodes = method.loaded, range(method.task.clients)
    models = [made.build("mlp") for _ in nodes]
    optimizers = [make(model.parameters()) for model in models]
    conflicts = 0
    for t in range(rounds):
        public, local, taught = method.batches(Context(SEED, t, 1)), [], []
        for i in nodes:
            start = torch.cat([p.detach().flatten().clone() for p in models[i].parameters()])
            for rows in method.own_steps(Call({}, {}, Context(SEED, t, 0, i))):
                logits, y = classify(models[i], made, rows)
                g = gradient(models[i], torch.nn.functional.cross_entropy(logits, y))
                step(models[i], optimizers[i], g)
            end = torch.cat([p.detach().flatten() for p in models[i].parameters()])
            local.append(g if method.steps == 1 else start - end)
            with torch.no_grad():
                logits, y = classify(models[i], made, public[i])
            taught.append((logits.softmax(1), float((logits.argmax(1) == y).float().mean())))
        for i in nodes:
            loss = 0.0
            for j in nodes:
                if j == i:
                    continue
                logits, y = classify(models[i], made, public[j])
                p, accuracy = taught[j]
                kl = (p * (p.log() - logits.log_softmax(1))).sum(1).mean()
                loss = loss + method.kl * (accuracy if method.labelled else 1.0) * kl
                if method.labelled:
                    loss = loss + torch.nn.functional.cross_entropy(logits, y)
            g = gradient(models[i], loss / (len(nodes) - 1))
            overlap = float(g @ local[i])
            conflicts += overlap < 0
            if overlap < 0 and method.conflict != "ignore":
                own = local[i] - overlap / float(g @ g) * g
                g = g - overlap / float(local[i] @ local[i]) * local[i]
                g = g + own if method.conflict == "pcgrad" else g
            elif method.conflict == "pcgrad":
                g = g + local[i]
            step(models[i], optimizers[i], g)
    return [model.state_dict() for model in models], conflicts


def assert_models(played, expected, atol):
    for client, state in enumerate(expected):
        for n, t in state.items():
            found = played.state.clients[client][f"model/{n}"]
            np.testing.assert_allclose(found, t.numpy(), rtol=1e-4, atol=atol)


@pytest.mark.parametrize(
    "variant",
    [
        {},
        {"steps": 3},
        {"kl": False},
        {"conflict": "ignore"},
        {"conflict": "pcgrad"},
        {"labelled": False},
        {"local": "own", "steps": 2},
    ],
    ids=str,
)
def test_a_round_is_that_of_the_equations(variant):
    method = FedH2L(TASK, SGD, **variant)
    expected, conflicts = by_hand(method, 3, lambda p: torch.optim.SGD(p, 0.05))
    assert conflicts > 0
    assert_models(play(method, 3), expected, atol=2e-6)


def test_one_optimizer_makes_both_steps_and_goes_on_from_round_to_round():
    method = FedH2L(TASK, AMSGRAD)
    make = lambda p: torch.optim.Adam(p, 3e-3, weight_decay=1e-4, amsgrad=True)  # noqa: E731
    expected, _ = by_hand(method, 3, make)
    played = play(method, 3)
    assert_models(played, expected, atol=1e-4)
    assert int(played.state.clients[0]["moments/count"]) == 6


def test_what_is_reported_of_conflicts_is_what_happens():
    method = FedH2L(TASK, SGD)
    _, conflicts = by_hand(method, 1, lambda p: torch.optim.SGD(p, 0.05))
    metrics = play(method).client_metrics
    assert metrics["conflict"].sum() == conflicts
    assert np.isfinite(metrics["public_loss"]).all()
    assert np.isfinite(metrics["loss"]).all()


@pytest.mark.parametrize("steps", [1, 4])
def test_the_local_direction_points_as_a_gradient_does(steps):
    method = FedH2L(TASK, replace(SGD, lr=1e-3), steps=steps)
    context = Context(SEED, 0, 0, 0)
    state, _, _ = method.client_step({}, {}, context)
    model = method.loaded.build("mlp")
    rows = np.concatenate(method.own_steps(Call({}, {}, context)))
    logits, y = classify(model, method.loaded, rows)
    slope = gradient(model, torch.nn.functional.cross_entropy(logits, y)).numpy()
    local = np.concatenate([state[f"local/{n}"].ravel() for n, _ in model.named_parameters()])
    assert local @ slope > 0.99 * np.linalg.norm(local) * np.linalg.norm(slope)


@pytest.mark.parametrize("name", ["mlp", "lenet"])
def test_stacked_clients_end_as_each_would_alone(name):
    spec = replace(TASK, models=(name,))
    a, b = (play(FedH2L(spec, replace(SGD, way=way)), 2) for way in ("sequential", "stacked"))
    for client, state in a.state.clients.items():
        for n, array in state.items():
            np.testing.assert_allclose(array, b.state.clients[client][n], rtol=1e-4, atol=1e-5)


def test_different_models_teach_each_other():
    played = play(FedH2L(replace(TASK, models=("mlp", "lenet", "cnn-5")), SGD), 2)
    assert not played.faults.codes.any()
    assert np.isfinite(played.client_metrics["public_loss"]).all()


# What crosses the wire


@pytest.mark.parametrize(
    ("variant", "numbers"),
    [
        ({}, 16 * 10 + 1),
        ({"labelled": False}, 16 * 10),
        ({"kl": False}, 0),
        ({"steps": 5}, 16 * 10 + 1),
    ],
    ids=str,
)
def test_teaching_signals_and_confidences_are_all_that_is_sent(variant, numbers):
    played = play(FedH2L(TASK, SGD, **variant), 2)  # the second round fetches nothing twice
    assert played.traffic.up.tolist() == [4 * numbers] * 3
    assert played.traffic.down.tolist() == [2 * 4 * numbers] * 3
    assert nbytes(played.state.down[EVERYONE]) == 0


def test_a_round_costs_its_steps_and_the_look_at_its_own_public_minibatch():
    method = FedH2L(TASK, SGD, steps=3)
    made = method.loaded
    x, _ = made.tensors.batch(made.tensors.rows(made.split.train[0][:2]))
    cost = measure(made.model(0), x)
    expected = 16 * ((3 + 2) * cost.training + cost.forward)
    np.testing.assert_allclose(play(method).client_metrics["flops"], expected)


def test_pairs_hear_their_partner_alone_and_who_has_none_makes_its_local_step():
    method = FedH2L(replace(TASK, clients=3), SGD, pairs=True)
    circles = [method.circles(SEED, t) for t in range(12)]
    assert len({str(c) for c in circles}) == 3
    assert all(sorted(i for c in circle for i in c) == [0, 1, 2] for circle in circles)
    played = play(method)
    (alone,) = next(c for c in circles[0] if len(c) == 1)
    down = np.full(3, 4 * (16 * 10 + 1))
    down[alone] = 0
    assert played.traffic.down.tolist() == down.tolist()
    assert np.flatnonzero(np.isnan(played.client_metrics["conflict"])).tolist() == [alone]
    both = play(FedH2L(TASK, SGD)).state.clients[alone]
    assert any((both[n] != a).any() for n, a in played.state.clients[alone].items())


def test_pairs_without_posteriors_are_the_same_pairs():
    method = FedH2L(TASK, SGD, pairs=True, kl=False)
    (alone,) = next(c for c in method.circles(SEED, 0) if len(c) == 1)
    played = play(method)
    assert np.flatnonzero(np.isnan(played.client_metrics["public_loss"])).tolist() == [alone]


# Faults


def test_a_node_that_says_nan_teaches_nobody():
    class Sick(FedH2L):
        def says(self, call, params):
            message, images = super().says(call, params)
            if call.context.client == 1:
                message["posteriors"] = message["posteriors"] * np.float32("nan")
            return message, images

    played = play(Sick(TASK, SGD), 2)
    assert played.faults.codes.tolist() == [0, Fault.NOT_FINITE, 0]
    assert sorted(played.state.clients) == [0, 2]
    assert played.traffic.down[0] == 4 * (16 * 10 + 1)
    assert all(
        np.isfinite(a).all() for state in played.state.clients.values() for a in state.values()
    )


@pytest.mark.parametrize("kind", [FedH2L, FedMD])
@pytest.mark.parametrize(
    ("participation", "fault"),
    [(Participation(rate=0.5), Fault.ABSENT), (Participation(late=0.3), Fault.LATE)],
    ids=["absent", "late"],
)
def test_nodes_that_are_not_there_do_no_harm(kind, participation, fault):
    method, state, faults = kind(replace(TASK, clients=6), SGD, **FEW[kind]), None, set()
    for t in range(5):
        played = play(method, 1, state, t, participation=participation)
        state = played.state
        faults |= set(played.faults.codes.tolist())
        here = played.faults.codes == 0
        assert np.isfinite(played.client_metrics["flops"][here]).all()
    assert faults == {Fault.NONE, fault}
    for held in state.clients.values():
        assert all(np.isfinite(a).all() for a in held.values())


@pytest.mark.parametrize("kind", [FedH2L, FedMD])
def test_a_federation_goes_on_from_its_state_to_the_same_bits(kind):
    method = kind(TASK, AMSGRAD, **FEW[kind])
    once = play(method, 3).state
    half = FederationState.unflatten(play(method, 2).state.flatten())
    again = play(method, 1, half, 2).state
    for client, state in once.clients.items():
        for n, array in state.items():
            np.testing.assert_array_equal(array, again.clients[client][n])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: FedH2L(TaskSpec(clients=1), SGD),
            "clients must be 2 or more for fedh2l: a peer alone has nobody to learn from",
        ),
        (lambda: FedH2L(TASK, SGD, public=0.0), "public must be above 0 for fedh2l"),
        (lambda: FedH2L(TASK, SGD, labelled=False, kl=False), "labelled must be true where kl"),
        (
            lambda: FedH2L(TASK, SGD, labelled=False, local="all"),
            "labelled must be true to train on what others show",
        ),
        (lambda: FedH2L(TASK, SGD, conflict="avoid"), "one of project, pcgrad, ignore"),
        (lambda: FedH2L(TASK, SGD, steps=0), "steps must be at least 1"),
        (lambda: FedMD(TASK, SGD, labelled=False), "transfer must be 0 where public data have no"),
        (lambda: FedMD(TASK, SGD, digest=0), "digest must be at least 1"),
    ],
)
def test_bad_settings(make, message):
    with pytest.raises(ArgumentError, match=message):
        make()


# FedMD


def test_fedmd_digests_the_mean_of_the_logits_and_then_revisits():
    method = FedMD(TASK, SGD, transfer=2, digest=2)
    made, models = method.loaded, [method.loaded.build("mlp") for _ in range(3)]
    optimizers = [torch.optim.SGD(model.parameters(), 0.05) for model in models]

    def train(i, batches):
        for rows in batches:
            logits, y = classify(models[i], made, rows)
            loss = torch.nn.functional.cross_entropy(logits, y)
            step(models[i], optimizers[i], gradient(models[i], loss))

    for i in range(3):
        transfer = method.plans(Call({}, {}, Context(SEED, 0, 0, i)))
        assert set(np.concatenate(transfer[0])) <= set(np.concatenate(method.seeds.public))
        assert set(np.concatenate(transfer[1])) <= set(method.seeds.private[i])
        train(i, [*transfer[0], *transfer[1]])
    shown = np.concatenate(method.batches(Context(SEED, 0, 1)))
    with torch.no_grad():
        logits = torch.stack([classify(model, made, shown)[0] for model in models])
    for i, model in enumerate(models):
        for _ in range(2):
            found, _ = classify(model, made, shown)
            loss = (found - logits.mean(0)).abs().mean()
            step(model, optimizers[i], gradient(model, loss))
        train(i, method.own_steps(Call({}, {}, Context(SEED, 0, 1, i))))
    # A difference that is zero but for rounding has a slope of either sign.
    assert_models(play(method), [model.state_dict() for model in models], atol=5e-5)


def test_fedmd_transfers_once_and_sends_logits_alone():
    method = FedMD(TASK, SGD, transfer=5)
    first, second = play(method, 1), play(method, 2)
    numbers = 3 * 16 * 10
    for played in (first, second):
        assert played.traffic.up.tolist() == [4 * numbers] * 3
        assert played.traffic.down.tolist() == [4 * numbers] * 3
    flops = first.client_metrics["flops"] - second.client_metrics["flops"]
    made = method.loaded
    x, _ = made.tensors.batch(made.tensors.rows(made.split.train[0][:2]))
    np.testing.assert_allclose(flops, 10 * 16 * measure(made.model(0), x).training)


def test_without_a_consensus_fedmd_revisits_only():
    method = FedMD(TASK, SGD, transfer=0)
    plans = method.plans(Call({"model/x": np.ones(1)}, {}, Context(SEED, 0, 1, 0)))
    assert plans[2] == []
    assert len(plans[3]) == 1
    assert method.answer({}, {}) == ({}, {EVERYONE: {}})
