"""FML, FedKD, FedMRL, FedRAL, pFedES: a part of one form beside models that differ."""

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
from hopfed.neural.evaluation import Network  # noqa: E402
from hopfed.neural.method import below, unpack  # noqa: E402
from hopfed.neural.methods.fedkd import FedKD  # noqa: E402
from hopfed.neural.methods.fedmrl import FedMRL  # noqa: E402
from hopfed.neural.methods.fedral import FedRAL  # noqa: E402
from hopfed.neural.methods.fml import FML  # noqa: E402
from hopfed.neural.methods.pfedes import PFedES  # noqa: E402
from hopfed.neural.methods.standalone import Standalone  # noqa: E402
from hopfed.neural.task import TaskSpec  # noqa: E402
from hopfed.neural.training import Training, forward_of  # noqa: E402

TASK = TaskSpec(models=("mlp", "lenet"), clients=4, examples=300, partition="dirichlet:0.5")
SAME = TaskSpec(models=("lenet",), clients=4, examples=300, partition="dirichlet:0.5")
TRAINING = Training(lr=0.02, way="sequential")
SMALL = {"proxy": "lenet"}
PROXIED = [(FML, SMALL), (FedKD, SMALL), (FedMRL, SMALL)]
EVERY = [*PROXIED, (FedRAL, {"least": 0.1, "levels": 2}), (PFedES, {})]


def make(cls, settings, task=None, training=TRAINING):
    return cls(task or (SAME if issubclass(cls, FedRAL) else TASK), training, **settings)


def play(method, rounds, participation=None, each=None):
    state, clients = None, method.task.clients
    for t in range(rounds):
        played = play_round(
            method,
            state,
            t,
            seed=0,
            clients=clients,
            engine=LocalEngine(),
            participation=participation,
        )
        state = played.state
        if each:
            each(played)
    return played


def objective(method, answer, y, mask=None):
    return method.objective(lambda params, x: answer, {}, None, y, mask, {})


def kl(p, q):
    return float(np.sum(np.multiply(p, np.log(np.divide(p, q)))))


P, Q = [0.5, 0.25, 0.25], [0.2, 0.2, 0.6]


def pair():
    """Features and logits of two models for one example."""
    logits = [torch.log(torch.tensor([p])).requires_grad_() for p in (P, Q)]
    features = [torch.tensor([[1.0, 3.0]]).requires_grad_(), torch.tensor([[2.0, 5.0]])]
    features[1].requires_grad_()
    return list(zip(features, logits, strict=True))


def test_mutual_learning_by_hand():
    answer, y = pair(), torch.tensor([0])
    method = FML(TASK, weight=0.3, weight_shared=0.6)
    loss = objective(method, answer, y)
    own = 0.7 * -np.log(0.5) + 0.3 * kl(Q, P)
    shared = 0.4 * -np.log(0.2) + 0.6 * kl(P, Q)
    assert float(loss.detach()) == pytest.approx(own + shared, rel=1e-5)
    # A student's gradient is softmax minus what it is told; the teacher gets none for telling.
    grads = torch.autograd.grad(loss, [logits for _, logits in answer])
    told = np.eye(3)[0]
    np.testing.assert_allclose(
        grads[0][0], 0.7 * (np.array(P) - told) + 0.3 * np.subtract(P, Q), atol=1e-6
    )
    np.testing.assert_allclose(
        grads[1][0], 0.4 * (np.array(Q) - told) + 0.6 * np.subtract(Q, P), atol=1e-6
    )


def test_adaptive_lessons_by_hand():
    answer, y = pair(), torch.tensor([0])
    loss = objective(FedKD(TASK, weight=2.0), answer, y)
    labels = -np.log(0.5) - np.log(0.2)
    far = (1.0 + 4.0) / 2
    lessons = kl(Q, P) + kl(P, Q) + 2 * far
    assert float(loss.detach()) == pytest.approx(labels + 2.0 * lessons / labels, rel=1e-5)
    # The divisor is given: gradients of features are those of the distance alone.
    grads = torch.autograd.grad(loss, [features for features, _ in answer])
    for grad, sign in zip(grads, (-1, 1), strict=True):
        np.testing.assert_allclose(grad[0], sign * 2 / labels * np.array([1.0, 2.0]), rtol=1e-5)


def test_a_client_that_fits_its_examples_is_not_divided_by_nothing():
    sure = torch.tensor([[40.0, 0.0]])
    answer = [(torch.zeros(1, 2), sure), (torch.ones(1, 2), sure)]
    assert float(objective(FedKD(TASK), answer, torch.tensor([0]))) == pytest.approx(2 / 0.1)


