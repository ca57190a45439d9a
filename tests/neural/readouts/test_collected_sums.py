"""Who leaves is forgotten to the bit, and who comes late was there from the beginning."""

import numpy as np
import pytest
from asked import examples, play
from hypothesis import given, settings
from hypothesis import strategies as st

from hopfed.errors import ArgumentError
from hopfed.federation.contract import EVERYONE
from hopfed.neural.collected_sums import Collected
from hopfed.neural.methods.hebbian import Hebbian, added, broadcast, forgotten
from hopfed.neural.training.task import TaskSpec


def method(clients=4, **own):
    own = {"filters": 5, "bits": "public", "choose": "own", "keep": True} | own
    return Hebbian(TaskSpec(models=("mlp",), clients=clients, examples=300), **own)


def equal(one, other):
    """Names, kinds of numbers, shapes and bits."""
    assert one.keys() == other.keys()
    for name, array in one.items():
        a, b = np.asarray(array), np.asarray(other[name])
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes()), name


def message(client):
    rng = np.random.default_rng(client)
    counts = rng.integers(-20_000, 20_000, size=6).astype(np.int16)
    by_class = rng.integers(-9, 9, size=(4, 3)).astype(np.int32)
    return {"counts": counts, "by_class": by_class, "examples": np.asarray(20_000)}


@given(st.lists(st.integers(0, 5), max_size=30))
@settings(max_examples=60, deadline=None)
def test_only_who_is_there_counts(moves):
    """A client that is named comes, or leaves if it is there."""
    state = {}
    for c in moves:
        there = c in set(np.asarray(state.get("members", ())).tolist())
        state = forgotten(state, c) if there else added(state, {c: message(c)}, keep=True)
    left = {c for c in moves if moves.count(c) % 2}
    equal(state, added({}, {c: message(c) for c in left}, keep=True) if left else {})


def test_a_choice_of_all_does_not_outlive_who_made_it():
    state = both() | {"choice": np.asarray(3)}
    assert "choice" not in forgotten(state, 1)
    assert "choice" not in added(state, {2: message(2)}, keep=True)


def test_clients_do_not_see_what_each_gave():
    assert sorted(broadcast(both())) == ["by_class", "counts", "examples", "members"]


def test_forgetting_in_a_federation_is_never_having_taken_part():
    """The state of the server after a round with all, one client subtracted, and after one
    that this client was never asked in; and what the others classify with."""
    made = method()
    all_four, two = play(made).state, play(made, rate=0.5).state
    here = np.asarray(two.server["members"]).tolist()
    assert len(here) == 2
    state = all_four.server
    for c in set(range(4)) - set(here):
        state = forgotten(state, c)
    equal(state, two.server)
    equal(broadcast(state), two.down[EVERYONE])
    x, _ = examples(made, 0)
    for c in here:
        both = all_four.clients[c], two.clients[c]
        logs = [made.classifier(own, broadcast(state), c)(x) for own in both]
        np.testing.assert_array_equal(*logs)


def test_late_clients_were_there_from_the_beginning():
    made, members = method(), []
    late = play(made, 8, each=lambda p: members.append(len(p.state.server["members"])), rate=0.3)
    assert members[0] < members[1] < members[-1] == 4
    equal(late.state.server, play(made).state.server)


def test_clients_come_and_leave_without_a_trace():
    whole, few = Collected.of(method(), range(4)), Collected.of(method(), [3, 0])
    equal(whole.forget(2).forget(1).state, few.state)
    equal(few.admit(1).admit(2).state, whole.state)
    assert few.accuracy().shape == (4,)
    assert few.accuracy().mean() > 0.5
    nobody = few.forget(0).forget(3)
    assert (nobody.members, nobody.examples) == ([], 0)
    assert nobody.admit(2).members == [2]


def test_pooled_bits_keep_a_trace_of_who_left():
    whole, few = (Collected.of(method(bits="pooled"), who) for who in (range(4), [0, 1, 2]))
    assert not whole.exact
    left = whole.forget(3).state
    assert not np.array_equal(left["thresholds"], few.state["thresholds"])
    assert Collected.of(method(), [0]).exact


def test_noise_is_drawn_from_a_secret_for_each_client():
    private = method(epsilon=30.0)
    one, same, other = (Collected.of(private, [0, 1], bytes([k]) * 32).state for k in (1, 1, 2))
    equal(one, same)
    for name in ("sent/0/counts", "sent/0/by_class", "sent/1/counts"):
        assert not np.array_equal(one[name], other[name])
    exact = Collected.of(method(), [0, 1]).state
    noise = [one[f"sent/{c}/counts"] - exact[f"sent/{c}/counts"] for c in (0, 1)]
    assert abs(np.corrcoef(*noise)[0, 1]) < 0.1
    assert abs(np.std(noise) / private.private.scale - 1) < 0.1


def both():
    return added({}, {0: message(0), 1: message(1)}, keep=True)


SHORT = "secret must be 32 bytes"


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: forgotten(both(), 7), "client must be among"),
        (lambda: added(both(), {1: message(1)}), "client must be one that is not"),
        (lambda: forgotten(added({}, {1: message(1)}), 1), "client must be one whose sums"),
        (lambda: Collected.of(method(keep=False), [0]), "keep must be"),
        (lambda: Collected.of(method(choose="all"), [0]), "choose must be"),
        (lambda: Collected.of(method(epsilon=30.0), [0], b""), SHORT),
        (lambda: Collected.of(method(epsilon=30.0), [0], bytes(32)).admit(1, b"short"), SHORT),
    ],
)
def test_what_cannot_be_is_told(act, words):
    with pytest.raises(ArgumentError, match=words):
        act()
