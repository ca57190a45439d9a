"""FedProto and FD: rows by class that clients send and the server averages."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from auxiliary import play  # noqa: E402

from hopfed.errors import ArgumentError  # noqa: E402
from hopfed.federation.contract import EVERYONE, Context  # noqa: E402
from hopfed.federation.faults import Fault  # noqa: E402
from hopfed.federation.messages import malformed, nbytes  # noqa: E402
from hopfed.federation.participation import Participation  # noqa: E402
from hopfed.neural.classwise import labels_of  # noqa: E402
from hopfed.neural.method import pack, unpack  # noqa: E402
from hopfed.neural.methods.fd import FD  # noqa: E402
from hopfed.neural.methods.fedproto import FedProto  # noqa: E402
from hopfed.neural.methods.standalone import Standalone  # noqa: E402
from hopfed.neural.training.evaluation import Network  # noqa: E402
from hopfed.neural.training.losses import cross_entropy  # noqa: E402
from hopfed.neural.training.task import TaskSpec  # noqa: E402
from hopfed.neural.training.training import Training  # noqa: E402

TASK = TaskSpec(models=("mlp",), clients=4, examples=300, partition="classes:3")
TRAINING = Training(lr=0.05, way="sequential")
BOTH = pytest.mark.parametrize("cls", [FedProto, FD])


def rows(labels, values, **more):
    values = np.asarray(values, dtype=np.float32)
    return {"labels": np.array(labels, dtype=np.int32), "rows": values, **more}


def objective(method, features, logits, y, extra, mask=None):
    return method.objective(lambda params, x: (features, logits), {}, None, y, mask, extra)


def test_the_pull_of_fedproto_by_hand():
    features = torch.tensor([[1.0, 2.0], [0.0, 0.0], [5.0, 5.0], [9.0, 9.0]])
    logits, y = torch.zeros(4, 3), torch.tensor([0, 1, 2, 0])
    extra = {
        "prototypes": torch.tensor([[0.0, 0.0], [3.0, 1.0], [7.0, 7.0]]),
        "known": torch.tensor([1.0, 1.0, 0.0]),
    }
    mask = torch.tensor([1.0, 1.0, 1.0, 0.0])
    method = FedProto(TASK, lam=2.0)
    # (1 + 4) / 2 and (9 + 1) / 2 for two coordinates; class 2 has no prototype, row 3 only pads.
    expected = np.log(3) + 2.0 * (2.5 + 5.0 + 0.0) / 3
    loss = objective(method, features, logits, y, extra, mask)
    assert float(loss) == pytest.approx(expected, rel=1e-6)


def test_the_soft_labels_of_fd_by_hand():
    logits = torch.log(torch.tensor([[0.5, 0.25, 0.25], [0.2, 0.2, 0.6]]))
    extra = {
        "targets": torch.tensor([[0.5, 0.5, 0.0], [0.0] * 3, [0.0] * 3]),
        "known": torch.tensor([1.0, 0.0, 0.0]),
    }
    y = torch.tensor([0, 2])
    loss = objective(FD(TASK, lam=3.0), torch.zeros(2, 2), logits, y, extra)
    hard = -(np.log(0.5) + np.log(0.6)) / 2
    soft = -(0.5 * np.log(0.5) + 0.5 * np.log(0.25)) / 2
    assert float(loss) == pytest.approx(hard + 3.0 * soft, rel=1e-6)


@BOTH
def test_without_its_term_a_method_is_standalone_to_the_bit(cls):
    alone, other = play(Standalone(TASK, TRAINING), 2), play(cls(TASK, TRAINING, lam=0.0), 2)
    for c in range(TASK.clients):
        for name, array in alone.state.clients[c].items():
            np.testing.assert_array_equal(array, other.state.clients[c][name])
    pulled = play(cls(TASK, TRAINING), 2).state.clients
    moved = [(a != pulled[c][n]).any() for c in range(4) for n, a in alone.state.clients[c].items()]
    assert any(moved)


def test_prototypes_are_those_of_the_trained_model():
    method = FedProto(TASK, TRAINING)
    params = method.initial(2)
    params["head.weight"] += 1.0
    params["features.1.bias"] += 0.5
    _, message = method.finish({}, params, 2)
    model, tensors, held = (
        method.loaded.model(2),
        method.loaded.tensors,
        labels_of(method.loaded, 2),
    )
    x, _ = tensors.batch(tensors.rows(method.loaded.split.train[2]))
    features = torch.func.functional_call(
        model.features, {n[9:]: t for n, t in params.items() if n.startswith("features")}, (x,)
    ).numpy()
    assert message["labels"].tolist() == sorted(set(held))
    for label, row, count in zip(*message.values(), strict=True):
        assert count == (held == label).sum()
        np.testing.assert_allclose(row, features[held == label].mean(axis=0), rtol=1e-5, atol=1e-6)


def test_soft_labels_are_mean_probabilities():
    method = FD(TASK, TRAINING)
    _, message = method.finish({}, method.initial(1), 1)
    held = labels_of(method.loaded, 1)
    tensors = method.loaded.tensors
    x, _ = tensors.batch(tensors.rows(method.loaded.split.train[1]))
    soft = Network(method.loaded.model(1), method.initial(1))(x).softmax(dim=1).detach().numpy()
    for label, row in zip(message["labels"], message["rows"], strict=True):
        np.testing.assert_allclose(row, soft[held == label].mean(axis=0), rtol=1e-4, atol=1e-6)
        assert row.sum() == pytest.approx(1.0, abs=1e-5)


@BOTH
def test_the_pass_for_the_rows_is_counted(cls):
    # Products of 8 x 8 pixels, 200, 200 and 10; all but the first have a gradient of their input.
    sizes = [len(rows) for rows in cls(TASK).loaded.split.train]
    products = 64 * 200 + 200 * 200 + 200 * 10
    step, forward = 2 * (3 * products - 64 * 200), 2 * products
    for epochs in (1, 3):
        played = play(cls(TASK, Training(epochs=epochs, batch=16, way="sequential")), 1)
        expected = np.array(sizes) * (epochs * step + forward)
        np.testing.assert_allclose(played.client_metrics["flops"], expected)


def test_prototypes_are_weighed_by_examples_and_outlive_their_holders():
    method = FedProto(TASK)
    wide = np.ones((1, method.loaded.feature_dim), dtype=np.float32)
    before = method.server_start(0)
    messages = {
        0: rows([1, 3], np.concatenate([2 * wide, wide]), counts=np.array([3, 1])),
        2: rows([1], 6 * wide, counts=np.array([1])),
    }
    state, down = method.answer(before, messages)
    assert down[EVERYONE]["labels"].tolist() == [1, 3]
    np.testing.assert_allclose(down[EVERYONE]["rows"][:, 0], [3.0, 1.0])
    # Of class 1 nobody is heard any more; class 3 is replaced; label 99 is nobody's class.
    new = {1: rows([3, 99], np.concatenate([5 * wide, wide]), counts=np.array([1, 1]))}
    state, down = method.answer(state, new)
    assert down[EVERYONE]["labels"].tolist() == [1, 3]
    np.testing.assert_allclose(down[EVERYONE]["rows"][:, 0], [3.0, 5.0])
    assert method.answer(state, {})[1][EVERYONE]["labels"].tolist() == [1, 3]


def test_fd_leaves_out_the_one_it_teaches():
    method, classes = FD(TASK), 10
    row = np.eye(classes, dtype=np.float32)
    messages = {
        0: rows([0, 1], row[[0, 1]]),
        1: rows([0], row[[2]]),
        3: rows([0, 5], row[[4, 5]]),
    }
    _, down = method.answer({}, messages)
    assert down[0]["labels"].tolist() == [0]  # nobody else holds class 1
    np.testing.assert_allclose(down[0]["rows"], [(row[2] + row[4]) / 2])
    np.testing.assert_allclose(down[1]["rows"], [(row[0] + row[4]) / 2])
    assert down[3]["labels"].tolist() == [0]
    assert down[EVERYONE]["labels"].tolist() == [0, 1, 5]
    np.testing.assert_allclose(down[EVERYONE]["rows"][0], (row[0] + row[2] + row[4]) / 3)


def test_a_class_of_one_client_alone_has_no_target_for_it():
    method = FD(TASK)
    _, down = method.answer({}, {2: rows([4], np.ones((1, 10)))})
    extra = method.extra({}, down[2], 2)
    assert extra["known"].sum() == 0
    assert torch.isfinite(extra["targets"]).all()


@pytest.mark.parametrize(("cls", "numbers"), [(FedProto, 200 + 2), (FD, 10 + 1)])
def test_a_class_costs_its_row_and_its_label(cls, numbers):
    method = cls(TASK, TRAINING)
    played = play(method, 1)
    for c in range(TASK.clients):
        held = len(set(labels_of(method.loaded, c)))
        _, message = method.finish({}, method.initial(c), c)
        assert nbytes(message) == 4 * held * numbers == played.traffic.up[c]
        context = Context(0, 0, 0, c)
        assert malformed(message, method.expects({}, context)) is None
        message["rows"] = message["rows"][:1]
        assert "rows is of shape" in malformed(message, method.expects({}, context))


@BOTH
def test_stacked_clients_train_as_each_would_alone(cls):
    spec = TaskSpec(models=("mlp",), clients=4, examples=300, partition="dirichlet:0.3")
    alone = play(cls(spec, TRAINING), 2)
    together = play(cls(spec, Training(lr=0.05, way="stacked")), 2)
    for c in range(spec.clients):
        for name, array in alone.state.clients[c].items():
            np.testing.assert_allclose(array, together.state.clients[c][name], rtol=0, atol=1e-5)


@BOTH
def test_a_client_of_nan_and_absent_ones_harm_nobody(cls):
    class Sick(cls):
        def finish(self, state, params, client):
            if client == 1:
                params = {n: t * float("nan") for n, t in params.items()}
            return super().finish(state, params, client)

    played = play(Sick(TASK, TRAINING), 4, Participation(rate=0.5))
    heard = [c for c in range(4) if c in played.state.clients]
    assert heard
    assert 1 not in heard
    assert Fault.ABSENT in played.faults.codes
    for message in played.state.down.values():
        assert all(np.isfinite(a).all() for a in message.values())


def test_the_nearest_prototype_wins_and_unknown_classes_never():
    method = FedProto(TASK, TRAINING, nearest=True)
    x = method.loaded.tensors.batch(method.loaded.tensors.rows(method.loaded.split.test[0]))[0]
    assert isinstance(method.classifier({}, {}, 0), Network)
    params = method.initial(0)
    features = method.loaded.model(0).features.eval()(x).detach().numpy()
    down = rows([7, 2], np.stack([features[0], features[1]]))
    scores = method.classifier(pack(params), down, 0)(x)
    assert scores.argmax(dim=1)[:2].tolist() == [7, 2]
    assert torch.isinf(scores[:, [0, 1, 3, 4, 5, 6, 8, 9]]).all()


def test_what_a_client_keeps_is_its_model():
    played = play(FD(TASK, TRAINING), 1)
    kept = unpack(played.state.clients[0])
    assert kept.keys() == FD(TASK).loaded.model(0).state_dict().keys()
    x = FD(TASK).loaded.tensors.batch(torch.arange(3))[0]
    y = torch.tensor([1, 2, 3])
    network = FD(TASK).classifier(played.state.clients[0], {}, 0)
    assert torch.isfinite(cross_entropy(network(x), y))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: FedProto(TASK, lam=-1.0), "lam must be at least 0"),
        (lambda: FD(TASK, lam=-1.0), "lam must be at least 0"),
        (
            lambda: FedProto(TaskSpec(models=("mlp", "lenet"), clients=2)).server_start(0),
            "models must be of one feature length, got lenet of 84, mlp of 200",
        ),
    ],
)
def test_bad_settings(call, message):
    with pytest.raises(ArgumentError, match=message):
        call()