@pytest.mark.parametrize(("cls", "settings"), [*PROXIED[:2], (PFedES, {})])
def test_rows_that_pad_a_batch_do_not_count(cls, settings):
    method = make(cls, settings)
    params = method.initial(0)
    tensors = method.made.tensors
    x, y = tensors.batch(tensors.rows(method.made.split.train[0][:5]))
    mask = torch.tensor([1.0, 1.0, 1.0, 0.0, 0.0])
    forward = forward_of(method.net(0).train())
    a = method.objective(forward, params, x, y, mask, {})
    b = method.objective(forward, params, x[:3], y[:3], None, {})
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("cls", "settings"),
    [(FML, SMALL | {"weight": 0.0}), (FedKD, SMALL | {"weight": 0.0}), (PFedES, {"mu": 0.0})],
)
def test_without_its_lessons_a_method_is_standalone_to_the_bit(cls, settings):
    method, alone = make(cls, settings), Standalone(TASK, TRAINING)
    ours, theirs = play(method, 2).state.clients, play(alone, 2).state.clients
    for c in range(TASK.clients):
        model = alone.personal(theirs[c], {}, c)
        for name, tensor in method.personal(ours[c], {}, c).items():
            assert torch.equal(tensor, model[name]), name


@pytest.mark.parametrize(("cls", "settings"), EVERY)
def test_stacked_clients_train_as_each_would_alone(cls, settings):
    task = TaskSpec(models=("lenet",), clients=3, examples=200, partition="dirichlet:0.3")
    together = make(cls, settings, task, Training(lr=0.02, way="stacked"))
    a, b = play(make(cls, settings, task), 1), play(together, 1)
    for c in range(task.clients):
        for name, array in a.state.clients[c].items():
            np.testing.assert_allclose(array, b.state.clients[c][name], rtol=0, atol=1e-5)


@pytest.mark.parametrize(("cls", "settings"), [p for p in EVERY if p[0] is not FedKD])
def test_only_the_shared_part_crosses_the_wire_and_comes_back_averaged(cls, settings):
    method, sent = make(cls, settings), {}

    class Spy(LocalEngine):
        def step(self, method, calls):
            outcomes = super().step(method, calls)
            sent.update({c.context.client: o.message for c, o in zip(calls, outcomes, strict=True)})
            return outcomes

    played = play_round(method, None, 0, seed=0, clients=4, engine=Spy())
    sizes = method.made.split.sizes[:, 0]
    for c, message in sent.items():
        band = method.band(c).sum() if cls is FedRAL else None
        numbers = sum(t.numel() for t in method.first.values()) if band is None else band
        assert played.traffic.up[c] == nbytes(message) == 4 * numbers + 8
        assert int(message["examples"]) == sizes[c]
        assert malformed(message, method.expects({}, Context(0, 0, 0, c))) is None
    if cls is not FedRAL:
        for name, mean in played.state.down[EVERYONE].items():
            parts = [sent[c][name] for c in range(4)]
            np.testing.assert_allclose(
                mean, np.average(parts, axis=0, weights=sizes), rtol=1e-4, atol=1e-6
            )


@pytest.mark.parametrize(("cls", "settings"), EVERY)
def test_a_client_of_nan_and_absent_ones_harm_nobody(cls, settings):
    class Sick(cls):
        def closes(self, call, params):
            if call.context.client == 1:
                params = {n: t * float("nan") for n, t in params.items()}
            return super().closes(call, params)

    seen = set()
    played = play(
        make(Sick, settings),
        4,
        Participation(rate=0.5),
        lambda played: seen.update(played.faults.codes.tolist()),
    )
    assert seen == {Fault.NONE, Fault.ABSENT, Fault.NOT_FINITE}
    for message in played.state.down.values():
        assert all(np.isfinite(a).all() for a in message.values())
    method = make(cls, settings)
    x, _ = method.made.tensors.batch(torch.arange(6))
    for c in range(4):  # client 1 was never heard
        own = played.state.clients.get(c, {})
        down = played.state.down.get(c, played.state.down[EVERYONE])
        scores = method.classifier(own, down, c)(x)
        assert scores.shape == (6, 10)
        assert torch.isfinite(scores).all()


@pytest.mark.parametrize(("cls", "settings"), EVERY)
def test_batches_of_one_example(cls, settings):
    training = Training(lr=0.01, way="sequential", batch=1)
    task = TaskSpec(models=("lenet",), clients=2, examples=60)
    played = play(make(cls, settings, task, training), 1)
    assert (played.faults.codes == Fault.NONE).all()


# FedKD


def test_the_share_that_is_kept_rises_from_start_to_end():
    method = FedKD(TASK, rounds=5)
    shares = [method.energy(t) for t in range(7)]
    np.testing.assert_allclose(shares, [0.95, 0.9575, 0.965, 0.9725, 0.98, 0.98, 0.98])
    assert FedKD(TASK, rounds=1).energy(0) == 0.95


