"""FML, FedKD, FedMRL, FedRAL, pFedES: a part of one form beside models that differ."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from auxiliary import SMALL, TASK, TRAINING, P, Q, make, play  # noqa: E402

from hopfed.errors import ArgumentError  # noqa: E402
from hopfed.federation.contract import EVERYONE, Context  # noqa: E402
from hopfed.federation.engines.local import LocalEngine  # noqa: E402
from hopfed.federation.faults import Fault  # noqa: E402
from hopfed.federation.messages import malformed, nbytes  # noqa: E402
from hopfed.federation.participation import Participation  # noqa: E402
from hopfed.federation.rounds import play_round  # noqa: E402
from hopfed.neural.methods.fedkd import FedKD  # noqa: E402
from hopfed.neural.methods.fedmrl import FedMRL  # noqa: E402
from hopfed.neural.methods.fedral import FedRAL  # noqa: E402
from hopfed.neural.methods.fml import FML  # noqa: E402
from hopfed.neural.methods.pfedes import PFedES  # noqa: E402
from hopfed.neural.methods.standalone import Standalone  # noqa: E402
from hopfed.neural.training.task import TaskSpec  # noqa: E402
from hopfed.neural.training.training import Training, forward_of  # noqa: E402

PROXIED = [(FML, SMALL), (FedKD, SMALL), (FedMRL, SMALL)]
EVERY = [*PROXIED, (FedRAL, {"least": 0.1, "levels": 2}), (PFedES, {})]


@pytest.mark.parametrize(("cls", "settings"), [*PROXIED[:2], (PFedES, {})])
def test_rows_that_pad_a_batch_do_not_count(cls, settings):
    method = make(cls, settings)
    params = method.initial(0)
    tensors = method.loaded.tensors
    x, y = tensors.batch(tensors.rows(method.loaded.split.train[0][:5]))
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
    sizes = method.loaded.split.sizes[:, 0]
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
        def finish_at(self, call, params):
            if call.context.client == 1:
                params = {n: t * float("nan") for n, t in params.items()}
            return super().finish_at(call, params)

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
    x, _ = method.loaded.tensors.batch(torch.arange(6))
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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: FML(TASK, proxy="cnn-6"), "proxy must be one of .* got 'cnn-6'"),
        (lambda: FML(TASK, weight=1.5), r"weight must be in \[0, 1\]"),
        (lambda: FML(TASK, weight_shared=-0.5), r"weight_shared must be in \[0, 1\]"),
        (lambda: FedKD(TASK, weight=-1.0), "weight must be at least 0"),
        (lambda: FedKD(TASK, start=0.0), r"start must be in \(0, 1\]"),
        (lambda: FedKD(TASK, end=1.5), r"end must be in \(0, 1\]"),
        (lambda: FedKD(TASK, rounds=0), "rounds must be at least 1"),
        (lambda: FedMRL(TASK, width=-1), "width must be at least 0"),
        (lambda: FedMRL(TASK, nested=0.0), r"nested must be in \(0, 1\]"),
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


# FedMRL


def test_nested_headers_read_one_projection():
    method = make(FedMRL, SMALL | {"width": 30})
    net, x = method.net(0).eval(), method.loaded.tensors.batch(torch.arange(3))[0]
    own, shared = net(x)
    both = torch.cat([net.shared.features(x), net.own.features(x)], dim=1)
    fused = both @ net.projector.weight.T + net.projector.bias
    assert fused.shape == (3, method.loaded.model(0).feature_dim)
    torch.testing.assert_close(own, net.own.head(fused))
    torch.testing.assert_close(shared, net.shared.head(fused[:, :30]))
    # Half of lenet's, the shortest; the same models, but not nested.
    assert make(FedMRL, {}).net(0).shared.head.in_features == 42
    assert make(FedMRL, {"nested": 1.0}).net(0).shared.head.in_features == 84


def test_the_projector_stays_and_persists():
    method = make(FedMRL, SMALL)
    first, second = play(method, 1).state.clients[0], play(method, 2).state.clients[0]
    start = method.initial(0)["projector.weight"].numpy()
    assert (first["model/projector.weight"] != start).any()
    began = method.start_params(first, {}, 0)["projector.weight"].numpy()
    np.testing.assert_array_equal(began, first["model/projector.weight"])
    assert (second["model/projector.weight"] != began).any()
    assert not any("projector" in name for name in method.expects({}, Context(0, 0, 0, 0)))


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
    task = TaskSpec(models=("mobilenet-v2",), clients=1, examples=30, norm="batch", seed=3)
    training = Training(lr=0.0001, way="sequential", batch=64)
    method = make(PFedES, {"mu": 0.5}, task, training)
    alone = play(Standalone(task, training), 1).state.clients[0]
    ours = method.personal(play(method, 1).state.clients[0], {}, 0)
    name = next(n for n in ours if n.endswith("running_mean"))  # one step, from equal weights
    np.testing.assert_array_equal(ours[name].numpy(), alone[f"model/{name}"])
