"""FML and FedKD: lessons by hand, and the directions that FedKD sends of an update."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from auxiliary import SMALL, TASK, P, Q, make, play  # noqa: E402

from hopfed.federation.contract import EVERYONE, Context  # noqa: E402
from hopfed.federation.engines.local import LocalEngine  # noqa: E402
from hopfed.federation.faults import Fault  # noqa: E402
from hopfed.federation.messages import malformed, nbytes  # noqa: E402
from hopfed.federation.participation import Participation  # noqa: E402
from hopfed.federation.rounds import play_round  # noqa: E402
from hopfed.neural.method import below, unpack  # noqa: E402
from hopfed.neural.methods.fedkd import FedKD  # noqa: E402
from hopfed.neural.methods.fml import FML  # noqa: E402
from hopfed.neural.training.training import Training  # noqa: E402


def objective(method, answer, y, mask=None):
    return method.objective(lambda params, x: answer, {}, None, y, mask, {})


def kl(p, q):
    return float(np.sum(np.multiply(p, np.log(np.divide(p, q)))))


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
            shared = below(method.start_params(own, down, c), "shared")
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
        bad = message | {"update/head.weight": message["update/head.weight"][:, 1:]}
        assert "head.weight" in malformed(bad, method.expects({}, Context(0, 0, 0, c)))


def test_training_that_moves_nothing_still_sends_one_direction():
    method = make(FedKD, SMALL, training=Training(epochs=0))
    played = play(method, 2)
    assert (played.faults.codes == Fault.NONE).all()
    ends = sum(len(t) + t[0].numel() if t.ndim > 1 else t.numel() for t in method.first.values())
    assert played.traffic.up.tolist() == [4 * ends + 16] * 4