def test_both_ends_hold_the_same_model_whoever_was_absent_or_late():
    method = make(FedKD, SMALL | {"rounds": 6})
    kinds = set()

    def check(played):
        server = {n[6:]: a for n, a in played.state.server.items() if n.startswith("model/")}
        for c in range(TASK.clients):
            own = played.state.clients.get(c, {})
            down = played.state.down.get(c, played.state.down[EVERYONE])
            kinds.add(any(n.startswith("update/") for n in down))
            shared = below(method.starts(own, down, c), "shared")
            for name, tensor in shared.items():
                np.testing.assert_array_equal(tensor.numpy(), server[name])

    play(method, 6, Participation(rate=0.75, late=0.4, delay=2), check)
    assert kinds == {True, False}


def test_an_update_costs_its_directions():
    method = make(FedKD, SMALL)
    call = {}

    class Spy(LocalEngine):
        def step(self, method, calls):
            outcomes = super().step(method, calls)
            call.update({c.context.client: o for c, o in zip(calls, outcomes, strict=True)})
            return outcomes

    played = play_round(method, None, 0, seed=0, clients=4, engine=Spy())
    whole = sum(t.numel() for t in method.first.values())
    for c, outcome in call.items():
        message = outcome.message
        numbers = 0
        for name, tensor in method.first.items():
            sent = message[f"update/{name}"]
            if tensor.ndim > 1:
                ends = len(tensor) + tensor[0].numel()
                rank = len(sent)
                assert 1 <= rank <= min(len(tensor), tensor[0].numel())
                numbers += rank * ends
            else:
                numbers += tensor.numel()
        assert nbytes(message) == 4 * numbers + 16 == played.traffic.up[c]
        assert numbers < whole
        update = unpack(outcome.state, "base")
        assert update.keys() == method.first.keys()
        bad = message | {"update/header.weight": message["update/header.weight"][:, 1:]}
        assert "header.weight" in malformed(bad, method.expects({}, Context(0, 0, 0, c)))


def test_training_that_moves_nothing_still_sends_one_direction():
    method = make(FedKD, SMALL, training=Training(epochs=0))
    played = play(method, 2)
    assert (played.faults.codes == Fault.NONE).all()
    ends = sum(len(t) + t[0].numel() if t.ndim > 1 else t.numel() for t in method.first.values())
    assert played.traffic.up.tolist() == [4 * ends + 16] * 4


# FedMRL


def test_nested_headers_read_one_projection():
    method = make(FedMRL, SMALL | {"width": 30})
    net, x = method.net(0).eval(), method.made.tensors.batch(torch.arange(3))[0]
    own, shared = net(x)
    both = torch.cat([net.shared.features(x), net.own.features(x)], dim=1)
    fused = both @ net.projector.weight.T + net.projector.bias
    assert fused.shape == (3, method.made.model(0).feature_dim)
    torch.testing.assert_close(own, net.own.header(fused))
    torch.testing.assert_close(shared, net.shared.header(fused[:, :30]))
    assert make(FedMRL, {}).net(0).shared.header.in_features == 84  # lenet's, the shortest


def test_the_projector_stays_and_persists():
    method = make(FedMRL, SMALL)
    first, second = play(method, 1).state.clients[0], play(method, 2).state.clients[0]
    start = method.initial(0)["projector.weight"].numpy()
    assert (first["model/projector.weight"] != start).any()
    began = method.starts(first, {}, 0)["projector.weight"].numpy()
    np.testing.assert_array_equal(began, first["model/projector.weight"])
    assert (second["model/projector.weight"] != began).any()
    assert not any("projector" in name for name in method.expects({}, Context(0, 0, 0, 0)))


# FedRAL


def test_before_training_the_matrix_turns_nothing():
    method = make(FedRAL, {})
    x, _ = method.made.tensors.batch(torch.arange(5))
    plain = Network(method.made.model(0), method.made.initial(0))(x)
    torch.testing.assert_close(method.classifier({}, {}, 0)(x), plain, rtol=1e-4, atol=1e-5)


