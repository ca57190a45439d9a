"""What single methods do beside their equations: parts, public examples, clusters, processes."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, nnls

torch = pytest.importorskip("torch", reason="torch is not installed")

from asked import Asked, play  # noqa: E402

from hopfed.errors import DataError  # noqa: E402
from hopfed.federation.contract import EVERYONE, Context  # noqa: E402
from hopfed.federation.participation import Participation  # noqa: E402
from hopfed.neural.method import Client, below, pack, unpack  # noqa: E402
from hopfed.neural.methods import method  # noqa: E402
from hopfed.neural.methods.clustered_fl import ClusteredFL, bipartition  # noqa: E402
from hopfed.neural.methods.heads import supervised_contrast  # noqa: E402
from hopfed.neural.methods.knn_per import PFedGP  # noqa: E402
from hopfed.neural.methods.stepwise import (  # noqa: E402
    FedH2L,
    project,
    seed_set,
)
from hopfed.neural.training.evaluation import Network, accuracies  # noqa: E402
from hopfed.neural.training.losses import Batch, Net  # noqa: E402
from hopfed.neural.training.task import TaskSpec, task_of  # noqa: E402
from hopfed.neural.training.training import Training  # noqa: E402

TASK = TaskSpec(models=("mlp:20",), clients=4, examples=300, partition="classes:4")


def make(name, task=TASK, **settings):
    return method(name)(task, Training(lr=0.05, way="sequential"), **settings)


def test_rows_that_nobody_sent_or_that_a_client_has_not_seen_keep_their_history():
    made = make("fedssa")
    seen = made.seen(0)
    rows = np.ones((seen.sum(), 21), np.float32)
    rows[1] = 0  # nobody has sent this one yet
    params = made.begin(Client(made, {}, Context(0, 1, 0, 0)), {"rows": rows})
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


@pytest.mark.parametrize("labels", [[0, 0, 1], [0, 0, 0], [0, 1, 2], [3]])
def test_a_contrast_has_a_gradient_also_without_features_or_others_of_a_class(labels):
    for z in (torch.zeros(len(labels), 4), torch.randn(len(labels), 4)):
        loss = supervised_contrast(z.requires_grad_(), torch.tensor(labels), None, 0.1)
        (gradient,) = torch.autograd.grad(loss, z)
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

    play(made, 6, each=check, participation=Participation(rate=0.75, late=0.4, delay=2))
    assert kinds == {True, False}


ROTATED = TaskSpec(
    partition="rotation:0,20,40,60:20:same", clients=4, models=("mlp:16",), shares=(75, 10, 15)
)
SGD = Training("sgd", lr=0.05, batch=16, way="sequential")


@pytest.mark.parametrize("share", [0.05, 0.1, 0.15])
def test_public_and_private_are_the_training_examples_of_each_node(share):
    made, seeds = task_of(ROTATED), seed_set(ROTATED, share)
    labels = made.split.dataset.labels
    for client, rows in enumerate(made.split.train):
        private, public = seeds.private[client], seeds.public[client]
        assert len(public) == round(share * 200)
        np.testing.assert_array_equal(np.sort(np.concatenate([private, public])), rows)
        assert np.ptp(np.bincount(labels[public], minlength=10)) <= 1
    other = seed_set(replace(ROTATED, seed=1), share)
    assert any((a != b).any() for a, b in zip(seeds.public, other.public, strict=True))


def test_public_images_are_no_rotations_of_test_images():
    split, seeds = task_of(ROTATED).split, seed_set(ROTATED, 0.15)
    tested = split.dataset.group[np.concatenate(split.test)]
    shown = split.dataset.group[np.concatenate(seeds.public)]
    assert len(np.unique(tested)) == 30
    assert not set(tested) & set(shown)


def test_a_node_keeps_a_private_example():
    spec = TaskSpec(partition="iid", clients=10, models=("mlp:16",), examples=30)
    with pytest.raises(DataError, match=r"client 0 of 10 has 1 training examples, too few"):
        seed_set(spec, 0.1)
    assert [len(rows) for rows in seed_set(spec, 0).private] == [1] * 10


numbers = st.floats(-10, 10, allow_subnormal=False).map(lambda v: 0.0 if abs(v) < 1e-3 else v)
pairs = st.integers(1, 12).flatmap(
    lambda n: st.tuples(*[st.lists(numbers, min_size=n, max_size=n)] * 2)
)


def named(vector):
    """A gradient of two parameters, the first with the first half of the numbers."""
    vector = torch.as_tensor(vector, dtype=torch.float64)
    return {"w": vector[: len(vector) // 2], "b": vector[len(vector) // 2 :]}


def flat(gradient):
    return torch.cat(list(gradient.values())).numpy()


@settings(max_examples=40)
@given(pairs)
def test_the_projection_solves_the_quadratic_program_and_its_dual(pair):
    public, local = map(np.asarray, pair)
    found = flat(project(named(public), named(local)))
    primal = minimize(
        lambda z: ((z - public) ** 2).sum() / 2,
        np.zeros_like(public),
        jac=lambda z: z - public,
        constraints={"type": "ineq", "fun": lambda z: local @ z, "jac": lambda z: local},
        method="SLSQP",
        options={"ftol": 1e-14},
    )
    np.testing.assert_allclose(found, primal.x, atol=1e-5)
    v, _ = nnls(local[:, None], -public)  # (14): the v of least |v g_loc + g_pub|^2
    np.testing.assert_allclose(found, public + v * local, atol=1e-10)
    if public @ local >= 0:
        np.testing.assert_array_equal(found, public)


@pytest.mark.parametrize("kl", [True, False])
def test_pairs_hear_their_partner_alone_and_who_has_none_makes_its_local_step(kl):
    method = FedH2L(replace(ROTATED, clients=4), SGD, pairs=True, kl=kl)
    circles = [method.circles(0, t) for t in range(12)]
    assert all(sorted(i for c in circle for i in c) == [0, 1, 2, 3] for circle in circles)
    three = TaskSpec(partition="iid", clients=3, models=("mlp:16",), examples=240)
    method = FedH2L(three, SGD, pairs=True, kl=kl)
    (alone,) = next(c for c in method.circles(0, 0) if len(c) == 1)
    played = play(method)
    conflict = played.client_metrics["conflict"]
    assert np.flatnonzero(np.isnan(conflict)).tolist() == [alone]
    assert np.flatnonzero(played.traffic.down == 0).tolist() == ([alone] if kl else [0, 1, 2])


FIVE = TaskSpec(partition="dirichlet:0.3", clients=5, models=("mlp",), examples=300)
TRAINING = Training(lr=0.05, way="sequential")


def made(cls, spec=FIVE, **settings):
    return cls(spec, TRAINING, **settings)


clusters = st.integers(2, 7).flatmap(
    lambda n: st.integers(0, 10**6).map(
        lambda seed: np.random.default_rng(seed).standard_normal((n, 5))
    )
)


@given(clusters)
def test_single_linkage_has_the_least_similarity_across(x):
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    cos = x @ x.T
    part = bipartition(cos, "single")
    assert 0 < part.sum() < len(x)
    assert not part[0]

    def across(second):
        return cos[np.ix_(~second, second)].max()

    every = [np.array((False, *rest)) for rest in product([False, True], repeat=len(x) - 1)]
    assert across(part) <= min(across(s) for s in every if s.any()) + 1e-12


def sent(method, moves, cluster=0):
    """Messages of clients whose models have moved from the initial one."""
    base = method.loaded.initial(0)
    return {
        c: pack({n: t + move * torch.ones_like(t) for n, t in base.items()})
        | {"examples": np.asarray(10), "cluster": np.asarray(cluster)}
        for c, move in moves.items()
    }


def test_a_cluster_is_parted_at_rest_and_goes_on_in_two():
    method = made(ClusteredFL)
    moves = {0: 0.1, 1: -0.1, 2: 0.1, 4: -0.1}  # client 3 is absent
    state, down, metrics = method.play({}, Asked(sent(method, moves)))
    assert metrics["clusters"] == 2
    assert state["cluster_of"].tolist() == [0, 1, 0, -1, 1]
    base = method.loaded.initial(0)
    for c, move in moves.items():
        for name, tensor in unpack(down[c]).items():
            torch.testing.assert_close(tensor, base[name] + move)
    assert set(down) == {0, 1, 2, 4, EVERYONE}
    # The absent one chooses by its validation examples, among models good and bad.
    everything = dict(down[EVERYONE])
    for name in [n for n in everything if n.startswith("0/")]:
        everything[name] = np.zeros_like(everything[name])
    client = Client(method, {}, Context(0, 0, 0, 3))
    fits = [method._fits(unpack(everything, f"{k}/model"), client) for k in (0, 1)]
    chosen, params = method.choose(client, everything)
    assert chosen == int(np.argmax([f[0] + 1e-6 * f[1] for f in fits]))
    for name, tensor in unpack(everything, f"{chosen}/model").items():
        assert (params[name] == tensor).all()
    # Cluster 0 goes on alone; cluster 1, not heard, keeps its model; client 3 joins.
    messages = sent(method, {0: 0.2, 2: 0.2, 3: 0.2})
    state, down, _ = method.play(state, Asked(messages, 1))
    assert state["cluster_of"].tolist() == [0, 1, 0, 0, 1]
    for name, tensor in unpack(down[1]).items():
        torch.testing.assert_close(tensor, base[name] - 0.1)
    for name, tensor in unpack(down[3]).items():
        torch.testing.assert_close(tensor, base[name] + 0.2)


def test_a_late_message_does_not_assign_its_client_to_a_cluster_that_was_split():
    method = made(ClusteredFL)
    state, *_ = method.play({}, Asked(sent(method, {0: 0.1, 1: -0.1, 2: 0.1, 4: -0.1})))
    late = sent(method, {3: 0.1})
    state, down, _ = method.play(state, Asked(late, 1, {3: 1}))
    assert state["cluster_of"].tolist() == [0, 1, 0, -1, 1]
    assert 3 not in down  # so that it gets all models, and chooses


SPEC = TaskSpec(partition="dirichlet:0.3", clients=4, models=("mlp",), examples=300)


def test_every_client_has_its_own_process_also_one_that_never_took_part():
    method = PFedGP(SPEC, Training(lr=0.05, way="sequential"))

    class Others(Participation):
        def cohort(self, *_):
            return [0, 1, 2]

    played = play(method, 3, participation=Others())
    assert 3 not in played.state.clients
    down, task = played.state.down[EVERYONE], method.loaded
    ways = [method.classifier({}, down, c) for c in range(4)]
    scores = accuracies(ways, task.tensors, [task.split.test])
    assert scores.mean() > 0.6
    crossed = accuracies(ways[1:] + ways[:1], task.tensors, [task.split.test])
    assert crossed.mean() < scores.mean()
