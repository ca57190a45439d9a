"""Filters chosen from many by the residuals of a first read-out."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from hopfed.errors import ArgumentError  # noqa: E402
from hopfed.federation.contract import EVERYONE, Context  # noqa: E402
from hopfed.federation.engines.local import LocalEngine  # noqa: E402
from hopfed.federation.messages import malformed  # noqa: E402
from hopfed.federation.participation import Participation  # noqa: E402
from hopfed.federation.rounds import play_round  # noqa: E402
from hopfed.neural.collected_sums import Collected  # noqa: E402
from hopfed.neural.methods.frozen import Frozen  # noqa: E402
from hopfed.neural.methods.hebbian import Hebbian  # noqa: E402
from hopfed.neural.readouts import selection  # noqa: E402
from hopfed.neural.readouts.selection import Selection  # noqa: E402
from hopfed.neural.training.task import TaskSpec  # noqa: E402

TASK = TaskSpec(models=("mlp",), clients=3, examples=300)
OWN = {"filters": 8, "candidates": 20, "fields": 1}


def made(kind=Hebbian, **own):
    return kind(TASK, **(OWN | own))


def play(method, state=None, t=0, participation=None):
    played = play_round(
        method, state, t, seed=0, clients=3, engine=LocalEngine(), participation=participation
    )
    assert not played.faults.words()
    return played


@pytest.fixture(scope="module")
def whole():
    """The method, the message down after a round, and all candidates' bits by client."""
    method = made()
    down = play(method).state.down.get(EVERYONE)
    every = made(filters=20, candidates=0)
    drawn = play(every).state.down.get(EVERYONE)
    return method, down, drawn, [every.bits_of(drawn, c, "train") for c in range(3)]


@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(2, 4))
@settings(max_examples=20, deadline=None)
def test_residuals_of_clients_add_up_to_those_of_all(seed, places, classes):
    rng = np.random.default_rng(seed)
    choose = Selection(candidates=6, kept=5, places=places)
    bits = np.where(rng.random((17, choose.length + 1)) < 0.5, 1, -1).astype(np.float32)
    y = rng.integers(classes, size=17)
    W = rng.standard_normal((2 * places + 1, classes))
    rows = rng.permutation(17)
    parts = [choose.residual_sums(bits[r], y[r], W) for r in np.split(rows, [3, 11])]
    total = choose.residual_sums(bits, y, W)
    np.testing.assert_array_equal(sum(parts), total)
    # By the definition: one step is 1 / 31, and no residual counts for more than 1.
    seen = np.concatenate(
        [bits[:, :places], bits[:, 6 * places : 7 * places], bits[:, -1:]], axis=1
    )
    left = np.clip(np.eye(classes)[y] - seen @ W, -1, 1)
    wanted = np.einsum("nd,nc->dc", bits[:, :-1], np.rint(31 * left))
    np.testing.assert_array_equal(total, wanted)


def test_many_examples_are_summed_in_parts(monkeypatch):
    rng = np.random.default_rng(0)
    choose = Selection(candidates=3, kept=1, places=2)
    bits = np.where(rng.random((50, 13)) < 0.5, 1, -1).astype(np.float32)
    y, W = rng.integers(2, size=50), rng.standard_normal((5, 2))
    at_once = choose.residual_sums(bits, y, W)
    monkeypatch.setattr(selection, "ROWS", 7)
    np.testing.assert_array_equal(choose.residual_sums(bits, y, W), at_once)


def test_what_is_chosen_sees_what_is_left_and_not_what_is_known():
    """The label is that of a strong bit, mostly; candidate 1 repeats it, candidate 2 tells more."""
    rng = np.random.default_rng(1)
    n = 4000
    strong, weak = (np.where(rng.random(n) < 0.5, 1, -1) for _ in range(2))
    y = (2 * strong + weak + rng.standard_normal(n) > 0).astype(int)
    again = np.where(rng.random(n) < 0.95, strong, -strong)
    coins = np.where(rng.random((3, n)) < 0.5, 1, -1)  # what filters respond to in the other sign
    bits = np.stack([strong, again, weak, *coins, np.ones(n, int)]).T.astype(np.float32)
    choose = Selection(candidates=3, kept=2, places=1)
    one_hot = np.eye(2)[y]
    seen = bits[:, [0, 3, 6]]
    W = np.linalg.lstsq(seen, one_hot, rcond=None)[0]
    assert choose.chosen(choose.residual_sums(bits, y, W)).tolist() == [0, 2]
    W = np.stack([np.zeros(2), np.zeros(2), one_hot.mean(axis=0)])  # knows class shares only
    assert choose.chosen(choose.residual_sums(bits, y, W)).tolist() == [0, 1]


def test_a_federation_keeps_the_filters_that_the_pooled_examples_choose(whole):
    method, down, drawn, bits = whole
    z, y = (np.concatenate(parts) for parts in zip(*bits, strict=True))
    choose = method.selection
    assert choose.first == 2
    seen = z[:, [*choose.columns(range(2)), -1]].astype(np.float64)
    one_hot = np.eye(10)[y]
    W = np.linalg.solve(seen.T @ seen + 0.3 * len(y) * np.eye(5), seen.T @ one_hot)
    found = choose.chosen(z[:, :-1].T @ (one_hot - seen @ W))
    assert len(found) == 8
    assert found[:2].tolist() == [0, 1]
    assert found.tolist() != list(range(8))
    np.testing.assert_array_equal(down["kernel"], drawn["kernel"][:, found])
    np.testing.assert_array_equal(down["thresholds"], drawn["thresholds"][choose.columns(found)])
    assert "first" not in down
    kept = z[:, [*choose.columns(found), -1]]
    own = np.concatenate([method.bits_of(down, c, "train")[0] for c in range(3)])
    np.testing.assert_array_equal(own, kept)
    np.testing.assert_array_equal(method.pooled_sums(down).operator.matrix, kept.T @ kept)
    np.testing.assert_array_equal(down["by_class"], kept.T @ one_hot)