def test_a_matrix_changes_angles_and_not_lengths():
    method = make(FedRAL, {})
    params = method.initial(0)
    params["shared.weight"] *= 7.0
    x, _ = method.made.tensors.batch(torch.arange(5))
    scaled = torch.func.functional_call(method.net(0), params, (x,))
    torch.testing.assert_close(scaled, method.net(0)(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_a_band_has_the_entries_of_its_diagonals(share):
    method = make(FedRAL, {"least": share, "levels": 2})
    d, b = 84, int(np.ceil(share * 83))
    assert method.band(0).all()
    assert method.band(1).sum() == d * (2 * b + 1) - b * (b + 1)
    assert make(FedRAL, {"levels": 1}).band(3).all()


def test_entries_are_averaged_over_those_who_sent_them():
    method = make(FedRAL, {"least": 0.0, "levels": 3})  # all diagonals, 2 * 42 + 1, one
    before = {"model/weight": np.full((84, 84), 9.0, dtype=np.float32)}

    def message(c, value, size):
        entries = np.full(method.band(c).sum(), value, dtype=np.float32)
        return {"model/weight": entries, "examples": np.array(size)}

    after, down = method.answer(before, {1: message(1, 1.0, 30), 2: message(2, 5.0, 10)})
    matrix = down[EVERYONE]["model/weight"]
    np.testing.assert_allclose(np.diag(matrix), 2.0)
    np.testing.assert_allclose([matrix[0, 1], matrix[42, 0], matrix[0, 43]], [1.0, 1.0, 9.0])
    after, _ = method.answer(after, {0: message(0, 3.0, 10)})
    np.testing.assert_allclose(after["model/weight"], 3.0)


def test_what_lies_outside_the_band_has_no_effect():
    method = make(FedRAL, {"least": 0.1, "levels": 2})
    down = {"model/weight": np.ones((84, 84), dtype=np.float32)}
    start = method.starts({}, down, 1)["shared.weight"].numpy()
    np.testing.assert_array_equal(start != 0, method.band(1))
    played = play(method, 1)
    kept = played.state.clients[1]["model/shared.weight"]
    np.testing.assert_array_equal(kept[~method.band(1)], 0)


# pFedES


def test_model_and_extractor_are_trained_in_turn():
    method = make(PFedES, {"turns": 3})
    first, second = method.phases()
    assert (first.epochs, second.epochs) == (1, 3)
    assert make(PFedES, {}).phases()[1].epochs == 1
    x, y = torch.zeros(2, 1, 8, 8), torch.tensor([0, 1])

    def forward(params, inputs, extracted):
        return torch.log(torch.tensor([P, P] if extracted else [Q, Q]))

    plain, through = -(np.log(0.2) + np.log(0.2)) / 2, -(np.log(0.5) + np.log(0.25)) / 2
    method = make(PFedES, {"mu": 0.25})
    loss = method.objective(forward, {}, x, y, None, {})
    assert float(loss) == pytest.approx(0.75 * plain + 0.25 * through, rel=1e-6)
    assert float(method.through(forward, {}, x, y, None, {})) == pytest.approx(through, rel=1e-6)


def test_running_statistics_are_those_of_plain_images():
    task = TaskSpec(models=("mobilenet-v2",), clients=2, examples=60, norm="batch", seed=3)
    training = Training(lr=0.0001, way="sequential", batch=64)
    method = make(PFedES, {"mu": 0.5}, task, training)
    alone = play(Standalone(task, training), 1).state.clients[0]
    ours = method.personal(play(method, 1).state.clients[0], {}, 0)
    name = next(n for n in ours if n.endswith("running_mean"))  # one step, from equal weights
    np.testing.assert_array_equal(ours[name].numpy(), alone[f"model/{name}"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: FML(TASK, proxy="cnn-6"), "proxy must be one of .* got cnn-6"),
        (lambda: FML(TASK, weight=1.5), r"weight must be in \[0, 1\]"),
        (lambda: FML(TASK, weight_shared=-0.5), r"weight_shared must be in \[0, 1\]"),
        (lambda: FedKD(TASK, weight=-1.0), "weight must be at least 0"),
        (lambda: FedKD(TASK, start=0.0), r"start must be in \(0, 1\]"),
        (lambda: FedKD(TASK, end=1.5), r"end must be in \(0, 1\]"),
        (lambda: FedKD(TASK, rounds=0), "rounds must be at least 1"),
        (lambda: FedMRL(TASK, width=-1), "width must be at least 0"),
        (lambda: FedMRL(TASK, width=85).server_start(0), "width must be at most 84"),
        (lambda: FedRAL(TASK, least=1.5), r"least must be in \[0, 1\]"),
        (lambda: FedRAL(TASK, levels=0), "levels must be at least 1"),
        (lambda: FedRAL(TASK).server_start(0), "models must be of one feature length"),
        (lambda: PFedES(TASK, mu=1.5), r"mu must be in \[0, 1\]"),
        (lambda: PFedES(TASK, kernels=0), "kernels must be at least 1"),
        (lambda: PFedES(TASK, turns=-1), "turns must be at least 0"),
    ],
)
def test_bad_settings(call, message):
    with pytest.raises(ArgumentError, match=message):
        call()
