"""Gaussian processes on transformed labels, and pFedGP built on them."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from hopfed.federation.contract import EVERYONE  # noqa: E402
from hopfed.federation.engines.local import LocalEngine  # noqa: E402
from hopfed.federation.participation import Participation  # noqa: E402
from hopfed.federation.rounds import play_round  # noqa: E402
from hopfed.neural.methods.pfedgp import (  # noqa: E402
    PFedGP,
    log_evidence,
    process,
)
from hopfed.neural.training.evaluation import accuracies  # noqa: E402
from hopfed.neural.training.task import TaskSpec  # noqa: E402
from hopfed.neural.training.training import Training  # noqa: E402

SPEC = TaskSpec(partition="dirichlet:0.3", clients=4, models=("mlp",), examples=300)
LENGTH, SCALE = torch.tensor([0.2]), torch.tensor([1.5])


def examples(n=12, d=5, classes=3, seed=0):
    draws = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % classes
    return torch.randn(n, d, generator=draws) + labels[:, None], labels


def trained(method, rounds=3, **settings):
    state = None
    for t in range(rounds):
        played = play_round(method, state, t, seed=0, clients=4, engine=LocalEngine(), **settings)
        state = played.state
    return played


def test_rows_that_pad_a_batch_do_not_count():
    x, labels = examples()
    padded = torch.cat([x, x[:1].expand(5, -1)])
    more = torch.cat([labels, labels[:1].expand(5)])
    mask = torch.tensor(12 * [1.0] + 5 * [0.0])

    def both(z, y, mask):
        z = z.clone().requires_grad_()
        value = log_evidence(z, y, 3, LENGTH, SCALE, mask)
        return value, torch.autograd.grad(value, z)[0][:12]

    for a, b in zip(both(x, labels, None), both(padded, more, mask), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_a_process_of_one_example_of_one_class_answers():
    p = process(torch.ones(1, 4), torch.tensor([2]), 5, LENGTH, SCALE)(torch.zeros(3, 4)).exp()
    assert p.isfinite().all()
    assert (p.argmax(dim=1) == 2).all()


def test_every_client_has_its_own_process_also_one_that_never_took_part():
    method = PFedGP(SPEC, Training(lr=0.05, way="sequential"))
    played = trained(method, participation=Participation(joins=(0, 0, 0, 99)))
    assert 3 not in played.state.clients
    down, task = played.state.down[EVERYONE], method.loaded
    ways = [method.classifier({}, down, c) for c in range(4)]
    scores = accuracies(ways, task.tensors, [task.split.test])
    assert scores.mean() > 0.6
    assert ways[0].extractor is ways[3].extractor
    assert [w.process.size for w in ways] == task.split.sizes[:, 0].tolist()
    crossed = accuracies(ways[1:] + ways[:1], task.tensors, [task.split.test])
    assert crossed.mean() < scores.mean()


def test_a_large_client_is_sampled():
    method = PFedGP(SPEC, Training(), most=20)
    way = method.classifier({}, {}, 0)
    assert way.process.size == 20
    assert way.process.nbytes == 20 * (4 * 200 + 1)