def test_bytes_and_operations_of_the_exchanges_count():
    chosen, plain = play(made()), play(made(candidates=0))
    D, length, C = 5, 40, 10  # bits of two filters, of all candidates, and classes
    first = 2 * D * (D - 1) // 2 + 4 * D * C + 8 * C + 8  # operator, class sums, counts, examples
    residuals = 2 * length * C + 8
    more_features = 8 * (length - 16)
    extra = chosen.traffic.up - plain.traffic.up
    np.testing.assert_array_equal(extra, first + residuals + more_features)
    assert (chosen.traffic.down > plain.traffic.down).all()
    spent = [p.client_metrics["flops"].sum() for p in (chosen, plain)]
    assert spent[0] > spent[1]


def test_the_answers_are_asked_for_once_and_checked(whole):
    method, down, drawn, _ = whole
    shown = dict(drawn) | {"first": np.zeros((5, 10), np.float32)}
    context = Context(0, 0, 3, 1)
    state, message, spent = method.client_step({}, shown, context)
    spec = method.expects(shown, context)
    assert malformed(message, spec) is None
    assert spent["flops"] == state["flops"] > 0
    too_much = message | {"residuals": message["residuals"] + 63 * int(message["examples"])}
    assert "residuals" in malformed(too_much, spec)
    for exchange in range(4):
        assert method.expects(down, replace(context, exchange=exchange)) == {}
        assert method.client_step({}, down, replace(context, exchange=exchange))[1] == {}


def test_who_answers_nothing_stops_nobody_for_good():
    """Nobody is heard in the third exchange: sums wait for filters, until a later round."""
    method = made()
    state, down = {}, {}
    for t, exchange in [*((0, k) for k in range(6)), *((1, k) for k in range(6))]:
        heard = {}
        for c in range(3):
            context = Context(0, t, exchange, c)
            answer = method.client_step({}, down, context)[1]
            assert malformed(answer, method.expects(down, context)) is None
            heard[c] = {} if (t, exchange) == (0, 2) else answer
        state, told, _ = method.server_step(state, heard, Context(0, t, exchange))
        down = told.get(EVERYONE, down)
        if t == 0:
            assert "members" not in down
    assert down["kernel"].shape[1] == 8
    together = play(method).state.down.get(EVERYONE)
    for name in ("kernel", "thresholds", "counts", "by_class"):
        np.testing.assert_array_equal(down[name], together[name])


def test_whoever_comes_later_is_added_with_the_filters_of_the_first():
    method, state = made(), None
    for t in range(6):
        played = play(method, state, t, Participation(rate=0.4))
        state = played.state
        if t == 0:
            begun = state.down.get(EVERYONE)
    last = state.down.get(EVERYONE)
    assert len(begun["members"]) < len(last["members"]) == 3
    np.testing.assert_array_equal(begun["kernel"], last["kernel"])
    z = np.concatenate([method.bits_of(last, c, "train")[0].astype(int) for c in range(3)])
    np.testing.assert_array_equal(method.pooled_sums(last).operator.matrix, z.T @ z)


def test_sums_forget_a_client_and_the_choice_of_filters_does_not():
    method = made(choose="own", keep=True)
    held = Collected.of(method, range(3))
    left = held.forget(1)
    assert not left.exact
    np.testing.assert_array_equal(left.state["kernel"], held.state["kernel"])
    z = np.concatenate([method.bits_of(left.state, c, "train")[0].astype(int) for c in (0, 2)])
    np.testing.assert_array_equal(method.pooled_sums(left.state).operator.matrix, z.T @ z)
    again = left.admit(1)
    assert all(np.array_equal(again.state[name], array) for name, array in held.state.items())


def test_sums_with_chosen_filters_are_read_again(tmp_path):
    held = Collected.of(made(choose="own", keep=True), [0, 2])
    held.save(tmp_path / "sums.h5")
    assert Collected.load(tmp_path / "sums.h5").method == held.method


def test_other_readers_have_the_chosen_bits():
    method = made(Frozen, reader="prototypes")
    down = play(method).state.down.get(EVERYONE)
    assert down["kernel"].shape[1] == 8
    made_of = method.classifier({}, down, 0)
    rows = method.loaded.tensors.rows(method.loaded.split.test[0])
    x, y = method.loaded.tensors.batch(rows)
    assert (made_of(x).argmax(dim=1) == y).double().mean() > 0.5


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"candidates": 8}, "candidates must be more than the 8 filters"),
        ({"candidates": -1}, "candidates must be more than the 8 filters"),
        ({"bits": "public"}, "bits must be pooled where candidates are chosen"),
        ({"epsilon": 10.0}, "bits must be public and choose own where counts have noise"),
        ({"form": "sketch", "width": 4}, "form must be counts where candidates are chosen"),
        ({"encoder": "network"}, "candidates must be 0 where a network encodes"),
    ],
)
def test_what_does_not_go_together_is_one_line(own, said):
    with pytest.raises(ArgumentError, match=said):
        made(**own)
