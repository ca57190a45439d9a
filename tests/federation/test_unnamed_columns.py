"""Clients without names of columns where others have them, who lies so, and guesses of names."""

import re
import time
from dataclasses import replace

import numpy as np
import pytest
from asking import N, method, refused, signs
from federations import of_classes, private_classes
from machines import COLUMNS, Machines
from named_owners import NAMES, node, put

from hopfed.cli.machines import serve_columns
from hopfed.errors import DataError, HopfedError
from hopfed.experiments import serve
from hopfed.federation.contract import Context
from hopfed.federation.engines import Outcome
from hopfed.federation.faults import Fault
from hopfed.federation.machines.server import GRACE
from hopfed.hopfield.batches import Elsewhere
from hopfed.hopfield.columns import Introduced, digest_of, read_names, settled, told_names
from hopfed.hopfield.guard import suspects


def said(names):
    return bytes(
        Introduced(tuple(names), "run").client_step({}, {}, Context(0, 0, 0, 0))[1]["sorted"]
    )


ABC, BAC, CAB, OTHER, NONE = (said(names) for names in ("abc", "bac", "cab", "abd", ""))


TEN = {"fewest": 6, "suspects": 1}  # of ten clients at the defaults


THREE = {"fewest": 2, "suspects": 1}


def clients(*answers):
    """Answers of clients 0, 1, 2, ..."""
    return dict(enumerate(answers))


