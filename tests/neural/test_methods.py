"""What holds for every method, whatever clients do; and what single ones do beside equations.

That a method computes what its paper says is held in test_plain_loops.py.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from asked import SILENT, TRAINED, Asked, examples, known, play, short_run
from helpers import arrays_of, first_fast
from hypothesis import given
from hypothesis import strategies as st
from stand_ins import plays

from hopfed.errors import ArgumentError, DataError
from hopfed.experiments import fl
from hopfed.experiments.machinery.runner import execute
from hopfed.federation.contract import EVERYONE, Fault
from hopfed.federation.rounds import FederationState
from hopfed.neural.method import below, pack
from hopfed.neural.methods import method
from hopfed.neural.methods.fedavg import bipartition
from hopfed.neural.methods.stepwise import draw_seed_set
from hopfed.neural.training.evaluation import Network
from hopfed.neural.training.losses import Batch, Net
from hopfed.neural.training.task import task_of

SMALL = {"rounds": 3, "examples": 400, "models": ("mlp:20",), "lr": 0.05}
FAST = ("fedavg", "apfl", "fedproto", "fedh2l", "sohip")  # a method of each kind of answer
EVERY = first_fast(TRAINED, FAST)

pytestmark = pytest.mark.filterwarnings("ignore::hopfed.neural.memory.SmallStoreWarning")

# By default 100 steps, 10 epochs, and 100 and 50 passes.
SHORT = {"fedmd": "transfer=5", "fedrep": "head=2", "fedtgp": "passes=5", "fedgen": "passes=5"}


def config(name="fedavg", options="", **settings):
    return short_run(name, options or SHORT.get(name, ""), **(SMALL | settings))


def make(*words, **settings):
    return config(*words, **settings).make(0)


def scores(made, state):
    x, _ = made.loaded.tensors.batch(torch.arange(6))
    for c in range(len(made.loaded.split)):
        yield made.classifier(*known(state, c), c)(x)


@pytest.mark.parametrize("name", EVERY)
def test_nan_absence_lateness_and_batches_of_one_harm_nobody(name):
    cls = method(name)

    class Sick(cls):
        def client_steps(self, calls):
            outcomes = super().client_steps(calls)
            for call, outcome in zip(calls, outcomes, strict=True):
                for n, array in outcome.message.items() if call.context.client == 1 else ():
                    outcome.message[n] = array * (np.nan if array.dtype.kind == "f" else 1)
            return outcomes

    made, seen = make(name, clients=5, examples=150, batch=1, lr=0.001), set()
    look = lambda played: seen.update(played.faults.codes.tolist())  # noqa: E731
    played = play(Sick(**vars(made)), 5, each=look, absent=(3,), rate=0.6, late=0.3)
    assert {Fault.NONE, Fault.ABSENT, Fault.LATE} <= seen
    assert (Fault.NOT_FINITE in seen) == (name not in SILENT)  # which have nothing to refuse
    assert 3 not in played.state.clients
    for message in played.state.down.values():
        assert all(np.isfinite(a).all() for a in message.values())
    if name not in SILENT:
        assert all(s.isfinite().any() and not s.isnan().any() for s in scores(made, played.state))


@pytest.mark.parametrize("name", EVERY)
def test_a_run_survives_dropouts_and_stragglers_and_newcomers_are_tuned(name):
    more = {"drop": 0.6, "epochs": 3, "stragglers": 0.5, "unseen": 0.25, "newcomers": 2}
    run = execute(fl, config(name, **more))
    codes, reasons = (run.arrays[f"faults/{n}"][0] for n in ("code", "reason"))
    assert {1} <= set(codes.ravel().tolist()) <= {0, 1}
    assert ((reasons == b"dropped out of the round") == (codes == 1))[:, :3].all()
    assert np.isfinite(run.arrays["test"]).all()


def test_stragglers_train_for_some_of_the_epochs_and_newcomers_for_theirs():
    settings = {"partition": "iid", "epochs": 4, "unseen": 0.25}
    whole, some = (execute(fl, config(stragglers=s, **settings)) for s in (0.0, 1.0))
    share = some.arrays["client/flops"] / whole.arrays["client/flops"]
    done = 4 * share[0, :, :3]
    np.testing.assert_allclose(done, done.round(), atol=1e-6)
    assert {1, 2, 3, 4} >= set(done.round().ravel().tolist()) != {4}
    tuned = execute(fl, config(newcomers=2, **settings))
    cost = tuned.arrays["scoring/flops"][0, -1]
    assert cost[:3].tolist() == [0, 0, 0]
    due = tuned.arrays["client/flops"][0, -1, 0] / 2
    np.testing.assert_allclose(cost[3], due, rtol=0.05)  # clients of about equal size
    np.testing.assert_array_equal(tuned.arrays["test"][..., :3], whole.arrays["test"][..., :3])
    made = config(newcomers=2).make(0)
    down = play(made, 1).state.down[EVERYONE]
    two = [made.decide(*made.readied({}, down, 3, new)).params for new in (False, True)]
    assert not torch.equal(*(params["head.bias"] for params in two))


@pytest.mark.parametrize("name", EVERY)
def test_a_federation_goes_on_from_its_state_to_the_same_bits(name):
    optimizer = "sgd" if name == "scaffold" else "amsgrad"
    made = make(name, optimizer=optimizer, lr=0.003, clients=3, examples=200)
    once = arrays_of(play(made, 3, rate=0.7).state)
    half = FederationState.of_arrays(play(made, 2, rate=0.7).state.arrays())
    again = arrays_of(play(made, 1, half, 2, rate=0.7).state)
    assert once.keys() == again.keys()
    for n, array in once.items():
        np.testing.assert_array_equal(array, again[n], err_msg=n)


HEAD, BODY, D = 10 * 21, 64 * 20 + 20, 20  # numbers in the network of these tests


@pytest.mark.parametrize(
    ("name", "options", "up", "down"),
    [
        ("fedavg", "", 4 * (HEAD + BODY) + 8, 4 * (HEAD + BODY)),
        ("fedrep", "", 4 * BODY + 8, 4 * BODY),
        ("scaffold", "", 8 * (HEAD + BODY), 8 * (HEAD + BODY)),
        ("lg-fedavg", "weights=equal", 4 * HEAD, 4 * HEAD),
        ("sohip", "ablation=c", 0, 0),
        ("fedssa", "ablation=m1-a", 4 * HEAD, 4 * HEAD),
        ("fedmrl", "width=5", 4 * (65 * 8 + 6 * 10) + 8, 4 * (65 * 8 + 6 * 10)),
        ("fedral", "levels=1", 4 * D * D + 8, 4 * D * D),
        ("fedh2l", "", 4 * (8 * 10 + 1), 3 * 4 * (8 * 10 + 1)),
        ("fedh2l", "labelled=false", 4 * 8 * 10, 3 * 4 * 8 * 10),
        ("fedh2l", "kl=false", 0, 0),
        ("fedmd", "transfer=0", 4 * 4 * 8 * 10, 4 * 4 * 8 * 10),
    ],
)
def test_bytes_on_the_wire(name, options, up, down):
    traffic = play(make(name, options, partition="iid", batch=8), 2).traffic
    assert traffic.up.tolist() == [up] * 4
    assert traffic.down.tolist() == [down] * 4


@pytest.mark.parametrize(
    ("ablation", "all_up", "all_down"), [("", 0, 0), ("m1-b", 1, 0), ("m2-a", 0, 1), ("M2-B", 0, 0)]
)
def test_fedssa_sends_rows_of_seen_classes(ablation, all_up, all_down):
    made = make("fedssa", f"ablation={ablation}" if ablation else "", partition="classes:4")
    traffic, seen = play(made, 2).traffic, [int(made.seen(c).sum()) for c in range(4)]
    for found, every in ((traffic.up, all_up), (traffic.down, all_down)):
        assert found.tolist() == [4 * (D + 1) * (10 if every else n) for n in seen]


PRODUCTS = 64 * D + D * 10
STEP, FORWARD = 2 * (3 * PRODUCTS - 64 * D), 2 * PRODUCTS  # the first has no gradient of its input


@pytest.mark.parametrize(
    ("name", "options", "by_example", "more"),
    [
        ("fedavg", "", 2 * STEP, 0),
        ("fedavg+", "tune=3", 5 * STEP, 0),
        ("fedproto", "", 2 * STEP + FORWARD, 0),
        ("fd", "", 2 * STEP + FORWARD, 0),
        # Three own steps, one on three peers, a look at eight examples.
        ("fedh2l", "steps=3", 0, 8 * (6 * STEP + FORWARD)),
        ("agg", "images=64", 0, 64 * STEP),
    ],
)
def test_flops_are_those_of_steps_and_passes(name, options, by_example, more):
    made = make(name, options, partition="iid", epochs=2 if by_example else 0, batch=8)
    due = [len(rows) * by_example + more for rows in made.loaded.split.train]
    np.testing.assert_allclose(play(made, 1).client_metrics["flops"], due)


def test_buffers_are_averaged_and_a_batch_of_one_has_statistics():
    settings = {"clients": 2, "lr": 0.001, "models": ("asked:Normed",)}
    made = make(examples=51, batch=20, partition="iid", **settings)
    assert {len(rows) % 20 for rows in made.loaded.split.train} & {0, 1}
    played = play(made, 1)
    assert not played.faults.words()
    name = next(n for n in played.state.down[EVERYONE] if n.endswith("running_mean"))
    moved = made.loaded.initial(0)[name.removeprefix("model/")].numpy()
    assert (played.state.down[EVERYONE][name] != moved).any()
    for other in ("fedrep", "fedbn", "ditto", "apfl", "fedproto", "standalone"):  # by one
        assert not play(make(other, examples=30, batch=1, **settings), 1).faults.words()


ONE = ("fedavg", "clustered-fl", "ditto", "fedrep", "apfl", "pfedgp")
VECTORS, PLAY = (np.zeros((150, 5)), np.arange(150) % 2), plays(np.random.default_rng(0))
OF_A_LENGTH = ("fedssa", "lg-fedavg", "fedproto", "fedgh", "fedtgp", "fedral")
LENGTH = r"one feature (dimension|length).*lenet (of )?84, mlp (of )?200"


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("fedavgg", "", r"method must be one of .* \(did you mean fedavg\?\)"),
        ("fedprox", "mu=-1", "mu must be at least 0"),
        (
            "fedprox",
            "mu=1,lr=1",
            "options must be settings of fedprox, and lr is one of Config: give",
        ),
        ("fedprox", "mo=1", "options must be one of .*mu, got"),
        ("clustered-fl", "linkage=ward", "linkage must be one of complete, single"),
        ("fedssa", "stable=3", "stable must be at most 2 with the literal sum.* try normalised"),
        ("fedh2l", "public=0", r"public must be in \(0, 1\), got 0"),
        ("fedh2l", "labelled=false,kl=false", "labelled must be true where kl"),
        ("fedmd", "labelled=false", "transfer must be 0 where public data have no"),
        ("agg", "public=1", "public must be at least 0 and below 1"),
        ("fml", "proxy=cnn-6", "proxy must be one of .* got 'cnn-6'"),
        ("fedmrl", "width=21", "width must be at most 20"),
        ("sohip", "m=4,memory=sample", "m must be at least 8, the number of patterns"),
        ("knn-per", "lam=-0.5", r"lam must be in \[0, 1\], or -1"),
        ("knn-per", "capacity=0.5,spread=0.6", "spread must be a share such that"),
        ("knn-per", "capacity=9,spread=0.1", "spread must be a share such that"),
        ("knn-per", "rule=concatenate,capacity=0.5", "capacity must be 1 with the rule conc"),
        ("hebbian", "patch=9", "patch must be from 1 to 8"),
        ("hebbian", "encoder=eye", "encoder must be auto, patches, rows, network"),
        ("hebbian", "encoder=no_such_module:net", "encoder must be auto, .* No module"),
        ("hebbian", "encoder=network,bits=public", "bits must be pooled for the encoder network"),
        ("hebbian", "encoder=rows,code=bits,bits=public", "bits must be pooled for networks"),
        ("hebbian", "pooling=resembling,reading=global", "where pooling is resembling"),
        ("hebbian", "bits=public,choose=own,pooling=resembling,epsilon=10", "where counts have n"),
        ("hebbian", "bits=public,choose=own,epsilon=1,delta=2", "delta must be"),
        ("afl", "code=bit", "code must be one of auto, bits"),
        ("fedh2l", {"clients": 1}, "clients must be 2 or more for fedh2l"),
        ("fedavg", {"lr": 0.0}, "lr must be above 0"),
        ("fedavg", {"schedule": "step:5:2"}, "schedule must be constant, cosine, or step:ROUNDS"),
        ("fedavg", {"compile": "gcc"}, "compile must be one of .*inductor"),
        ("fedavg", {"way": "fast"}, "way must be one of auto, sequential, stacked"),
        ("fedavg", {"data": VECTORS, "augment": True}, "augment must be false for vectors"),
        ("fedavg", {"data": VECTORS, "models": ("lenet",)}, r"be mlp:64, .* features, got lenet"),
        ("fedavg", {"models": ("lstm:8",)}, "models must be any but lstm for the inputs"),
        ("fedavg", {"data": PLAY, "partition": "iid"}, "models must be lstm for the inputs of pl"),
        *((name, {"models": ("mlp", "lenet")}, "models must be one architecture") for name in ONE),
        *((name, {"models": ("mlp", "lenet")}, LENGTH) for name in OF_A_LENGTH),
    ],
)
def test_bad_settings(name, options, message):
    settings = {"options": options} if isinstance(options, str) else options
    with pytest.raises(ArgumentError, match=message):
        make(name, **({"examples": 150} | settings)).server_start(0)


# What single methods do beside their equations


def test_a_row_whose_holders_are_absent_keeps_its_history():
    made = make("fedssa", partition="classes:4")
    start = made.server_start(0)
    start["head"][:] = 9.0
    seen = np.stack([made.seen(c) for c in range(4)])
    only = seen[0] & ~seen[1:].any(axis=0)
    few = {c: {"rows": np.zeros((seen[c].sum(), 21), np.float32)} for c in (1, 2, 3)}
    after, *_ = made.play(start, Asked(few))
    assert (after["head"][only] == 9).all()
    assert (after["head"][seen[1]] == 0).all()


def test_the_nearest_prototype_wins_and_unknown_classes_never():
    made = make("fedproto", "nearest=true")
    x, _ = examples(made, 0)
    assert isinstance(made.classifier({}, {}, 0), Network)
    features = made.loaded.model(0).features.eval()(x).detach().numpy()
    down = {"labels": np.array([7, 2, 99, -1]), "rows": features[:4]}  # two of no class
    scores = made.classifier(pack(made.initial(0)), down, 0)(x)
    assert scores.argmax(dim=1)[:2].tolist() == [7, 2]
    assert torch.isinf(scores[:, [0, 1, 3, 4, 5, 6, 8, 9]]).all()


def test_a_client_that_fits_its_examples_is_not_divided_by_nothing():
    sure = torch.tensor([[40.0, 0.0]])
    net = Net(lambda *_: [(torch.zeros(1, 2), sure), (torch.ones(1, 2), sure)], {})
    batch = Batch(torch.zeros(1), torch.tensor([0]))
    assert float(make("fedkd").objective(net, batch)) == pytest.approx(2 / 0.1)


def test_both_ends_of_fedkd_hold_the_same_model_whoever_was_absent_or_late():
    made, kinds = make("fedkd", rounds=6), set()

    def check(played):
        server = {n[6:]: a for n, a in played.state.server.items() if n.startswith("model/")}
        for c in range(4):
            own, down = known(played.state, c)
            kinds.add(any(n.startswith("update/") for n in down))
            for name, tensor in below(made.begin(*made.readied(own, down, c)), "shared").items():
                np.testing.assert_array_equal(tensor.numpy(), server[name])

    play(made, 6, each=check, rate=0.75, late=0.4, delay=2)
    assert kinds == {True, False}


ROTATED = {"partition": "rotation:0,20,40,60:20:same", "shares": (75, 10, 15), "examples": 0}


@pytest.mark.parametrize("share", [0.05, 0.1, 0.15])
def test_public_and_private_are_the_training_examples_of_each_node(share):
    task = make(**ROTATED).task
    split, seeds = task_of(task).split, draw_seed_set(task, share)
    labels = split.dataset.labels
    for client, rows in enumerate(split.train):
        private, public = seeds.private[client], seeds.public[client]
        assert len(public) == round(share * 200)
        np.testing.assert_array_equal(np.sort(np.concatenate([private, public])), rows)
        assert np.ptp(np.bincount(labels[public], minlength=10)) <= 1
    other = draw_seed_set(replace(task, seed=1), share)
    assert any((a != b).any() for a, b in zip(seeds.public, other.public, strict=True))
    groups = split.dataset.group  # of an image and its rotations
    tested, shown = (groups[np.concatenate(rows)] for rows in (split.test, seeds.public))
    assert len(np.unique(tested)) == 30
    assert not set(tested) & set(shown)
    few = make(partition="iid", clients=10, examples=30).task  # a node keeps a private example
    with pytest.raises(DataError, match=r"client 0 of 10 has 1 training examples, too few"):
        draw_seed_set(few, share)
    assert [len(rows) for rows in draw_seed_set(few, 0).private] == [1] * 10


@pytest.mark.parametrize("kl", [True, False])
def test_pairs_hear_their_partner_alone_and_who_has_none_makes_its_local_step(kl):
    made = make("fedh2l", f"pairs=true,kl={kl}", **ROTATED)
    circles = [made.circles(0, t) for t in range(12)]
    assert all(sorted(i for c in circle for i in c) == [0, 1, 2, 3] for circle in circles)
    made = make("fedh2l", f"pairs=true,kl={kl}", partition="iid", clients=3)
    (alone,) = next(c for c in made.circles(0, 0) if len(c) == 1)
    played = play(made)
    conflict = played.client_metrics["conflict"]
    assert np.flatnonzero(np.isnan(conflict)).tolist() == [alone]
    assert np.flatnonzero(played.traffic.down == 0).tolist() == ([alone] if kl else [0, 1, 2])


@given(st.integers(2, 7), st.integers(0, 10**6))
def test_single_linkage_has_the_least_similarity_across(n, seed):
    x = np.random.default_rng(seed).standard_normal((n, 5))
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    cos = x @ x.T
    part = bipartition(cos, "single")
    assert 0 < part.sum() < len(x)
    assert not part[0]
    every = [np.array((False, *rest)) for rest in product([False, True], repeat=len(x) - 1)]
    across = [cos[np.ix_(~second, second)].max() for second in (part, *every[1:])]
    assert across[0] <= min(across[1:]) + 1e-12


def test_a_late_message_does_not_assign_its_client_to_a_cluster_that_was_split():
    made = make("clustered-fl", clients=5)
    state = made.server_start(0)
    base, parts = made.loaded.initial(0), [0, 1, 0, -1, 1]
    for moves, asked, heard in (
        ({0: 0.1, 1: -0.1, 2: 0.1, 4: -0.1}, (0,), {0, 1, 2, 4}),  # client 3 is absent
        ({3: 0.1}, (1, {3: 1}), set()),  # late: it gets all models, and chooses
    ):
        sent = {c: pack({n: t + move for n, t in base.items()}) for c, move in moves.items()}
        more = {"examples": np.asarray(10), "cluster": np.asarray(0)}
        sent = {c: message | more for c, message in sent.items()}
        state, down, metrics = made.play(state, Asked(sent, *asked))
        assert (metrics["clusters"], state["cluster_of"].tolist()) == (2, parts)
        assert heard <= set(down) <= {0, 1, 2, 4, EVERYONE}
