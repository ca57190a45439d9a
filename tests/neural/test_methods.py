"""What holds for every method: it says what it expects, and survives what clients do.

That a method computes what its paper says is held in test_plain_loops.py.
"""

import numpy as np
import pytest
import torch
from asked import SILENT, TRAINED, known, play, short_run
from helpers import arrays_of, first_fast

from hopfed.errors import ArgumentError
from hopfed.experiments import fl
from hopfed.experiments.runner import execute
from hopfed.federation.contract import EVERYONE, Fault
from hopfed.federation.rounds import FederationState
from hopfed.neural.methods import method

SMALL = {"rounds": 3, "examples": 400, "models": ("mlp:20",), "lr": 0.05}
FAST = ("fedavg", "apfl", "fedproto", "fedh2l", "sohip")  # a method of each kind of answer
EVERY = first_fast(TRAINED, FAST)

pytestmark = pytest.mark.filterwarnings("ignore::hopfed.neural.memory.SmallStoreWarning")


SHORT = {  # by default 100 steps, 10 epochs, and 100 and 50 passes
    "fedmd": "transfer=5", "fedrep": "head=2", "fedtgp": "passes=5", "fedgen": "passes=5",
}  # fmt: skip


def config(name="fedavg", options="", **settings):
    return short_run(name, options or SHORT.get(name, ""), **(SMALL | settings))


def make(*words, **settings):
    return config(*words, **settings).make(0)


def scores(made, state):
    x, _ = made.loaded.tensors.batch(torch.arange(6))
    for c in range(len(made.loaded.split)):
        yield made.classifier(*known(state, c), c)(x)


@pytest.mark.parametrize("name", EVERY)
def test_nan_absence_and_lateness_harm_nobody(name):
    cls = method(name)

    class Sick(cls):
        def client_steps(self, calls):
            outcomes = super().client_steps(calls)
            for call, outcome in zip(calls, outcomes, strict=True):
                for n, array in outcome.message.items() if call.context.client == 1 else ():
                    outcome.message[n] = array * (np.nan if array.dtype.kind == "f" else 1)
            return outcomes

    made, seen = make(name, clients=5), set()
    sick = Sick(**vars(made))
    look = lambda played: seen.update(played.faults.codes.tolist())  # noqa: E731
    played = play(sick, 5, each=look, rate=0.6, late=0.3)
    assert {Fault.NONE, Fault.ABSENT, Fault.LATE} <= seen
    assert (Fault.NOT_FINITE in seen) == (name not in SILENT)  # which have nothing to refuse
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
def test_odd_batches_and_clients_that_never_came(name):
    made = make(name, examples=120, batch=1, lr=0.001)
    played = play(made, 1, absent=(3,))
    assert played.faults.codes.tolist() == [0, 0, 0, Fault.ABSENT]
    assert 3 not in played.state.clients
    assert all(not s.isnan().any() for s in scores(made, played.state))
    still = play(make(name, examples=120, epochs=0), 1)
    assert not still.faults.words()


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


@pytest.mark.slow  # two processes load everything
def test_local_and_pool_agree():
    a = execute(fl, config())
    b = execute(fl, config(), engine="pool", workers=2)
    for name, array in a.arrays.items():
        if array.dtype.kind != "f":
            np.testing.assert_array_equal(array, b.arrays[name], err_msg=name)
    # Memory that is aligned otherwise may be summed otherwise: to rounding, not to the bit.
    np.testing.assert_allclose(a.arrays["client/loss"], b.arrays["client/loss"], rtol=1e-5)
    np.testing.assert_allclose(a.arrays["test"], b.arrays["test"], atol=0.03)


ONE = ("fedavg", "clustered-fl", "ditto", "fedrep", "apfl", "pfedgp")
OF_A_LENGTH = ("fedssa", "lg-fedavg", "fedproto", "fedgh", "fedtgp", "fedral")
LENGTH = r"one feature (dimension|length).*lenet (of )?84, mlp (of )?200"


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("fedavgg", "", r"method must be one of .* \(did you mean fedavg\?\)"),
        ("fedprox", "mu=-1", "mu must be at least 0"),
        ("clustered-fl", "linkage=ward", "linkage must be one of complete, single"),
        ("fedssa", "stable=3", "stable must be at most 2 with the literal sum.* try normalised"),
        ("fedh2l", "public=0", "public must be above 0 for fedh2l"),
        ("fedh2l", "labelled=false,kl=false", "labelled must be true where kl"),
        ("fedmd", "labelled=false", "transfer must be 0 where public data have no"),
        ("agg", "public=1", "public must be at least 0 and below 1"),
        ("fml", "proxy=cnn-6", "proxy must be one of .* got 'cnn-6'"),
        ("fedmrl", "width=21", "width must be at most 20"),
        ("sohip", "m=4,memory=sample", "m must be at least 8, the number of patterns"),
        ("fedh2l", {"clients": 1}, "clients must be 2 or more for fedh2l"),
        *((name, {"models": ("mlp", "lenet")}, "models must be one architecture") for name in ONE),
        *((name, {"models": ("mlp", "lenet")}, LENGTH) for name in OF_A_LENGTH),
    ],
)
def test_bad_settings(name, options, message):
    settings = {"options": options} if isinstance(options, str) else options
    with pytest.raises(ArgumentError, match=message):
        make(name, **({"examples": 150} | settings)).server_start(0)