class Arriving:
    """A server whose clock goes on while it waits, and clients that come at some second."""

    def __init__(self, monkeypatch, comes, *answers):
        self.comes, self.answers, self.now, self.lines = comes, answers, 0.0, []
        self.late = set()  # who does not answer the next question
        monkeypatch.setattr(serve_columns.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(serve_columns.time, "sleep", self.sleep)

    def sleep(self, _):
        self.now += 1.0

    def online(self):
        return [c for c, moment in enumerate(self.comes) if moment <= self.now]

    def step(self, _, calls):
        late, self.late = self.late, set()
        asked = [call.context.client for call in calls]
        silent = Outcome(fault=Fault.TIMED_OUT, reason="no answer")
        return [
            silent
            if c in late
            else Outcome({}, {"sorted": np.frombuffer(self.answers[c], np.uint8)}, {})
            for c in asked
        ]

    def settle(self, wait=600.0, **settings):
        config = serve.Config(columns=3, clients=len(self.answers))
        return serve_columns.settle(
            self, self, replace(config, **settings), wait, self.lines.append
        )


def test_one_without_names_does_not_choose_the_order_of_another():
    assert settled(clients(NONE, ABC), **THREE, last=False) is None  # whoever comes first
    found = settled(clients(NONE, ABC, BAC), **THREE)
    assert (found.digest, found.kept) == (ABC, (1, 2))
    nine = [ABC] * 9
    found = settled(clients(NONE, *nine[1:]), **TEN, last=False)
    assert (found.digest, found.kept) == (ABC, tuple(range(1, 9)))
    assert settled(clients(NONE, *nine), **TEN).digest == ABC


@pytest.mark.parametrize("clients_of", range(3, 31))
@pytest.mark.parametrize("liar", [NONE, OTHER])
def test_whatever_those_say_who_may_lie_all_honest_clients_with_names_fit(clients_of, liar):
    """Who comes when, and in which of three orders their columns are, is drawn."""
    rng = np.random.default_rng(clients_of)
    liars, fewest = suspects(0.1, clients_of), clients_of // 2 + 1
    for _ in range(20):
        answers = [liar] * liars + [(ABC, BAC, CAB)[k] for k in rng.integers(3, size=clients_of)]
        answers = answers[:clients_of]
        order = [*range(liars), *(liars + rng.permutation(clients_of - liars)).tolist()]
        for there in range(fewest, clients_of + 1):
            heard = {c: answers[c] for c in order[:there]}
            found = settled(heard, fewest, liars, last=there == clients_of)
            honest = there - liars
            assert (found is None) == (honest < fewest)
            if found is not None:
                assert found.digest == ABC


def test_more_without_names_than_may_lie_go_by_place():
    found = settled(clients(NONE, NONE, ABC), **THREE)
    assert (found.digest, found.kept) == (b"", (0, 1, 2))
    found = settled(clients(*[NONE] * 2, *[ABC] * 4, *[BAC] * 4), **TEN)
    assert (found.digest, found.kept) == (ABC, tuple(range(2, 10)))
    # Nor do those decide who may lie as long as others may come.
    assert settled(clients(*[NONE] * 2, *[ABC] * 4), **TEN, last=False) is None
    assert settled(clients(NONE, ABC), fewest=2, suspects=1) is None


def test_where_nobody_has_names_nobody_is_waited_for():
    assert settled(clients(NONE, NONE), **THREE, last=False).digest == b""
    assert settled(clients(*[NONE] * 6), **TEN, last=False).digest == b""
    assert settled(clients(NONE), **THREE, last=True).digest == b""


def test_the_server_waits_for_more_than_half_of_all(monkeypatch):
    """A liar without names and one client are there at once; the third comes after 14 seconds."""
    world = Arriving(monkeypatch, [0.0, 0.0, 14.0], NONE, ABC, BAC)
    assert world.settle() == f"sorted {ABC.hex()}"
    assert world.lines == [
        "columns are those of 2 clients, in the order of their names",
        "refused: client 0, whose names of columns are others, or none",
        "serve --columns FILE takes those without names: client 0",
    ]


def test_who_lies_and_comes_first_is_not_taken_for_most(monkeypatch):
    world = Arriving(monkeypatch, [0.0, 300.0, 400.0], OTHER, ABC, BAC)
    assert world.settle() == f"sorted {ABC.hex()}"


def test_who_does_not_answer_in_time_is_asked_again(monkeypatch):
    world = Arriving(monkeypatch, [0.0, 0.0, 20.0], NONE, ABC, BAC)
    world.late = {1}
    assert world.settle() == f"sorted {ABC.hex()}"


def test_a_wait_for_names_has_an_end(monkeypatch):
    world = Arriving(monkeypatch, [0.0, 0.0, 1e9], OTHER, ABC, BAC)
    with pytest.raises(
        HopfedError, match=r"2 of 3 clients .* tell them which, with --columns FILE"
    ):
        world.settle(wait=100.0)
    assert 100 < world.now < 102
    world = Arriving(monkeypatch, [0.0, 0.0, 1e9], NONE, NONE, NONE)
    assert (world.settle(), world.now, world.lines) == ("", 0.0, [])


def test_whoever_serves_may_need_fewer(monkeypatch):
    world = Arriving(monkeypatch, [0.0, 0.0, 1e9, 1e9], ABC, BAC, ABC, ABC)
    assert world.settle(minimum=2).startswith("sorted ")
    assert world.now < 20


def test_who_has_no_names_is_told_what_to_do(tmp_path):
    site = node(tmp_path, signs(), ())
    words = []
    site.watch = lambda request, reply: words.append(reply.reason)
    refused(
        put(site, method(), {"sorted": digest_of(sorted(NAMES), "run")}),
        "its columns are not those of the federation",
    )
    assert "serve --columns FILE" in words[0]
    assert "\n" not in words[0]
    assert not put(site, method(), told_names(NAMES)).fault


MORE = tuple(f"x{j}" for j in range(N // 2))


SUPERSETS = {"all": (*NAMES, *MORE), "not all": (*NAMES[1:], *MORE), "half": NAMES[N // 2 :] + MORE}


def graded(names, **settings):
    return of_classes(Elsewhere(), len(names), **settings)


def private(names, epsilon=4.0, **settings):
    return private_classes(Elsewhere(), len(names), epsilon, **settings)


@pytest.mark.parametrize(
    ("asked", "epsilon"),
    [
        (graded, 4.0),
        (private, None),
        (lambda names: private(names, 5.0), 4.0),
        (lambda names: private(names, delta=1e-3), 4.0),
    ],
)
def test_a_refusal_of_more_columns_is_the_same_whatever_they_are_called(tmp_path, asked, epsilon):
    site = node(tmp_path, signs(400), NAMES, epsilon)
    for names in SUPERSETS.values():
        refused(put(site, asked(names), told_names(names)), "its columns are not those of the")
    assert not list((tmp_path / "privacy").glob("ledger"))


def test_who_answers_about_classes_may_still_lack_columns(tmp_path):
    names = SUPERSETS["all"]
    one = put(node(tmp_path / "one", signs(), NAMES), graded(names), told_names(names))
    assert not one.fault, one.reason


@pytest.mark.slow
def test_a_liar_without_names_keeps_no_late_client_out(tmp_path):
    """Live: a liar and one client; the other, in another order, comes when the server has asked."""
    with Machines(tmp_path, clients=3) as machines:
        rng = np.random.default_rng(9)
        for c in (1, 2):
            order = rng.permutation(COLUMNS)
            rows, header = np.load(tmp_path / f"{c}.npy"), ",".join(f"q{j}" for j in order)
            np.savetxt(tmp_path / f"{c}.csv", rows[:, order], "%d", ",", header=header, comments="")
        np.save(tmp_path / "0.npy", np.where(rng.random((500, COLUMNS)) < 0.5, 1, -1))
        machines.serve()
        machines.join(0)
        machines.join(1, "--data", "1.csv")
        machines.wait("client-1", "sending sorted")
        time.sleep(GRACE + 2)  # so long the server waits for everybody
        machines.join(2, "--data", "2.csv")
        run = machines.run()
        assert [machines.end(f"client-{c}") for c in range(3)] == [2, 0, 0]
    assert np.asarray(run.arrays["archetypes/number"]).item() == 3
    assert re.search("columns are those of 2 clients, in the order", machines.log("server"))
    assert "serve --columns FILE takes those without names: client 0" in machines.log("server")
    assert "serve --columns FILE" in machines.log("client-0").strip().splitlines()[-1]


def test_a_name_that_a_run_file_would_cut_is_refused():
    """Two names that begin alike became one in the run file of a client."""
    with pytest.raises(DataError, match="no text"):
        read_names(told_names(["tea\0a", "tea\0b"]))
